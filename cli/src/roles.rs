//! Who the operators are in a cluster, and what they may do there.

use c5c3_kit::Access;
use serde_json::{Value, json};

/// Where the operators live.
pub const NAMESPACE: &str = "c5c3-system";

/// One operator's account.
pub struct Role {
    pub name: &'static str,
    pub access: Access,
}

/// Every operator.
pub fn all() -> Vec<Role> {
    vec![control_plane(), services(), ovn(), hypervisor(), arbiter()]
}

pub fn control_plane() -> Role {
    Role {
        name: "c5c3-control-plane",
        access: c5c3_control_plane::access(),
    }
}

pub fn services() -> Role {
    Role {
        name: "c5c3-services",
        access: c5c3_services::access(),
    }
}

pub fn ovn() -> Role {
    Role {
        name: "c5c3-ovn",
        access: c5c3_ovn::access(),
    }
}

pub fn hypervisor() -> Role {
    Role {
        name: "c5c3-hypervisor",
        access: c5c3_hypervisor::access(),
    }
}

pub fn arbiter() -> Role {
    Role {
        name: "c5c3-arbiter",
        access: c5c3_arbiter::access(),
    }
}

/// On the embedded cluster alone: they stand in for operators of others.
pub fn stand_ins() -> Role {
    Role {
        name: "c5c3-stand-ins",
        access: stand_ins::access(),
    }
}

impl Role {
    /// The name under which the API server knows it.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{NAMESPACE}:{}", self.name)
    }

    /// In another cluster that it works in: what it makes there, and no more.
    pub fn objects_elsewhere(&self, namespace: &str) -> Vec<Value> {
        let rules = self.access.rules_elsewhere();
        if rules.is_empty() {
            return Vec::new();
        }
        let mut objects = self.objects(namespace);
        objects
            .retain(|object| !["Role", "RoleBinding"].contains(&object["kind"].as_str().unwrap_or_default()));
        for role in objects
            .iter_mut()
            .filter(|object| object["kind"] == "ClusterRole")
        {
            role["rules"] = json!(rules);
        }
        objects
    }

    /// Account, roles and bindings.
    pub fn objects(&self, namespace: &str) -> Vec<Value> {
        let labels = json!({"app.kubernetes.io/part-of": "c5c3"});
        let name = self.name;
        let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let subjects = json!([{"kind": "ServiceAccount", "namespace": namespace, "name": name}]);
        vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"namespace": namespace, "name": name, "labels": labels}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name, "labels": labels}, "rules": self.access.rules()}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name, "labels": labels}, "roleRef": role("ClusterRole"),
                "subjects": subjects}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"namespace": namespace, "name": name, "labels": labels},
                "rules": self.access.rules_at_home()}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"namespace": namespace, "name": name, "labels": labels}, "roleRef": role("Role"),
                "subjects": subjects}),
        ]
    }
}

/// Account, roles and bindings of the agent of one node.
pub fn of_node(node: &str, namespace: &str) -> Vec<Value> {
    let rights = c5c3_node_agent::rights(node, namespace);
    let mut objects = vec![json!(rights.account), json!(rights.role), json!(rights.binding)];
    objects.extend(rights.roles.iter().map(|role| json!(role)));
    objects.extend(rights.bindings.iter().map(|binding| json!(binding)));
    objects
}

/// The namespace and what is in it.
pub fn objects(roles: &[Role], namespace: &str) -> Vec<Value> {
    let owned = roles.iter().flat_map(|role| role.objects(namespace));
    [home(namespace)].into_iter().chain(owned).collect()
}

/// The same for the cluster of the hypervisors.
pub fn objects_elsewhere(roles: &[Role], namespace: &str) -> Vec<Value> {
    let owned = roles.iter().flat_map(|role| role.objects_elsewhere(namespace));
    [home(namespace)].into_iter().chain(owned).collect()
}

fn home(namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": {"app.kubernetes.io/part-of": "c5c3"}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elsewhere_an_operator_makes_only_what_crosses() {
        let objects = objects_elsewhere(&all(), "home");
        let mut resources = std::collections::BTreeSet::new();
        for object in objects.iter().filter(|object| object["kind"] == "ClusterRole") {
            for rule in object["rules"].as_array().into_iter().flatten() {
                let named = rule["resources"].as_array().into_iter().flatten();
                resources.extend(named.filter_map(Value::as_str));
            }
        }
        let expected = [
            "configmaps",
            "daemonsets",
            "endpointslices",
            "nodes",
            "pods",
            "secrets",
            "services",
        ];
        assert_eq!(resources.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn leases_are_a_matter_of_the_own_namespace() {
        for role in all() {
            let objects = role.objects("home");
            let with_leases: Vec<(&str, &str)> = objects
                .iter()
                .filter(|object| object["rules"].to_string().contains("leases"))
                .map(|object| {
                    let place = object["metadata"]["namespace"].as_str().unwrap_or_default();
                    (object["kind"].as_str().unwrap_or_default(), place)
                })
                .collect();
            assert_eq!(with_leases, [("Role", "home")], "{}", role.name);
        }
    }
}
