//! The running part: Deployments, the Service before them, disruption budgets, volumes.

use serde_json::{Value, json};

use super::{Configuration, pod};
use crate::descriptor::{Process, Runs};
use crate::names::Names;
use crate::subject::{Subject, VolumeSource};

fn name(names: &Names, process: &Process) -> String {
    // The API carries the name of the service: it is what people look for.
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
        with_volumes: true,
    };
    let mut spec = pod::spec(subject, configuration, shape);
    if let Runs::Wsgi { port, path, .. } = &process.runs {
        let container = &mut spec["containers"][0];
        container["ports"] = json!([{"name": "api", "containerPort": port}]);
        let ask = |period: u32, failures: u32| json!({"httpGet": {"path": path, "port": "api"}, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures});
        container["startupProbe"] = ask(1, 120);
        container["readinessProbe"] = ask(5, 3);
        container["livenessProbe"] = ask(20, 6);
        // New requests stop coming a moment after the pod is told to go.
        container["lifecycle"] = json!({"preStop": {"exec": {"command": ["sleep", "3"]}}});
    }
    spec["terminationGracePeriodSeconds"] = 60.into();
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": names.metadata(&name(&names, process)),
        "spec": {
            "replicas": subject.replicas(process.name),
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": labels, "annotations": {"c5c3.io/config": configuration.hash}},
                "spec": spec,
            },
        },
    })
}

/// The Service and the disruption budgets: there from the start, whatever else waits.
pub fn network_objects<S: Subject>(subject: &S) -> Vec<Value> {
    let names = Names::of(subject);
    let mut objects = Vec::new();
    for process in S::DESCRIPTOR.processes {
        let labels = names.process_labels(process.name);
        let own = name(&names, process);
        if let Runs::Wsgi { port, .. } = process.runs {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": names.metadata(&own),
                "spec": {"selector": labels, "ports": [{"name": "api", "port": port, "targetPort": "api"}]},
            }));
        }
        // With one replica a budget would only keep a node from being drained.
        if subject.replicas(process.name) > 1 {
            objects.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": names.metadata(&own),
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
            }));
        }
    }
    objects
}

pub fn claims<S: Subject>(subject: &S) -> Vec<Value> {
    let names = Names::of(subject);
    let mut objects = Vec::new();
    for volume in subject.extras().volumes {
        if let VolumeSource::Claim { size, class, shared } = volume.source {
            let mode = if shared { "ReadWriteMany" } else { "ReadWriteOnce" };
            let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": size}}});
            if let Some(class) = class {
                spec["storageClassName"] = class.into();
            }
            objects.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": names.metadata(&names.suffixed(volume.name)), "spec": spec,
            }));
        }
    }
    objects
}
