//! Workloads and jobs of every service as they were looked at: in full while it runs, and what an update or a refused
//! change makes of them, line by line.

use std::collections::BTreeMap;

use c5c3_kit::{Controller, Observed};
use serde_json::{Value, json};

use super::rendered::{stores, without_hashes};
use crate::facts::Facts;
use crate::reconcile::Services;
use crate::shape::{Service, Subject};
use crate::testing::*;

/// What is shown: the rest follows from the spec in an obvious way, or has tests of its own.
const SHOWN: [&str; 5] = ["Job", "CronJob", "StatefulSet", "Deployment", "DaemonSet"];

/// More passes than any of them takes, and so many without anything new that nothing more will come.
const PASSES: usize = 24;
const QUIET: usize = 3;

/// Secrets of the facts, in any form.
const SECRET: [&str; 8] = [
    "pass/word",
    "pass%2Fword",
    "topsecret",
    "hush",
    "pw12",
    "ak12",
    "sk12",
    "meta12",
];

/// By kind and name: what was wanted last.
type Shown = BTreeMap<(usize, String), Value>;

fn changed<S: Subject>(subject: &S, change: impl FnOnce(&mut Value)) -> S {
    let mut object = serde_json::to_value(subject).expect("writes");
    change(&mut object);
    serde_json::from_value(object).expect("reads")
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}

/// What is wanted comes to be: Jobs succeed, workloads are up, each on one node, and the status is kept.
fn pass<S: Subject>(seen: &mut Observed<Services<S>>, shown: &mut Shown) {
    let report = seen.report(&applied(seen)).status_fields().clone();
    for object in objects(seen) {
        let kind = SHOWN.iter().position(|kind| object["kind"] == *kind);
        if let Some(kind) = kind {
            let name = without_hashes(&name_of(&object));
            shown.insert((kind, name), object.clone());
        }
        if object["kind"] == "Job" {
            succeed(seen, object);
        }
    }
    take_keys(seen);
    take_deployments(seen);
    seen.facts.pods = pods(&seen.object.shape());
    seen.object = changed(&seen.object, |object| object["status"] = report);
}

fn succeed<S: Subject>(seen: &mut Observed<Services<S>>, mut job: Value) {
    let name = name_of(&job);
    job["metadata"]["uid"] = "job".into();
    job["status"] = json!({"startTime": "2026-01-01T11:00:00Z",
        "conditions": [{"type": "Complete", "status": "True"}]});
    let job = serde_json::from_value(job).expect("a Job");
    seen.facts.jobs.insert(name, job);
}

/// A pod of each process, up with what is wanted.
fn pods(service: &Service) -> Vec<k8s_openapi::api::core::v1::Pod> {
    let pod = |process: &crate::shape::Process| {
        let image = crate::build::image(service, process);
        let labels = service.names.process_labels(&process.name);
        let pod = json!({
            "metadata": {"name": format!("{}-x", process.name), "labels": labels,
                "annotations": {crate::names::IMAGE: image}},
            "spec": {"nodeName": "node-1", "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        serde_json::from_value(pod).expect("a pod")
    };
    service.processes.iter().map(pod).collect()
}

/// All that is made on the way until nothing new is wanted.
fn settle<S: Subject>(seen: &mut Observed<Services<S>>) -> Shown {
    let (mut shown, mut quiet) = (Shown::new(), 0);
    for _ in 0..PASSES {
        let before = shown.len();
        pass(seen, &mut shown);
        quiet = if shown.len() == before { quiet + 1 } else { 0 };
        if quiet == QUIET {
            return shown;
        }
    }
    panic!("something new is wanted in every pass: {:?}", shown.keys());
}

/// As a person reads it: without the text of scripts, and hashes as such.
fn text(object: &Value) -> String {
    let mut object = object.clone();
    let template = if object["kind"] == "CronJob" {
        "/spec/jobTemplate/spec/template"
    } else {
        "/spec/template"
    };
    for kind in ["initContainers", "containers"] {
        let containers = object.pointer_mut(&format!("{template}/spec/{kind}"));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let command = container.get_mut("command").and_then(Value::as_array_mut);
            let words = command.into_iter().flatten();
            for word in words.filter(|word| word.as_str().is_some_and(|word| word.contains('\n'))) {
                *word = "<script>".into();
            }
        }
    }
    let yaml = serde_saphyr::to_string(&object).expect("writes");
    for secret in SECRET {
        assert!(!yaml.contains(secret), "{yaml}");
    }
    without_hashes(&yaml)
}

fn in_full(shown: &Shown) -> String {
    shown
        .values()
        .map(|object| format!("---\n{}", text(object)))
        .collect()
}

/// Lines that go and lines that come, with one unchanged line before each place.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    // The longest common part of what is left of both, from each place on.
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut told, mut last) = (0, 0, String::new(), None);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            last = Some(old[i]);
            (i, j) = (i + 1, j + 1);
            continue;
        }
        if let Some(line) = last.take() {
            told += &format!("  {line}\n");
        }
        if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            told += &format!("- {}\n", old[i]);
            i += 1;
        } else {
            told += &format!("+ {}\n", new[j]);
            j += 1;
        }
    }
    told
}

/// Object by object: as it was, another, or new.
fn against(before: &Shown, after: &Shown) -> String {
    let mut told = String::new();
    for ((kind, name), object) in after {
        let (kind_name, now) = (SHOWN[*kind], text(object));
        let was = before.get(&(*kind, name.clone())).map(text);
        told += &match was {
            Some(was) if was == now => format!("{kind_name} {name}: as before\n"),
            Some(was) => format!("{kind_name} {name}:\n{}", difference(&was, &now)),
            None => format!("{kind_name} {name}: new\n{now}"),
        };
    }
    let left = before.keys().filter(|key| !after.contains_key(*key));
    for (kind, name) in left {
        told += &format!("{} {name}: not written\n", SHOWN[*kind]);
    }
    told
}

/// One file a state: it runs, it is updated, and a change is refused. (That it is scaled all the same is told by
/// `lifecycle`, with the fields as the server notes them.)
fn golden<S: Subject>(title: &str, subject: &S, facts: Facts, next: &str, scaled: impl FnOnce(&mut Value)) {
    let mut seen = observed(subject.clone(), facts);
    let running = settle(&mut seen);
    insta::assert_snapshot!(format!("{title}-running"), in_full(&running));
    // What is wanted of what runs, without the Jobs that are done.
    let mut again = Shown::new();
    pass(&mut seen, &mut again);
    let steady = (running.clone().into_iter()).filter(|(key, _)| again.contains_key(key));
    let steady: Shown = steady.collect();

    let mut updated = observed(
        changed(&seen.object, |object| {
            object["spec"]["image"]["tag"] = next.into();
        }),
        seen.facts.clone(),
    );
    let after = settle(&mut updated);
    insta::assert_snapshot!(format!("{title}-updating"), against(&running, &after));

    let refused = observed(changed(&seen.object, scaled), seen.facts.clone());
    let plan = Services::<S>::plan(&refused);
    let why = Services::<S>::refusal(&plan).map(ToString::to_string);
    let mut shown = Shown::new();
    for object in objects(&refused) {
        let kind = SHOWN.iter().position(|kind| object["kind"] == *kind);
        if let Some(kind) = kind {
            shown.insert((kind, without_hashes(&name_of(&object))), object);
        }
    }
    let told = format!("{}\n\n{}", why.expect("refused"), against(&steady, &shown));
    insta::assert_snapshot!(format!("{title}-refused"), told);
}

/// An option that nobody knows, beside more replicas.
fn wrong(replicas: &'static str) -> impl FnOnce(&mut Value) {
    move |object| {
        object["spec"]["extraConfig"] = json!({"DEFAULT": {"no_such_option": "1"}});
        if let Some(place) = object.pointer_mut(replicas) {
            *place = 5.into();
        }
    }
}

#[test]
fn keystone_is_as_it_was_looked_at() {
    golden(
        "keystone",
        &keystone(),
        facts(),
        "29.1.0",
        wrong("/spec/replicas"),
    );
}

#[test]
fn placement_is_as_it_was_looked_at() {
    golden(
        "placement",
        &placement(),
        facts(),
        "15.0.0",
        wrong("/spec/replicas"),
    );
}

#[test]
fn glance_is_as_it_was_looked_at_with_each_store() {
    for (store, storage) in stores() {
        let title = format!("glance-{store}");
        golden(
            &title,
            &glance(storage),
            facts(),
            "32.0.0",
            wrong("/spec/replicas"),
        );
    }
}

#[test]
fn nova_with_two_cells_is_as_it_was_looked_at() {
    golden(
        "nova",
        &nova(json!({})),
        facts(),
        "33.0.2",
        wrong("/spec/api/replicas"),
    );
}

#[test]
fn neutron_is_as_it_was_looked_at() {
    golden("neutron", &neutron(), facts(), "28.0.2", wrong("/spec/replicas"));
}

#[test]
fn cinder_with_two_backends_is_as_it_was_looked_at() {
    golden(
        "cinder",
        &cinder(),
        facts(),
        "28.0.0",
        wrong("/spec/api/replicas"),
    );
}

#[test]
fn cortex_is_as_it_was_looked_at() {
    let cortex = super::cortex::cortex(json!({"pipelines": {"nova": {"enabled": true}}})).object;
    golden("cortex", &cortex, facts(), "0.2.0", wrong("/spec/replicas"));
}

#[test]
fn tempest_is_as_it_was_looked_at() {
    let tempest = super::tempest::tempest(Some("0 3 * * *")).object;
    let too_long = |object: &mut Value| object["metadata"]["name"] = "t".repeat(40).into();
    golden("tempest", &tempest, facts(), "46.2.0", too_long);
}
