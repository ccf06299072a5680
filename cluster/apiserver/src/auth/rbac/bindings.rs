//! Roles and bindings as they are read from objects.

use serde::Deserialize;
use serde_json::Value;

use apimachinery::selector::{LabelSelector, LabelSelectorSpec};

use super::Rule;
use crate::identity::Identity;

/// A Role or ClusterRole.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub rules: Vec<Rule>,
    pub labels: Value,
    /// Selects the ClusterRoles whose rules are this one's.
    pub aggregates: Option<Vec<LabelSelector>>,
}

impl Role {
    pub(super) fn read(object: &Value) -> Self {
        let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array();
        Self {
            rules: rules(&object["rules"]),
            labels: object["metadata"]["labels"].clone(),
            // A selector that cannot be read selects nothing.
            aggregates: object["aggregationRule"].is_object().then(|| {
                let selectors = selectors.into_iter().flatten();
                selectors
                    .filter_map(|selector| LabelSelectorSpec::selector_of(Some(selector)).ok())
                    .collect()
            }),
        }
    }
}

/// Rules that can be read; another shape gives none, and none allows nothing.
pub(super) fn rules(value: &Value) -> Vec<Rule> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|rule| Rule::deserialize(rule).ok()).collect()
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub name: String,
    /// Empty for a ClusterRoleBinding.
    pub namespace: String,
    pub role_kind: String,
    pub role: String,
    pub subjects: Vec<Subject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subject {
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Binding {
    pub(super) fn read(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subjects = object["subjects"].as_array().into_iter().flatten();
        Self {
            name: text(&object["metadata"]["name"]),
            namespace: text(&object["metadata"]["namespace"]),
            role_kind: text(&object["roleRef"]["kind"]),
            role: text(&object["roleRef"]["name"]),
            subjects: subjects
                .filter_map(|subject| Subject::deserialize(subject).ok())
                .collect(),
        }
    }

    /// The subject that is this identity.
    pub(super) fn applies_to(&self, identity: &Identity) -> Option<&Subject> {
        self.subjects.iter().find(|subject| match subject.kind.as_str() {
            "User" => subject.name == identity.user,
            "Group" => identity.groups.contains(&subject.name),
            "ServiceAccount" => {
                let namespace = if subject.namespace.is_empty() {
                    &self.namespace
                } else {
                    &subject.namespace
                };
                identity.user == format!("system:serviceaccount:{namespace}:{}", subject.name)
            }
            _ => false,
        })
    }

    /// The reason that a review gives.
    pub(super) fn reason(&self, subject: &Subject) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let who = match subject.namespace.as_str() {
            "" => subject.name.clone(),
            namespace => format!("{}/{namespace}", subject.name),
        };
        format!(
            "RBAC: allowed by {kind} {name:?} of {} {:?} to {} {who:?}",
            self.role_kind, self.role, subject.kind
        )
    }
}
