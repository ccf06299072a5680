//! The health of a Ceph cluster, as reported by Rook.

use c5c3_api::foreign::rook::{CephCluster, CephHealth};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;

use crate::cloud::explain::{Explanation, Link};
use crate::failure::Failure;

/// One line on the screen.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Storage {
    pub name: String,
    pub namespace: String,
    /// It serves, and Ceph sees no error.
    pub well: bool,
    pub health: String,
    pub version: String,
    /// In bytes.
    pub used: u64,
    pub total: u64,
    pub message: String,
    /// Codes of Ceph's own checks that found something, such as `OSD_DOWN`.
    #[serde(skip)]
    pub checks: Vec<String>,
}

/// Those of all namespaces; none where Rook's kinds are not known or may not be read.
pub(crate) async fn read(client: &Client) -> Result<Vec<Storage>, Failure> {
    let api: Api<CephCluster> = Api::all(client.clone());
    match api.list(&ListParams::default()).await {
        Ok(found) => Ok(found.items.iter().map(storage).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 403 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn storage(cluster: &CephCluster) -> Storage {
    let status = cluster.status.clone().unwrap_or_default();
    let ceph = status.ceph.unwrap_or_default();
    let ready = matches!(status.phase.as_deref(), Some("Ready" | "Connected"));
    let health = ceph.health.clone().unwrap_or_default();
    let capacity = ceph.capacity.clone().unwrap_or_default();
    Storage {
        name: cluster.name_any(),
        namespace: cluster.namespace().unwrap_or_default(),
        well: ready && health != "HEALTH_ERR",
        version: status
            .version
            .and_then(|version| version.version)
            .unwrap_or_default(),
        used: capacity.bytes_used.unwrap_or_default(),
        total: capacity.bytes_total.unwrap_or_default(),
        message: if ready {
            complaints(&ceph)
        } else {
            status.message.unwrap_or_else(|| {
                "no operator has reported its status yet: is the Rook operator running?".to_owned()
            })
        },
        health,
        checks: ceph.details.into_keys().collect(),
    }
}

/// A Ceph cluster that does not serve is below everything else that is not well: it comes last.
/// `cluster` is the other cluster that it is in.
pub(crate) fn explain(found: &mut Explanation, storage: &Storage, cluster: Option<&str>) {
    found.chain.push(Link {
        kind: "CephCluster".to_owned(),
        name: storage.name.clone(),
        cluster: cluster.map(str::to_owned),
        reason: storage.health.clone(),
        message: storage.message.clone(),
    });
    let namespace = &storage.namespace;
    let there = cluster
        .map(|cluster| format!(" --context {cluster}"))
        .unwrap_or_default();
    let kubectl = format!("kubectl{there} -n {namespace}");
    let why = "# why is it not running?";
    let mut advice: Vec<String> = DAEMONS
        .iter()
        .filter(|(prefix, _)| storage.checks.iter().any(|code| code.starts_with(prefix)))
        .map(|(_, app)| format!("{kubectl} get pods -l app={app} -o wide   {why}"))
        .take(1)
        .collect();
    if advice.is_empty() && !storage.well {
        advice.push(format!("{kubectl} get pods -o wide   {why}"));
    }
    if storage.checks.iter().any(|code| code.ends_with("FULL")) {
        advice.push("add OSDs (storage.storageClassDeviceSets[].count) or delete data: Ceph accepts no writes while an OSD is full".to_owned());
    }
    advice.push(format!("{kubectl} describe cephcluster {}", storage.name));
    found.advice.splice(0..0, advice);
}

/// How the codes of checks begin that are about a daemon, and the label of its pods.
const DAEMONS: [(&str, &str); 3] = [
    ("MON_", "rook-ceph-mon"),
    ("OSD_", "rook-ceph-osd"),
    ("MGR_", "rook-ceph-mgr"),
];

/// What Ceph's own checks found, errors first.
fn complaints(ceph: &CephHealth) -> String {
    let mut checks: Vec<_> = ceph.details.values().collect();
    checks.sort_by_key(|check| check.severity != "HEALTH_ERR");
    let messages: Vec<&str> = checks.iter().map(|check| check.message.as_str()).collect();
    messages.join("; ")
}

/// `0.4 of 20.0 GiB`.
pub(crate) fn used(storage: &Storage) -> String {
    if storage.total == 0 {
        return String::new();
    }
    // Shown with one digit: what a float loses of so many bytes nobody sees.
    #[allow(clippy::cast_precision_loss)]
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!("{:.1} of {:.1} GiB", gib(storage.used), gib(storage.total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn row(status: Value) -> Storage {
        let mut cluster = CephCluster::new("storage", Default::default());
        cluster.status = serde_json::from_value(status).expect("a status");
        storage(&cluster)
    }

    #[test]
    fn health_capacity_and_what_blocks_are_told() {
        let seen = row(
            json!({"phase": "Ready", "message": "Cluster created successfully", "version": {"version": "18.2.7-0"},
            "ceph": {"health": "HEALTH_WARN", "capacity": {"bytesTotal": 2u64 << 30, "bytesUsed": 1u64 << 29},
                "details": {"A": {"severity": "HEALTH_WARN", "message": "slow"}, "B": {"severity": "HEALTH_ERR", "message": "full"}}}}),
        );
        assert!(seen.well);
        assert_eq!(
            (seen.message.as_str(), used(&seen).as_str()),
            ("full; slow", "0.5 of 2.0 GiB")
        );
        let seen = row(
            json!({"phase": "Progressing", "message": "osd.1 on disks-data-1 is down", "ceph": {"health": "HEALTH_WARN"}}),
        );
        assert_eq!(
            (seen.well, seen.message.as_str()),
            (false, "osd.1 on disks-data-1 is down")
        );
        assert!(!row(json!({"phase": "Ready", "ceph": {"health": "HEALTH_ERR"}})).well);
        let silent = row(json!(null));
        assert!(!silent.well && silent.message.contains("no operator") && used(&silent).is_empty());
    }

    #[test]
    fn what_blocks_is_named_below_what_it_blocks() {
        let storage = Storage {
            name: "storage".to_owned(),
            namespace: "rook-ceph".to_owned(),
            well: false,
            health: "HEALTH_WARN".to_owned(),
            version: String::new(),
            used: 0,
            total: 0,
            message: "osd.1 on disks-data-1 is down".to_owned(),
            checks: vec!["OSD_DOWN".to_owned(), "PG_DEGRADED".to_owned()],
        };
        let nothing = || Explanation {
            chain: Vec::new(),
            advice: vec!["later".to_owned()],
        };
        let mut found = nothing();
        explain(&mut found, &storage, Some("storage"));
        assert_eq!(found.chain[0].message, "osd.1 on disks-data-1 is down");
        assert!(
            found.advice[0]
                .starts_with("kubectl --context storage -n rook-ceph get pods -l app=rook-ceph-osd"),
            "{:?}",
            found.advice
        );
        assert_eq!(found.advice.last().map(String::as_str), Some("later"));
        // The wording decides nothing.
        let silent = Storage {
            message: "an OSD is full".to_owned(),
            checks: Vec::new(),
            ..storage.clone()
        };
        let mut found = nothing();
        explain(&mut found, &silent, None);
        assert!(found.advice[0].starts_with("kubectl -n rook-ceph get pods -o wide"));
        let full = Storage {
            checks: vec!["OSD_FULL".to_owned()],
            ..storage
        };
        let mut found = nothing();
        explain(&mut found, &full, None);
        assert!(found.advice[1].starts_with("add OSDs"), "{:?}", found.advice);
    }
}
