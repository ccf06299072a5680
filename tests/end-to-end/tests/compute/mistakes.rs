//! Wrong wishes for a cloud that runs: each is refused or told, and neither a pod nor a guest notices.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use openstack_client::{Compute, Flavour, Operating};
use serde_json::{Value, json};

use crate::pings::Ping;
use crate::traces::{nothing_leaks, traces};
use crate::world::World;
use crate::{NAMESPACE, PATIENCE, made, servers, there};

/// Longer than the whole table takes.
const MOST: Duration = Duration::from_secs(3600);
const UNNOTICED: Duration = Duration::from_secs(1);
const PLANE: &str = "controlplane/cloud";
const CELL: &str = "nova.openstack.c5c3.io/cell";

/// What becomes of a wish.
enum Answer {
    /// It is not even written.
    Refused(&'static str),
    /// This object's condition `Ready` says so.
    Told(&'static str),
}

use Answer::{Refused, Told};

/// The object, what is wished of its spec, and how it is taken back.
struct Mistake {
    object: &'static str,
    wrong: Value,
    right: Value,
    answer: Answer,
}

fn mistakes() -> Vec<Mistake> {
    let services = |name: &str, fields: Value| json!({"services": {name: fields}});
    let backend = |name: &str, secret: &str| {
        let rbd = json!({"pool": "volumes", "cephSecretRef": {"name": secret}});
        json!({"name": name, "rbd": rbd})
    };
    let backends = |all: &[Value]| services("cinder", json!({"backends": all}));
    let ceph = backend("ceph", "ceph-cinder");
    let option = |value: Value| {
        services(
            "nova",
            json!({"extraConfig": {"scheduler": {"max_atempts": value}}}),
        )
    };
    vec![
        Mistake {
            object: PLANE,
            wrong: services("nova", json!({"cells": ["cell2"]})),
            right: json!({}),
            answer: Refused("services.nova.cells: a cell cannot be taken away, its servers would be lost"),
        },
        Mistake {
            object: PLANE,
            wrong: json!({"infrastructure": {"ovn": {"replicas": null, "storageSize": null, "tls": null,
                "northbound": "tcp:192.0.2.1:6641", "southbound": "tcp:192.0.2.1:6642"}}}),
            right: json!({}),
            answer: Refused("infrastructure.ovn"),
        },
        Mistake {
            object: PLANE,
            wrong: backends(&[ceph.clone(), ceph.clone()]),
            right: json!({}),
            answer: Refused("Duplicate value"),
        },
        Mistake {
            object: PLANE,
            wrong: backends(&[backend("ceph", "nobody")]),
            right: backends(&[ceph]),
            answer: Told("Secret nobody"),
        },
        Mistake {
            object: PLANE,
            wrong: option(json!("3")),
            right: option(Value::Null),
            answer: Told("has no option `max_atempts` in [scheduler]"),
        },
        Mistake {
            object: "neutron/neutron",
            wrong: json!({"ml2": {"mechanismDrivers": ["ovn", "openvswtch"]}}),
            right: json!({"ml2": {"mechanismDrivers": ["ovn"]}}),
            answer: Told("ml2.mechanismDrivers: Neutron has no driver \"openvswtch\""),
        },
    ]
}

#[test]
#[ignore = "another cloud, of which wrong things are asked: make soak"]
fn wrong_wishes_are_told_and_nothing_notices() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let (offset, _) = made(&cloud, &[])?;
    let world = World::of(&cloud, offset)?;
    let second = servers::two_servers_on_two_hosts_reach_each_other(&world)?;
    let ping = Ping::for_at_most(&cloud, "demo", &second.address, MOST)?;
    for mistake in mistakes() {
        make(&world, &mistake).with_context(|| mistake.wrong.to_string())?;
    }
    a_node_of_no_cell(&world)?;
    databases_of_others(&world)?;
    more_than_the_quota(&world)?;
    more_than_any_host_has(&world)?;
    let heard = ping.stop()?;
    println!("while wrong things were asked for: {heard:?}");
    ensure!(heard.gap <= UNNOTICED, "{heard:?}");
    world.run(world.session.delete_server(&second.id))?;
    world.gone(&second.id, PATIENCE)
}

fn make(world: &World<'_>, mistake: &Mistake) -> anyhow::Result<()> {
    let before = pods(world.cloud)?;
    let outcome = changed(world.cloud, mistake.object, &mistake.wrong);
    match mistake.answer {
        Refused(words) => {
            let said = outcome.err().context("it was taken")?.to_string();
            ensure!(said.contains(words), "{said}");
            println!("refused: {words}");
        }
        Told(words) => {
            outcome?;
            told(world.cloud, mistake.object, "Ready", words)?;
            println!("told: {words}");
        }
    }
    untouched(&before, &pods(world.cloud)?)?;
    changed(world.cloud, mistake.object, &mistake.right)?;
    well(world.cloud)?;
    untouched(&before, &pods(world.cloud)?)
}

fn changed(cloud: &Cloud, object: &str, spec: &Value) -> anyhow::Result<()> {
    let patch = json!({"spec": spec}).to_string();
    let words = ["-n", NAMESPACE, "patch", object, "--type=merge", "-p", &patch];
    cloud.kubectl(&words, "").map(drop)
}

fn read(cloud: &Cloud, object: &str) -> anyhow::Result<Value> {
    let words = ["-n", NAMESPACE, "get", object, "-o", "json"];
    Ok(serde_json::from_str(&cloud.kubectl(&words, "")?)?)
}

/// Status and message of a condition, once all of the spec was looked at.
fn condition(object: &Value, name: &str) -> Option<(String, String)> {
    let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    let mut all = object["status"]["conditions"].as_array()?.iter();
    let found = all.find(|one| seen && one["type"] == name)?;
    let text = |field: &str| found[field].as_str().map(str::to_owned);
    Some((text("status")?, text("message")?))
}

/// Waits until the condition is not true, and says this.
fn told(cloud: &Cloud, object: &str, name: &str, words: &str) -> anyhow::Result<()> {
    until(&format!("{object} says {words}"), 2 * PATIENCE, || {
        let seen = condition(&read(cloud, object)?, name);
        Ok(match &seen {
            Some((status, said)) if status == "False" && said.contains(words) => Ok(()),
            _ => Err(format!("{seen:?}")),
        })
    })
}

fn well(cloud: &Cloud) -> anyhow::Result<()> {
    for object in [PLANE, "nova/nova", "neutron/neutron", "cinder/cinder"] {
        until(&format!("{object} is Ready again"), PATIENCE, || {
            let seen = condition(&read(cloud, object)?, "Ready");
            Ok(match &seen {
                Some((status, _)) if status == "True" => Ok(()),
                _ => Err(format!("{seen:?}")),
            })
        })?;
    }
    Ok(())
}

/// Pods that run, by name: their UIDs and how often their programs were started again.
type Pods = BTreeMap<String, (String, u64)>;

fn pods(cloud: &Cloud) -> anyhow::Result<Pods> {
    let mut found = Pods::new();
    for context in ["control-plane", "hypervisor"] {
        let list = ["--context", context, "-n", NAMESPACE, "get", "pods", "-o", "json"];
        let list: Value = serde_json::from_str(&cloud.kubectl(&list, "")?)?;
        for pod in list["items"].as_array().context("a list of pods")? {
            // Jobs come and go.
            let lasting = pod["spec"]["restartPolicy"] == "Always" && pod["status"]["phase"] == "Running";
            if !lasting {
                continue;
            }
            let name = pod["metadata"]["name"].as_str().context("a name")?.to_owned();
            let uid = pod["metadata"]["uid"].as_str().context("a UID")?.to_owned();
            let containers = pod["status"]["containerStatuses"].as_array();
            let starts = containers.into_iter().flatten();
            let starts = starts
                .filter_map(|container| container["restartCount"].as_u64())
                .sum();
            found.insert(name, (uid, starts));
        }
    }
    Ok(found)
}

/// Pods that ran run still; others may have come.
fn untouched(before: &Pods, now: &Pods) -> anyhow::Result<()> {
    let touched: Vec<&String> = before
        .iter()
        .filter(|(name, pod)| now.get(*name) != Some(pod))
        .map(|(name, _)| name)
        .collect();
    ensure!(touched.is_empty(), "{touched:?} did not stay as they were");
    Ok(())
}

/// Its nova-compute goes, as a node has one cell; guests and all other pods stay.
fn a_node_of_no_cell(world: &World<'_>) -> anyhow::Result<()> {
    let cloud = world.cloud;
    let node = "hypervisor-2";
    let others = || -> anyhow::Result<Pods> {
        let mut pods = pods(cloud)?;
        pods.retain(|name, _| !name.starts_with("nova-compute-"));
        Ok(pods)
    };
    let before = others()?;
    there(cloud, &["label", "node", node, &format!("{CELL}=cell9")])?;
    let words = format!("node {node} is labelled {CELL}=cell9, and there is no such cell");
    let seen =
        told(cloud, "nova/nova", "CellsReady", &words).and_then(|()| told(cloud, PLANE, "Ready", &words));
    there(cloud, &["label", "node", node, &format!("{CELL}-")])?;
    seen?;
    untouched(&before, &others()?)?;
    well(cloud)?;
    crate::hypervisors_are_up(cloud)
}

/// A second Neutron, whose databases somebody else is said to have: at its address nobody answers, and then one does that
/// does not know its certificates.
fn databases_of_others(world: &World<'_>) -> anyhow::Result<()> {
    let cloud = world.cloud;
    let before = pods(cloud)?;
    let outcome = second_neutron(cloud);
    let delete = [
        "-n",
        NAMESPACE,
        "delete",
        "neutron/others",
        "secret/others",
        "secret/others-ovn",
        "--ignore-not-found",
    ];
    cloud.kubectl(&delete, "")?;
    outcome?;
    untouched(&before, &pods(cloud)?)?;
    well(cloud)
}

fn second_neutron(cloud: &Cloud) -> anyhow::Result<()> {
    let login = json!({"username": "others", "password": "a-password-of-the-others"});
    apply(cloud, &secret("others", &json!({"stringData": login})))?;
    apply(
        cloud,
        &secret("others-ovn", &json!({"data": certificates(cloud)?})),
    )?;
    let silent = "tcp:127.0.0.1:6641";
    let mut spec = read(cloud, "neutron/neutron")?["spec"].take();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("metadata");
    }
    spec["api"]["replicas"] = 1.into();
    spec["database"]["database"] = "others".into();
    spec["database"]["secretRef"] = json!({"name": "others"});
    spec["messaging"]["secretRef"] = json!({"name": "others"});
    spec["ovn"] = json!({"enabled": true, "nbConnection": silent, "sbConnection": silent});
    let object = |spec: &Value| {
        json!({
            "apiVersion": "neutron.openstack.c5c3.io/v1alpha1", "kind": "Neutron",
            "metadata": {"namespace": NAMESPACE, "name": "others"}, "spec": spec,
        })
    };
    apply(cloud, &object(&spec))?;
    let words = format!("OVN at {silent} does not answer");
    told(cloud, "neutron/others", "OVNConnected", &words)?;

    let at = read(cloud, "ovncluster/ovn")?["status"]["endpoints"].take();
    spec["ovn"] = json!({"enabled": true, "nbConnection": at["northbound"], "sbConnection": at["southbound"],
        "tls": {"certSecretRef": {"name": "others-ovn"}}});
    apply(cloud, &object(&spec))?;
    let words = "does not vouch for its certificate";
    told(cloud, "neutron/others", "OVNConnected", words)
}

fn apply(cloud: &Cloud, object: &Value) -> anyhow::Result<()> {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    cloud.kubectl(&apply, &object.to_string()).map(drop)
}

fn secret(name: &str, more: &Value) -> Value {
    let mut secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": name}});
    if let (Some(secret), Some(more)) = (secret.as_object_mut(), more.as_object()) {
        secret.extend(more.clone());
    }
    secret
}

/// Good ones, of another authority: libvirt's.
fn certificates(cloud: &Cloud) -> anyhow::Result<Value> {
    let words = ["get", "secret", "nova-libvirt-tls", "-o", "json"];
    let libvirt: Value = serde_json::from_str(&there(cloud, &words)?)?;
    let data = |name: &str| {
        let value = &libvirt["data"][name];
        ensure!(value.is_string(), "the Secret has no {name}");
        Ok(value.clone())
    };
    Ok(json!({
        "tls.crt": data("libvirt-hypervisor-1.crt")?,
        "tls.key": data("libvirt-hypervisor-1.key")?,
        "ca.crt": data("ca.crt")?,
    }))
}

fn quota(world: &World<'_>, words: &[&str]) -> anyhow::Result<()> {
    let words = [&["quota", "set"][..], words, &["admin"]].concat();
    world.cloud.c5c3_here("openstack", &words).map(drop)
}

fn more_than_the_quota(world: &World<'_>) -> anyhow::Result<()> {
    let before = traces(world)?;
    let there = world.run(world.session.all_servers())?.len().to_string();
    quota(world, &["--instances", &there])?;
    let outcome = world.run(world.session.create_server(&world.draft("too-many")));
    quota(world, &["--instances", "10"])?;
    let said = format!("{:#}", outcome.err().context("Nova took it")?);
    ensure!(said.contains("403") && said.contains("Quota exceeded"), "{said}");
    nothing_leaks(world, &before, PATIENCE)
}

fn more_than_any_host_has(world: &World<'_>) -> anyhow::Result<()> {
    let before = traces(world)?;
    quota(world, &["--ram", "-1"])?;
    let giant = Flavour {
        name: "giant".to_owned(),
        vcpus: 1,
        ram: 1 << 24,
        disk: 1,
        ..Flavour::default()
    };
    let flavour = world.run(world.session.create_flavour(&giant))?.id;
    let mut draft = world.draft("giant");
    draft.flavour = flavour;
    let id = world.run(world.session.create_server(&draft))?;
    let seen = world.settled(&id, "ERROR")?;
    let why = seen.server.fault.map(|fault| fault.message).unwrap_or_default();
    world.run(world.session.delete_server(&id))?;
    world.gone(&id, PATIENCE)?;
    world
        .cloud
        .c5c3_here("openstack", &["flavor", "delete", "giant"])?;
    quota(world, &["--ram", "51200"])?;
    ensure!(why.contains("No valid host"), "{why}");
    nothing_leaks(world, &before, PATIENCE)
}
