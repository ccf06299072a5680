//! A Keystone, a Glance and facts for tests of the decisions.

use std::collections::BTreeMap;

use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement};
use c5c3_kit::{Applied, Controller, Decision, Observed, Wanted};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::facts::{Facts, KeySecret, SecretData, Trouble};
use crate::reconcile::Services;
use crate::shape::Subject;

pub(crate) fn keystone() -> Keystone {
    serde_json::from_value(json!({
        "apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"namespace": "openstack", "name": "keystone", "uid": "u", "generation": 1},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/keystone", "tag": "28.1.0"}, "replicas": 3,
            "database": {"clusterRef": {"name": "mariadb"}, "database": "keystone", "secretRef": {"name": "keystone-db"}},
            "cache": {"clusterRef": {"name": "memcached"}},
            "bootstrap": {"adminPasswordSecretRef": {"name": "admin", "key": "password"}},
        },
    }))
    .expect("a Keystone")
}

pub(crate) fn glance(storage: Value) -> Glance {
    serde_json::from_value(json!({
        "apiVersion": "glance.openstack.c5c3.io/v1alpha1", "kind": "Glance",
        "metadata": {"namespace": "openstack", "name": "glance", "uid": "g"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/glance", "tag": "31.1.0"}, "replicas": 1, "storage": storage,
            "database": {"host": "db", "database": "glance", "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
        },
    }))
    .expect("a Glance")
}

pub(crate) fn placement() -> Placement {
    serde_json::from_value(json!({
        "apiVersion": "placement.openstack.c5c3.io/v1alpha1", "kind": "Placement",
        "metadata": {"namespace": "openstack", "name": "placement", "uid": "p"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/placement", "tag": "14.0.0"}, "replicas": 1,
            "database": {"host": "db", "database": "placement", "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
        },
    }))
    .expect("a Placement")
}

/// Two cells, the second with a bus of its own; `more` is laid over the spec.
pub(crate) fn nova(more: Value) -> Nova {
    let mut nova = json!({
        "apiVersion": "nova.openstack.c5c3.io/v1alpha1", "kind": "Nova",
        "metadata": {"namespace": "openstack", "name": "nova", "uid": "n"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/nova", "tag": "32.2.1"},
            "database": {"clusterRef": {"name": "mariadb"}, "database": "nova", "secretRef": {"name": "service-db"}},
            "messaging": {"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "metadata": {"secretRef": {"name": "metadata"}},
            "compute": {"enabled": true, "virtType": "qemu",
                "libvirtImage": {"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3"}},
            "cells": [{"name": "cell1"}, {"name": "cell2",
                "messaging": {"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "cell2-bus"}}}],
        },
    });
    if let Value::Object(more) = more {
        for (field, value) in more {
            nova["spec"][field] = value;
        }
    }
    serde_json::from_value(nova).expect("a Nova")
}

pub(crate) fn neutron() -> Neutron {
    serde_json::from_value(json!({
        "apiVersion": "neutron.openstack.c5c3.io/v1alpha1", "kind": "Neutron",
        "metadata": {"namespace": "openstack", "name": "neutron", "uid": "e"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/neutron", "tag": "27.0.4"},
            "database": {"host": "db", "database": "neutron", "secretRef": {"name": "service-db"}},
            "messaging": {"hosts": ["rabbit:5672"], "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "ovn": {"enabled": true, "clusterRef": {"name": "ovn"}},
            "metadata": {"host": "nova-metadata.openstack.svc", "secretRef": {"name": "metadata"}},
        },
    }))
    .expect("a Neutron")
}

/// Two backends in Ceph.
pub(crate) fn cinder() -> Cinder {
    let backend = |name: &str| {
        json!({"name": name, "driver": "cinder.volume.drivers.rbd.RBDDriver",
            "rbd": {"pool": name, "cephSecretRef": {"name": "ceph"}, "cephClientRef": {"name": name}}})
    };
    serde_json::from_value(json!({
        "apiVersion": "cinder.openstack.c5c3.io/v1alpha1", "kind": "Cinder",
        "metadata": {"namespace": "openstack", "name": "cinder", "uid": "c"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/cinder", "tag": "27.0.0"},
            "database": {"host": "db", "database": "cinder", "secretRef": {"name": "service-db"}},
            "messaging": {"hosts": ["rabbit:5672"], "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "backends": [backend("fast"), backend("large")],
        },
    }))
    .expect("a Cinder")
}

/// Trouble with no object behind it.
pub(crate) fn trouble(text: &str) -> Trouble {
    Trouble {
        text: text.to_owned(),
        blocker: None,
    }
}

pub(crate) fn secret(values: &[(&str, &str)]) -> SecretData {
    values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

/// All is healthy with what the services need.
/// A certificate with a key beside it, which is nobody's business.
pub(crate) const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n\
    -----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n";

pub(crate) fn facts() -> Facts {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let credential = [
        ("application_credential_id", "id"),
        ("application_credential_secret", "hush"),
    ];
    let secrets = [
        (
            "keystone-db",
            secret(&[("username", "keystone"), ("password", "pass/word")]),
        ),
        ("admin", secret(&[("password", "topsecret")])),
        (
            "service-db",
            secret(&[("username", "service"), ("password", "pw12")]),
        ),
        ("service-app", secret(&credential)),
        ("keystone-ca", secret(&[("cacert", AUTHORITY)])),
        ("s3", secret(&[("accessKey", "ak12"), ("secretKey", "sk12")])),
        ("metadata", secret(&[("secret", "meta12")])),
        (
            "cell2-bus",
            secret(&[("username", "cell2"), ("password", "cellpw12")]),
        ),
        (
            "ceph",
            secret(&[("ceph.conf", "[global]"), ("keyring", "[client]")]),
        ),
    ];
    Facts {
        secrets: secrets.map(|(name, data)| (name.to_owned(), data)).into(),
        databases: BTreeMap::from([(
            "mariadb".to_owned(),
            serde_json::from_value(json!({"metadata": {"name": "mariadb"}, "spec": {}, "status": ready}))
                .expect("a MariaDB"),
        )]),
        backend_objects: ["Database", "User", "Grant"]
            .into_iter()
            .map(|kind| ((kind, "keystone".to_owned()), Ok(())))
            .collect(),
        caches: BTreeMap::from([(
            "memcached".to_owned(),
            serde_json::from_value(json!({"metadata": {"name": "memcached"}, "spec": {}}))
                .expect("a Memcached"),
        )]),
        brokers: BTreeMap::from([(
            "rabbitmq".to_owned(),
            serde_json::from_value(json!({"metadata": {"name": "rabbitmq"}, "spec": {},
                "status": {"conditions": [{"type": "AllReplicasReady", "status": "True"}],
                    "defaultUser": {"serviceReference": {"name": "rabbitmq", "namespace": "openstack"}}}}))
            .expect("a broker"),
        )]),
        ovn: Some(
            serde_json::from_value(json!({"metadata": {"name": "ovn"},
                "spec": {"ovnImage": {"repository": "ovn", "tag": "1"}, "ovsImage": {"repository": "ovs", "tag": "1"}},
                "status": {"endpoints": {"northbound": "tcp:10.0.0.1:6641", "southbound": "tcp:10.0.0.2:6642"},
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .expect("an OVNCluster"),
        ),
        naming: "naming".to_owned(),
        random: [[1; 32], [2; 32], [3; 32], [4; 32]],
        ..Facts::default()
    }
}

pub(crate) fn observed<S: Subject>(object: S, facts: Facts) -> Observed<Services<S>> {
    Observed {
        object,
        facts,
        now: "2026-01-01T12:00:00Z".parse().expect("a time"),
    }
}

pub(crate) fn objects<S: Subject>(observed: &Observed<Services<S>>) -> Vec<Value> {
    let decision = observed.decide().expect("decides");
    decision.wanted().iter().map(Wanted::object).cloned().collect()
}

/// The wanted object of that kind, if there is one.
pub(crate) fn object<S: Subject>(observed: &Observed<Services<S>>, kind: &str) -> Option<Value> {
    objects(observed)
        .into_iter()
        .find(|object| object["kind"] == kind)
}

pub(crate) fn count<S: Subject>(observed: &Observed<Services<S>>, kind: &str) -> usize {
    let all = objects(observed);
    all.iter().filter(|object| object["kind"] == kind).count()
}

/// The wanted Job whose name has this prefix comes to be, with these conditions.
pub(crate) fn take_job<S: Subject>(
    observed: &mut Observed<Services<S>>,
    prefix: &str,
    condition: Option<&str>,
) {
    let is = |object: &Value| {
        object["kind"] == "Job"
            && object["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(prefix))
    };
    let mut job = objects(observed).into_iter().find(is).expect("the Job is wanted");
    let conditions: Vec<Value> = condition
        .map(|kind| json!({"type": kind, "status": "True"}))
        .into_iter()
        .collect();
    job["status"] = json!({"conditions": conditions});
    job["metadata"]["uid"] = "job".into();
    let name = job["metadata"]["name"].as_str().expect("a name").to_owned();
    let job = serde_json::from_value(job).expect("a Job");
    observed.facts.jobs.insert(name, job);
}

/// A pod of that Job whose container is in this state.
pub(crate) fn job_pod(state: &Value, last: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "openstack",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job"}]},
        "status": {"containerStatuses": [{"name": "db-sync", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state, "lastState": last}]},
    }))
    .expect("a Pod")
}

/// A pod of that process has tried its key at Ceph, which said this.
pub(crate) fn take_check<S: Subject>(
    observed: &mut Observed<Services<S>>,
    process: &str,
    refused: Option<&str>,
) {
    take_check_of(observed, "ceph", process, refused);
}

/// The same of another container that tries something before the program starts.
pub(crate) fn take_check_of<S: Subject>(
    observed: &mut Observed<Services<S>>,
    name: &str,
    process: &str,
    refused: Option<&str>,
) {
    let ended = json!({"exitCode": i32::from(refused.is_some()), "message": refused});
    let pod = json!({
        "metadata": {"name": format!("{process}-x"), "labels": {"app.kubernetes.io/component": process}},
        "status": {"initContainerStatuses": [{"name": name, "image": "", "imageID": "", "restartCount": 0,
            "ready": refused.is_none(), "state": {"terminated": ended}}]},
    });
    let pods = &mut observed.facts.pods;
    pods.retain(|pod| pod.metadata.name != Some(format!("{process}-x")));
    pods.push(serde_json::from_value(pod).expect("a pod"));
}

/// Workloads as their controllers leave them: all that is wanted is up, on one node for each node.
pub(crate) fn take_deployments<S: Subject>(observed: &mut Observed<Services<S>>) {
    for mut object in objects(observed) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let facts = &mut observed.facts;
        let wanted = object["spec"]["replicas"].clone();
        let up = json!({"observedGeneration": 1, "replicas": wanted, "updatedReplicas": wanted,
            "availableReplicas": wanted});
        object["metadata"]["generation"] = 1.into();
        match object["kind"].as_str() {
            Some("StatefulSet") => {
                object["status"] = up;
                let live = serde_json::from_value(object).expect("a StatefulSet");
                facts.stateful_sets.insert(name, live);
                continue;
            }
            Some("DaemonSet") => {
                object["status"] = json!({"observedGeneration": 1, "desiredNumberScheduled": 1,
                    "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1,
                    "numberMisscheduled": 0, "numberReady": 1});
                let live = serde_json::from_value(object).expect("a DaemonSet");
                facts.daemon_sets.insert(name, live);
                continue;
            }
            Some("Deployment") => {}
            _ => continue,
        }
        let wanted = object["spec"]["replicas"].clone();
        object["metadata"]["generation"] = 1.into();
        object["status"] = json!({"observedGeneration": 1, "replicas": wanted, "updatedReplicas": wanted,
            "availableReplicas": wanted});
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let live = serde_json::from_value(object).expect("a Deployment");
        observed.facts.deployments.insert(name, live);
    }
}

/// What was decided, as the server has it afterwards: a changed Deployment has a new generation.
pub(crate) fn applied<S: Subject>(observed: &Observed<Services<S>>) -> Applied<Services<S>> {
    let live = objects(observed).into_iter().map(|mut object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let name = name.as_str();
        if let Some(live) = observed
            .facts
            .stateful_sets
            .get(name)
            .filter(|_| object["kind"] == "StatefulSet")
        {
            object["metadata"]["generation"] = live.metadata.generation.into();
            object["status"] = json!(live.status);
        }
        if let Some(live) = observed
            .facts
            .daemon_sets
            .get(name)
            .filter(|_| object["kind"] == "DaemonSet")
        {
            object["metadata"]["generation"] = live.metadata.generation.into();
            object["status"] = json!(live.status);
        }
        let before = observed.facts.deployments.get(name);
        if let Some(before) = before.filter(|_| object["kind"] == "Deployment") {
            let same = serde_json::from_value::<Deployment>(object.clone())
                .is_ok_and(|after| after.spec.template == before.spec.template);
            let generation = before.metadata.generation.unwrap_or(0) + i64::from(!same);
            object["metadata"]["generation"] = generation.into();
            object["status"] = json!(before.status);
        }
        Wanted::untyped(object)
    });
    Applied::rehearse(Decision::want(live))
}

/// Why the object is refused.
pub(crate) fn refusal<S: Subject>(observed: &Observed<Services<S>>) -> String {
    let plan = Services::<S>::plan(observed);
    let refusal = Services::<S>::refusal(&plan);
    refusal.expect("refused").to_string()
}

/// Reason and message of a part.
pub(crate) fn state<S: Subject>(observed: &Observed<Services<S>>, part: &str) -> (String, String) {
    let report = observed.report(&applied(observed));
    let state = report.states().get(part).expect("said").clone();
    (state.reason, state.message)
}

/// A field of the status that is reported.
pub(crate) fn status<S: Subject>(observed: &Observed<Services<S>>, field: &str) -> Value {
    let report = observed.report(&applied(observed));
    report.status_fields()[field].clone()
}

/// Names of what is neither written nor pruned, of that kind.
pub(crate) fn kept<S: Subject>(observed: &Observed<Services<S>>, kind: &str) -> Vec<String> {
    let decision = observed.decide().expect("decides");
    let mut names: Vec<String> = decision
        .kept()
        .iter()
        .filter(|reference| reference.kind.split('.').next() == Some(kind))
        .map(|reference| reference.key.name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// A key set as it is stored.
pub(crate) fn keys(data: SecretData, since: &str) -> KeySecret {
    KeySecret {
        data,
        rotated: Some(since.to_owned()),
        staged: Some(since.to_owned()),
    }
}

/// The keys that are wanted now come to be.
pub(crate) fn take_keys<S: Subject>(observed: &mut Observed<Services<S>>) {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let names = crate::names::Names::of(&observed.object);
    for set in observed.object.shape().key_sets {
        let all = objects(observed);
        let is = |object: &&Value| object["metadata"]["name"] == names.suffixed(set.name).as_str();
        let secret = all.iter().find(is).expect("wanted");
        let data = secret["data"].as_object().expect("data").iter();
        let data = data.map(|(name, value)| {
            let value = engine.decode(value.as_str().expect("text")).expect("base64");
            (name.clone(), value)
        });
        let since = secret["metadata"]["annotations"]["c5c3.io/rotated-at"].as_str();
        let stored = keys(data.collect(), since.expect("a time"));
        observed.facts.key_secrets.insert(set.name, stored);
    }
}

/// A Keystone that is up and has said so.
pub(crate) fn running() -> Observed<Services<Keystone>> {
    let mut seen = observed(keystone(), facts());
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    take_keys(&mut seen);
    take_deployments(&mut seen);
    seen.object.status = serde_json::from_value(json!({"installedRelease": "28.1.0"})).expect("a status");
    seen
}

pub(crate) fn job_names(seen: &Observed<Services<Keystone>>) -> Vec<String> {
    let jobs = objects(seen).into_iter().filter(|object| object["kind"] == "Job");
    jobs.map(|job| job["metadata"]["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// The status of a pod whose container is being created.
pub(crate) fn on_its_way(since: &str, message: Option<&str>) -> Value {
    let waiting = json!({"reason": "ContainerCreating", "message": message});
    json!({"phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}],
        "containerStatuses": [{"name": "api", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": waiting}}]})
}

pub(crate) fn process_pod(status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "keystone-1", "labels": {"app.kubernetes.io/component": "api"}},
        "spec": {"containers": [{"name": "api", "image": "ghcr.io/c5c3/keystone:28.1.0"}]},
        "status": status,
    }))
    .expect("a Pod")
}
