//! What the agents of all nodes may do under one account, as pods of a DaemonSet have. An admission policy keeps
//! each to the OVSNode of its own node.

use c5c3_api::ovs::OvsNode;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

pub struct Shared {
    pub cluster: Vec<PolicyRule>,
    pub home: Vec<PolicyRule>,
}

pub fn rights_of_all() -> Shared {
    Shared {
        // An OVSNode goes with its Node, whose id it therefore names.
        cluster: vec![rule::<Node>("", &["get"])],
        home: vec![
            rule::<OvsNode>("", &["get", "list", "watch", "create", "patch"]),
            rule::<OvsNode>("/status", &["get", "patch"]),
            rule::<Event>("", &["create", "patch"]),
        ],
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
