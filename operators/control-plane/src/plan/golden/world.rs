//! Clouds, what is seen of them, and plans in a form for people.

use std::fmt::Write;

use c5c3_api::c5c3::{ControlPlane, ControlPlaneStatus};
use serde_json::json;

use super::super::*;

pub(crate) fn releases() -> Vec<Release> {
    let release = |name: &str, keystone: &str, glance: &str, placement: &str| {
        let head = "{title: t, debian: d, date: x, registry: ghcr.io/c5c3, uv: {version: '1', sha256: {}}}";
        let others = "nova: '1.0', neutron: '1.0', cinder: '1.0', tempest: '1.0', libvirt: '1.0', ovn: '1.0', ovs: '1.0'";
        let refs =
            format!("{{keystone: '{keystone}', glance: '{glance}', placement: '{placement}', {others}}}");
        Release::parse(name, head, &refs).expect("a release")
    };
    vec![
        release("2025.1", "27.0.0", "30.0.0", "13.0.0"),
        release("2025.2", "28.1.0", "31.1.0", "14.0.0"),
        release("2026.1", "29.1.0", "32.0.0", "15.0.0"),
        release("2026.2", "30.0.0", "33.0.0", "16.0.0"),
    ]
}

/// A small cloud: no service that is not supported yet.
pub(crate) fn small(changes: &Value) -> ControlPlane {
    let mut object = json!({
        "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cloud", "namespace": "openstack", "uid": "u1"},
        "spec": {
            "openStackRelease": "2025.2",
            "infrastructure": {"database": {"replicas": 1}, "cache": {"replicas": 1}},
            "services": {
                "keystone": {"replicas": 1}, "glance": {"replicas": 1}, "placement": {"replicas": 1},
                "nova": {"enabled": false}, "neutron": {"enabled": false}, "cinder": {"enabled": false},
            },
        },
    });
    merge(&mut object["spec"], changes);
    serde_json::from_value(object).expect("a ControlPlane")
}

pub(crate) fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}

pub(crate) fn installed(mut object: ControlPlane, release: &str) -> ControlPlane {
    object.status = Some(ControlPlaneStatus {
        installed_release: Some(release.to_owned()),
        ..ControlPlaneStatus::default()
    });
    object
}

/// What the status tells when services that are asked answer.
pub(crate) fn answered(object: &ControlPlane, plan: &Plan, seen: &Seen) -> Progress {
    let progress = plan.progress(&seen.children, &BTreeSet::new());
    progress.verified(&object.spec.open_stack_release)
}

pub(crate) fn empty(object: &ControlPlane) -> Seen {
    Seen {
        releases: releases(),
        random: secret_names(&object.spec)
            .into_iter()
            .enumerate()
            .map(|(index, name)| (name, [u8::try_from(index + 1).unwrap_or(1); PASSWORD_BYTES]))
            .collect(),
        ..Seen::default()
    }
}

/// Carries the plan out until nothing changes; `health` says how each object is by then.
pub(crate) fn carried_out(object: &ControlPlane, mut seen: Seen, health: impl Fn(&str) -> Health) -> Seen {
    for _ in 0..10 {
        let plan = plan(object, &seen);
        let before = (seen.children.clone(), seen.owned.len());
        if plan.refusal.is_none() {
            for value in plan.wanted() {
                take_in(&mut seen, value, &health);
            }
        }
        if (seen.children.clone(), seen.owned.len()) == before {
            break;
        }
    }
    seen
}

pub(crate) fn take_in(seen: &mut Seen, value: &Value, health: &impl Fn(&str) -> Health) {
    let own = reference(value);
    if seen.owned.iter().all(|(known, _)| *known != own) {
        seen.owned.push((own.clone(), false));
    }
    if value["kind"] == "Secret" {
        let data: BTreeMap<String, k8s_openapi::ByteString> =
            serde_json::from_value(value["data"].clone()).expect("data");
        let data = data.into_iter().map(|(key, value)| (key, value.0)).collect();
        let name = own.key.name;
        seen.secrets
            .entry(name)
            .or_insert(SeenSecret { data, ours: true });
        return;
    }
    if !has_state(value) {
        return;
    }
    let health = health(&said(value));
    let image = value.pointer("/spec/image").cloned();
    let tag = image
        .as_ref()
        .and_then(|image| image["tag"].as_str())
        .map(str::to_owned);
    let installed = match health {
        Health::Ready => tag,
        _ => seen.children.get(&own).and_then(|child| child.installed.clone()),
    };
    seen.children.insert(
        own,
        Child {
            health,
            image,
            installed,
            contracting: None,
            images: child::images(value),
            id: None,
            completed: None,
        },
    );
}

pub(crate) fn failed(text: impl Into<String>) -> Health {
    Health::failed(reason::FAILED, text)
}

pub(crate) fn ready(_: &str) -> Health {
    Health::Ready
}

pub(crate) fn running(object: &ControlPlane) -> Seen {
    carried_out(object, empty(object), ready)
}

/// What a person needs to follow a plan: never the value of a Secret.
pub(crate) fn told(plan: &Plan) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        let state = match &step.state {
            State::Done => "done".to_owned(),
            State::NotRequired(why) => format!("not required: {why}"),
            State::Running(what) => format!("in progress: {what}"),
            State::Waiting(steps) => format!("waiting for {}", steps.join(", ")),
            State::Failed { reason, text } => format!("failed ({reason}): {text}"),
        };
        writeln!(text, "{}: {state}", step.name).expect("text");
        if !step.needs.is_empty() {
            writeln!(text, "    needs {}", step.needs.join(", ")).expect("text");
        }
        for object in &step.objects {
            match object {
                Object::Apply(value) => writeln!(text, "    + {}", line(value)),
                Object::Keep(reference) => writeln!(text, "    = {reference}"),
            }
            .expect("text");
        }
    }
    for reference in &plan.removal.now {
        writeln!(text, "- {reference}").expect("text");
    }
    for reference in &plan.removal.later {
        writeln!(text, "- {reference} (later)").expect("text");
    }
    if let Some(blocker) = plan.blocker() {
        writeln!(text, "blocked by {}: {}", blocker.name, blocker.text()).expect("text");
    }
    let installed = plan.installed.as_deref().unwrap_or("none");
    writeln!(text, "update {:?}, complete release {installed}", plan.update).expect("text");
    text
}

pub(crate) fn line(value: &Value) -> String {
    let (kind, name) = (
        value["kind"].as_str().unwrap_or(""),
        value["metadata"]["name"].as_str().unwrap_or(""),
    );
    let tag = value.pointer("/spec/image/tag").and_then(Value::as_str);
    let keys = value["data"].as_object();
    let keys = keys.map(|data| format!(" ({})", data.keys().cloned().collect::<Vec<_>>().join(", ")));
    let tag = tag.map(|tag| format!(" {tag}"));
    format!(
        "{kind} {name}{}{}",
        tag.unwrap_or_default(),
        keys.unwrap_or_default()
    )
}

/// Every object in full, Secrets aside.
pub(crate) fn bodies(plan: &Plan) -> Vec<Value> {
    plan.wanted()
        .filter(|value| value["kind"] != "Secret")
        .cloned()
        .collect()
}

pub(crate) fn snapshot(name: &str, object: &ControlPlane, seen: &Seen) {
    let plan = plan(object, seen);
    insta::assert_snapshot!(name, told(&plan));
}
