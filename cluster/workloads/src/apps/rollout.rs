//! How a Deployment moves replicas from old ReplicaSets to the current one, and what it says of that.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::json;

use crate::action::{Action, Decision, Target};
use crate::apps::proportion::{self, Size};
use crate::apps::replicaset;
use crate::pods;

/// The rollout is over.
const AVAILABLE: &str = "NewReplicaSetAvailable";

/// The ReplicaSets of a Deployment, `old` from the oldest to the newest.
pub(crate) struct Sets<'a> {
    pub current: Option<&'a ReplicaSet>,
    pub old: &'a [&'a ReplicaSet],
}

impl<'a> Sets<'a> {
    fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> + '_ {
        self.old.iter().copied().chain(self.current)
    }
}

pub(crate) fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

pub(crate) fn present(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0)
}

fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// How many pods there may be beyond, and may be missing from, the wanted number.
fn tolerance(deployment: &Deployment) -> (i32, i32) {
    let rolling = deployment
        .spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.rolling_update.clone());
    let quarter = IntOrString::String("25%".into());
    let total = replicas(deployment);
    let surge = rolling
        .as_ref()
        .and_then(|rolling| rolling.max_surge.as_ref())
        .unwrap_or(&quarter);
    let missing = rolling
        .as_ref()
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .unwrap_or(&quarter);
    let (surge, missing) = (
        pods::scaled(surge, total, true),
        pods::scaled(missing, total, false),
    );
    // Neither beyond nor missing would never move.
    if surge == 0 && missing == 0 {
        (0, 1)
    } else {
        (surge, missing.min(total))
    }
}

fn is_recreate(deployment: &Deployment) -> bool {
    deployment.spec.strategy.as_ref().and_then(|s| s.type_.as_deref()) == Some("Recreate")
}

/// The size of a ReplicaSet that is just being made.
pub(crate) fn first_replicas(deployment: &Deployment, sets: &Sets<'_>) -> i32 {
    let total: i32 = sets.old.iter().map(|set| wanted(set)).sum();
    if is_recreate(deployment) {
        return if total == 0 && sets.old.iter().all(|set| present(set) == 0) {
            replicas(deployment)
        } else {
            0
        };
    }
    let (surge, _) = tolerance(deployment);
    (replicas(deployment) + surge - total).clamp(0, replicas(deployment))
}

/// What sets remember of a Deployment when they are scaled.
pub(crate) fn size(deployment: &Deployment) -> Size {
    let surge = if is_recreate(deployment) {
        0
    } else {
        tolerance(deployment).0
    };
    Size {
        desired: replicas(deployment),
        most: replicas(deployment) + surge,
    }
}

fn scale(deployment: &Deployment, set: &ReplicaSet, to: i32, decision: &mut Decision) {
    if wanted(set) != to {
        resize(deployment, set, to, decision);
    }
}

fn resize(deployment: &Deployment, set: &ReplicaSet, to: i32, decision: &mut Decision) {
    let annotations = size(deployment).annotations();
    decision.push(Action::Patch {
        target: Target::of(set),
        subresource: None,
        body: json!({"metadata": {"annotations": annotations}, "spec": {"replicas": to}}),
    });
}

/// The number changed since the sets were last scaled: each gets its part of the difference, and the
/// rollout goes on from there. False: there is nothing to share.
fn share(deployment: &Deployment, sets: &Sets<'_>, decision: &mut Decision) -> bool {
    let active: Vec<&ReplicaSet> = sets.all().filter(|set| wanted(set) > 0).collect();
    let size = size(deployment);
    if !proportion::is_scaled(&active, size) {
        return false;
    }
    let sizes = match active.as_slice() {
        [_] => vec![size.desired],
        _ => proportion::share(&active, size),
    };
    for (set, to) in active.into_iter().zip(sizes) {
        resize(deployment, set, to, decision);
    }
    true
}

/// A paused Deployment still follows its number, with whatever runs.
pub(crate) fn scale_paused(deployment: &Deployment, sets: &Sets<'_>, decision: &mut Decision) {
    if share(deployment, sets, decision) {
        return;
    }
    let active: Vec<&ReplicaSet> = sets.all().filter(|set| wanted(set) > 0).collect();
    match (active.as_slice(), sets.current) {
        ([only], _) => scale(deployment, only, replicas(deployment), decision),
        ([], Some(current)) => scale(deployment, current, replicas(deployment), decision),
        _ => {}
    }
}

pub(crate) fn recreate(
    deployment: &Deployment,
    sets: &Sets<'_>,
    old_pods_left: bool,
    decision: &mut Decision,
) {
    for set in sets.old {
        scale(deployment, set, 0, decision);
    }
    if !old_pods_left && let Some(current) = sets.current {
        scale(deployment, current, replicas(deployment), decision);
    }
}

pub(crate) fn rolling(deployment: &Deployment, sets: &Sets<'_>, decision: &mut Decision) {
    let Some(current) = sets.current else { return };
    let total_wanted = replicas(deployment);
    if share(deployment, sets, decision) {
        return;
    }
    let (surge, missing) = tolerance(deployment);
    let total: i32 = sets.all().map(wanted).sum();

    // Up: as far as the surge allows. Old pods go only when that is seen.
    let own = wanted(current);
    if own > total_wanted {
        return scale(deployment, current, total_wanted, decision);
    }
    let room = (total_wanted + surge - total).max(0);
    if own < total_wanted && room > 0 {
        return scale(deployment, current, own + room.min(total_wanted - own), decision);
    }

    // Down: never below what must stay available.
    let must_stay = total_wanted - missing;
    let new_missing = (own - available(current)).max(0);
    let mut budget = (total - must_stay - new_missing).max(0);
    let mut left: Vec<(&ReplicaSet, i32)> = sets.old.iter().map(|set| (*set, wanted(set))).collect();
    // Pods that do not serve cost nothing: they go first.
    for (set, size) in &mut left {
        let broken = (*size - available(set)).max(0).min(budget);
        *size -= broken;
        budget -= broken;
    }
    let serving: i32 = sets.all().map(available).sum();
    let mut spare = (serving - must_stay).max(0).min(budget);
    for (_, size) in &mut left {
        let less = (*size).min(spare);
        *size -= less;
        spare -= less;
    }
    for (set, size) in left {
        scale(deployment, set, size, decision);
    }
}

/// Status with its two conditions; `created`: the current ReplicaSet is being created right now.
pub(crate) fn status(
    deployment: &Deployment,
    sets: &Sets<'_>,
    created: bool,
    now: Timestamp,
    decision: &mut Decision,
) {
    let before = deployment.status.clone().unwrap_or_default();
    let sum = |count: fn(&ReplicaSet) -> i32| sets.all().map(count).sum::<i32>();
    let total_wanted = replicas(deployment);
    let updated = sets.current.map_or(0, present);
    let serving = sum(available);
    let mut wanted_status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: Some(sum(present)),
        updated_replicas: Some(updated),
        ready_replicas: Some(sum(|set| {
            set.status
                .as_ref()
                .and_then(|status| status.ready_replicas)
                .unwrap_or(0)
        })),
        available_replicas: Some(serving),
        unavailable_replicas: Some((sum(wanted) - serving).max(0)),
        conditions: None,
        ..before.clone()
    };
    let mut conditions = before.conditions.clone().unwrap_or_default();

    let (_, missing) = tolerance(deployment);
    let enough = serving >= total_wanted - missing;
    set_condition(&mut conditions, now, "Available", enough, availability(enough));

    let name = sets.current.map(ResourceExt::name_any).unwrap_or_default();
    let complete = !created
        && updated == total_wanted
        && wanted_status.replicas == Some(total_wanted)
        && serving == total_wanted;
    let settled = wanted_status.replicas == wanted_status.updated_replicas
        && last_reason(&conditions) == Some(AVAILABLE);
    if let Some(words) = milestone(deployment, created, complete, &name) {
        set_condition(&mut conditions, now, "Progressing", true, words);
    } else if !settled {
        // A pod that is lost after the rollout, or a new size, is no rollout.
        progress(
            deployment,
            &before,
            &wanted_status,
            &name,
            &mut conditions,
            now,
            decision,
        );
    }
    match failure(sets) {
        Some(why) => set_condition(
            &mut conditions,
            now,
            replicaset::FAILURE,
            true,
            ("FailedCreate", why),
        ),
        None => conditions.retain(|condition| condition.type_.as_deref() != Some(replicaset::FAILURE)),
    }
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    wanted_status.conditions = Some(conditions);
    decision.status(deployment, deployment.status.as_ref(), &wanted_status);
}

/// Reason and message of the condition `Available`.
fn availability(enough: bool) -> (&'static str, String) {
    let (reason, verb) = if enough {
        ("MinimumReplicasAvailable", "has")
    } else {
        ("MinimumReplicasUnavailable", "does not have")
    };
    (reason, format!("Deployment {verb} minimum availability."))
}

/// What the condition `Progressing` says at a fixed point of a rollout; none: it is on its way.
fn milestone(
    deployment: &Deployment,
    created: bool,
    complete: bool,
    name: &str,
) -> Option<(&'static str, String)> {
    if deployment.spec.paused.unwrap_or(false) {
        Some(("DeploymentPaused", "Deployment is paused".into()))
    } else if created {
        Some(("NewReplicaSetCreated", "Created new replica set".into()))
    } else if complete {
        let text = format!("ReplicaSet \"{name}\" has successfully progressed.");
        Some((AVAILABLE, text))
    } else {
        None
    }
}

fn last_reason(conditions: &[DeploymentCondition]) -> Option<&str> {
    let last = conditions
        .iter()
        .find(|condition| condition.type_.as_deref() == Some("Progressing"))?;
    last.reason.as_deref()
}

/// What keeps the current ReplicaSet, or an old one, from making pods.
fn failure(sets: &Sets<'_>) -> Option<String> {
    sets.current
        .into_iter()
        .chain(sets.old.iter().copied())
        .flat_map(|set| set.status.iter())
        .flat_map(|status| status.conditions.iter().flatten())
        .find(|condition| condition.type_.as_deref() == Some(replicaset::FAILURE))
        .and_then(|condition| condition.message.clone())
}

/// Moving on, waiting, or over the deadline.
fn progress(
    deployment: &Deployment,
    before: &DeploymentStatus,
    after: &DeploymentStatus,
    name: &str,
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
    decision: &mut Decision,
) {
    let old_pods =
        |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    let moved = after.updated_replicas > before.updated_replicas
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
        || old_pods(after) < old_pods(before)
        || after.observed_generation != before.observed_generation;
    let last = conditions
        .iter()
        .find(|condition| condition.type_.as_deref() == Some("Progressing"))
        .cloned();
    let since = last
        .as_ref()
        .and_then(|condition| condition.last_update_time.as_ref())
        .map(|time| time.0);
    let deadline = deployment.spec.progress_deadline_seconds.unwrap_or(600);
    let text = format!("ReplicaSet \"{name}\" is progressing.");
    let finished = last.as_ref().and_then(|condition| condition.reason.as_deref()) == Some(AVAILABLE);
    let until = since
        .filter(|_| !moved && !finished)
        .map(|since| pods::later(since, deadline.into()));
    match until {
        Some(until) if until <= now => {
            let text = format!("ReplicaSet \"{name}\" has timed out progressing.");
            set_condition(
                conditions,
                now,
                "Progressing",
                false,
                ("ProgressDeadlineExceeded", text),
            );
        }
        Some(until) => decision.again(until),
        None => {
            set_condition(conditions, now, "Progressing", true, ("ReplicaSetUpdated", text));
            if let Some(condition) = conditions
                .iter_mut()
                .find(|condition| condition.type_.as_deref() == Some("Progressing"))
            {
                condition.last_update_time = Some(Time(now));
            }
            decision.again(pods::later(now, deadline.into()));
        }
    }
}

fn set_condition(
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
    kind: &str,
    status: bool,
    (reason, message): (&str, String),
) {
    let status = if status { "True" } else { "False" };
    let old = conditions
        .iter()
        .find(|condition| condition.type_.as_deref() == Some(kind))
        .cloned();
    if old.as_ref().is_some_and(|old| {
        old.status.as_deref() == Some(status)
            && old.reason.as_deref() == Some(reason)
            && old.message.as_deref() == Some(&message)
    }) {
        return;
    }
    conditions.retain(|condition| condition.type_.as_deref() != Some(kind));
    let since = old
        .filter(|old| old.status.as_deref() == Some(status))
        .and_then(|old| old.last_transition_time);
    conditions.push(DeploymentCondition {
        type_: Some(kind.into()),
        status: Some(status.into()),
        reason: Some(reason.into()),
        message: Some(message),
        last_transition_time: since.or(Some(Time(now))),
        last_update_time: Some(Time(now)),
    });
}
