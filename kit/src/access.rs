//! What a controller may do in a cluster, derived from what it declares.
//!
//! A role made from this is enough and no more: a controller that reads or writes something which
//! it does not declare is refused by the API server.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

use crate::controller::Controller;
use crate::kinds::Kind;

const READ: &[&str] = &["get", "list", "watch"];
/// Server-side apply needs `create` too.
const WRITE: &[&str] = &["create", "patch", "delete"];

/// A kind beside those that are owned and watched, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    pub kind: Kind,
    pub verbs: &'static [&'static str],
}

/// Rights by API group and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    rights: BTreeMap<(String, String), BTreeSet<&'static str>>,
}

impl Access {
    /// What the controller needs.
    #[must_use]
    pub fn with<C: Controller>(mut self) -> Self {
        let own = Kind::of::<C::Kind>();
        self.add(&own, "", READ);
        // Finalizers and conditions of the object itself.
        self.add(&own, "", &["patch"]);
        self.add(&own, "/status", &["get", "patch"]);
        // Owner references that block deletion.
        self.add(&own, "/finalizers", &["update"]);
        for kind in C::owns() {
            self.add(&kind, "", READ);
            if !kind.only_seen {
                self.add(&kind, "", WRITE);
            }
        }
        for kind in C::watches() {
            self.add(&kind, "", READ);
        }
        for touch in C::touches() {
            self.add(&touch.kind, "", touch.verbs);
        }
        self.add(&Kind::of::<Event>(), "", &["create", "patch"]);
        self
    }

    /// The lease of replicas that stand by.
    #[must_use]
    pub fn with_lease(mut self) -> Self {
        self.add(&Kind::of::<Lease>(), "", &["get", "create", "update"]);
        self
    }

    fn add(&mut self, kind: &Kind, part: &str, verbs: &[&'static str]) {
        let resource = format!("{}{part}", kind.resource.plural);
        let rights = self.rights.entry((kind.resource.group.clone(), resource));
        rights.or_default().extend(verbs);
    }

    /// As rules of a role: resources of one group with the same verbs share a rule.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let mut shared: BTreeMap<(&str, &BTreeSet<&str>), Vec<String>> = BTreeMap::new();
        for ((group, resource), verbs) in &self.rights {
            shared.entry((group, verbs)).or_default().push(resource.clone());
        }
        let rule = |((group, verbs), resources): ((&str, &BTreeSet<&str>), Vec<String>)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(resources),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        };
        shared.into_iter().map(rule).collect()
    }
}

impl Touch {
    pub fn of<K: Resource<DynamicType = ()>>(verbs: &'static [&'static str]) -> Self {
        Touch {
            kind: Kind::of::<K>(),
            verbs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

    #[test]
    fn one_rule_for_what_may_be_done_alike() {
        let mut access = Access::default();
        access.add(&Kind::of::<Secret>(), "", &["get", "list"]);
        access.add(&Kind::of::<ConfigMap>(), "", &["list", "get"]);
        access.add(&Kind::of::<Pod>(), "/status", &["patch"]);
        access.add(&Kind::of::<Secret>(), "", &["get"]);
        let rules: Vec<(Vec<String>, Vec<String>)> = access
            .rules()
            .into_iter()
            .map(|rule| (rule.resources.unwrap_or_default(), rule.verbs))
            .collect();
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            rules,
            [
                (texts(&["configmaps", "secrets"]), texts(&["get", "list"])),
                (texts(&["pods/status"]), texts(&["patch"])),
            ]
        );
    }
}
