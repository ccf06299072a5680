//! Namespaces: finalized by their spec, never empty-handed.

use serde_json::{Value, json};

use crate::status::{ApiError, Result};

const KEPT: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        let finalizers = object["spec"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let own = json!("kubernetes");
        let mut all = finalizers;
        if !all.contains(&own) {
            all.push(own);
        }
        object["spec"]["finalizers"] = all.into();
        object["status"] = json!({"phase": "Active"});
    }
    if let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
}

pub(super) fn check_delete(live: &Value) -> Result<()> {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    if KEPT.contains(&name) {
        return Err(ApiError::forbidden(
            "",
            "namespaces",
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}
