//! The running part: Deployments and their volumes.

use serde_json::{Value, json};

use super::{Configuration, pod};
use crate::descriptor::{Process, Runs};
use crate::error::Error;
use crate::facts::Facts;
use crate::names::{CONFIG, Names};
use crate::subject::{Subject, VolumeSource};

/// The API carries the name of the service: it is what people look for.
pub fn deployment_name(names: &Names, process: &Process) -> String {
    if matches!(process.runs, Runs::Wsgi { .. }) {
        names.name.clone()
    } else {
        names.suffixed(process.name)
    }
}

pub fn deployment<S: Subject>(subject: &S, configuration: &Configuration, process: &Process) -> Value {
    let names = Names::of(subject);
    let labels = names.process_labels(process.name);
    let command = match &process.runs {
        Runs::Wsgi { .. } => json!([
            "uwsgi",
            "--ini",
            format!("/etc/{}/{}-uwsgi.ini", S::DESCRIPTOR.name, process.name)
        ]),
        Runs::Program { command } => json!(command),
    };
    let shape = pod::Shape {
        container: process.name,
        command,
        environment: Vec::new(),
        process: true,
    };
    let mut spec = pod::spec(subject, configuration, shape);
    let mut scaled = false;
    if let Runs::Wsgi { port, path, .. } = &process.runs {
        scaled = subject.common().autoscaling.is_some();
        let container = &mut spec["containers"][0];
        container["ports"] = json!([{"name": "api", "containerPort": port}]);
        let ask = |period: u32, failures: u32| json!({"httpGet": {"path": path, "port": "api"}, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures});
        container["startupProbe"] = ask(1, 120);
        container["readinessProbe"] = ask(5, 3);
        container["livenessProbe"] = ask(20, 6);
        // Routes to the pod are gone by the time that it is told to end.
        container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 5}}});
    }
    spec["terminationGracePeriodSeconds"] = 60.into();
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }]);
    let mut template = names.pod_metadata(process.name);
    template["annotations"][CONFIG] = configuration.hash.clone().into();
    let mut spec = json!({
        "selector": {"matchLabels": labels},
        "strategy": strategy(subject),
        "template": {"metadata": template, "spec": spec},
    });
    // An autoscaler writes the number itself.
    if !scaled {
        spec["replicas"] = subject.replicas(process.name).into();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": names.metadata(&deployment_name(&names, process)), "spec": spec,
    })
}

/// No request finds fewer pods than before, unless a volume can be at one node only.
fn strategy<S: Subject>(subject: &S) -> Value {
    let bound = subject
        .extras()
        .volumes
        .iter()
        .any(|volume| matches!(volume.source, VolumeSource::Claim { shared: false, .. }));
    let (unavailable, surge) = if bound { (1, 0) } else { (0, 1) };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
}

/// Claims outlive the service. The mode of one that is there cannot be changed.
pub fn claims<S: Subject>(subject: &S, facts: &Facts) -> Result<Vec<Value>, Error> {
    let names = Names::of(subject);
    let mut objects = Vec::new();
    for volume in subject.extras().volumes {
        if let VolumeSource::Claim { size, class, shared } = volume.source {
            let name = names.suffixed(volume.name);
            let live = facts.claims.get(&name).and_then(|claim| claim.spec.as_ref());
            let live = live.and_then(|spec| spec.access_modes.clone());
            let many = live
                .as_ref()
                .map_or(shared, |modes| modes.iter().any(|mode| mode == "ReadWriteMany"));
            if shared && !many {
                return Err(Error::ClaimOfOne {
                    claim: name,
                    part: volume.part,
                });
            }
            let mode = if many { "ReadWriteMany" } else { "ReadWriteOnce" };
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
