//! Configurations that stay: the newest, and every one that something still reads.

use std::collections::BTreeSet;

use c5c3_api::foreign::mariadb;
use c5c3_kit::{Kind, Reference};
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret};

use crate::facts::Facts;
use crate::plan::Plan;
use crate::rollout::has_ended;

/// So many of a kind are kept: the current one and those before it.
const KEPT: usize = 3;

pub fn earlier_configurations(plan: &Plan, facts: &Facts) -> Vec<Reference> {
    let namespace = Some(plan.names.namespace.as_str());
    let configuration = &plan.configuration;
    let in_use = in_use(facts);
    let mut kept = Vec::new();
    for (kind, what, current) in [
        (
            Kind::of::<ConfigMap>(),
            "config-",
            Some(configuration.config_map_name()),
        ),
        (
            Kind::of::<Secret>(),
            "connections-",
            configuration.connections_name(),
        ),
        (
            Kind::of::<Secret>(),
            "credentials-",
            configuration.credentials_name(),
        ),
    ] {
        let prefix = plan.names.suffixed(what);
        let current = kind.named(namespace, current.unwrap_or_default());
        let mut earlier: Vec<_> = facts
            .owned
            .iter()
            .filter(|(reference, _)| {
                reference.kind == current.kind
                    && reference.key.name.starts_with(&prefix)
                    && *reference != current
            })
            .collect();
        earlier
            .sort_by_key(|(reference, owned)| (std::cmp::Reverse(owned.created), reference.key.name.clone()));
        let newest = earlier.into_iter().take(KEPT - 1);
        kept.extend(newest.map(|(reference, _)| reference.clone()));
        // What is read was seen just now; the watch may not have told of it yet.
        let read = in_use
            .iter()
            .filter(|name| name.starts_with(&prefix) && **name != current.key.name);
        kept.extend(read.map(|name| kind.named(namespace, name)));
    }
    kept
}

/// Accounts of passwords before, while a pod may use them.
pub fn earlier_accounts(plan: &Plan, facts: &Facts) -> Vec<Reference> {
    let current = plan.configuration.connections_name();
    let prefix = plan.names.suffixed("connections-");
    let running = facts.pods.iter().filter(|pod| !has_ended(pod));
    let mut read = running.filter_map(|pod| pod.spec.as_ref()).flat_map(read_by);
    if plan.rolled_out && !read.any(|name| name.starts_with(&prefix) && Some(name) != current) {
        return Vec::new();
    }
    let kinds = [
        Kind::of::<mariadb::User>(),
        Kind::of::<mariadb::Grant>(),
        Kind::of::<Secret>(),
    ];
    let kinds = kinds.map(|kind| kind.named(None, "").kind);
    let ours = |reference: &&Reference| {
        let name = &reference.key.name;
        let is_secret = reference.kind == kinds[2];
        kinds.contains(&reference.kind) && (!is_secret || name.ends_with("-account"))
    };
    let owned = facts.owned.iter().map(|(reference, _)| reference);
    owned.filter(ours).cloned().collect()
}

/// Names of what pods, and those that make pods, read. A change that is held back may be followed by
/// many more: what runs meanwhile must be able to start again.
fn in_use(facts: &Facts) -> BTreeSet<&str> {
    let pods = facts.pods.iter().filter_map(|pod| pod.spec.as_ref());
    let deployments = facts
        .deployments
        .values()
        .filter_map(|deployment| deployment.spec.template.spec.as_ref());
    let unfinished = facts.jobs.values().filter(|job| {
        let status = job.status.as_ref();
        status.is_none_or(|status| status.completion_time.is_none())
    });
    let jobs = unfinished.filter_map(|job| job.spec.as_ref()?.template.spec.as_ref());
    pods.chain(deployments).chain(jobs).flat_map(read_by).collect()
}

fn read_by(pod: &PodSpec) -> impl Iterator<Item = &str> {
    let volumes = pod
        .volumes
        .iter()
        .flatten()
        .filter_map(|volume| volume.config_map.as_ref());
    let sources = pod
        .containers
        .iter()
        .flat_map(|container| container.env_from.iter().flatten());
    let secrets = sources.filter_map(|source| source.secret_ref.as_ref());
    volumes
        .map(|volume| volume.name.as_str())
        .chain(secrets.map(|secret| secret.name.as_str()))
}
