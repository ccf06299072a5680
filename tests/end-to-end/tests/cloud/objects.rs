//! What is in a cluster, for comparing.

use std::collections::BTreeMap;

use end_to_end::cloud::Cloud;
use serde_json::Value;

/// Kinds that show the machine and the passing of time, not the work of our controllers.
const OTHERS: [&str; 3] = ["leases.coordination.k8s.io", "events", "events.events.k8s.io"];

/// Every object of a namespace: `kind/name` → resourceVersion.
pub(crate) fn versions(cloud: &Cloud, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    named(cloud, namespace, "resourceVersion")
}

/// What outlives its pods: `kind/name` → uid.
pub(crate) fn identities(cloud: &Cloud, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut all = named(cloud, namespace, "uid")?;
    let passing = ["/Pod/", "/PodMetrics/", "/EndpointSlice/"];
    all.retain(|name, _| !passing.iter().any(|kind| name.contains(kind)));
    Ok(all)
}

fn named(cloud: &Cloud, namespace: &str, field: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let kinds = cloud.kubectl(
        &["api-resources", "--verbs=list", "--namespaced", "-o", "name"],
        "",
    )?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !OTHERS.contains(kind)).collect();
    let list = cloud.kubectl(&["-n", namespace, "get", &kinds.join(","), "-o", "json"], "")?;
    let list: Value = serde_json::from_str(&list)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items
        .iter()
        .map(|item| {
            let name = format!(
                "{}/{}/{}",
                text(&item["apiVersion"]),
                text(&item["kind"]),
                text(&item["metadata"]["name"])
            );
            (name, text(&item["metadata"][field]))
        })
        .collect())
}
