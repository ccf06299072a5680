//! Names and labels of what a service consists of.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::subject::Subject;

/// When a key set was last rotated.
pub const ROTATED: &str = "c5c3.io/rotated-at";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub namespace: String,
    pub name: String,
    pub service: &'static str,
}

impl Names {
    pub fn of<S: Subject>(subject: &S) -> Self {
        Names {
            namespace: subject.namespace().unwrap_or_default(),
            name: subject.name_any(),
            service: S::DESCRIPTOR.name,
        }
    }

    pub fn suffixed(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    /// Database, User and Grant of one group; the main group needs no suffix.
    pub fn database_object(&self, group: &str) -> String {
        match group {
            "database" | "placement_database" => self.name.clone(),
            other => self.suffixed(&other.replace('_', "-")),
        }
    }

    /// Labels of every object of this service.
    pub fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.service,
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/part-of": "c5c3",
        })
    }

    /// The same as a label selector.
    pub fn selector(&self) -> String {
        format!(
            "app.kubernetes.io/name={},app.kubernetes.io/instance={}",
            self.service, self.name
        )
    }

    /// Labels of the pods of one process.
    pub fn process_labels(&self, process: &str) -> Value {
        let mut labels = self.labels();
        labels["app.kubernetes.io/component"] = process.into();
        labels
    }

    pub fn metadata(&self, name: &str) -> Value {
        json!({"namespace": self.namespace, "name": name, "labels": self.labels()})
    }
}
