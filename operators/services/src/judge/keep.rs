//! Which configurations are kept: the newest, and every one that is still in use.

use std::collections::BTreeSet;

use c5c3_api::foreign::mariadb;
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::{Kind, Reference};
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret};

use crate::build::{Configuration, Configured};
use crate::facts::{Facts, has_ended};
use crate::names::Names;
use crate::shape::Service;

/// So many of a kind are kept: the current one and those before it.
const KEPT: usize = 3;

pub(crate) fn earlier_configurations(
    service: &Service,
    configuration: &Configuration,
    facts: &Facts,
) -> Vec<Reference> {
    let configured = configuration.all.iter();
    configured
        .flat_map(|configured| {
            let places = service.places_of(&configured.name).into_iter();
            places.flat_map(|place| earlier(&service.names, configured, facts, &place))
        })
        .collect()
}

fn earlier(names: &Names, configured: &Configured, facts: &Facts, place: &ClusterName) -> Vec<Reference> {
    let namespace = Some(names.namespace.as_str());
    let in_use = in_use(facts);
    let mut kept = Vec::new();
    for (kind, what, current) in [
        (
            Kind::of::<ConfigMap>(),
            "config-",
            Some(configured.config_map_name()),
        ),
        (
            Kind::of::<Secret>(),
            "connections-",
            configured.connections_name(),
        ),
        (
            Kind::of::<Secret>(),
            "credentials-",
            configured.credentials_name(),
        ),
        (Kind::of::<Secret>(), "files-", configured.files_name()),
        (Kind::of::<Secret>(), "ovn-tls-", configured.ovn_name()),
    ] {
        let kind = kind.in_cluster(place.clone());
        let prefix = prefix(names, &configured.name, what);
        let current = kind.named(namespace, current.unwrap_or_default());
        let mut earlier: Vec<_> = facts
            .owned
            .iter()
            .filter(|(reference, _)| {
                kind.is_of(reference) && reference.key.name.starts_with(&prefix) && *reference != current
            })
            .collect();
        earlier
            .sort_by_key(|(reference, owned)| (std::cmp::Reverse(owned.created), reference.key.name.clone()));
        let newest = earlier.into_iter().take(KEPT - 1);
        kept.extend(newest.map(|(reference, _)| reference.clone()));
        // What is read was seen just now; the watch may not have reported it yet.
        let read = in_use
            .iter()
            .filter(|name| name.starts_with(&prefix) && **name != current.key.name);
        kept.extend(read.map(|name| kind.named(namespace, name)));
    }
    kept
}

fn prefix(names: &Names, settings: &str, what: &str) -> String {
    let own = Some(settings).filter(|name| !name.is_empty());
    let own = own.map(|name| format!("{name}-")).unwrap_or_default();
    names.suffixed(&format!("{own}{what}"))
}

/// Accounts of passwords before, while a pod may use them.
pub(crate) fn earlier_accounts(
    names: &Names,
    configuration: &Configuration,
    rolled_out: bool,
    facts: &Facts,
) -> Vec<Reference> {
    let running = facts.pods.iter().filter(|pod| !has_ended(pod));
    let mut read = running.filter_map(|pod| pod.spec.as_ref()).flat_map(read_by);
    let outdated = |name: &str| {
        let mut configured = configuration.all.iter();
        configured.any(|one| {
            let prefix = prefix(names, &one.name, "connections-");
            name.starts_with(&prefix) && Some(name) != one.connections_name()
        })
    };
    if rolled_out && !read.any(outdated) {
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
    let deployments = facts.deployments.values().map(|live| &live.spec.template);
    let stateful_sets = facts.stateful_sets.values().map(|live| &live.spec.template);
    let daemon_sets = facts.daemon_sets.values().map(|live| &live.spec.template);
    let templates = deployments.chain(stateful_sets).chain(daemon_sets);
    let templates = templates.filter_map(|template| template.spec.as_ref());
    let unfinished = facts.jobs.values().filter(|job| {
        let status = job.status.as_ref();
        status.is_none_or(|status| status.completion_time.is_none())
    });
    let jobs = unfinished.filter_map(|job| job.spec.as_ref()?.template.spec.as_ref());
    pods.chain(templates).chain(jobs).flat_map(read_by).collect()
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
    let files = pod.volumes.iter().flatten();
    let files = files.filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
    volumes
        .map(|volume| volume.name.as_str())
        .chain(files)
        .chain(secrets.map(|secret| secret.name.as_str()))
}
