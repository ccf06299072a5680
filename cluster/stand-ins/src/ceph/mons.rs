//! Monitors: their addresses, the keys that they start with, their Deployments.

use std::collections::BTreeMap;

use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::pod::env_field;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, PersistentVolumeClaimSpec, Secret, Service, ServicePort, ServiceSpec,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use serde_json::json;

use super::check;
use super::keyring::{Mint, all_caps, caps, entry, mgr_caps};
use super::names::{self, CONFIG, Daemon, ENDPOINTS, MGR, MON, MONS_KEYRING};
use super::pods::{self, KEYRING, Pod, Ready};
use super::seats::{self, Seat, Seats};

const V2: u16 = 3300;
const V1: u16 = 6789;
pub(crate) const METRICS: u16 = 9283;

/// What a cluster is known by, as the Secret `rook-ceph-mon` keeps it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub fsid: String,
    pub mon_key: String,
    pub admin_key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.fsid)
    }
}

impl Identity {
    pub(crate) fn fresh(mint: &Mint) -> Self {
        Self {
            fsid: super::keyring::uuid(&mint.key("fsid")),
            mon_key: mint.key("mon."),
            admin_key: mint.key("client.admin"),
        }
    }

    /// `None` when something is missing in it.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
        Some(Self {
            fsid: text("fsid")?,
            mon_key: text("mon-secret")?,
            admin_key: text("ceph-secret")?,
        })
    }
}

pub(crate) fn daemon<'a>(namespace: &'a str, parent: &'a str, id: &'a str) -> Daemon<'a> {
    Daemon {
        namespace,
        app: MON,
        kind: "mon",
        id,
        parent,
    }
}

pub(crate) fn mgr<'a>(namespace: &'a str, parent: &'a str, id: &'a str) -> Daemon<'a> {
    Daemon {
        namespace,
        app: MGR,
        kind: "mgr",
        id,
        parent,
    }
}

pub(crate) fn mgr_keyring(id: &str) -> String {
    format!("rook-ceph-mgr-{id}-keyring")
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number.into(),
        ..ServicePort::default()
    }
}

/// Addresses that stay while pods come and go. `exported`: other clusters reach them too.
pub(crate) fn service(namespace: &str, parent: &str, id: &str, exported: bool) -> Service {
    let daemon = daemon(namespace, parent, id);
    let mut metadata = daemon.meta();
    // A balancer would come to the machine's loopback too, where nobody needs it.
    metadata.annotations = exported.then(|| names::map(&[("c5c3.io/expose", "none")]));
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: exported.then(|| "LoadBalancer".to_owned()),
            selector: Some(daemon.selector()),
            // Monitors have to meet before any of them serves.
            publish_not_ready_addresses: Some(true),
            ports: Some(vec![port("tcp-msgr1", V1), port("tcp-msgr2", V2)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The address of such a Service, once it has one.
pub(crate) fn address(service: &Service) -> Option<String> {
    if !is_exported(service) {
        return service.spec.as_ref()?.cluster_ip.clone();
    }
    let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
    balancer.ingress.as_ref()?.iter().find_map(|one| one.ip.clone())
}

pub(crate) fn is_exported(service: &Service) -> bool {
    let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    type_ == Some("LoadBalancer")
}

/// Where Prometheus reads.
pub(crate) fn metrics(namespace: &str, parent: &str) -> Service {
    let labels = names::map(&[("app", MGR), ("rook_cluster", namespace)]);
    let mut meta = mgr(namespace, parent, "").meta();
    meta.name = Some(MGR.to_owned());
    meta.labels = Some(labels.clone());
    Service {
        metadata: meta,
        spec: Some(ServiceSpec {
            selector: Some(labels),
            ports: Some(vec![port("http-metrics", METRICS)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub(crate) fn claim(namespace: &str, parent: &str, id: &str) -> PersistentVolumeClaim {
    let size = Quantity("10Gi".to_owned());
    PersistentVolumeClaim {
        metadata: daemon(namespace, parent, id).meta(),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

/// Secrets of the whole cluster. `managers` are those whose keys a new store begins with.
pub(crate) fn secrets(
    namespace: &str,
    identity: &Identity,
    managers: &BTreeMap<String, String>,
) -> Vec<Secret> {
    let secret = |name: &str, data: &[(&str, &str)]| {
        names::secret(names::meta(namespace, name, names::Labels::new()), data)
    };
    let admin = entry("client.admin", &identity.admin_key, &all_caps());
    let mut shared = entry("mon.", &identity.mon_key, &caps(&[("mon", "allow *")])) + &admin;
    let mut secrets = Vec::new();
    for (id, key) in managers {
        let own = entry(&format!("mgr.{id}"), key, &mgr_caps());
        shared += &own;
        secrets.push(secret(&mgr_keyring(id), &[("keyring", &own)]));
    }
    secrets.extend([
        secret(
            MON,
            &[
                ("fsid", &identity.fsid),
                ("mon-secret", &identity.mon_key),
                ("ceph-username", "client.admin"),
                ("ceph-secret", &identity.admin_key),
            ],
        ),
        secret(MONS_KEYRING, &[("keyring", &shared)]),
        secret(names::ADMIN_KEYRING, &[("keyring", &admin)]),
    ]);
    secrets
}

/// Monitors and their addresses, as Rook tells them to others. `elsewhere` run outside of this cluster, `out` are not in
/// the quorum, `last` is the number of the last letter that was given.
pub(crate) fn endpoints(
    namespace: &str,
    addresses: &BTreeMap<String, String>,
    seats: &Seats,
    elsewhere: &BTreeMap<String, String>,
    (out, last): (&[String], u8),
) -> ConfigMap {
    let own = addresses
        .iter()
        .map(|(id, address)| format!("{id}={address}:{V1}"));
    let theirs = elsewhere.iter().map(|(id, address)| format!("{id}={address}"));
    let data: Vec<String> = own.chain(theirs).collect();
    let monitors: Vec<String> = addresses
        .values()
        .map(|address| format!("{address}:{V1}"))
        .collect();
    let csi = json!([{"clusterID": namespace, "monitors": monitors, "namespace": ""}]);
    let names: Vec<&str> = elsewhere.keys().map(String::as_str).collect();
    names::config_map(
        namespace,
        ENDPOINTS,
        &[
            ("data", &data.join(",")),
            ("maxMonId", &last.to_string()),
            (seats::MAPPING, &seats::written(seats)),
            ("csi-cluster-config-json", &csi.to_string()),
            ("externalMons", &names.join(",")),
            ("outOfQuorum", &out.join(",")),
        ],
    )
}

/// The same as daemons read it.
pub(crate) fn config(namespace: &str, addresses: &BTreeMap<String, String>) -> Secret {
    let hosts: Vec<String> = addresses
        .values()
        .map(|address| format!("[v2:{address}:{V2},v1:{address}:{V1}]"))
        .collect();
    let members: Vec<&str> = addresses.keys().map(String::as_str).collect();
    names::secret(
        names::meta(namespace, CONFIG, names::Labels::new()),
        &[
            ("mon_host", &hosts.join(",")),
            ("mon_initial_members", &members.join(",")),
        ],
    )
}

pub(crate) fn deployment(
    cluster: &CephCluster,
    image: &str,
    fsid: &str,
    id: &str,
    (address, seat): (&str, Option<&Seat>),
) -> Deployment {
    let (namespace, parent) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let daemon = daemon(&namespace, &parent, id);
    pods::deployment(Pod {
        daemon,
        image,
        fsid,
        script: include_str!("mon.sh"),
        arguments: [
            "--mon-initial-members=$(ROOK_CEPH_MON_INITIAL_MEMBERS)".to_owned(),
            format!("--keyring={KEYRING}"),
            format!("--public-addr={address}"),
            // A module that is switched on later would restart the manager.
            "--mgr-initial-modules=prometheus".to_owned(),
            "--mon-memory-target=268435456".to_owned(),
            // Volumes are directories of the machine: how full that is says nothing of Ceph.
            "--mon-data-avail-warn=2".to_owned(),
            "--mon-data-avail-crit=1".to_owned(),
        ]
        .to_vec(),
        env: Vec::new(),
        keys: (MONS_KEYRING.to_owned(), "keyring"),
        data: Some((daemon.name(), format!("/var/lib/ceph/mon/ceph-{id}"))),
        ports: &[("tcp-msgr2", V2), ("tcp-msgr1", V1)],
        ready: Ready::Port(V2),
        resources: cluster.spec.resources.get("mon").cloned(),
        replicas: 1,
        host: seats::is_host(&cluster.spec),
        node: seat.map(|seat| seat.hostname.clone()),
        placement: None,
        sites: check::site_label(&cluster.spec),
    })
}

pub(crate) fn mgr_deployment(cluster: &CephCluster, image: &str, fsid: &str, id: &str) -> Deployment {
    let (namespace, parent) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    pods::deployment(Pod {
        daemon: mgr(&namespace, &parent, id),
        image,
        fsid,
        script: include_str!("mgr.sh"),
        arguments: vec![format!("--keyring={KEYRING}")],
        env: vec![env_field("POD_NAME", "metadata.name")],
        keys: (mgr_keyring(id), "keyring"),
        data: None,
        ports: &[("mgr", 6800), ("http-metrics", METRICS)],
        ready: Ready::Port(METRICS),
        resources: cluster.spec.resources.get("mgr").cloned(),
        replicas: 1,
        host: seats::is_host(&cluster.spec),
        node: None,
        placement: None,
        sites: check::site_label(&cluster.spec),
    })
}
