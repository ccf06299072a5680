//! How users of the cloud are affected when an object changes.

use c5c3_kit::Reference;
use serde::Serialize;
use serde_json::Value;

use super::{Difference, Verb};
use crate::plan::SERVICES;

/// What happens to pods and users.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// What is restarted, and how; none where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<String>,
    /// What users notice; none where they notice nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption: Option<String>,
    /// From here on setting the spec of before does not bring back what was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub point_of_no_return: bool,
}

const ONE_BY_ONE: &str = "pods are replaced one by one, each new one ready before an old one stops";

impl Effect {
    pub(super) fn of(verb: Verb, wanted: &Value, differences: &[Difference]) -> Self {
        let kind = wanted["kind"].as_str().unwrap_or_default();
        let scales = differences
            .iter()
            .all(|one| one.is_in("replicas") || one.is_in("storage"));
        match kind {
            _ if verb == Verb::Create || scales => Effect::default(),
            "MariaDB" => servers(
                wanted,
                "the database",
                "requests that need it fail until it is up again, for about half a minute",
            ),
            "RabbitmqCluster" => servers(
                wanted,
                "the message bus",
                "tasks wait until it is up again, for about a minute",
            ),
            "Memcached" => Effect {
                restarts: Some("cache servers are replaced".to_owned()),
                interruption: Some(
                    "tokens are looked up in Keystone until the cache has them again".to_owned(),
                ),
                ..Effect::default()
            },
            "OVNCluster" => Effect {
                restarts: Some("databases, northd and switches are restarted one by one".to_owned()),
                interruption: Some("no new ports for a few seconds; traffic of guests continues".to_owned()),
                ..Effect::default()
            },
            _ if SERVICES.iter().any(|service| service.kind == kind) => service(wanted, differences),
            _ => Effect::default(),
        }
    }

    pub(super) fn of_removal(gone: &Reference) -> Self {
        let kind = gone.kind.split('.').next().unwrap_or_default();
        let is_service = gone.kind.ends_with(".openstack.c5c3.io") && SERVICES.iter().any(|s| s.kind == kind);
        let lost = gone.kind.ends_with(".openstack.k-orc.cloud");
        Effect {
            interruption: match kind {
                _ if is_service => Some(format!("{kind} stops serving; its database and volumes are kept")),
                "MariaDB" | "RabbitmqCluster" | "Valkey" => {
                    Some(format!("{kind} is deleted; its volumes are kept"))
                }
                _ if lost => {
                    Some("its resource in Keystone is deleted and recreated with another id".to_owned())
                }
                _ => None,
            },
            point_of_no_return: lost,
            ..Effect::default()
        }
    }
}

fn servers(wanted: &Value, what: &str, alone: &str) -> Effect {
    let several = wanted["spec"]["replicas"].as_i64().unwrap_or(1) > 1;
    Effect {
        restarts: Some(format!("members of {what} are restarted one by one")),
        interruption: Some(if several {
            "connections move to another member within seconds".to_owned()
        } else {
            alone.to_owned()
        }),
        ..Effect::default()
    }
}

fn service(wanted: &Value, differences: &[Difference]) -> Effect {
    let upstream = |tag: &Value| tag.as_str().map(|tag| c5c3_catalogue::upstream(tag).to_owned());
    let contracts = differences
        .iter()
        .any(|one| one.path == ["spec", "image", "tag"] && upstream(&one.before) != upstream(&one.after));
    let restarts = if contracts {
        format!("the schema is expanded, {ONE_BY_ONE}, then the schema is contracted")
    } else {
        ONE_BY_ONE.to_owned()
    };
    Effect {
        restarts: Some(restarts),
        interruption: interruption(wanted),
        point_of_no_return: contracts,
    }
}

/// What cannot run beside its successor is away for a moment.
fn interruption(wanted: &Value) -> Option<String> {
    let spec = &wanted["spec"];
    match wanted["kind"].as_str() {
        Some("Cinder") => Some(
            "a backend accepts no requests while its single process is replaced, for about half a minute"
                .to_owned(),
        ),
        Some("Glance") if spec["storage"]["backend"] == "file" && spec["replicas"] == 1 => Some(
            "images are unavailable while the single pod on the volume is replaced, for about half a minute"
                .to_owned(),
        ),
        _ => None,
    }
}
