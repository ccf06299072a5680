//! The nodes of a cloud's clusters, and their role in it. Pure.

use serde::Serialize;
use serde_json::Value;

use super::health::{health, name, text};
use super::snapshot::{CLUSTER, Snapshot};
use crate::output::Table;

const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";

/// One node.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub cluster: String,
    pub name: String,
    pub ready: bool,
    pub hypervisor: bool,
    /// Whether nova-compute is up there; none where there is none.
    pub compute: Option<bool>,
    /// Whether the node has joined OVN; none where it is no chassis.
    pub chassis: Option<bool>,
    /// Whether the node's agent reaches libvirt; none where there is no Hypervisor.
    pub agent: Option<bool>,
    /// Whether Open vSwitch is healthy; none where no agent reports it.
    pub switch: Option<bool>,
    /// What looks wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<String>,
}

/// `hosts` are Hypervisors and OVSNodes.
pub(crate) fn rows(nodes: &[Value], seen: &Snapshot, hosts: &[Value]) -> Vec<Row> {
    let row = |node: &Value| {
        let labels = &node["metadata"]["labels"];
        let cluster = text(node, "/cluster").to_owned();
        let told = |kind: &str| {
            let mut hosts = hosts.iter().filter(|host| host["kind"] == kind);
            hosts.find(|host| name(host) == name(node) && host[CLUSTER] == cluster.as_str())
        };
        let switch = told("OVSNode");
        Row {
            ready: is_true(node, "Ready"),
            hypervisor: labels.get(HYPERVISOR).is_some(),
            compute: compute(seen, &cluster, name(node)),
            chassis: chassis(seen, name(node)),
            agent: told("Hypervisor").map(|host| is_true(host, "AgentReporting")),
            switch: switch.map(|switch| is_true(switch, "Ready")),
            issues: switch.map(issues).unwrap_or_default(),
            name: name(node).to_owned(),
            cluster,
        }
    };
    nodes.iter().map(row).collect()
}

fn issues(switch: &Value) -> Vec<String> {
    let all = switch.pointer("/status/issues").and_then(Value::as_array);
    let all = all.into_iter().flatten();
    all.map(|issue| format!("{} since {}", text(issue, "/message"), text(issue, "/detectedAt")))
        .collect()
}

fn is_true(object: &Value, condition: &str) -> bool {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut all = all.into_iter().flatten();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

/// A pod without a cluster is at home, whatever that is called.
fn compute(seen: &Snapshot, cluster: &str, node: &str) -> Option<bool> {
    let of = |pod: &&Value| {
        let labels = &pod["metadata"]["labels"];
        let component = labels["app.kubernetes.io/component"].as_str().unwrap_or_default();
        let near = pod[CLUSTER].as_str().is_none_or(|other| other == cluster);
        labels["app.kubernetes.io/name"] == "nova"
            && component.starts_with("compute-")
            && text(pod, "/spec/nodeName") == node
            && near
    };
    let mut pods = seen.of_kind("", "Pod").filter(of).peekable();
    pods.peek()?;
    Some(pods.any(|pod| health(pod).is_some_and(|health| health.is_ready())))
}

fn chassis(seen: &Snapshot, node: &str) -> Option<bool> {
    let mut all = seen.of_kind("ovn.c5c3.io", "OVNChassis");
    let chassis = all.find(|chassis| name(chassis) == node)?;
    Some(is_true(chassis, "OVSConnected"))
}

pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "CLUSTER",
        "NODE",
        "READY",
        "HYPERVISOR",
        "NOVA-COMPUTE",
        "CHASSIS",
        "AGENT",
        "SWITCH",
    ]);
    let told = |state: Option<bool>, well: &str, ill: &str| match state {
        Some(true) => well.to_owned(),
        Some(false) => ill.to_owned(),
        None => "-".to_owned(),
    };
    for row in rows {
        table.row([
            row.cluster.clone(),
            row.name.clone(),
            told(Some(row.ready), "yes", "no"),
            told(Some(row.hypervisor), "yes", "-"),
            told(row.compute, "up", "down"),
            told(row.chassis, "connected", "not connected"),
            told(row.agent, "reports", "silent"),
            told(row.switch, "well", "not well"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_says_what_it_is_to_the_cloud() {
        let node = |cluster: &str, name: &str, labels: Value| {
            json!({"kind": "Node", "apiVersion": "v1", "cluster": cluster,
                "metadata": {"name": name, "labels": labels},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let pod = |ready: &str, node: &str| {
            json!({"kind": "Pod", "apiVersion": "v1", "cluster": "hypervisor", "spec": {"nodeName": node},
                "metadata": {"labels": {"app.kubernetes.io/name": "nova",
                    "app.kubernetes.io/component": "compute-cell1"}},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let chassis = json!({"kind": "OVNChassis", "apiVersion": "ovn.c5c3.io/v1alpha1",
            "metadata": {"name": "hypervisor-1"},
            "status": {"conditions": [{"type": "OVSConnected", "status": "True"}]}});
        let seen = Snapshot {
            objects: vec![pod("True", "hypervisor-1"), pod("False", "hypervisor-2"), chassis],
        };
        let host = |kind: &str, condition: &str, status: &str| {
            json!({"kind": kind, "cluster": "hypervisor", "metadata": {"name": "hypervisor-1"},
                "status": {"conditions": [{"type": condition, "status": status}],
                    "issues": [{"message": "bond0 is down", "detectedAt": "today"}]}})
        };
        let carries = json!({HYPERVISOR: ""});
        let rows = rows(
            &[
                node("control-plane", "control-plane-1", json!({})),
                node("hypervisor", "hypervisor-1", carries.clone()),
                node("hypervisor", "hypervisor-2", carries),
            ],
            &seen,
            &[
                host("Hypervisor", "AgentReporting", "True"),
                host("OVSNode", "Ready", "False"),
            ],
        );
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.hypervisor, row.compute, row.chassis, row.agent, row.switch))
            .collect();
        assert_eq!(
            told,
            [
                (false, None, None, None, None),
                (true, Some(true), Some(true), Some(true), Some(false)),
                (true, Some(false), None, None, None)
            ]
        );
        assert_eq!(rows[1].issues, ["bond0 is down since today"]);
        assert!(rows.iter().all(|row| row.ready));
    }
}
