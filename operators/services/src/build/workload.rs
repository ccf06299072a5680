//! The running part: Deployments, StatefulSets and DaemonSets.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_kit::{Wanted, fields};
use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec, DeploymentStrategy,
    RollingUpdateDaemonSet, RollingUpdateDeployment, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerPort, ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler, NodeAffinity,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PodTemplateSpec, Probe, SleepAction,
    TCPSocketAction, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::claims::is_shared;
use super::{Configuration, ovn, pins, pod};
use crate::facts::{Facts, Live};
use crate::kinds::ceph;
use crate::names::{CONFIG, IMAGE, KEEPS_TO};
use crate::shape::{
    CephLogin, Process, Rights, Runs, Service, Tries, Update, Volume, VolumeSource, Worker, Workload,
};

/// The API carries the name of the service: it is what people look for.
pub fn workload_name(service: &Service, process: &Process) -> String {
    if service.is_api(process) {
        service.names.name.clone()
    } else {
        service.names.suffixed(&process.name)
    }
}

/// The image of a process, as the spec names it.
pub fn image(service: &Service, process: &Process) -> String {
    process.image.clone().unwrap_or_else(|| service.image())
}

pub fn workload(
    service: &Service,
    configuration: &Configuration,
    process: &Process,
    facts: &Facts,
    live: Option<&Live>,
) -> Wanted {
    let mut metadata = service.names.metadata(&workload_name(service, process));
    metadata
        .labels
        .get_or_insert_default()
        .extend(ceph_labels(process, facts));
    let labels = service.names.process_labels(&process.name);
    let mut template = template(service, configuration, process, &labels, facts);
    let selector = matching(labels);
    let replicas = replicas(service, process, live);
    match &process.workload {
        Workload::Deployment { update, .. } => Wanted::of(&Deployment {
            metadata,
            spec: DeploymentSpec {
                selector,
                template,
                replicas,
                strategy: Some(strategy(service, process, *update, facts)),
                ..DeploymentSpec::default()
            },
            ..Deployment::default()
        }),
        Workload::StatefulSet { .. } => Wanted::of(&StatefulSet {
            spec: StatefulSetSpec {
                service_name: metadata.name.clone(),
                pod_management_policy: Some("Parallel".to_owned()),
                selector,
                template,
                replicas,
                ..StatefulSetSpec::default()
            },
            metadata,
            ..StatefulSet::default()
        }),
        Workload::DaemonSet { nodes, unless } => {
            if let Some(pod) = &mut template.spec {
                pod.node_selector = Some(nodes.clone());
                pod.affinity = unless.as_ref().map(|(label, value)| unless_other(label, value));
            }
            Wanted::of(&DaemonSet {
                metadata,
                spec: DaemonSetSpec {
                    selector,
                    template,
                    update_strategy: Some(DaemonSetUpdateStrategy {
                        type_: Some("RollingUpdate".to_owned()),
                        rolling_update: Some(RollingUpdateDaemonSet {
                            // One node that is away does not hold up the others.
                            max_unavailable: Some(IntOrString::String("10%".to_owned())),
                            ..RollingUpdateDaemonSet::default()
                        }),
                    }),
                    ..DaemonSetSpec::default()
                },
                ..DaemonSet::default()
            })
        }
    }
}

pub(super) fn matching(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

fn template(
    service: &Service,
    configuration: &Configuration,
    process: &Process,
    labels: &BTreeMap<String, String>,
    facts: &Facts,
) -> PodTemplateSpec {
    let mut metadata = service.names.pod_metadata(&process.name);
    metadata
        .labels
        .get_or_insert_default()
        .extend(ceph_labels(process, facts));
    let annotations = metadata.annotations.get_or_insert_default();
    let hash = configuration.hash_of(&process.settings).to_owned();
    annotations.insert(CONFIG.to_owned(), hash);
    annotations.insert(IMAGE.to_owned(), image(service, process));
    let pin = pins::pin(service, configuration, process, facts);
    annotations.extend(pin.map(|version| (KEEPS_TO.to_owned(), version)));
    PodTemplateSpec {
        metadata: Some(metadata),
        spec: Some(pod_spec(service, configuration, process, labels, facts)),
    }
}

/// On nodes without this label, or with this value of it.
fn unless_other(label: &str, value: &str) -> Affinity {
    let term = |operator: &str, values: Option<Vec<String>>| NodeSelectorTerm {
        match_expressions: Some(vec![NodeSelectorRequirement {
            key: label.to_owned(),
            operator: operator.to_owned(),
            values,
        }]),
        ..NodeSelectorTerm::default()
    };
    let terms = vec![
        term("DoesNotExist", None),
        term("In", Some(vec![value.to_owned()])),
    ];
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: terms,
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// As whom a process opens Ceph, and whether it hands keys on to guests: who rotates a key of Ceph sees who still works
/// with the one before.
fn ceph_labels(process: &Process, facts: &Facts) -> BTreeMap<String, String> {
    let mut labels = BTreeSet::new();
    for volume in &process.volumes {
        if let VolumeSource::Keyring {
            login,
            opens,
            also,
            tried: false,
            ..
        } = &volume.source
        {
            let logins = [login].into_iter().chain(also);
            labels.extend(logins.filter_map(|login| ceph::label(ceph::user(facts, login))));
            if opens.is_none() {
                labels.insert(c5c3_api::ceph::GUESTS_LABEL.to_owned());
            }
        }
    }
    labels.into_iter().map(|label| (label, String::new())).collect()
}

fn pod_spec(
    service: &Service,
    configuration: &Configuration,
    process: &Process,
    labels: &BTreeMap<String, String>,
    facts: &Facts,
) -> PodSpec {
    let command = match &process.runs {
        Runs::Wsgi { .. } => {
            let file = format!("/etc/{}/{}-uwsgi.ini", service.names.service, process.name);
            vec!["uwsgi".to_owned(), "--ini".to_owned(), file]
        }
        Runs::Program { command, .. } | Runs::Worker { command, .. } => command.clone(),
    };
    let environment = process.environment.iter();
    let container = pod::Container {
        name: &process.name,
        image: image(service, process),
        command,
        environment: environment
            .map(|(name, value)| pod::variable(name, value))
            .collect(),
        volumes: &process.volumes,
        rights: &process.rights,
        credentials: true,
        elsewhere: process.cluster.is_some(),
        requests: process.requests,
        scaled: is_scaled(service, process),
        facts: Some(facts),
        masked: false,
    };
    let mut spec = pod::spec(service, configuration.of(&process.settings), container);
    for container in &mut spec.containers {
        let first = [
            opens(process, container, facts),
            keys(process, container, facts),
            ovn::tries(service, process, container, facts),
            process.tries.as_ref().map(|tries| asks(tries, container)),
        ];
        let first: Vec<Container> = first.into_iter().flatten().collect();
        spec.init_containers = Some(first).filter(|first| !first.is_empty());
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.retain(|mount| !tried_keys(process).any(|(volume, ..)| volume.name == mount.name));
        probes(process, container);
    }
    if let Some(account) = process.account {
        spec.service_account_name = Some(account.to_owned());
        spec.automount_service_account_token = Some(true);
    }
    spec.termination_grace_period_seconds = Some(process.grace.into());
    if process.wanted().is_some() {
        let revision = match process.workload {
            Workload::StatefulSet { .. } => "controller-revision-hash",
            _ => "pod-template-hash",
        };
        let settings = service.common.pods.as_ref();
        let over = settings.and_then(|settings| settings.topology_key.as_deref());
        spec.topology_spread_constraints = Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: over.unwrap_or("kubernetes.io/hostname").to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(matching(labels.clone())),
            // Pods of the version before do not count: they go.
            match_label_keys: Some(vec![revision.to_owned()]),
            ..TopologySpreadConstraint::default()
        }]);
    }
    spec
}

/// The container that tries the key of a pod.
pub const CEPH_CHECK: &str = "ceph";

/// Before the program starts its key is tried, in its own place: one that Ceph refuses is told as such.
fn opens(process: &Process, container: &Container, facts: &Facts) -> Option<Container> {
    let (volume, login, pool) = process.volumes.iter().find_map(|volume| match &volume.source {
        VolumeSource::Keyring { login, opens, .. } => Some((volume, login, opens.as_ref()?)),
        _ => None,
    })?;
    let command = ["-c", include_str!("ceph.py"), ceph::user(facts, login), pool];
    let command = command.map(str::to_owned).into();
    Some(before(container, CEPH_CHECK, command, &[&volume.name]))
}

/// The container that tries keys that guests are given.
pub const KEYS_CHECK: &str = "ceph-keys";

fn tried_keys(process: &Process) -> impl Iterator<Item = (&Volume, &CephLogin)> {
    process.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Keyring {
            login, tried: true, ..
        } => Some((volume, login)),
        _ => None,
    })
}

fn keys(process: &Process, container: &Container, facts: &Facts) -> Option<Container> {
    let mut command = ["-c", include_str!("ceph_keys.py")].map(str::to_owned).to_vec();
    let mut names = Vec::new();
    for (volume, login) in tried_keys(process) {
        command.extend([ceph::user(facts, login).to_owned(), volume.path.clone()]);
        names.push(volume.name.as_str());
    }
    (!names.is_empty()).then(|| before(container, KEYS_CHECK, command, &names))
}

/// With all that the program is told, as it asks with the same credentials.
fn asks(tries: &Tries, container: &Container) -> Container {
    let command = ["-c", tries.script].map(str::to_owned).into_iter();
    let command = command.chain(tries.arguments.iter().cloned()).collect();
    Container {
        env: container.env.clone(),
        env_from: container.env_from.clone(),
        ..before(container, tries.name, command, &[])
    }
}

/// A Python program that ends before that of the pod starts, with these volumes of it.
pub(super) fn before(container: &Container, name: &str, command: Vec<String>, volumes: &[&str]) -> Container {
    let mounts = container.volume_mounts.iter().flatten();
    let mounts = mounts.filter(|mount| mount.name == "tmp" || volumes.contains(&mount.name.as_str()));
    let python = std::iter::once("python3".to_owned());
    Container {
        name: name.to_owned(),
        volume_mounts: Some(mounts.cloned().collect()),
        command: Some(python.chain(command).collect()),
        image: container.image.clone(),
        security_context: container.security_context.clone(),
        resources: container.resources.clone(),
        // Its last words name what was refused, and these programs print nothing else.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn probes(process: &Process, container: &mut Container) {
    if let Some(port) = process.port() {
        container.ports = Some(vec![ContainerPort {
            name: Some("api".to_owned()),
            container_port: port.number.into(),
            ..ContainerPort::default()
        }]);
        let api = || IntOrString::String("api".to_owned());
        let listens = Probe {
            tcp_socket: Some(TCPSocketAction {
                port: api(),
                ..TCPSocketAction::default()
            }),
            ..Probe::default()
        };
        let answers = port.path.map_or_else(
            || listens.clone(),
            |path| Probe {
                http_get: Some(HTTPGetAction {
                    path: Some(path.to_owned()),
                    port: api(),
                    ..HTTPGetAction::default()
                }),
                ..Probe::default()
            },
        );
        container.startup_probe = Some(probe(&answers, 1, 120));
        container.readiness_probe = Some(probe(&answers, 5, 3));
        // All workers may be busy for long: that is no reason to end them.
        container.liveness_probe = Some(probe(&listens, 20, 6));
        // Routes to the pod are gone by the time that it is told to end.
        container.lifecycle = Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction { seconds: 5 }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        });
    }
    if let Runs::Worker { well, .. } = &process.runs {
        let command = match well {
            Worker::Connected(ports) => connected(ports, process.rights != Rights::None),
            Worker::Answers(command) => command.clone(),
        };
        let asks = Probe {
            exec: Some(ExecAction {
                command: Some(command),
            }),
            ..Probe::default()
        };
        // Never ended for waiting: it goes on trying by itself. Asking starts a program, so it is not asked each second.
        container.startup_probe = Some(probe(&asks, 3, 1_000_000));
        container.readiness_probe = Some(probe(&asks, 15, 4));
    }
}

/// Looks for an established connection (state 01) in the kernel's table, which is in hexadecimal. In
/// the network of a node only sockets that the container itself has open count.
fn connected(ports: &[u16], in_network_of_node: bool) -> Vec<String> {
    let ports: Vec<String> = ports.iter().map(|port| format!("{port:04X}")).collect();
    let line = format!("^ *[0-9]+: [^ ]+ [^ ]+:({}) 01 ", ports.join("|"));
    let table = ["/proc/net/tcp", "/proc/net/tcp6"];
    if !in_network_of_node {
        let command = ["grep", "-qE", &line, table[0], table[1]];
        return command.map(str::to_owned).into();
    }
    let script = format!(
        "set -- $(grep -hE '{line}' {} {} | tr -s ' ' | sed 's/^ //' | cut -d ' ' -f 10); \
         for inode; do ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q \"socket:.$inode.$\" && exit 0; done; exit 1",
        table[0], table[1]
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

fn probe(ask: &Probe, period: i32, failures: i32) -> Probe {
    Probe {
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..ask.clone()
    }
}

/// Load decides how many there are of this process.
pub fn is_scaled(service: &Service, process: &Process) -> bool {
    service.common.autoscaling.is_some() && service.is_api(process)
}

/// An autoscaler writes the number itself. Until it has done so once, the number is sent as it is: a
/// field that nobody owns would fall back to one.
fn replicas(service: &Service, process: &Process, live: Option<&Live>) -> Option<i32> {
    let wanted = process.wanted()?;
    let Some(scaling) = &service.common.autoscaling else {
        return Some(wanted);
    };
    if !is_scaled(service, process) {
        return Some(wanted);
    }
    let Some(live) = live else {
        return Some(wanted.clamp(
            scaling.min_replicas,
            scaling.max_replicas.max(scaling.min_replicas),
        ));
    };
    let managers = live.metadata.managed_fields.iter().flatten();
    let taken = managers
        .filter(|entry| entry.manager.as_deref() != Some(service.names.service))
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| fields.0.pointer("/f:spec/f:replicas").is_some());
    if taken { None } else { live.replicas }
}

/// What runs, as we applied it, with the number of pods that is wanted by now. None when it has that
/// number, or when it is not known what we applied.
pub fn resized(service: &Service, process: &Process, facts: &Facts) -> Option<Wanted> {
    let name = workload_name(service, process);
    let live = facts.live(process, &name)?;
    let number = replicas(service, process, Some(&live))?;
    if live.replicas == Some(number) {
        return None;
    }
    let (kind, whole) = match process.workload {
        Workload::Deployment { .. } => (
            "Deployment",
            serde_json::to_value(facts.deployments.get(&name)?).ok()?,
        ),
        Workload::StatefulSet { .. } => (
            "StatefulSet",
            serde_json::to_value(facts.stateful_sets.get(&name)?).ok()?,
        ),
        // Its number is that of the nodes.
        Workload::DaemonSet { .. } => return None,
    };
    let ours = fields::held(&whole, service.names.service, None);
    let mut spec = ours.get("spec").filter(|spec| spec.is_object())?.clone();
    spec["replicas"] = number.into();
    // Untyped: an earlier version may have held fields that this one does not know.
    Some(Wanted::untyped(json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": service.names.metadata(&name), "spec": spec,
    })))
}

/// No request finds fewer pods than before, unless a volume can be at one node only.
fn strategy(service: &Service, process: &Process, update: Update, facts: &Facts) -> DeploymentStrategy {
    let bound = process.volumes.iter().any(|volume| match volume.source {
        VolumeSource::Claim { sharing, .. } => {
            !is_shared(&service.names.suffixed(&volume.name), sharing, facts)
        }
        _ => false,
    });
    let (unavailable, surge) = match update {
        Update::Recreate => {
            return DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            };
        }
        Update::Surge if !bound => (0, 1),
        Update::Surge => (1, 0),
    };
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_unavailable: Some(IntOrString::Int(unavailable)),
            max_surge: Some(IntOrString::Int(surge)),
        }),
    }
}
