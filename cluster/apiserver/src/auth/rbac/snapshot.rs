//! The role objects of a cluster at one moment, and what follows from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    GROUP, Rule, Verdict,
    bindings::{Binding, Role},
};
use crate::{
    cluster::Cluster,
    identity::{Attributes, Identity, MASTERS},
};

/// Who may do what in one cluster.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    cluster_roles: BTreeMap<String, Role>,
    /// By namespace and name.
    roles: BTreeMap<(String, String), Role>,
    bindings: Vec<Binding>,
}

impl Snapshot {
    /// Reads role objects of all four kinds; others are left out.
    pub fn read<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut snapshot = Self::default();
        for object in objects {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            match object["kind"].as_str() {
                Some("ClusterRole") => {
                    snapshot.cluster_roles.insert(text("name"), Role::read(object));
                }
                Some("Role") => {
                    let key = (text("namespace"), text("name"));
                    snapshot.roles.insert(key, Role::read(object));
                }
                Some("ClusterRoleBinding" | "RoleBinding") => {
                    snapshot.bindings.push(Binding::read(object));
                }
                _ => {}
            }
        }
        snapshot
    }

    pub fn authorize(&self, identity: &Identity, attributes: &Attributes) -> Verdict {
        if is_master(identity) {
            return Verdict::allowed(String::new());
        }
        let mut missing = BTreeSet::new();
        for (binding, subject) in self.bindings_of(identity, &attributes.namespace) {
            match self.rules_of(binding) {
                None => {
                    let kind = binding.role_kind.to_lowercase();
                    missing.insert(format!("{kind}.{GROUP} {:?} not found", binding.role));
                }
                Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Verdict::allowed(binding.reason(subject));
                }
                Some(_) => {}
            }
        }
        let missing: Vec<String> = missing.into_iter().collect();
        Verdict::denied(match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        })
    }

    /// All rules that hold for someone, cluster-wide and in a namespace.
    pub fn rules_for(&self, identity: &Identity, namespace: &str) -> Vec<Rule> {
        let everything = || {
            let star = || vec!["*".to_owned()];
            let resources = Rule {
                verbs: star(),
                api_groups: star(),
                resources: star(),
                ..Rule::default()
            };
            let urls = Rule {
                verbs: star(),
                non_resource_urls: star(),
                ..Rule::default()
            };
            vec![resources, urls]
        };
        if is_master(identity) {
            return everything();
        }
        self.bindings_of(identity, namespace)
            .filter_map(|(binding, _)| self.rules_of(binding))
            .flatten()
            .collect()
    }

    /// The status of a SelfSubjectRulesReview.
    pub(in crate::auth) fn rules_review(&self, identity: &Identity, namespace: &str) -> Value {
        let rules = self.rules_for(identity, namespace);
        let (urls, resources): (Vec<_>, Vec<_>) = rules
            .into_iter()
            .partition(|rule| !rule.non_resource_urls.is_empty());
        json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": false})
    }

    /// The rules of a role that a binding in `namespace` may name.
    pub(in crate::auth) fn role_rules(&self, namespace: &str, kind: &str, name: &str) -> Option<Vec<Rule>> {
        match kind {
            "ClusterRole" => self.cluster_rules(name, &mut BTreeSet::new()),
            "Role" => {
                let key = (namespace.to_owned(), name.to_owned());
                self.roles.get(&key).map(|role| role.rules.clone())
            }
            _ => None,
        }
    }

    /// The rules that a ClusterRole with an aggregation rule should have; `None` without one.
    pub fn aggregated(&self, name: &str) -> Option<Vec<Rule>> {
        self.cluster_roles.get(name)?.aggregates.as_ref()?;
        self.cluster_rules(name, &mut BTreeSet::new())
    }

    fn rules_of(&self, binding: &Binding) -> Option<Vec<Rule>> {
        self.role_rules(&binding.namespace, &binding.role_kind, &binding.role)
    }

    /// Aggregated roles may aggregate others; a circle adds nothing.
    fn cluster_rules(&self, name: &str, seen: &mut BTreeSet<String>) -> Option<Vec<Rule>> {
        let role = self.cluster_roles.get(name)?;
        let Some(selectors) = &role.aggregates else {
            return Some(role.rules.clone());
        };
        seen.insert(name.to_owned());
        let mut rules: Vec<Rule> = Vec::new();
        for (other, candidate) in &self.cluster_roles {
            let labels = |key: &str| candidate.labels.get(key).and_then(Value::as_str);
            if seen.contains(other) || !selectors.iter().any(|selector| selector.matches(labels)) {
                continue;
            }
            for rule in self.cluster_rules(other, seen).unwrap_or_default() {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        Some(rules)
    }

    fn bindings_of<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Binding, &'a super::bindings::Subject)> {
        self.bindings
            .iter()
            .filter(move |binding| binding.namespace.is_empty() || binding.namespace == namespace)
            .filter_map(move |binding| Some((binding, binding.applies_to(identity)?)))
    }
}

pub(in crate::auth) fn is_master(identity: &Identity) -> bool {
    identity.groups.iter().any(|group| group == MASTERS)
}

const RESOURCES: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];

/// The snapshots of all clusters, each rebuilt when one of its role objects has changed.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<Arc<str>, Current>>);

struct Current {
    snapshot: Arc<Snapshot>,
    changes: Vec<watch::Receiver<u64>>,
}

impl Snapshots {
    pub(crate) fn of(&self, cluster: &Cluster) -> Arc<Snapshot> {
        let mut clusters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = clusters.entry(cluster.name.clone()).or_insert_with(|| Current {
            snapshot: Arc::new(read(cluster)),
            changes: RESOURCES
                .iter()
                .map(|resource| {
                    let mut changes = cluster.store.changes(&cluster.collection(GROUP, resource));
                    changes.mark_changed();
                    changes
                })
                .collect(),
        });
        let mut changed = false;
        for receiver in &mut current.changes {
            // Marked as seen before reading: a change meanwhile is seen next time.
            if receiver.has_changed().unwrap_or(false) {
                receiver.borrow_and_update();
                changed = true;
            }
        }
        if changed {
            current.snapshot = Arc::new(read(cluster));
        }
        current.snapshot.clone()
    }
}

fn read(cluster: &Cluster) -> Snapshot {
    let objects: Vec<Value> = RESOURCES
        .iter()
        .flat_map(|resource| cluster.list(GROUP, resource, None).objects)
        .map(|stored| stored.value())
        .collect();
    Snapshot::read(&objects)
}
