//! The running part: Deployments, StatefulSets and DaemonSets.

use c5c3_kit::fields;
use serde_json::{Value, json};

use super::claims::is_shared;
use super::{Configuration, pod};
use crate::facts::{Facts, Live};
use crate::names::{CONFIG, IMAGE};
use crate::shape::{Process, Rights, Runs, Service, Update, VolumeSource, Worker, Workload};

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
) -> Value {
    let names = &service.names;
    let labels = names.process_labels(&process.name);
    let mut template = names.pod_metadata(&process.name);
    template["annotations"][CONFIG] = configuration.hash_of(&process.settings).into();
    template["annotations"][IMAGE] = image(service, process).into();
    let mut spec = json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": template, "spec": pod_spec(service, configuration, process, &labels)},
    });
    let kind = match &process.workload {
        Workload::Deployment { update, .. } => {
            spec["strategy"] = strategy(service, process, *update, facts);
            "Deployment"
        }
        Workload::StatefulSet { .. } => {
            spec["serviceName"] = workload_name(service, process).into();
            spec["podManagementPolicy"] = "Parallel".into();
            "StatefulSet"
        }
        Workload::DaemonSet { nodes, unless } => {
            let pod = &mut spec["template"]["spec"];
            pod["nodeSelector"] = json!(nodes);
            if let Some((label, value)) = unless {
                let absent = json!({"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]});
                let same = json!({"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]});
                pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [absent, same]}}});
            }
            // One node that is away does not hold up the others.
            spec["updateStrategy"] =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
            "DaemonSet"
        }
    };
    if let Some(replicas) = replicas(service, process, live) {
        spec["replicas"] = replicas.into();
    }
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": names.metadata(&workload_name(service, process)), "spec": spec,
    })
}

fn pod_spec(service: &Service, configuration: &Configuration, process: &Process, labels: &Value) -> Value {
    let command = match &process.runs {
        Runs::Wsgi { .. } => json!([
            "uwsgi",
            "--ini",
            format!("/etc/{}/{}-uwsgi.ini", service.names.service, process.name)
        ]),
        Runs::Program { command, .. } | Runs::Worker { command, .. } => json!(command),
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
        scaled: is_scaled(service, process),
    };
    let mut spec = pod::spec(service, configuration.of(&process.settings), container);
    if let Some(first) = opens(process, &spec["containers"][0]) {
        spec["initContainers"] = json!([first]);
    }
    probes(process, &mut spec["containers"][0]);
    spec["terminationGracePeriodSeconds"] = process.grace.into();
    if process.wanted().is_some() {
        let revision = match process.workload {
            Workload::StatefulSet { .. } => "controller-revision-hash",
            _ => "pod-template-hash",
        };
        let settings = service.common.pods.as_ref();
        let over = settings.and_then(|settings| settings.topology_key.as_deref());
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": over.unwrap_or("kubernetes.io/hostname"), "whenUnsatisfiable": "ScheduleAnyway",
            // Pods of the version before do not count: they go.
            "labelSelector": {"matchLabels": labels}, "matchLabelKeys": [revision],
        }]);
    }
    spec
}

/// The container that tries the key of a pod.
pub const CEPH_CHECK: &str = "ceph";

/// Before the program starts its key is tried, in its own place: one that Ceph refuses is told as such.
fn opens(process: &Process, container: &Value) -> Option<Value> {
    let (volume, pool) = process.volumes.iter().find_map(|volume| match &volume.source {
        VolumeSource::Secret { opens, .. } => Some((volume, opens.as_ref()?)),
        _ => None,
    })?;
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mounts: Vec<&Value> = mounts
        .filter(|mount| mount["name"] == volume.name || mount["name"] == "tmp")
        .collect();
    let mut first = json!({
        "name": CEPH_CHECK, "volumeMounts": mounts,
        "command": ["python3", "-c", include_str!("ceph.py"), pool.user, pool.name],
    });
    for field in [
        "image",
        "securityContext",
        "resources",
        "terminationMessagePolicy",
    ] {
        first[field] = container[field].clone();
    }
    Some(first)
}

fn probes(process: &Process, container: &mut Value) {
    if let Some(port) = process.port() {
        container["ports"] = json!([{"name": "api", "containerPort": port.number}]);
        let listens = json!({"tcpSocket": {"port": "api"}});
        let answers = port.path.map_or_else(
            || listens.clone(),
            |path| json!({"httpGet": {"path": path, "port": "api"}}),
        );
        container["startupProbe"] = probe(&answers, 1, 120);
        container["readinessProbe"] = probe(&answers, 5, 3);
        // All workers may be busy for long: that is no reason to end them.
        container["livenessProbe"] = probe(&listens, 20, 6);
        // Routes to the pod are gone by the time that it is told to end.
        container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 5}}});
    }
    if let Runs::Worker { well, .. } = &process.runs {
        let command = match well {
            Worker::Connected(ports) => json!(connected(ports, process.rights != Rights::None)),
            Worker::Answers(command) => json!(command),
        };
        let asks = json!({"exec": {"command": command}});
        // Asked often until it is well, and never ended for waiting: it goes on trying by itself.
        container["startupProbe"] = probe(&asks, 1, 1_000_000);
        container["readinessProbe"] = probe(&asks, 15, 4);
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

fn probe(ask: &Value, period: u32, failures: u32) -> Value {
    let mut probe = ask.clone();
    probe["periodSeconds"] = period.into();
    probe["timeoutSeconds"] = 5.into();
    probe["failureThreshold"] = failures.into();
    probe
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
pub fn resized(service: &Service, process: &Process, facts: &Facts) -> Option<Value> {
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
    Some(json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": service.names.metadata(&name), "spec": spec,
    }))
}

/// No request finds fewer pods than before, unless a volume can be at one node only.
fn strategy(service: &Service, process: &Process, update: Update, facts: &Facts) -> Value {
    let bound = process.volumes.iter().any(|volume| match volume.source {
        VolumeSource::Claim { sharing, .. } => {
            !is_shared(&service.names.suffixed(&volume.name), sharing, facts)
        }
        _ => false,
    });
    let (unavailable, surge) = match update {
        Update::Recreate => return json!({"type": "Recreate"}),
        Update::Surge if !bound => (0, 1),
        Update::Surge => (1, 0),
    };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
}
