//! A pod or a pod template as the checks see it, and how they word what is wrong.

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) struct Pod<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
}

/// Why a pod is not fit, and what of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub reason: String,
    pub detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: String) -> Option<Self> {
        let reason = reason.into();
        Some(Self { reason, detail })
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}

impl<'a> Pod<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        Self {
            metadata: &object["metadata"],
            spec: &object["spec"],
        }
    }

    /// The security context that holds for all containers that say nothing else.
    pub(super) fn context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    /// All containers, in the order in which they are told.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    /// Names of the containers for which `bad` holds of the container.
    pub(super) fn containers_where(&self, bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(bad).map(name).collect()
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.spec["volumes"].as_array().into_iter().flatten()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Root inside is nobody outside.
    pub(super) fn has_user_namespace(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    /// Who sets a field of its security context to a bad value: `pod`, `container "a"` or both.
    /// `bad` gets the pod's security context and that of each container.
    pub(super) fn setters(&self, mut bad: impl FnMut(&'a Value) -> bool) -> Option<String> {
        let mut setters: Vec<String> = Vec::new();
        if bad(self.context()) {
            setters.push("pod".to_owned());
        }
        let containers = self.containers_where(|container| bad(&container["securityContext"]));
        if !containers.is_empty() {
            setters.push(these_containers(&containers));
        }
        (!setters.is_empty()).then(|| setters.join(" and "))
    }
}

pub(super) fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

pub(super) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

pub(super) fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}

/// `"a", "b"`
pub(super) fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    items.join(", ")
}

/// `containers "a", "b"`
pub(super) fn these_containers(names: &[&str]) -> String {
    let word = plural("container", "containers", names.len());
    format!("{word} {}", quoted(names.iter().copied()))
}

/// Bad values, each once and in order.
pub(super) type Values<'a> = BTreeSet<&'a str>;
