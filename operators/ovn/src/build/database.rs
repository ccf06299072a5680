//! A raft cluster of one database: its members, and the addresses that they have.

use std::collections::BTreeMap;

use c5c3_api::ovn::{OvnCluster, OvnStorage};
use c5c3_kit::pod::{env, env_field, mount, scratch};
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, ExecAction, Lifecycle, LifecycleHandler,
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
    Volume, VolumeResourceRequirements,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod::{self, Tls, asks, plain, script};
use crate::names::{Names, Side};

/// The variable that says how members talk.
pub const PROTOCOL: &str = "PROTOCOL";
const START: &str = include_str!("../scripts/database.sh");
const READY: &str = include_str!("../scripts/member-ready.sh");
/// A follower that hears nothing for so long asks for votes, in milliseconds. A busy machine may keep
/// a leader from its turn for a second.
const ELECTION_TIMER: &str = "3000";
/// A client that says nothing for so long is asked whether it lives, in milliseconds.
const INACTIVITY_PROBE: &str = "60000";

/// How clients outside of the cluster reach the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// From pods and nodes of the same cluster.
    #[default]
    Inside,
    /// From another cluster, through a load balancer.
    Outside,
}

/// The Services: names of members, an address of each, and one in front of all.
pub fn services(cluster: &OvnCluster, side: Side, reach: Reach) -> Vec<Service> {
    let names = Names::of(cluster);
    let port = |name: &str, port: u16, target: u16| ServicePort {
        name: Some(name.to_owned()),
        port: port.into(),
        target_port: Some(IntOrString::Int(target.into())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let service = |name: String, spec: ServiceSpec| Service {
        metadata: ObjectMeta {
            annotations: balanced(&spec),
            ..names.meta(name, side.short())
        },
        spec: Some(spec),
        ..Service::default()
    };
    let kind = match reach {
        Reach::Inside => "ClusterIP",
        Reach::Outside => "LoadBalancer",
    };
    let labels = names.labels(side.short());
    let members = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        // Members find each other before any of them is ready.
        publish_not_ready_addresses: Some(true),
        selector: Some(labels.clone()),
        ports: Some(vec![
            port("ovsdb", side.port(), side.port()),
            port("raft", side.raft_port(), side.raft_port()),
        ]),
        ..ServiceSpec::default()
    };
    let (client, client_port) = names.client(cluster, side);
    let all = ServiceSpec {
        type_: Some(kind.to_owned()),
        selector: Some(labels.clone()),
        ports: Some(vec![port("ovsdb", client_port, side.port())]),
        ..ServiceSpec::default()
    };
    let mut services = vec![service(names.members(side), members), service(client, all)];
    for ordinal in 0..several(side.spec(cluster).replicas) {
        let mut selector = labels.clone();
        let pod = names.member(side, ordinal);
        selector.insert("statefulset.kubernetes.io/pod-name".to_owned(), pod.clone());
        let one = ServiceSpec {
            type_: Some(kind.to_owned()),
            selector: Some(selector),
            ports: Some(vec![port("ovsdb", side.port(), side.port())]),
            ..ServiceSpec::default()
        };
        services.push(service(pod, one));
    }
    services
}

/// An embedded cluster would bring a balancer to the machine's loopback too, where nobody needs it.
fn balanced(spec: &ServiceSpec) -> Option<BTreeMap<String, String>> {
    let balancer = spec.type_.as_deref() == Some("LoadBalancer");
    balancer.then(|| [("c5c3.io/expose".to_owned(), "none".to_owned())].into())
}

/// Clients look for the leader among the members; of one there is nothing to choose.
fn several(replicas: i32) -> i32 {
    if replicas > 1 { replicas } else { 0 }
}

/// The Services whose addresses clients are given, and their port.
pub fn addressed(cluster: &OvnCluster, side: Side) -> Vec<(String, u16)> {
    let names = Names::of(cluster);
    match several(side.spec(cluster).replicas) {
        0 => vec![names.client(cluster, side)],
        count => (0..count)
            .map(|ordinal| (names.member(side, ordinal), side.port()))
            .collect(),
    }
}

/// Tells a member with an empty volume whether there is a cluster to join.
pub fn state(cluster: &OvnCluster, side: Side, formed: bool) -> ConfigMap {
    let names = Names::of(cluster);
    ConfigMap {
        metadata: names.meta(names.state(side), side.short()),
        data: Some(
            formed
                .then(|| ("formed".to_owned(), "yes".to_owned()))
                .into_iter()
                .collect(),
        ),
        ..ConfigMap::default()
    }
}

/// A member may be taken away as long as the others are a majority.
pub fn budget(cluster: &OvnCluster, side: Side) -> Option<PodDisruptionBudget> {
    let names = Names::of(cluster);
    (side.spec(cluster).replicas > 1).then(|| PodDisruptionBudget {
        metadata: names.meta(names.set(side), side.short()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(names.pods(side.short())),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}

pub fn members(cluster: &OvnCluster, side: Side, tls: &Tls) -> StatefulSet {
    let names = Names::of(cluster);
    let spec = side.spec(cluster);
    let component = side.short();
    let mut volumes = vec![
        scratch("run"),
        scratch("tmp"),
        Volume {
            name: "state".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: names.state(side),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
    ];
    volumes.extend(tls.volume());
    if spec.storage.is_none() {
        volumes.push(scratch("data"));
    }
    let container = server(cluster, side, tls);
    let mut pod = pod::server(cluster, component, container, volumes);
    pod.termination_grace_period_seconds = Some(15);
    StatefulSet {
        metadata: names.meta(names.set(side), component),
        spec: StatefulSetSpec {
            replicas: Some(spec.replicas),
            service_name: Some(names.members(side)),
            // Together: after a full stop none is ready without a majority.
            pod_management_policy: Some("Parallel".to_owned()),
            selector: names.pods(component),
            template: PodTemplateSpec {
                metadata: Some(names.pod_meta(component)),
                spec: Some(pod),
            },
            volume_claim_templates: spec.storage.as_ref().map(|storage| vec![claim(storage)]),
            // The data outlives the OVNCluster: whoever makes it again finds it.
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Retain".to_owned()),
                when_scaled: Some("Retain".to_owned()),
            }),
            ..StatefulSetSpec::default()
        },
        ..StatefulSet::default()
    }
}

fn server(cluster: &OvnCluster, side: Side, tls: &Tls) -> Container {
    let names = Names::of(cluster);
    let spec = side.spec(cluster);
    let mut mounts = vec![
        mount("data", "/data"),
        mount("run", "/run/ovn"),
        mount("tmp", "/tmp"),
        mount("state", "/state"),
    ];
    mounts.extend(tls.mount());
    let number = |name: &str, port: u16| ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        ..ContainerPort::default()
    };
    plain(Container {
        name: "ovsdb".to_owned(),
        image: Some(cluster.spec.ovn_image.reference()),
        command: Some(script(START)),
        env: Some(vec![
            env_field("POD_NAME", "metadata.name"),
            env("NAMESPACE", &names.namespace),
            env("DATABASE", side.short()),
            env("SCHEMA", side.schema()),
            env("SET", names.set(side)),
            env("MEMBERS", names.members(side)),
            env("REPLICAS", spec.replicas.to_string()),
            env("PORT", side.port().to_string()),
            env("RAFT_PORT", side.raft_port().to_string()),
            env(PROTOCOL, tls.protocol),
            env("ELECTION_TIMER", ELECTION_TIMER),
            env("INACTIVITY_PROBE", INACTIVITY_PROBE),
            env("OVN_RUNDIR", "/run/ovn"),
            env("OVS_RUNDIR", "/run/ovn"),
        ]),
        ports: Some(vec![
            number("ovsdb", side.port()),
            number("raft", side.raft_port()),
        ]),
        readiness_probe: Some(asks(script(READY), 5, 3)),
        // Told so, a leader hands over; a signal leaves the others to find out.
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                exec: Some(ExecAction {
                    command: Some(script("ovs-appctl --timeout=5 -t /run/ovn/db.ctl exit || true")),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        resources: spec.resources.clone(),
        volume_mounts: Some(mounts),
        ..Container::default()
    })
}

fn claim(storage: &OvnStorage) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some("data".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: storage.storage_class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), Quantity(storage.size.clone()))].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
