//! What the agents of all nodes may do under one account, as pods of a DaemonSet have. Admission policies keep each
//! to the OVSNode and the requests of its own node, and to Secrets for captures.

use c5c3_api::ovs::{OvsCapture, OvsNode, OvsTrace};
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

pub struct Shared {
    pub cluster: Vec<PolicyRule>,
    pub home: Vec<PolicyRule>,
    /// Beside these, where captures are allowed: it makes Secrets and reads none.
    pub capture: Vec<PolicyRule>,
}

pub fn rights_of_all() -> Shared {
    Shared {
        // An OVSNode goes with its Node, whose id it therefore names.
        cluster: vec![rule::<Node>("", &["get"])],
        home: vec![
            rule::<OvsNode>("", &["get", "list", "watch", "create", "patch"]),
            rule::<OvsNode>("/status", &["get", "patch"]),
            rule::<OvsTrace>("", &["get", "list", "watch", "delete"]),
            rule::<OvsTrace>("/status", &["get", "patch"]),
            rule::<OvsCapture>("", &["get", "list", "watch", "delete"]),
            rule::<OvsCapture>("/status", &["get", "patch"]),
            rule::<Event>("", &["create", "patch"]),
        ],
        capture: vec![rule::<Secret>("", &["create"])],
    }
}

fn rule<K: Resource<DynamicType = ()>>(part: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![K::group(&()).into_owned()]),
        resources: Some(vec![format!("{}{part}", K::plural(&()))]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_ever_read() {
        let Shared {
            cluster,
            home,
            capture,
        } = rights_of_all();
        for rule in cluster.iter().chain(&home).chain(&capture) {
            let secrets = rule
                .resources
                .iter()
                .flatten()
                .any(|one| one.starts_with("secrets"));
            assert!(!secrets || rule.verbs == ["create"], "{rule:?}");
        }
    }
}
