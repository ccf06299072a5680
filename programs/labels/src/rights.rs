//! What the program may do in a cluster.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

use crate::NAME;
use crate::certificates::{AUTHORITY, CERTIFICATE};

pub struct Rights {
    pub cluster: Vec<PolicyRule>,
    /// In its own namespace.
    pub home: Vec<PolicyRule>,
}

pub fn rights() -> Rights {
    Rights {
        cluster: vec![
            rule::<Node>(&[], &["get", "list", "watch"]),
            rule::<Pod>(&[], &["get", "list", "watch", "patch"]),
            rule::<MutatingWebhookConfiguration>(&[NAME], &["get", "list", "watch", "patch"]),
        ],
        home: vec![
            rule::<Secret>(&[AUTHORITY, CERTIFICATE], &["get", "list", "watch", "update"]),
            // What does not exist yet has no name to be granted by.
            rule::<Secret>(&[], &["create"]),
            rule::<Lease>(&[], &["get", "list", "watch", "create", "update"]),
        ],
    }
}

fn rule<K: Resource<DynamicType = ()>>(names: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![K::group(&()).into_owned()]),
        resources: Some(vec![K::plural(&()).into_owned()]),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
