//! What is read before the decision.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::ovn::{OvnChassis, OvnCluster};
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::kinds::Key;
use c5c3_kit::{HOME, Kind, Reader, Reference};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use kube::ResourceExt;

use crate::authority::{self, Data, Kept};
use crate::build::{agents, remotes};
use crate::error::Error;
use crate::names::{Names, Side};
use crate::view::{Sessions, Targets, View};

/// So long may the cluster of the hypervisors take to answer: less than a pass has in all.
const ANSWER: Duration = Duration::from_secs(10);

/// It holds values of a Secret, so there is no Debug.
#[derive(Clone, Default)]
pub struct Facts {
    pub services: BTreeMap<String, Service>,
    pub sets: BTreeMap<String, StatefulSet>,
    pub deployments: BTreeMap<String, Deployment>,
    pub daemon_sets: BTreeMap<String, DaemonSet>,
    pub pods: Vec<Pod>,
    /// Those that the controller selects.
    pub nodes: Vec<Node>,
    /// Sides whose raft cluster was formed once.
    pub formed: Vec<Side>,
    /// The Secret that the spec names, if it is there, or our own.
    pub certificates: Option<Data>,
    /// The same of hypervisors.
    pub hypervisors: Option<Data>,
    /// The authorities behind our own: of the control plane, and of hypervisors.
    pub authorities: Option<[Data; 2]>,
    /// OVNChassis of ours.
    pub chassis: Vec<String>,
    /// Where the hypervisors are.
    pub place: ClusterName,
    /// Why that other cluster cannot be worked with now.
    pub away: Option<String>,
    /// What is ours in other clusters.
    pub elsewhere: Vec<Reference>,
    /// What the databases say.
    pub view: View,
}

pub(super) async fn observe(
    cluster: &OvnCluster,
    reader: &Reader,
    place: ClusterName,
    sessions: &Sessions,
) -> Result<Facts, Error> {
    let names = Names::of(cluster);
    let (namespace, labels) = (names.namespace.as_str(), names.selector());
    let mut facts = Facts {
        services: named(reader.list(namespace, &labels).await?),
        sets: named(reader.list(namespace, &labels).await?),
        deployments: named(reader.list(namespace, &labels).await?),
        pods: reader.list(namespace, &labels).await?,
        ..Facts::default()
    };
    match there(cluster, reader, &place, &names).await {
        Ok((sets, pods, nodes)) => {
            facts.daemon_sets = named(sets);
            facts.pods.extend(pods);
            facts.nodes = nodes;
        }
        Err(why) if place != HOME => facts.away = Some(why),
        Err(why) => return Err(Error::NoHypervisors(why)),
    }
    facts.place = place;
    for side in Side::BOTH {
        let state = reader.get::<ConfigMap>(namespace, &names.state(side)).await?;
        let data = state.and_then(|map| map.data).unwrap_or_default();
        if data.contains_key("formed") {
            facts.formed.push(side);
        }
    }
    if cluster.spec.tls.enabled {
        let stored = async |name: &str| -> Result<Option<Data>, Error> {
            let found = reader.get::<Secret>(namespace, name).await?;
            Ok(found.map(|secret| secret.data.unwrap_or_default()))
        };
        let (name, foreign) = names.certificates(cluster);
        let hypervisors = names.hypervisors(cluster);
        facts.certificates = stored(&name).await?;
        facts.hypervisors = stored(&hypervisors).await?;
        if !foreign {
            let kept = Kept {
                authority: stored(&names.authority()).await?.unwrap_or_default(),
                certificates: facts.certificates.take().unwrap_or_default(),
                hypervisor_authority: stored(&names.hypervisor_authority()).await?.unwrap_or_default(),
                hypervisors: facts.hypervisors.take().unwrap_or_default(),
            };
            let subject = format!("{namespace}/{}", names.name);
            let kept = authority::tend(&subject, kept, Timestamp::now())?;
            facts.authorities = Some([kept.authority, kept.hypervisor_authority]);
            facts.certificates = Some(kept.certificates);
            facts.hypervisors = Some(kept.hypervisors);
        }
    }
    let own = Kind::of::<OvnChassis>();
    let owned = reader.owned();
    let ours = owned.iter().filter(|(one, _)| own.is_of(one));
    facts.chassis = ours.map(|(one, _)| one.key.name.clone()).collect();
    let elsewhere = owned.into_iter().filter(|(one, _)| one.cluster != HOME);
    facts.elsewhere = elsewhere.map(|(one, _)| one).collect();
    facts.view = sessions.view(&Key::of(cluster), &facts.targets(cluster));
    Ok(facts)
}

type There = (Vec<DaemonSet>, Vec<Pod>, Vec<Node>);

/// What is where the hypervisors are. Another cluster that is away is a fact like any other.
async fn there(
    cluster: &OvnCluster,
    reader: &Reader,
    place: &ClusterName,
    names: &Names,
) -> Result<There, String> {
    let there = reader.in_cluster(place).map_err(|error| error.to_string())?;
    let (namespace, labels) = (names.namespace.as_str(), names.selector());
    let selected = cluster.spec.controller.node_selector.iter();
    let selected: Vec<String> = selected.map(|(key, value)| format!("{key}={value}")).collect();
    let lists = async {
        let sets = there.list::<DaemonSet>(namespace, &labels).await?;
        let pods = if *place == HOME {
            // They are among those of the databases.
            Vec::new()
        } else {
            there.list::<Pod>(namespace, &labels).await?
        };
        let mut nodes = there.list_all::<Node>(&selected.join(",")).await?;
        nodes.retain(|node| node.metadata.deletion_timestamp.is_none());
        Ok((sets, pods, nodes))
    };
    match tokio::time::timeout(ANSWER, lists).await {
        Ok(found) => found.map_err(|error: c5c3_kit::ReadError| format!("cluster {place}: {error}")),
        Err(_) => Err(format!(
            "cluster {place} does not answer within {} s",
            ANSWER.as_secs()
        )),
    }
}

fn named<K: ResourceExt>(objects: Vec<K>) -> BTreeMap<String, K> {
    objects
        .into_iter()
        .map(|object| (object.name_any(), object))
        .collect()
}

impl Facts {
    /// Members that have an address, for the sessions.
    fn targets(&self, cluster: &OvnCluster) -> Targets {
        let names = Names::of(cluster);
        let tls = cluster.spec.tls.enabled;
        let protocol = if tls { "ssl" } else { "tcp" };
        let mut members = Vec::new();
        for side in Side::BOTH {
            for ordinal in 0..side.spec(cluster).replicas {
                let name = names.member(side, ordinal);
                let pod = self.pods.iter().find(|pod| pod.name_any() == name);
                if let Some(address) = pod.and_then(|pod| pod.status.as_ref()?.pod_ip.clone()) {
                    let remote = remotes(protocol, [(&address, side.port())]);
                    members.push((side, name, remote));
                }
            }
        }
        Targets {
            members,
            certificates: self.certificates.clone().filter(|_| tls),
        }
    }

    /// Where the Secret has authorities for the southbound database alone.
    pub fn trusts_of_southbound(&self) -> Option<&'static str> {
        let key = authority::SOUTHBOUND_TRUSTED;
        let value = self.certificates.as_ref()?.get(key)?;
        (!value.0.is_empty()).then_some(key)
    }

    /// A pod of ovn-controller is on that node.
    pub fn controller_on(&self, node: &str) -> bool {
        self.pods.iter().any(|pod| {
            pod.labels()
                .get("app.kubernetes.io/component")
                .map(String::as_str)
                == Some(agents::CONTROLLER)
                && pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
        })
    }

    pub fn ready_members(&self, names: &Names, side: Side) -> i32 {
        let status = self
            .sets
            .get(&names.set(side))
            .and_then(|set| set.status.as_ref());
        status.and_then(|status| status.ready_replicas).unwrap_or(0)
    }
}
