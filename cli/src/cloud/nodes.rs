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
    /// Whether its Hypervisor is Ready; none where there is none.
    pub service: Option<bool>,
    /// Whether the node's agent reaches libvirt; none where it is not known.
    pub agent: Option<bool>,
    /// Whether Open vSwitch is healthy; none where no agent reports it.
    pub switch: Option<bool>,
    /// What is wrong with its Hypervisor and its switch.
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
        let (host, switch) = (told("Hypervisor"), told("OVSNode"));
        Row {
            ready: is_true(node, "Ready"),
            hypervisor: labels.get(HYPERVISOR).is_some(),
            compute: compute(seen, &cluster, name(node)),
            chassis: chassis(seen, name(node)),
            service: host.map(|host| is_true(host, "Ready")),
            agent: host.and_then(|host| known(host, "AgentReporting")),
            switch: switch.map(|switch| is_true(switch, "Ready")),
            issues: host.and_then(why_not).into_iter().chain(issues(switch)).collect(),
            name: name(node).to_owned(),
            cluster,
        }
    };
    nodes.iter().map(row).collect()
}

fn issues(switch: Option<&Value>) -> impl Iterator<Item = String> {
    let all = switch.and_then(|switch| switch.pointer("/status/issues")?.as_array());
    let all = all.into_iter().flatten();
    all.map(|issue| format!("{} since {}", text(issue, "/message"), text(issue, "/detectedAt")))
}

/// Why a Hypervisor is not in service.
fn why_not(host: &Value) -> Option<String> {
    let ready = condition(host, "Ready").filter(|ready| ready["status"] != "True")?;
    let message = text(ready, "/message");
    Some(if message.is_empty() {
        text(ready, "/reason").to_owned()
    } else {
        message.to_owned()
    })
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    all.iter().find(|one| one["type"] == name)
}

fn is_true(object: &Value, name: &str) -> bool {
    known(object, name) == Some(true)
}

/// What a condition says; none where it is unknown.
fn known(object: &Value, name: &str) -> Option<bool> {
    match condition(object, name)?["status"].as_str()? {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
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
            match (row.hypervisor, row.service) {
                (true, Some(false)) => "not ready".to_owned(),
                (true, Some(true)) => "ready".to_owned(),
                (true, None) => "yes".to_owned(),
                (false, _) => "-".to_owned(),
            },
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
        let switch = json!({"kind": "OVSNode", "cluster": "hypervisor", "metadata": {"name": "hypervisor-1"},
            "status": {"conditions": [{"type": "Ready", "status": "False"}],
                "issues": [{"message": "bond0 is down", "detectedAt": "today"}]}});
        let carries = json!({HYPERVISOR: ""});
        let rows = rows(
            &[
                node("control-plane", "control-plane-1", json!({})),
                node("hypervisor", "hypervisor-1", carries.clone()),
                node("hypervisor", "hypervisor-2", carries),
            ],
            &seen,
            &[
                json!({"kind": "Hypervisor", "cluster": "hypervisor", "metadata": {"name": "hypervisor-1"},
                "status": {"conditions": [
                    {"type": "AgentReporting", "status": "Unknown"},
                    {"type": "Ready", "status": "False", "message": "Nova does not answer"},
                ]}}),
                switch,
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
                (true, Some(true), Some(true), None, Some(false)),
                (true, Some(false), None, None, None)
            ]
        );
        assert_eq!(
            rows[1].issues,
            ["Nova does not answer", "bond0 is down since today"]
        );
        assert_eq!(
            rows.iter().map(|row| row.service).collect::<Vec<_>>(),
            [None, Some(false), None]
        );
        assert!(rows.iter().all(|row| row.ready));
    }
}
