//! `fieldRef` and `resourceFieldRef`: what a container learns about itself.

use apimachinery::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::pods::observe::view;
use crate::pods::start::resources;

/// What a pod cannot know of itself.
#[derive(Clone, Debug, Default)]
pub struct PodLocation {
    pub node: String,
    pub node_address: String,
    pub pod_address: String,
    /// What the node can give, for limits that are not set.
    pub cpus: i64,
    pub memory: i64,
}

/// The value at a field path, or why there is none.
pub fn field(pod: &Pod, place: &PodLocation, path: &str) -> Result<String, String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let map = |map: &Option<std::collections::BTreeMap<String, String>>| {
        map.iter()
            .flatten()
            .map(|(k, v)| format!("{k}={v:?}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let entry = |prefix: &str, from: &Option<std::collections::BTreeMap<String, String>>| {
        let key = path
            .strip_prefix(prefix)?
            .strip_prefix("['")?
            .strip_suffix("']")?;
        Some(
            from.as_ref()
                .and_then(|m| m.get(key))
                .cloned()
                .unwrap_or_default(),
        )
    };
    Ok(match path {
        "metadata.name" => view::name(pod).into(),
        "metadata.namespace" => view::namespace(pod).into(),
        "metadata.uid" => view::uid(pod).into(),
        "metadata.labels" => map(&meta.labels),
        "metadata.annotations" => map(&meta.annotations),
        "spec.nodeName" => place.node.clone(),
        "spec.serviceAccountName" => spec
            .and_then(|s| s.service_account_name.clone())
            .unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => place.node_address.clone(),
        "status.podIP" | "status.podIPs" => place.pod_address.clone(),
        _ => {
            return entry("metadata.labels", &meta.labels)
                .or_else(|| entry("metadata.annotations", &meta.annotations))
                .ok_or_else(|| format!("fieldPath {path:?} is not supported"));
        }
    })
}

/// The value of a resource of one container, rounded up to the divisor.
pub fn resource(
    pod: &Pod,
    own: Option<&Container>,
    place: &PodLocation,
    selector: &ResourceFieldSelector,
) -> Result<String, String> {
    let spec = pod.spec.as_ref().ok_or("the pod has no spec")?;
    let container = match selector.container_name.as_deref().filter(|n| !n.is_empty()) {
        Some(name) => view::find(spec, name).ok_or_else(|| format!("no container {name:?}"))?,
        None => own.ok_or("resourceFieldRef.containerName is required here")?,
    };
    let (kind, name) = selector
        .resource
        .split_once('.')
        .ok_or_else(|| format!("resource {:?} is not supported", selector.resource))?;
    let given = match kind {
        "limits" => resources::limit(container, name),
        "requests" => resources::request(container, name),
        _ => return Err(format!("resource {:?} is not supported", selector.resource)),
    };
    let divisor = match &selector.divisor {
        Some(text) => Quantity::parse(&text.0)
            .map_err(|e| format!("divisor {:?}: {e}", text.0))?
            .milli_value(),
        None => 0,
    };
    let divisor = i128::from(if divisor <= 0 { 1000 } else { divisor });
    let (cpus, memory) = (place.cpus, place.memory);
    let milli = match (given, name) {
        (Some(quantity), _) => i128::from(quantity.milli_value()),
        (None, "cpu") if kind == "limits" => i128::from(cpus) * 1000,
        (None, "memory") if kind == "limits" => i128::from(memory) * 1000,
        (None, "cpu" | "memory" | "ephemeral-storage") => 0,
        (None, _) => return Err(format!("resource {:?} is not supported", selector.resource)),
    };
    Ok(((milli + divisor - 1) / divisor).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u",
                "labels": { "a": "b\"c" }, "annotations": { "x/y": "z" } },
            "spec": { "containers": [{ "name": "c", "resources": {
                "limits": { "cpu": "1500m", "memory": "64Mi" } } }] }
        }))
        .unwrap();
        let place = PodLocation {
            node: "a".into(),
            cpus: 2,
            memory: 1 << 30,
            ..PodLocation::default()
        };
        let get = |path| field(&pod, &place, path);
        assert_eq!(get("metadata.name").unwrap(), "p");
        assert_eq!(get("metadata.labels").unwrap(), r#"a="b\"c""#);
        assert_eq!(get("metadata.annotations['x/y']").unwrap(), "z");
        assert_eq!(get("metadata.labels['none']").unwrap(), "");
        assert!(get("spec.secret").is_err());
        let select = |resource: &str, divisor: Option<&str>| {
            let selector = serde_json::from_value(json!({
                "resource": resource, "divisor": divisor }))
            .unwrap();
            resource_of(&pod, &place, &selector)
        };
        assert_eq!(select("limits.cpu", None).unwrap(), "2");
        assert_eq!(select("limits.cpu", Some("1m")).unwrap(), "1500");
        assert_eq!(select("limits.memory", Some("1Mi")).unwrap(), "64");
        assert_eq!(select("requests.memory", None).unwrap(), "67108864");
        assert!(select("limits", None).is_err());
    }

    fn resource_of(
        pod: &Pod,
        place: &PodLocation,
        selector: &ResourceFieldSelector,
    ) -> Result<String, String> {
        let own = &pod.spec.as_ref().unwrap().containers[0];
        resource(pod, Some(own), place, selector)
    }
}
