//! Cells of nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cells::{Fields, condition, or};

pub(super) fn cell(column: &str, node: &Value) -> Option<Value> {
    let info = |field: &str| or(node.text(&format!("/status/nodeInfo/{field}")), "<unknown>");
    Some(match column {
        "Status" => json!(status(node)),
        "Roles" => json!(roles(node)),
        "Version" => json!(node.text("/status/nodeInfo/kubeletVersion")),
        "Internal-IP" => json!(address(node, "InternalIP")),
        "External-IP" => json!(address(node, "ExternalIP")),
        "OS-Image" => json!(info("osImage")),
        "Kernel-Version" => match node.text("/status/nodeInfo/architecture") {
            "" => json!(info("kernelVersion")),
            architecture => json!(format!("{} ({architecture})", info("kernelVersion"))),
        },
        "Container-Runtime" => json!(info("containerRuntimeVersion")),
        _ => return None,
    })
}

fn status(node: &Value) -> String {
    let mut status = match condition(node, "Ready").map(|c| c.text("/status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    }
    .to_string();
    if node.flag("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let labels = node.at("/metadata/labels").as_object();
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<_> = roles.into_iter().collect();
    or(&roles.join(","), "<none>").to_string()
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    node.items("/status/addresses")
        .iter()
        .find(|address| address.text("/type") == kind)
        .map_or("<none>", |address| address.text("/address"))
}
