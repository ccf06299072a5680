//! What is read before the decision, in both clusters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use c5c3_api::ceph::{RemoteArbiter, RemoteCluster};
use c5c3_api::conditions::READY;
use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::Reader;
use c5c3_kit::rewritten::Rewritten;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt;
use serde_json::Value;

use super::{build, endpoints};
use crate::error::Error;
use crate::remote::{Kind, Remote, Remotes, Way};

/// As Rook names them.
pub(crate) const KEYRING: &str = "rook-ceph-mons-keyring";
pub(crate) const ENDPOINTS: &str = "rook-ceph-mon-endpoints";
pub(crate) const OVERRIDE: &str = "rook-config-override";

/// It holds values of a Secret, so there is no Debug.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    /// `None` while the RemoteCluster is missing.
    pub way: Option<Way>,
    /// Why the other cluster cannot be worked with now.
    pub away: Option<String>,
    /// What is there; `None` when it cannot be read.
    pub live: Option<Live>,
    pub ceph: Option<CephCluster>,
    /// The entry of the monitors alone.
    pub keyring: Option<String>,
    pub mons: BTreeMap<String, SocketAddr>,
    /// Monitors that Rook misses in the quorum.
    pub out_of_quorum: Vec<String>,
    pub config: String,
}

/// What is in the other cluster.
#[derive(Clone, Default)]
pub(crate) struct Live {
    pub objects: BTreeMap<Kind, Value>,
    pub pods: Vec<Pod>,
    /// What was sent and does not read as it was sent.
    pub sent: Arc<Rewritten>,
}

impl Live {
    pub(crate) fn pod(&self) -> Option<&Pod> {
        let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        self.pods.iter().find(stays)
    }
}

pub(super) fn ceph_namespace(arbiter: &RemoteArbiter) -> String {
    let named = arbiter.spec.ceph_cluster.namespace.clone();
    named.unwrap_or_else(|| arbiter.namespace().unwrap_or_default())
}

pub(super) async fn observe(
    arbiter: &RemoteArbiter,
    reader: &Reader,
    remotes: &Remotes,
) -> Result<Facts, Error> {
    let mut facts = at_home(arbiter, reader).await?;
    let deleting = arbiter.metadata.deletion_timestamp.is_some();
    let namespace = arbiter.namespace().unwrap_or_default();
    let choice = &arbiter.spec.remote_cluster;
    let named: Option<RemoteCluster> = match &choice.name {
        Some(name) => reader.get(&namespace, name).await?,
        None => None,
    };
    let spec = match (&named, &choice.spec) {
        (Some(cluster), _) => &cluster.spec,
        (None, Some(spec)) => spec,
        (None, None) => {
            let name = choice.name.as_deref().unwrap_or_default();
            facts.away = Some(format!("RemoteCluster {name} is missing: create it"));
            return Ok(facts);
        }
    };
    let way = Way::of(&namespace, spec);
    let connected = remotes.connect(&way, reader).await?;
    facts.way = Some(way);
    let remote = match connected {
        Ok(remote) => remote,
        Err(finding) => {
            facts.away = finding.trouble();
            return Ok(facts);
        }
    };
    // The one that is named is looked at by its own controller.
    facts.away = match &named {
        Some(cluster) => not_ready(cluster),
        None => remote.check().await.trouble(),
    };
    // Who is leaving takes what can be had.
    if facts.away.is_none() || deleting {
        match there(arbiter, &remote).await {
            Ok(live) => facts.live = Some(live),
            Err(error) => facts.away = Some(error.to_string()),
        }
    }
    Ok(facts)
}

async fn there(arbiter: &RemoteArbiter, remote: &Remote) -> Result<Live, Error> {
    let name = build::name(arbiter);
    let objects = Kind::ALL.map(|kind| (kind, name.clone()));
    let labels: Vec<String> = build::selector(arbiter)
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let labels = labels.join(",");
    let (objects, pods) = tokio::try_join!(remote.read(&objects), remote.pods(&labels))?;
    Ok(Live {
        objects,
        pods,
        sent: remote.sent(),
    })
}

fn not_ready(cluster: &RemoteCluster) -> Option<String> {
    let name = cluster.name_any();
    let status = cluster.status.clone().unwrap_or_default();
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY);
    match ready {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!("RemoteCluster {name} is not ready: {}", ready.message)),
        None => Some(format!("RemoteCluster {name} has not been checked yet")),
    }
}

async fn at_home(arbiter: &RemoteArbiter, reader: &Reader) -> Result<Facts, Error> {
    let (namespace, name) = (ceph_namespace(arbiter), &arbiter.spec.ceph_cluster.name);
    let ceph: Option<CephCluster> = reader.get(&namespace, name).await?;
    let keyring: Option<Secret> = reader.get(&namespace, KEYRING).await?;
    let told: Option<ConfigMap> = reader.get(&namespace, ENDPOINTS).await?;
    let config: Option<ConfigMap> = reader.get(&namespace, OVERRIDE).await?;
    let keyring = keyring
        .and_then(|secret| String::from_utf8(secret.data?.remove("keyring")?.0).ok())
        .and_then(|text| build::mon_keyring(&text));
    let text = |map: &Option<ConfigMap>, key: &str| {
        let data = map.as_ref().and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get(key).cloned()).unwrap_or_default()
    };
    let out = text(&told, "outOfQuorum");
    Ok(Facts {
        ceph,
        keyring,
        mons: endpoints::read(&text(&told, "data")),
        out_of_quorum: out
            .split(',')
            .map(str::trim)
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
            .collect(),
        config: text(&config, "config"),
        ..Facts::default()
    })
}
