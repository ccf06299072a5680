//! What the agent of one node may do: read its own Hypervisor and write its status, nothing of any
//! other.
//!
//! RBAC names objects, not nodes, so each node has an account of its own, and roles that name the
//! one Hypervisor. That holds on every Kubernetes; an admission policy on the node of a token would
//! need a server that has both.

use c5c3_api::hypervisor::{Hypervisor, Migration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::Resource;
use kube::api::ObjectMeta;

/// Events of objects without a namespace are kept here.
const EVENTS: &str = "default";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Account, roles and bindings of one node's agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    pub account: ServiceAccount,
    /// Of its Hypervisor, which has no namespace.
    pub role: ClusterRole,
    pub binding: ClusterRoleBinding,
    /// Of migrations and its Lease, in the agent's namespace, and of events.
    pub roles: Vec<Role>,
    pub bindings: Vec<RoleBinding>,
}

/// The name of all that belongs to the agent of a node.
pub fn name(node: &str) -> String {
    format!("c5c3-node-agent-{node}")
}

pub fn rights(node: &str, namespace: &str) -> Rights {
    let meta = |namespace: Option<&str>| ObjectMeta {
        name: Some(name(node)),
        namespace: namespace.map(str::to_owned),
        labels: Some([("app.kubernetes.io/part-of".to_owned(), "c5c3".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let subjects = || {
        Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name(node),
            ..Subject::default()
        }])
    };
    let reference = |kind: &str| RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name(node),
    };
    let mut own = on_migrations();
    own.push(PolicyRule {
        resource_names: Some(vec![name(node)]),
        ..on_leases()
    });
    let mut places = vec![(namespace, own)];
    let events = rule::<Event>("", &["create", "patch"]);
    match places.iter_mut().find(|(place, _)| *place == EVENTS) {
        Some((_, rules)) => rules.push(events),
        None => places.push((EVENTS, vec![events])),
    }
    Rights {
        account: ServiceAccount {
            metadata: meta(Some(namespace)),
            ..ServiceAccount::default()
        },
        role: ClusterRole {
            metadata: meta(None),
            rules: Some(of_hypervisor(node)),
            ..ClusterRole::default()
        },
        binding: ClusterRoleBinding {
            metadata: meta(None),
            role_ref: reference("ClusterRole"),
            subjects: subjects(),
        },
        bindings: places
            .iter()
            .map(|(place, _)| RoleBinding {
                metadata: meta(Some(place)),
                role_ref: reference("Role"),
                subjects: subjects(),
            })
            .collect(),
        roles: places
            .into_iter()
            .map(|(place, rules)| Role {
                metadata: meta(Some(place)),
                rules: Some(rules),
            })
            .collect(),
    }
}

/// What the agents of all nodes may do under one account, as pods of a DaemonSet have. An admission policy has
/// to keep each to its own Hypervisor, Lease and Migrations.
pub struct Shared {
    pub cluster: Vec<PolicyRule>,
    pub home: Vec<PolicyRule>,
}

pub fn rights_of_all() -> Shared {
    let mut cluster = on_hypervisors().to_vec();
    cluster.push(rule::<Event>("", &["create", "patch"]));
    let mut home = on_migrations();
    home.push(on_leases());
    Shared { cluster, home }
}

fn on_hypervisors() -> [PolicyRule; 2] {
    [
        rule::<Hypervisor>("", &["get", "list", "watch"]),
        rule::<Hypervisor>("/status", &["get", "patch"]),
    ]
}

fn on_migrations() -> Vec<PolicyRule> {
    vec![
        rule::<Migration>("", &["list", "create", "patch", "delete"]),
        rule::<Migration>("/status", &["patch"]),
    ]
}

/// Its sign of life. An apply of one that is not there creates it by its name.
fn on_leases() -> PolicyRule {
    rule::<Lease>("", &["create", "patch"])
}

/// A list or a watch of one name counts as that name.
fn of_hypervisor(node: &str) -> Vec<PolicyRule> {
    let named = |rule| PolicyRule {
        resource_names: Some(vec![node.to_owned()]),
        ..rule
    };
    on_hypervisors().map(named).to_vec()
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
    fn of_hypervisors_only_the_own_one_is_named() {
        let rights = rights("node-1", "c5c3-system");
        for rule in rights.role.rules.iter().flatten() {
            assert_eq!(
                rule.resource_names.as_deref(),
                Some(&["node-1".to_owned()][..]),
                "{rule:?}"
            );
        }
        let elsewhere: Vec<&PolicyRule> = rights
            .roles
            .iter()
            .flat_map(|role| role.rules.iter().flatten())
            .collect();
        let text = format!("{elsewhere:?}");
        assert!(
            !text.contains("secrets") && !text.contains("hypervisors"),
            "{text}"
        );
        let mut leases = elsewhere
            .iter()
            .filter(|rule| format!("{rule:?}").contains("leases"));
        let named = leases.next().and_then(|rule| rule.resource_names.clone());
        assert_eq!(named, Some(vec!["c5c3-node-agent-node-1".to_owned()]));
        assert!(leases.next().is_none());
    }

    #[test]
    fn one_namespace_has_one_role() {
        assert_eq!(rights("a", "default").roles.len(), 1);
        assert_eq!(rights("a", "c5c3-system").roles.len(), 2);
    }
}
