//! The answer to the API server when a pod is bound to a node.

use std::time::Duration;

use c5c3_kit::fault::plain;
use c5c3_webhook::Verdict;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;
use serde_json::Value;

use crate::change::{Labels, MARK, change};
use crate::nodes::Nodes;

/// Who binds a pod waits for this.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of a pod that gets its node.
struct Subject<'a> {
    node: &'a str,
    labels: Option<Labels>,
    mark: Option<String>,
}

/// Without an answer in time the pod starts without labels, and has them a moment later.
pub(crate) async fn judge(client: &Client, nodes: &Nodes, request: &Value) -> Verdict {
    let subject = match request["kind"]["kind"].as_str() {
        Some("Binding") => bound(client, request).await,
        Some("Pod") if request["subResource"].as_str().unwrap_or_default().is_empty() => placed(request),
        _ => None,
    };
    let known = subject.and_then(|subject| Some((nodes.labels(subject.node)?, subject)));
    let Some((node, subject)) = known else {
        return Verdict::default();
    };
    let change = change(
        &nodes.keys,
        &node,
        subject.labels.as_ref(),
        subject.mark.as_deref(),
    );
    let foreign: Vec<&str> = change.foreign.iter().map(String::as_str).collect();
    let warning = (!foreign.is_empty()).then(|| {
        let (keys, node) = (foreign.join(", "), subject.node);
        format!("the pod keeps its own {keys}, which differs from that of node {node}: remove the label to get the node's")
    });
    Verdict {
        patch: change.json_patch(&request["object"]),
        warning,
    }
}

/// A pod that is made for a node.
fn placed(request: &Value) -> Option<Subject<'_>> {
    let pod = &request["object"];
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
    let labels = serde_json::from_value(pod["metadata"]["labels"].clone());
    Some(Subject {
        node,
        labels: labels.unwrap_or_default(),
        mark: pod["metadata"]["annotations"][MARK].as_str().map(str::to_owned),
    })
}

/// A Binding says nothing of the labels that its pod has.
async fn bound<'a>(client: &Client, request: &'a Value) -> Option<Subject<'a>> {
    let target = &request["object"]["target"];
    let is_node = matches!(target["kind"].as_str(), None | Some("" | "Node"));
    let node = target["name"]
        .as_str()
        .filter(|node| is_node && !node.is_empty())?;
    let (namespace, name) = (request["namespace"].as_str()?, request["name"].as_str()?);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = match tokio::time::timeout(PATIENCE, pods.get_metadata(name)).await {
        Ok(Ok(pod)) => pod,
        Ok(Err(error)) => {
            tracing::warn!(namespace, name, "no labels yet: {}", plain(&error));
            return None;
        }
        Err(_) => {
            tracing::warn!(namespace, name, "no labels yet: the API server is slow");
            return None;
        }
    };
    let mark = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(MARK).cloned());
    Some(Subject {
        node,
        labels: pod.metadata.labels,
        mark,
    })
}
