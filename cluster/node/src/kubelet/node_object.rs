//! The Node object and its lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::pods::Host;
use crate::traits::Taint;

/// Well below the time after which a silent node counts as lost.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long the runtime may fail before the node is not ready, as Kubernetes has it.
const PATIENCE: Duration = Duration::from_secs(30);
const LEASES: &str = "kube-node-lease";
/// Set while the node is known to be off: its pods may start elsewhere at once.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What a node says about itself.
#[derive(Clone, Debug)]
pub struct Description {
    pub cpus: i64,
    pub memory: i64,
    pub pods: i64,
    pub pod_network: String,
    pub runtime: String,
    pub labels: BTreeMap<String, String>,
    /// Of a node that is not known yet.
    pub taints: Vec<Taint>,
}

/// Registers the node and renews its lease forever.
pub(super) async fn keep(client: Client, host: Arc<Host>, description: Description) {
    let name = &host.node.layout.name;
    while let Err(e) = register(&client, &host, &description).await {
        tracing::warn!(node = name, "{e}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut health = Health::default();
    loop {
        if let Err(e) = renew(&client, name).await {
            tracing::warn!(node = name, "{e}");
        }
        tokio::time::sleep(HEARTBEAT).await;
        // The runtime's own word.
        let missing = match host.cri.conditions().await {
            Ok(list) => list
                .into_iter()
                .find(|c| !c.status)
                .map(|c| format!("{}: {}", c.r#type, c.message)),
            Err(e) => Some(e.to_string()),
        };
        let written = match health.judge(missing, Instant::now()) {
            None => say_ready(&client, &host, &description).await,
            Some(why) => set_ready(&client, name, "False", "KubeletNotReady", why).await,
        };
        match written {
            Ok(()) => {
                let ready = health.bad.is_none();
                host.ready
                    .send_if_modified(|now| std::mem::replace(now, ready) != ready);
            }
            Err(e) => tracing::warn!(node = name, "{e}"),
        }
    }
}

/// One answer that is late or bad says nothing; only a runtime that stays so is down.
#[derive(Debug, Default)]
struct Health {
    since: Option<Instant>,
    bad: Option<String>,
}

impl Health {
    /// What keeps the node from being ready.
    fn judge(&mut self, missing: Option<String>, now: Instant) -> Option<&str> {
        match missing {
            None => *self = Self::default(),
            Some(why) => {
                let since = *self.since.get_or_insert(now);
                if now.duration_since(since) >= PATIENCE {
                    self.bad = Some(why);
                }
            }
        }
        self.bad.as_deref()
    }
}

/// Others may have said that the node is lost, of all its conditions.
async fn say_ready(client: &Client, host: &Host, description: &Description) -> Result<()> {
    let name = &host.node.layout.name;
    let nodes: Api<Node> = Api::all(client.clone());
    let found = nodes.get_opt(name).await;
    let status = found
        .map_err(Error::api(format!("get node {name}")))?
        .and_then(|n| n.status);
    let all = status.iter().flat_map(|s| s.conditions.iter().flatten());
    if all.filter(|c| c.type_ == "Ready").any(|c| c.status != "True") {
        register(client, host, description).await
    } else {
        Ok(())
    }
}

async fn register(client: &Client, host: &Host, description: &Description) -> Result<()> {
    let name = &host.node.layout.name;
    let nodes: Api<Node> = Api::all(client.clone());
    let failed = |what: &str| Error::api(format!("{what} node {name}"));
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": crate::images::store::architecture(),
    });
    for (key, value) in &description.labels {
        labels[key] = json!(value);
    }
    let known = nodes.get_opt(name).await.map_err(failed("get"))?;
    if let Some(known) = known {
        let has = known.metadata.labels.unwrap_or_default();
        if !description
            .labels
            .iter()
            .all(|(key, value)| has.get(key) == Some(value))
        {
            let patch = json!({ "metadata": { "labels": description.labels } });
            let labelled = nodes
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            labelled.map_err(failed("label"))?;
        }
    } else {
        let node = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "podCIDR": description.pod_network, "podCIDRs": [description.pod_network],
                "taints": description.taints },
        });
        let node: Node =
            serde_json::from_value(node).map_err(|e| Error::said(format!("node {name}: {e}")))?;
        nodes
            .create(&PostParams::default(), &node)
            .await
            .map_err(failed("create"))?;
    }
    taint(&nodes, name, false).await?;
    let capacity = json!({
        "cpu": description.cpus.to_string(),
        "memory": format!("{}Ki", description.memory / 1024),
        "pods": description.pods.to_string(),
        "ephemeral-storage": "100Gi",
    });
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now })
    };
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let status = json!({ "status": {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            { "type": "InternalIP", "address": host.address },
            { "type": "Hostname", "address": name },
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "nodeInfo": {
            "architecture": crate::images::store::architecture(),
            "operatingSystem": "linux",
            "osImage": os_name(),
            "kernelVersion": kernel.trim(),
            "containerRuntimeVersion": description.runtime,
            "kubeletVersion": "v1.37.1",
            "kubeProxyVersion": "",
            "machineID": "", "systemUUID": "", "bootID": "",
        },
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
    }});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .map(drop)
        .map_err(failed("report"))
}

fn os_name() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// Writes the Ready condition of an existing node unless it is so already; another writer may have changed it.
pub(super) async fn set_ready(
    client: &Client,
    name: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let what = || format!("condition of node {name}");
    let Some(node) = nodes.get_opt(name).await.map_err(Error::api(what()))? else {
        return Ok(());
    };
    let mut known = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let same = |c: &NodeCondition| c.status == status && c.reason.as_deref() == Some(reason);
    if known.any(|c| c.type_ == "Ready" && same(c)) {
        return Ok(());
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut list: Vec<Value> = node
        .status
        .and_then(|s| s.conditions)
        .unwrap_or_default()
        .into_iter()
        .filter(|c| c.type_ != "Ready")
        .filter_map(|c| serde_json::to_value(c).ok())
        .collect();
    list.push(
        json!({ "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now }),
    );
    let patch = json!({ "status": { "conditions": list } });
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
        .map_err(Error::api(what()))
}

/// The node is off, and whoever says so knows it: nothing runs there.
pub async fn mark_down(client: &Client, name: &str) -> Result<()> {
    set_ready(client, name, "False", "NodeDown", "the node's process 1 is gone").await?;
    taint(&Api::all(client.clone()), name, true).await
}

/// Others write taints too: after a conflict the newest are read again.
async fn taint(nodes: &Api<Node>, name: &str, down: bool) -> Result<()> {
    const TRIES: usize = 20;
    let mut last = Ok(());
    for _ in 0..TRIES {
        last = try_taint(nodes, name, down).await;
        match &last {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            _ => break,
        }
    }
    last.map_err(Error::api(format!("taints of node {name}")))
}

async fn try_taint(nodes: &Api<Node>, name: &str, down: bool) -> kube::Result<()> {
    let Some(node) = nodes.get_opt(name).await? else {
        return Ok(());
    };
    let mut taints: Vec<Value> = node
        .spec
        .and_then(|s| s.taints)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|t| serde_json::to_value(t).ok())
        .collect();
    let marked = taints.iter().any(|t| t["key"] == OUT_OF_SERVICE);
    if marked == down {
        return Ok(());
    }
    taints.retain(|t| t["key"] != OUT_OF_SERVICE);
    if down {
        taints.push(json!({ "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" }));
    }
    let patch = json!({
        "metadata": { "resourceVersion": node.metadata.resource_version },
        "spec": { "taints": taints },
    });
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
}

async fn renew(client: &Client, name: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let what = || format!("lease of node {name}");
    let patch = json!({ "spec": { "renewTime": now } });
    let renewed = leases
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    match renewed {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let lease = json!({
                "metadata": { "name": name, "namespace": LEASES },
                "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now },
            });
            let lease: Lease =
                serde_json::from_value(lease).map_err(|e| Error::said(format!("{}: {e}", what())))?;
            leases
                .create(&PostParams::default(), &lease)
                .await
                .map(drop)
                .map_err(Error::api(what()))
        }
        other => other.map(drop).map_err(Error::api(what())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blip_is_no_failure() {
        let mut health = Health::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let late = || Some("late".to_owned());
        for (seconds, missing, ready) in [
            (0, None, true),
            (10, late(), true),
            (20, None, true),
            (30, late(), true),
            (40, late(), true),
            (59, late(), true),
            (60, late(), false),
            (70, late(), false),
            (80, None, true),
            (90, late(), true),
        ] {
            assert_eq!(health.judge(missing, at(seconds)).is_none(), ready, "{seconds}");
        }
    }
}
