//! Kinds that the cluster does not have: the rest of the cloud is made, and who brings them is named.

use serde_json::Value;

use super::{Draft, State, reference};

const KIND_MISSING: &str = "KindMissing";

/// Who brings the kinds of a group.
const BROUGHT_BY: &[(&str, &str)] = &[
    ("k8s.mariadb.com", "mariadb-operator"),
    ("memcached.c5c3.io", "memcached-operator"),
    ("rabbitmq.com", "RabbitMQ's cluster operator"),
    ("cache.cs.sap.com", "valkey-operator"),
    ("openstack.k-orc.cloud", "K-ORC"),
];
const OURS: &str = "the definitions of CobaltCore (deploy/crds)";

pub fn is_missing(draft: &Draft<'_>, object: &Value) -> bool {
    draft.seen.missing.contains(&reference(object).kind)
}

/// Failed when one of the objects cannot be there.
pub fn state(draft: &Draft<'_>, objects: &[Value]) -> Option<State> {
    let object = objects.iter().find(|object| is_missing(draft, object))?;
    let kind = reference(object).kind;
    let (kind, group) = kind.split_once('.').unwrap_or((&kind, ""));
    let by = BROUGHT_BY.iter().find(|(known, _)| *known == group);
    let by = by.map_or(OURS, |(_, by)| by);
    let text = format!("this cluster has no kind {kind} of {group}: install {by}");
    Some(State::failed(KIND_MISSING, text))
}
