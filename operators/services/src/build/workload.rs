//! The running part: Deployments and their volumes.

use c5c3_api::common::parse_quantity;
use c5c3_kit::fields;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::secrets::variable;
use super::{Configuration, pod};
use crate::descriptor::{Process, Runs};
use crate::error::Error;
use crate::facts::Facts;
use crate::names::{CONFIG, IMAGE, Names};
use crate::subject::{Sharing, Subject, VolumeSource};

/// The API carries the name of the service: it is what people look for.
pub fn deployment_name<S: Subject>(names: &Names, process: &Process) -> String {
    if S::DESCRIPTOR.is_api(process) {
        names.name.clone()
    } else {
        names.suffixed(process.name)
    }
}

pub fn deployment<S: Subject>(
    subject: &S,
    configuration: &Configuration,
    process: &Process,
    facts: &Facts,
    live: Option<&Deployment>,
) -> Value {
    let names = Names::of(subject);
    let labels = names.process_labels(process.name);
    let command = match &process.runs {
        Runs::Wsgi { .. } => json!([
            "uwsgi",
            "--ini",
            format!("/etc/{}/{}-uwsgi.ini", S::DESCRIPTOR.name, process.name)
        ]),
        Runs::Program { command, .. } => json!(command),
    };
    let shape = pod::Shape {
        container: process.name,
        command,
        environment: own_address(subject, process),
        process: true,
        credentials: true,
    };
    let mut spec = pod::spec(subject, configuration, shape);
    if let Some(port) = process.port() {
        let container = &mut spec["containers"][0];
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
    spec["terminationGracePeriodSeconds"] = process.grace.into();
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        // Pods of the version before do not count: they go.
        "labelSelector": {"matchLabels": labels}, "matchLabelKeys": ["pod-template-hash"],
    }]);
    let mut template = names.pod_metadata(process.name);
    template["annotations"][CONFIG] = configuration.hash.clone().into();
    template["annotations"][IMAGE] = subject.common().image.reference().into();
    let mut spec = json!({
        "selector": {"matchLabels": labels},
        "strategy": strategy(subject, facts),
        "template": {"metadata": template, "spec": spec},
    });
    if let Some(replicas) = replicas(subject, process, live) {
        spec["replicas"] = replicas.into();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": names.metadata(&deployment_name::<S>(&names, process)), "spec": spec,
    })
}

fn probe(ask: &Value, period: u32, failures: u32) -> Value {
    let mut probe = ask.clone();
    probe["periodSeconds"] = period.into();
    probe["timeoutSeconds"] = 5.into();
    probe["failureThreshold"] = failures.into();
    probe
}

/// Where the others find what this very pod holds.
fn own_address<S: Subject>(subject: &S, process: &Process) -> Vec<Value> {
    match (subject.extras().own_address, process.port()) {
        (Some((group, option)), Some(port)) => vec![
            json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
            json!({"name": variable(group, option), "value": format!("http://$(POD_IP):{}", port.number)}),
        ],
        _ => Vec::new(),
    }
}

/// Load decides how many there are of this process.
pub fn is_scaled<S: Subject>(subject: &S, process: &Process) -> bool {
    subject.common().autoscaling.is_some() && S::DESCRIPTOR.is_api(process)
}

/// An autoscaler writes the number itself. Until it has done so once, the number is sent as it is: a
/// field that nobody owns would fall back to one.
fn replicas<S: Subject>(subject: &S, process: &Process, live: Option<&Deployment>) -> Option<i32> {
    let wanted = subject.replicas(process.name);
    let common = subject.common();
    let Some(scaling) = &common.autoscaling else {
        return Some(wanted);
    };
    if !is_scaled(subject, process) {
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
        .filter(|entry| entry.manager.as_deref() != Some(S::CONTROLLER))
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| fields.0.pointer("/f:spec/f:replicas").is_some());
    if taken { None } else { live.spec.replicas }
}

/// What runs, as we applied it, with the number of pods that is wanted by now. None when it has that
/// number, or when it is not known what we applied.
pub fn resized<S: Subject>(subject: &S, process: &Process, live: &Deployment) -> Option<Value> {
    let number = replicas(subject, process, Some(live))?;
    if live.spec.replicas == Some(number) {
        return None;
    }
    let whole = serde_json::to_value(live).ok()?;
    let ours = fields::held(&whole, S::CONTROLLER, None);
    let mut spec = ours.get("spec").filter(|spec| spec.is_object())?.clone();
    spec["replicas"] = number.into();
    let names = Names::of(subject);
    Some(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": names.metadata(&deployment_name::<S>(&names, process)), "spec": spec,
    }))
}

/// No request finds fewer pods than before, unless a volume can be at one node only.
fn strategy<S: Subject>(subject: &S, facts: &Facts) -> Value {
    let names = Names::of(subject);
    let bound = subject.extras().volumes.iter().any(|volume| match volume.source {
        VolumeSource::Claim { sharing, .. } => !is_shared(&names.suffixed(&volume.name), sharing, facts),
        VolumeSource::Secret { .. } => false,
    });
    let (unavailable, surge) = if bound { (1, 0) } else { (0, 1) };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
}

fn larger(wanted: String, there: String) -> String {
    if parse_quantity(&wanted) > parse_quantity(&there) {
        wanted
    } else {
        there
    }
}

/// Whether several pods can use the claim: as it is, or as it will be made.
fn is_shared(name: &str, sharing: Sharing, facts: &Facts) -> bool {
    let live = facts.claims.get(name).and_then(|claim| claim.spec.as_ref());
    let modes = live.and_then(|spec| spec.access_modes.as_ref());
    modes.map_or(sharing != Sharing::None, |modes| {
        modes.iter().any(|mode| mode == "ReadWriteMany")
    })
}

/// Claims outlive the service. One that is there keeps its mode and its class, and does not shrink.
pub fn claims<S: Subject>(subject: &S, facts: &Facts) -> Result<Vec<Value>, Error> {
    let names = Names::of(subject);
    let mut objects = Vec::new();
    for volume in subject.extras().volumes {
        if let VolumeSource::Claim { size, class, sharing } = volume.source {
            let name = names.suffixed(&volume.name);
            let many = is_shared(&name, sharing, facts);
            if sharing == Sharing::Now && !many {
                return Err(Error::ClaimOfOne {
                    claim: name,
                    part: volume.part,
                });
            }
            let mode = if many { "ReadWriteMany" } else { "ReadWriteOnce" };
            let live = facts.claims.get(&name).and_then(|claim| claim.spec.as_ref());
            let asked = live.and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage"));
            let size = asked.map_or(size.clone(), |asked| larger(size, asked.0.clone()));
            let class = live.map_or(class, |spec| spec.storage_class_name.clone());
            let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": size}}});
            if let Some(class) = class {
                spec["storageClassName"] = class.into();
            }
            objects.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": names.metadata(&name), "spec": spec,
            }));
        }
    }
    Ok(objects)
}
