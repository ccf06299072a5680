//! The health of Ceph clusters, as reported by Rook, and of the monitors that they have elsewhere.

use c5c3_api::ceph::RemoteArbiter;
use c5c3_api::foreign::rook::{CephCluster, CephHealth};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cloud::explain::{Explanation, Link};
use crate::cloud::health::health;
use crate::failure::Failure;

/// Where Rook tells which monitors there are, and which of them are not in the quorum.
const ENDPOINTS: &str = "rook-ceph-mon-endpoints";

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
    /// Unknown until Rook has told its monitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitors: Option<Monitors>,
    /// In bytes.
    pub used: u64,
    pub total: u64,
    pub message: String,
    /// Codes of Ceph's own checks that found something, such as `OSD_DOWN`.
    #[serde(skip)]
    pub checks: Vec<String>,
}

/// Of one Ceph cluster, with those that are elsewhere.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Monitors {
    pub in_quorum: usize,
    pub all: usize,
}

/// A monitor in another cluster.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arbiter {
    pub name: String,
    pub namespace: String,
    pub ceph_cluster: String,
    pub ready: bool,
    /// Its name in Ceph.
    pub monitor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub message: String,
}

/// All that there is of Ceph, each with the other cluster that it is in.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub clusters: Vec<(Option<String>, Storage)>,
    pub arbiters: Vec<(Option<String>, Arbiter)>,
}

/// Of all namespaces; none where the kind is not known or may not be read.
async fn all<K>(client: &Client) -> Result<Vec<K>, Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    match api.list(&ListParams::default()).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 403 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn read(client: &Client) -> Result<Vec<Storage>, Failure> {
    let mut rows = Vec::new();
    for cluster in all::<CephCluster>(client).await? {
        let namespace = cluster.namespace().unwrap_or_default();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        // Who may not read it sees the rest.
        let endpoints = maps.get_opt(ENDPOINTS).await.ok().flatten();
        rows.push(storage(&cluster, endpoints.as_ref()));
    }
    Ok(rows)
}

pub(crate) async fn arbiters(client: &Client) -> Result<Vec<Arbiter>, Failure> {
    let all = all::<RemoteArbiter>(client).await?;
    Ok(all.iter().map(arbiter).collect())
}

fn arbiter(arbiter: &RemoteArbiter) -> Arbiter {
    let trouble = health(&json!(arbiter)).and_then(|health| health.trouble().cloned());
    let monitor = arbiter.status.as_ref().and_then(|status| status.mon_id.clone());
    let ready = trouble.is_none();
    let (reason, message) = trouble
        .map(|trouble| (trouble.reason, trouble.message))
        .unwrap_or_default();
    Arbiter {
        name: arbiter.name_any(),
        namespace: arbiter.namespace().unwrap_or_default(),
        ceph_cluster: arbiter.spec.ceph_cluster.name.clone(),
        ready,
        monitor: monitor.unwrap_or_default(),
        reason,
        message,
    }
}

/// `a=10.0.0.1:6789,b=…` are all; those that are out of the quorum are named beside them.
fn monitors(endpoints: &ConfigMap) -> Option<Monitors> {
    let names = |key: &str| {
        let text = endpoints.data.as_ref().and_then(|data| data.get(key));
        let parts = text.map(String::as_str).unwrap_or_default().split(',');
        let names = parts.map(|part| part.split('=').next().unwrap_or_default().trim().to_owned());
        names.filter(|name| !name.is_empty()).collect::<Vec<_>>()
    };
    let (all, out) = (names("data"), names("outOfQuorum"));
    (!all.is_empty()).then(|| Monitors {
        in_quorum: all.iter().filter(|name| !out.contains(name)).count(),
        all: all.len(),
    })
}

fn storage(cluster: &CephCluster, endpoints: Option<&ConfigMap>) -> Storage {
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
        monitors: endpoints.and_then(monitors),
        checks: ceph.details.into_keys().collect(),
    }
}

/// A Ceph cluster that does not serve is below everything else that is not well: it comes last. Of a named object only
/// when that needs Ceph. An arbiter keeps nobody from working: it is told of when it is asked for, or when all else is
/// well. `start` is the object where the explanation begins, if that is not of Ceph itself.
pub(crate) fn below(
    seen: &Seen,
    found: &mut Explanation,
    start: Option<&Value>,
    named: Option<(&str, &str)>,
) {
    let mut unwell = seen.clusters.iter().filter(|(_, one)| !one.well);
    let mut arbiters = seen.arbiters.iter().filter(|(_, one)| !one.ready);
    let (arbiter, cluster) = match named {
        Some((kind, name)) if is_cluster(kind) => (None, unwell.find(|(_, one)| one.name == name)),
        Some((kind, name)) if is_arbiter(kind) => {
            let arbiter = arbiters.find(|(_, one)| one.name == name);
            let own = arbiter.and_then(|(place, arbiter)| {
                unwell.find(|(other, one)| other == place && one.name == arbiter.ceph_cluster)
            });
            (arbiter, own)
        }
        Some(_) if found.chain.is_empty() || !start.is_some_and(needs_ceph) => (None, None),
        Some(_) => (None, unwell.next()),
        None => {
            let cluster = unwell.next();
            let alone = cluster.is_none() && found.chain.is_empty();
            (arbiters.next().filter(|_| alone), cluster)
        }
    };
    if let Some((place, arbiter)) = arbiter {
        explain_arbiter(found, arbiter, place.as_deref());
    }
    if let Some((place, cluster)) = cluster {
        explain(found, cluster, place.as_deref());
    }
}

/// Whether an object that a person names is one of these, which are in no snapshot of a cloud.
pub(crate) fn has(seen: &Seen, (kind, name): (&str, &str)) -> bool {
    let clusters = is_cluster(kind) && seen.clusters.iter().any(|(_, one)| one.name == name);
    clusters || (is_arbiter(kind) && seen.arbiters.iter().any(|(_, one)| one.name == name))
}

fn is_cluster(kind: &str) -> bool {
    ["cephcluster", "cephclusters", "cephcluster.ceph.rook.io"].contains(&kind.to_lowercase().as_str())
}

fn is_arbiter(kind: &str) -> bool {
    let kinds = ["remotearbiter", "remotearbiters", "remotearbiter.ceph.c5c3.io"];
    kinds.contains(&kind.to_lowercase().as_str())
}

/// Whether a key of Ceph is named anywhere in its spec.
fn needs_ceph(object: &Value) -> bool {
    fn named(value: &Value) -> bool {
        match value {
            Value::Object(fields) => fields
                .iter()
                .any(|(name, value)| name == "cephSecretRef" || named(value)),
            Value::Array(items) => items.iter().any(named),
            _ => false,
        }
    }
    named(&object["spec"])
}

/// `cluster` is the other cluster that it is about.
fn kubectl(cluster: Option<&str>, namespace: &str) -> String {
    let there = cluster
        .map(|cluster| format!(" --context {cluster}"))
        .unwrap_or_default();
    format!("kubectl{there} -n {namespace}")
}

fn explain_arbiter(found: &mut Explanation, arbiter: &Arbiter, cluster: Option<&str>) {
    found.chain.push(Link {
        kind: "RemoteArbiter".to_owned(),
        name: arbiter.name.clone(),
        cluster: cluster.map(str::to_owned),
        reason: arbiter.reason.clone(),
        message: arbiter.message.clone(),
    });
    let kubectl = kubectl(cluster, &arbiter.namespace);
    let advice = [
        format!("{kubectl} get remoteclusters   # is the other cluster reached?"),
        format!("{kubectl} describe remotearbiter {}", arbiter.name),
    ];
    found.advice.splice(0..0, advice);
}

fn explain(found: &mut Explanation, storage: &Storage, cluster: Option<&str>) {
    found.chain.push(Link {
        kind: "CephCluster".to_owned(),
        name: storage.name.clone(),
        cluster: cluster.map(str::to_owned),
        reason: storage.health.clone(),
        message: storage.message.clone(),
    });
    let namespace = &storage.namespace;
    let kubectl = kubectl(cluster, namespace);
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

    fn row(status: Value) -> Storage {
        let mut cluster = CephCluster::new("storage", Default::default());
        cluster.status = serde_json::from_value(status).expect("a status");
        storage(&cluster, None)
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
            monitors: None,
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
    #[test]
    fn monitors_are_counted_as_rook_names_them() {
        let told = |data: Value| {
            let map = json!({"metadata": {}, "data": data});
            monitors(&serde_json::from_value(map).expect("a ConfigMap")).map(|one| (one.in_quorum, one.all))
        };
        let data = "a=10.0.0.1:6789,b=10.0.0.2:6789,ext-a=10.9.0.1:6789";
        assert_eq!(told(json!({"data": data, "outOfQuorum": ""})), Some((3, 3)));
        assert_eq!(
            told(json!({"data": data, "outOfQuorum": "b,ext-a"})),
            Some((1, 3))
        );
        assert_eq!(told(json!({"data": data})), Some((3, 3)), "an older Rook");
        assert_eq!(told(json!({"data": "", "outOfQuorum": "a"})), None);
        assert_eq!(told(json!({})), None);
    }

    #[test]
    fn an_arbiter_is_told_with_its_monitor() {
        let spec = json!({"remoteCluster": {"name": "site"}, "cephCluster": {"name": "storage"}});
        let mut object = RemoteArbiter::new("third", serde_json::from_value(spec).expect("a spec"));
        let status = json!({"monId": "ext-a", "conditions": [{"type": "Ready", "status": "False",
            "reason": "OutOfQuorum", "message": "it is not in the quorum", "lastTransitionTime": "2026-11-19T00:00:00Z"}]});
        object.status = serde_json::from_value(status).expect("a status");
        let row = arbiter(&object);
        assert_eq!((row.ready, row.monitor.as_str()), (false, "ext-a"));
        assert_eq!(row.message, "it is not in the quorum");
    }

    fn seen() -> Seen {
        let unwell = row(json!({"phase": "Ready", "ceph": {"health": "HEALTH_ERR"}}));
        let arbiter = Arbiter {
            name: "third".to_owned(),
            namespace: "rook-ceph".to_owned(),
            ceph_cluster: "storage".to_owned(),
            ready: false,
            monitor: "ext-a".to_owned(),
            reason: "OutOfQuorum".to_owned(),
            message: "it is not in the quorum".to_owned(),
        };
        Seen {
            clusters: vec![(None, unwell)],
            arbiters: vec![(None, arbiter)],
        }
    }

    #[test]
    fn ceph_blocks_what_needs_it_and_an_arbiter_nobody() {
        let link = |kind: &str| Link {
            kind: kind.to_owned(),
            name: "one".to_owned(),
            cluster: None,
            reason: String::new(),
            message: String::new(),
        };
        let with = json!({"spec": {"storage": {"rbd": {"cephSecretRef": {"name": "ceph-glance"}}}}});
        let without = json!({"spec": {}});
        let glance = Some(("glance", "glance"));
        let ceph = Some(("cephcluster", "storage"));
        let (all, mut healthy) = (seen(), seen());
        healthy.clusters[0].1.well = true;
        for (seen, above, start, named, expected) in [
            (&all, true, Some(&with), None, &["Glance", "CephCluster"][..]),
            (&all, true, Some(&with), glance, &["Glance", "CephCluster"]),
            (&all, true, Some(&without), glance, &["Glance"]),
            (&all, false, Some(&with), glance, &[]),
            (&all, false, None, ceph, &["CephCluster"]),
            (
                &all,
                false,
                None,
                Some(("RemoteArbiter", "third")),
                &["RemoteArbiter", "CephCluster"],
            ),
            (&all, false, None, None, &["CephCluster"]),
            (&healthy, true, Some(&with), None, &["Glance"]),
            (&healthy, false, None, None, &["RemoteArbiter"]),
            (&healthy, false, None, ceph, &[]),
        ] {
            let mut found = Explanation::default();
            found.chain.extend(above.then(|| link("Glance")));
            below(seen, &mut found, start, named);
            let kinds: Vec<&str> = found.chain.iter().map(|link| link.kind.as_str()).collect();
            assert_eq!(kinds, expected, "{named:?}");
        }
        assert!(has(&all, ("cephclusters", "storage")) && has(&all, ("remotearbiter", "third")));
        assert!(!has(&all, ("cephcluster", "third")) && !has(&all, ("glance", "storage")));
    }
}
