//! What a changed ControlPlane would do, stage by stage, before anything happens.
//!
//! Pure: the planner is asked again and again, and each answer is taken as carried out. So the order
//! is the one that the controller follows, and nothing here decides anything of its own.

mod effect;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use c5c3_api::c5c3::{ControlPlane, ControlPlaneStatus, UpdatePhase};
use c5c3_catalogue::Release;
use c5c3_kit::ownership::OWNER_UID;
use c5c3_kit::{Controller, Reference, fields};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::control_plane::ControlPlanes;
use crate::plan::{
    Child, Health, PASSWORD_BYTES, Plan, Progress, Seen, SeenSecret, plan, reference, secret_names,
};
pub use effect::Effect;

/// More stages than any change has: a plan that never ends is a fault, not a wait.
const MOST: usize = 64;

/// A cluster as it was read.
#[derive(Clone, Default)]
pub struct World {
    /// The objects of the namespace, Secrets aside.
    pub objects: Vec<Value>,
    /// Of the Secrets that a plan looks at, those that are there.
    pub secrets: BTreeMap<String, SeenSecret>,
    pub releases: Vec<Release>,
}

/// The predicted changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// Why the release is not rolled out; what runs is still scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    pub stages: Vec<Stage>,
    /// What keeps the change from its end, as things are now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocker: Option<String>,
    /// The last stage after which the spec of before can still be set again; none where it always can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_back_until: Option<usize>,
}

/// Steps that happen at once; the next stage waits until all of them are healthy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    pub number: usize,
    /// As `status.updatePhase` tells it.
    pub phase: UpdatePhase,
    pub steps: Vec<Change>,
}

/// One object that changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub verb: Verb,
    pub object: String,
    /// Field: before → after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    #[serde(flatten)]
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    Create,
    Change,
    Delete,
}

/// What the controller would do with this object in that world.
pub fn forecast(object: &ControlPlane, world: World) -> Forecast {
    let live = world.objects.iter();
    let live = live.map(|live| (reference(live), live.clone())).collect();
    carried_out(object.clone(), seen(object, world), live)
}

fn carried_out(mut object: ControlPlane, mut seen: Seen, mut live: BTreeMap<Reference, Value>) -> Forecast {
    let mut forecast = Forecast::default();
    for number in 1..=MOST {
        let plan = plan(&object, &seen);
        let steps = changes(&plan, &seen, &live);
        forecast.refusal = plan.refusal.as_ref().map(ToString::to_string);
        // A forecast is of what goes well: services that are asked answer.
        let progress = plan.progress(&seen.children, &BTreeSet::new());
        let progress = progress.verified(&object.spec.open_stack_release);
        forecast.blocker = progress
            .blocker()
            .map(crate::plan::Step::text)
            .filter(|_| steps.is_empty());
        if steps.is_empty() {
            break;
        }
        take_in(&plan, &mut seen, &mut live);
        object.status = Some(told(progress));
        forecast.stages.push(Stage {
            number,
            phase: plan.update,
            steps,
        });
    }
    let last = forecast
        .stages
        .iter()
        .find(|stage| stage.steps.iter().any(|step| step.effect.point_of_no_return));
    forecast.way_back_until = last.map(|stage| stage.number - 1);
    forecast
}

fn seen(object: &ControlPlane, world: World) -> Seen {
    let uid = object.uid().unwrap_or_default();
    let ours = |live: &&Value| live["metadata"]["labels"][OWNER_UID] == uid.as_str();
    let owned = world.objects.iter().filter(ours);
    Seen {
        children: owned
            .clone()
            .map(|live| (reference(live), Child::of(live)))
            .collect(),
        owned: owned
            .map(|live| (reference(live), live["metadata"]["deletionTimestamp"].is_string()))
            .collect(),
        secrets: world.secrets,
        releases: world.releases,
        // What would be made of them is neither shown nor sent.
        random: secret_names(&object.spec)
            .into_iter()
            .map(|name| (name, [1; PASSWORD_BYTES]))
            .collect(),
        missing: Default::default(),
    }
}

/// As the status would tell it.
fn told(progress: Progress) -> ControlPlaneStatus {
    ControlPlaneStatus {
        update_phase: Some(progress.update),
        installed_release: progress.installed,
        services: progress.services,
        ..ControlPlaneStatus::default()
    }
}

/// What the controller would send.
fn sent<'a>(plan: &'a Plan, seen: &'a Seen) -> Vec<&'a Value> {
    match plan.refusal {
        Some(_) => plan.goes_on(&seen.owned).collect(),
        None => plan.wanted().collect(),
    }
}

fn changes(plan: &Plan, seen: &Seen, live: &BTreeMap<Reference, Value>) -> Vec<Change> {
    let mut all = Vec::new();
    for wanted in sent(plan, seen) {
        let own = reference(wanted);
        let there = if wanted["kind"] == "Secret" {
            seen.secrets.contains_key(&own.key.name).then_some(wanted)
        } else {
            live.get(&own)
        };
        let differences = there.map(|there| differences(there, wanted)).unwrap_or_default();
        let verb = match there {
            None => Verb::Create,
            Some(_) if differences.is_empty() => continue,
            Some(_) => Verb::Change,
        };
        all.push(Change {
            verb,
            object: own.to_string(),
            effect: Effect::of(verb, wanted, &differences),
            fields: differences.iter().map(ToString::to_string).collect(),
        });
    }
    let removed = plan.removal.now.iter().filter(|_| plan.refusal.is_none());
    all.extend(removed.map(|gone| Change {
        verb: Verb::Delete,
        object: gone.to_string(),
        fields: Vec::new(),
        effect: Effect::of_removal(gone),
    }));
    all
}

/// Each is done, and well afterwards.
fn take_in(plan: &Plan, seen: &mut Seen, live: &mut BTreeMap<Reference, Value>) {
    let sent: Vec<Value> = sent(plan, seen).into_iter().cloned().collect();
    for wanted in sent {
        let own = reference(&wanted);
        if wanted["kind"] == "Secret" {
            let made = SeenSecret {
                data: secret_data(&wanted),
                ours: true,
            };
            seen.secrets.entry(own.key.name).or_insert(made);
            continue;
        }
        let known = live.get(&own);
        if known.is_some_and(|there| differences(there, &wanted).is_empty()) {
            continue;
        }
        let version = wanted
            .pointer("/spec/image/tag")
            .or_else(|| wanted.pointer("/spec/image/digest"));
        let child = Child {
            health: Health::Ready,
            installed: version.and_then(Value::as_str).map(str::to_owned),
            ..Child::of(&wanted)
        };
        if seen.owned.iter().all(|(owned, _)| *owned != own) {
            seen.owned.push((own.clone(), false));
        }
        seen.children.insert(own.clone(), child);
        live.insert(own, wanted);
    }
    if plan.refusal.is_none() {
        let gone = &plan.removal.now;
        seen.owned.retain(|(owned, _)| !gone.contains(owned));
        seen.children.retain(|child, _| !gone.contains(child));
        live.retain(|object, _| !gone.contains(object));
    }
}

fn secret_data(secret: &Value) -> BTreeMap<String, Vec<u8>> {
    let data: BTreeMap<String, k8s_openapi::ByteString> =
        serde_json::from_value(secret["data"].clone()).unwrap_or_default();
    data.into_iter().map(|(key, value)| (key, value.0)).collect()
}

/// A field that would have another value; null is a field that is not set.
#[derive(Clone, Debug, PartialEq)]
struct Difference {
    /// Its way from the top of the object, such as `["spec", "image", "tag"]`.
    path: Vec<String>,
    before: Value,
    after: Value,
}

impl Difference {
    /// Whether a part of its way has this name.
    fn is_in(&self, name: &str) -> bool {
        self.path.iter().any(|part| part == name)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".");
        write!(f, "{path}: {} → {}", shown(&self.before), shown(&self.after))
    }
}

/// The fields of ours that would have another value.
fn differences(live: &Value, wanted: &Value) -> Vec<Difference> {
    let mut ours = fields::held(live, ControlPlanes::NAME, None);
    // Of an object that nobody stored, all is ours.
    if ours.get("spec").is_none() {
        ours = live.clone();
    }
    let mut all = Vec::new();
    let mut path = vec!["spec".to_owned()];
    compare(&mut path, &ours["spec"], &wanted["spec"], &mut all);
    all
}

fn compare(path: &mut Vec<String>, before: &Value, after: &Value, all: &mut Vec<Difference>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let of = |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                path.push(name.clone());
                compare(path, &of(old), &of(new), all);
                path.pop();
            }
        }
        (before, after) if before == after => {}
        (before, after) => all.push(Difference {
            path: path.clone(),
            before: before.clone(),
            after: after.clone(),
        }),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::String(text) => text.trim_end().replace('\n', " "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
