//! Who the operators are in a cluster, and what they may do there.

use c5c3_api::{Origin, registry};
use c5c3_kit::{Access, Kind};
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role as NamespacedRole, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// Where the operators live.
pub(crate) const NAMESPACE: &str = "c5c3-system";

/// One operator's account.
pub(crate) struct Role {
    pub name: &'static str,
    pub access: Access,
}

/// Every operator.
pub(crate) fn all() -> Vec<Role> {
    let mut all = serving();
    // The first reports what nobody serves.
    if let Some(first) = all.first_mut() {
        first.access = first.access.clone().with_marks(&unserved());
    }
    all
}

/// Every operator, by what its controllers need.
fn serving() -> Vec<Role> {
    vec![control_plane(), services(), ovn(), hypervisor(), arbiter()]
}

/// Kinds of ours that neither a controller nor an agent looks after.
pub(crate) fn unserved() -> Vec<Kind> {
    let operators: Vec<Role> = serving().into_iter().chain([cortex()]).collect();
    let of_ovs = json!({"rules": c5c3_ovs_agent::rights_of_all().home});
    let mut agents = written_by(&of_node("node", NAMESPACE));
    agents.extend(written_by(&[of_ovs]));
    let served = |kind: &&c5c3_api::Kind| {
        let by_agent = agents.contains(&(kind.group.clone(), format!("{}/status", kind.plural)));
        by_agent
            || operators
                .iter()
                .any(|role| role.access.serves(&kind.group, &kind.plural))
    };
    let ours = registry().iter().filter(|kind| kind.origin == Origin::Ours);
    ours.filter(|kind| !served(kind))
        .map(|kind| {
            let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
            let mut unserved = Kind::from(ApiResource::from_gvk_with_plural(&gvk, &kind.plural));
            unserved.everywhere = !kind.namespaced;
            unserved
        })
        .collect()
}

/// Groups and resources of the roles among these objects.
fn written_by(objects: &[Value]) -> Vec<(String, String)> {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let rules = objects
        .iter()
        .flat_map(|object| object["rules"].as_array().into_iter().flatten());
    rules
        .flat_map(|rule| {
            let resources = texts(&rule["resources"]);
            let pairs = texts(&rule["apiGroups"]).into_iter();
            pairs.flat_map(move |group| resources.clone().into_iter().map(move |one| (group.clone(), one)))
        })
        .collect()
}

pub(crate) fn control_plane() -> Role {
    Role {
        name: "c5c3-control-plane",
        access: c5c3_control_plane::access(),
    }
}

pub(crate) fn services() -> Role {
    Role {
        name: "c5c3-services",
        access: c5c3_services::access(),
    }
}

pub(crate) fn ovn() -> Role {
    Role {
        name: "c5c3-ovn",
        access: c5c3_ovn::access(),
    }
}

pub(crate) fn hypervisor() -> Role {
    Role {
        name: "c5c3-hypervisor",
        access: c5c3_hypervisor::access(),
    }
}

pub(crate) fn arbiter() -> Role {
    Role {
        name: "c5c3-arbiter",
        access: c5c3_arbiter::access(),
    }
}

/// Not an operator: a program with kinds of its own.
pub(crate) fn cortex() -> Role {
    Role {
        name: "c5c3-cortex",
        access: c5c3_cortex::controllers::access(),
    }
}

/// On the embedded cluster alone: they stand in for operators of others.
pub(crate) fn stand_ins() -> Role {
    Role {
        name: "c5c3-stand-ins",
        access: stand_ins::access(),
    }
}

impl Role {
    /// The name under which the API server knows it.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{NAMESPACE}:{}", self.name)
    }

    /// Does it work in the cluster of the hypervisors from another one? Their own operator is at home there.
    pub(crate) fn crosses_to_hypervisors(&self) -> bool {
        self.name != hypervisor().name
    }

    /// In another cluster that it works in: what it makes there, and no more.
    pub(crate) fn objects_elsewhere(&self, namespace: &str) -> Vec<Value> {
        let rules = self.access.rules_elsewhere();
        if rules.is_empty() {
            return Vec::new();
        }
        let Account { account, binding } = self.account(namespace);
        vec![json!(account), json!(self.cluster_role(rules)), json!(binding)]
    }

    /// For an operator that looks after one namespace: its rights are there, and for the whole cluster it
    /// has only what is in no namespace.
    pub(crate) fn objects_in(&self, namespace: &str, only: &str) -> Vec<Value> {
        let mut objects = self.with_rules(namespace, self.access.rules_beside_namespace());
        // Its own namespace may be the one: the lease's role has the plain name.
        let name = format!("{}-{only}", self.name);
        let metadata = labelled(Some(only), &name);
        let rules = self.access.rules_in_namespace();
        objects.extend(namespaced(metadata, rules, self.subject(namespace)));
        objects
    }

    /// Account, roles and bindings.
    pub(crate) fn objects(&self, namespace: &str) -> Vec<Value> {
        self.with_rules(namespace, self.access.rules())
    }

    fn with_rules(&self, namespace: &str, everywhere: Vec<PolicyRule>) -> Vec<Value> {
        let Account { account, binding } = self.account(namespace);
        let role = self.cluster_role(everywhere);
        let at_home = namespaced(
            labelled(Some(namespace), self.name),
            self.access.rules_at_home(),
            self.subject(namespace),
        );
        let mut objects = vec![json!(account), json!(role), json!(binding)];
        objects.extend(at_home);
        objects
    }

    fn account(&self, namespace: &str) -> Account {
        Account {
            account: ServiceAccount {
                metadata: labelled(Some(namespace), self.name),
                ..ServiceAccount::default()
            },
            binding: ClusterRoleBinding {
                metadata: labelled(None, self.name),
                role_ref: role_ref("ClusterRole", self.name),
                subjects: Some(vec![self.subject(namespace)]),
            },
        }
    }

    fn cluster_role(&self, rules: Vec<PolicyRule>) -> ClusterRole {
        ClusterRole {
            metadata: labelled(None, self.name),
            rules: Some(rules),
            ..ClusterRole::default()
        }
    }

    fn subject(&self, namespace: &str) -> Subject {
        Subject {
            kind: "ServiceAccount".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: self.name.to_owned(),
            ..Subject::default()
        }
    }
}

/// An operator's account, and what binds it to its ClusterRole.
struct Account {
    account: ServiceAccount,
    binding: ClusterRoleBinding,
}

/// A Role and its binding, of the same name.
fn namespaced(metadata: ObjectMeta, rules: Vec<PolicyRule>, subject: Subject) -> [Value; 2] {
    let name = metadata.name.clone().unwrap_or_default();
    let role = NamespacedRole {
        metadata: metadata.clone(),
        rules: Some(rules),
    };
    let binding = RoleBinding {
        metadata,
        role_ref: role_ref("Role", &name),
        subjects: Some(vec![subject]),
    };
    [json!(role), json!(binding)]
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(ClusterRole::GROUP.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn labelled(namespace: Option<&str>, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        labels: Some([("app.kubernetes.io/part-of".to_owned(), "c5c3".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// Account, roles and bindings of the agent of one node.
pub(crate) fn of_node(node: &str, namespace: &str) -> Vec<Value> {
    let rights = c5c3_node_agent::rights(node, namespace);
    let mut objects = vec![json!(rights.account), json!(rights.role), json!(rights.binding)];
    objects.extend(rights.roles.iter().map(|role| json!(role)));
    objects.extend(rights.bindings.iter().map(|binding| json!(binding)));
    objects
}

/// The namespace and what is in it.
pub(crate) fn objects(roles: &[Role], namespace: &str) -> Vec<Value> {
    let owned = roles.iter().flat_map(|role| role.objects(namespace));
    [home(namespace)].into_iter().chain(owned).collect()
}

/// The same for operators that look after one namespace.
pub(crate) fn objects_in(roles: &[Role], namespace: &str, only: &str) -> Vec<Value> {
    let owned = roles.iter().flat_map(|role| role.objects_in(namespace, only));
    [home(namespace)].into_iter().chain(owned).collect()
}

/// The same for the cluster of the hypervisors.
pub(crate) fn objects_elsewhere(roles: &[Role], namespace: &str) -> Vec<Value> {
    let crossing = roles.iter().filter(|role| role.crosses_to_hypervisors());
    let owned = crossing.flat_map(|role| role.objects_elsewhere(namespace));
    [home(namespace)].into_iter().chain(owned).collect()
}

fn home(namespace: &str) -> Value {
    json!(Namespace {
        metadata: labelled(None, namespace),
        ..Namespace::default()
    })
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
        // Users of Ceph are made where Ceph is, and who works with them is seen everywhere.
        let expected = [
            "cephclients",
            "configmaps",
            "daemonsets",
            "deployments",
            "endpointslices",
            "hypervisors",
            "nodes",
            "pods",
            "secrets",
            "services",
            "statefulsets",
        ];
        assert_eq!(resources.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn in_one_namespace_nothing_of_another_is_touched() {
        for role in [control_plane(), services(), ovn()] {
            let objects = role.objects_in("home", "cloud");
            let wide = objects
                .iter()
                .find(|object| object["kind"] == "ClusterRole")
                .expect("one");
            let narrow = objects
                .iter()
                .find(|object| object["metadata"]["namespace"] == "cloud");
            let narrow = narrow.expect("a Role there")["rules"].to_string();
            let text = wide["rules"].to_string();
            assert!(
                !text.contains("secrets") && narrow.contains("secrets"),
                "{}: {text}",
                role.name
            );
            assert!(!narrow.contains("customresourcedefinitions") && !narrow.contains("\"nodes\""));
        }
    }

    #[test]
    fn what_somebody_serves_is_not_marked() {
        let unserved = unserved();
        let marked = |name: &str| unserved.iter().any(|kind| kind.resource.kind == name);
        for served in [
            "ControlPlane",
            "Keystone",
            "OVNChassis",
            "Hypervisor",
            "Eviction",
            "Migration",
            "OVSNode",
        ] {
            assert!(!marked(served), "{served}");
        }
        for kind in &unserved {
            let known = registry()
                .iter()
                .find(|one| one.kind == kind.resource.kind)
                .expect("a kind");
            let schema = serde_json::to_value(known.crd()).expect("a CRD");
            let conditions =
                "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions";
            assert!(
                schema.pointer(conditions).is_some(),
                "{} has no place to say it",
                known.kind
            );
        }
    }

    /// No field is accepted and ignored: of which kinds that is proven is a list, and none is left out of it silently.
    #[test]
    fn every_kind_with_a_controller_is_proven_or_named() {
        use std::collections::BTreeSet;
        let unserved = unserved();
        let has_fields = |kind: &c5c3_api::Kind| {
            let schema = c5c3_api::fields::spec_of(&kind.kind).unwrap_or_default();
            schema["properties"]
                .as_object()
                .is_some_and(|fields| !fields.is_empty())
        };
        let served: BTreeSet<&str> = registry()
            .iter()
            .filter(|kind| kind.origin == Origin::Ours && has_fields(kind))
            .filter(|kind| unserved.iter().all(|one| one.resource.kind != kind.kind))
            .map(|kind| kind.kind.as_str())
            .collect();
        let proven = c5c3_api::fields::PROVEN.iter().flat_map(|(_, kinds)| *kinds);
        let named: Vec<&str> = proven.chain(c5c3_api::fields::UNPROVEN).copied().collect();
        assert_eq!(
            named.len(),
            named.iter().collect::<BTreeSet<_>>().len(),
            "named twice"
        );
        assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), served);
        for (folder, kinds) in c5c3_api::fields::PROVEN {
            let text = tests_of_fields(folder);
            for kind in *kinds {
                assert!(text.contains(kind), "{folder} has no test of {kind}");
            }
        }
    }

    /// The files of a crate that look at every field of a schema.
    fn tests_of_fields(folder: &str) -> String {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut left = vec![root.join(folder).join("src"), root.join(folder).join("tests")];
        let mut all = String::new();
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    left.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if text.contains("#[test]") && text.contains("ignored") {
                    all.push_str(&text);
                }
            }
        }
        all
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
