//! `c5c3 rbac`

use clap::Args;

use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values};
use crate::roles::{self, Role};

const EXAMPLES: &str = "\
Examples:
  c5c3 rbac | kubectl apply --server-side -f -
  c5c3 rbac -o table                     a table of accounts and rights
  c5c3 rbac --operator services          one operator's account
  c5c3 rbac --only-in openstack          for operators that are run with --namespace openstack
  c5c3 rbac --operator cortex --namespace openstack    what a cloud with Cortex needs
  c5c3 rbac --node node-1                the account of one node's agent
  c5c3 rbac --elsewhere | kubectl --context hypervisor apply --server-side -f -";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only this operator: control-plane, services, ovn, hypervisor or arbiter; or cortex, in the namespace of its cloud.
    #[arg(long)]
    operator: Option<String>,
    /// Account of this node's agent, which may write only the status of its own Hypervisor.
    #[arg(long, conflicts_with = "operator")]
    node: Option<String>,
    /// For a separate cluster of hypervisors: only what the operators do there.
    #[arg(long)]
    elsewhere: bool,
    /// For operators with --namespace: rights in this namespace, and cluster-wide only for what has no namespace.
    #[arg(long, value_name = "NAMESPACE", conflicts_with_all = ["node", "elsewhere"])]
    only_in: Option<String>,
    /// Namespace of the accounts.
    #[arg(long, default_value = roles::NAMESPACE)]
    namespace: String,
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(node) = &arguments.node {
        return of_node(node, arguments);
    }
    let wanted = |role: &Role| {
        let short = role.name.trim_start_matches("c5c3-");
        arguments
            .operator
            .as_ref()
            .is_none_or(|name| name == short || name == role.name)
    };
    // A program of a cloud: its account is in the namespace of that, and made when it is asked for.
    let cortex = arguments.operator.is_some().then(roles::cortex);
    let roles: Vec<Role> = roles::all().into_iter().chain(cortex).filter(wanted).collect();
    if roles.is_empty() {
        let name = arguments.operator.as_deref().unwrap_or_default();
        let known = roles::all().into_iter().chain([roles::cortex()]);
        let known: Vec<&str> = known.map(|role| role.name.trim_start_matches("c5c3-")).collect();
        return Err(Failure::NotFound(format!(
            "there is no operator {name:?}; --operator takes {}",
            known.join(", ")
        )));
    }
    if arguments.output != Format::Table {
        let objects = match (arguments.elsewhere, &arguments.only_in) {
            (true, _) => roles::objects_elsewhere(&roles, &arguments.namespace),
            (false, Some(only)) => roles::objects_in(&roles, &arguments.namespace, only),
            (false, None) => roles::objects(&roles, &arguments.namespace),
        };
        return print_values(&objects, arguments.output);
    }
    let mut table = Table::new(&["OPERATOR", "NAMESPACE", "API GROUP", "RESOURCES", "VERBS"]);
    for role in &roles {
        let only = arguments.only_in.as_deref();
        let (everywhere, at_home) = if arguments.elsewhere {
            (role.access.rules_elsewhere(), Vec::new())
        } else if only.is_some() {
            (role.access.rules_beside_namespace(), role.access.rules_at_home())
        } else {
            (role.access.rules(), role.access.rules_at_home())
        };
        let there = only.map(|only| {
            role.access
                .rules_in_namespace()
                .into_iter()
                .map(move |rule| (only, rule))
        });
        let everywhere = everywhere.into_iter().map(|rule| ("*", rule));
        let at_home = at_home.into_iter();
        let at_home = at_home.map(|rule| (arguments.namespace.as_str(), rule));
        for (namespace, rule) in everywhere.chain(at_home).chain(there.into_iter().flatten()) {
            table.row([
                role.name.to_owned(),
                namespace.to_owned(),
                rule.api_groups.unwrap_or_default().join(","),
                rule.resources.unwrap_or_default().join(","),
                rule.verbs.join(","),
            ]);
        }
    }
    print_table(&table)
}

fn of_node(node: &str, arguments: &Arguments) -> Result<(), Failure> {
    let rights = roles::of_node(node, &arguments.namespace);
    if arguments.output != Format::Table {
        return print_values(&rights, arguments.output);
    }
    let mut table = Table::new(&["NODE", "NAMESPACE", "API GROUP", "RESOURCES", "NAMES", "VERBS"]);
    for role in rights.iter().filter(|object| object["rules"].is_array()) {
        let text = |value: &serde_json::Value| {
            let words = value.as_array().into_iter().flatten();
            words
                .filter_map(|word| word.as_str())
                .collect::<Vec<_>>()
                .join(",")
        };
        for rule in role["rules"].as_array().into_iter().flatten() {
            table.row([
                node.to_owned(),
                role["metadata"]["namespace"].as_str().unwrap_or("*").to_owned(),
                text(&rule["apiGroups"]),
                text(&rule["resources"]),
                text(&rule["resourceNames"]),
                text(&rule["verbs"]),
            ]);
        }
    }
    print_table(&table)
}
