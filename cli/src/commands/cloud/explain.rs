//! `c5c3 explain`.

use clap::Args;
use serde_json::json;

use crate::cloud::access::Target;
use crate::cloud::{explain, snapshot, storage};
use crate::commands::block_on;
use crate::commands::cloud::status::{has_cloud, no_cloud};
use crate::failure::Failure;
use crate::output::{Format, print, print_values, say_aside};

const EXAMPLES: &str = "\
Examples:
  c5c3 explain                     what blocks the cloud, and how to fix it
  c5c3 explain glance/glance       the same for one object
  c5c3 explain service.openstack.k-orc.cloud/glance
  c5c3 explain cephcluster/storage
  c5c3 explain pod/mariadb-0 -o json

Exit codes:
  0  nothing blocks           3  no such object, cloud or cluster
  4  something blocks";

/// Name the one thing that blocks a cloud, and how to fix it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// KIND/NAME or KIND.GROUP/NAME [default: whatever is unhealthy]
    #[arg(value_name = "OBJECT", value_parser = object)]
    object: Option<(String, String)>,
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

fn object(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind.to_owned(), name.to_owned())),
        _ => Err("write it as KIND/NAME, such as keystone/keystone".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        let target = &arguments.target;
        let sight = target.sight().await?;
        for (cluster, why) in &sight.blind {
            say_aside(&format!("cannot read cluster {cluster}: {why}"));
        }
        let seen = snapshot::read(&sight, &target.namespace).await?;
        let named = arguments
            .object
            .as_ref()
            .map(|(kind, name)| (kind.as_str(), name.as_str()));
        let mut ceph = storage::Seen::default();
        for cluster in sight.clusters() {
            let other = || (cluster.name != sight.home.name).then(|| cluster.name.clone());
            let clusters = storage::read(&cluster.client).await?;
            ceph.clusters
                .extend(clusters.into_iter().map(|one| (other(), one)));
            let arbiters = storage::arbiters(&cluster.client).await?;
            ceph.arbiters
                .extend(arbiters.into_iter().map(|one| (other(), one)));
        }
        if named.is_none() && !has_cloud(&seen) && ceph.clusters.is_empty() {
            return Err(Failure::NotFound(no_cloud(&target.namespace)));
        }
        let start = if named.is_some_and(|named| storage::has(&ceph, named)) {
            None
        } else {
            explain::start(&seen, named).map_err(Failure::NotFound)?
        };
        let mut found = start
            .map(|object| explain::explain(&seen, object))
            .unwrap_or_default();
        storage::below(&ceph, &mut found, start, named);
        match arguments.output {
            Format::Table => print(&words(&found))?,
            format => print_values(&[json!(found)], format)?,
        }
        if found.chain.is_empty() {
            Ok(())
        } else {
            Err(Failure::Unwell)
        }
    })
}

/// For a person.
pub(crate) fn words(found: &explain::Explanation) -> String {
    let Some(last) = found.chain.last() else {
        return "Nothing blocks: everything is healthy.\n".to_owned();
    };
    let named = |link: &explain::Link| match &link.cluster {
        Some(cluster) => format!("{} {} in cluster {cluster}", link.kind, link.name),
        None => format!("{} {}", link.kind, link.name),
    };
    let mut text = format!("{}: {}\n", named(last), last.message);
    if found.chain.len() > 1 {
        text.push_str("\nBlocked by it:\n");
        for link in found.chain.iter().rev().skip(1) {
            text.push_str(&format!("  {}: {}\n", named(link), link.message));
        }
    }
    text.push_str("\nWhat to do:\n");
    for line in &found.advice {
        text.push_str(&format!("  {line}\n"));
    }
    text
}
