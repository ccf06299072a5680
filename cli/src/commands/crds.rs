//! `c5c3 crds`

use c5c3_api::{Kind, Origin, registry};
use clap::Args;

use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values};
use crate::roles;

const EXAMPLES: &str = "\
Examples:
  c5c3 crds | kubectl apply --server-side -f -
  c5c3 crds --group hypervisor.c5c3.io -o table
  c5c3 crds --kind Keystone -o json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only kinds of this API group.
    #[arg(long)]
    group: Option<String>,
    /// Only this kind, by its name or its plural.
    #[arg(long)]
    kind: Option<String>,
    /// Include the composite kinds, for a cluster with Crossplane; filters find them without this.
    #[arg(long)]
    crossplane: bool,
    /// Include the kinds of other projects, with the fields that we use.
    #[arg(long)]
    foreign: bool,
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
}

impl Arguments {
    fn wants(&self, kind: &Kind) -> bool {
        let named =
            |name: &String| kind.kind.eq_ignore_ascii_case(name) || kind.plural.eq_ignore_ascii_case(name);
        let origin = match kind.origin {
            Origin::Ours => true,
            Origin::Composite => self.crossplane || self.group.is_some() || self.kind.is_some(),
            Origin::Foreign => self.foreign,
        };
        origin
            && self.group.as_ref().is_none_or(|group| kind.group == *group)
            && self.kind.as_ref().is_none_or(named)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kinds: Vec<&Kind> = registry().iter().filter(|kind| arguments.wants(kind)).collect();
    if kinds.is_empty() {
        return Err(Failure::NotFound(
            "no kind matches --group and --kind; `c5c3 crds -o table` lists ours, --crossplane and --foreign add the others"
                .to_owned(),
        ));
    }
    if arguments.output != Format::Table {
        let manifests: Vec<_> = kinds.iter().map(|kind| kind.manifest()).collect();
        return print_values(&manifests, arguments.output);
    }
    let mut table = Table::new(&["KIND", "API VERSION", "SCOPE", "ORIGIN", "CONTROLLER"]);
    for kind in kinds {
        let scope = if kind.namespaced { "namespaced" } else { "cluster" };
        let origin = match kind.origin {
            Origin::Ours => "c5c3",
            Origin::Composite => "crossplane",
            Origin::Foreign => "foreign",
        };
        table.row([
            kind.kind.clone(),
            kind.api_version(),
            scope.to_owned(),
            origin.to_owned(),
            controller(kind).to_owned(),
        ]);
    }
    print_table(&table)
}

/// Whether anything acts on objects of the kind.
fn controller(kind: &Kind) -> &'static str {
    let mut unserved = roles::unserved().into_iter();
    let served = !unserved.any(|one| one.resource.group == kind.group && one.resource.kind == kind.kind);
    match kind.origin {
        Origin::Ours if served => "c5c3",
        Origin::Ours => "none yet: objects are stored, but nothing acts on them",
        Origin::Composite => "Crossplane",
        Origin::Foreign => "its own project",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_without_a_controller_are_marked() {
        let of = |name: &str| {
            let kind = registry()
                .iter()
                .find(|kind| kind.kind == name && kind.origin == Origin::Ours);
            controller(kind.expect(name))
        };
        for served in [
            "ControlPlane",
            "Keystone",
            "Cinder",
            "OVNCluster",
            "CredentialRotation",
            "RemoteArbiter",
        ] {
            assert_eq!(of(served), "c5c3", "{served}");
        }
        for unserved in roles::unserved() {
            assert!(of(&unserved.resource.kind).starts_with("none yet"));
        }
    }
}
