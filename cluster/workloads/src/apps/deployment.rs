//! Deployment: one ReplicaSet for each template it ever had, the newest of them scaled up.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::action::{Action, Decision, Target, to_value};
use crate::apps::rollout::{self, Sets};
use crate::pods;
use crate::table::Key;
use crate::world::World;

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(deployment) = world.deployments.get(key) else {
        return decision;
    };
    let (spec, Some(uid)) = (&deployment.spec, deployment.uid()) else {
        return decision;
    };
    if pods::is_terminating(deployment.as_ref()) {
        return decision;
    }
    decision.actions = pods::claims::<ReplicaSet, _>(world, deployment.as_ref(), &spec.selector, |_| true);
    if !decision.actions.is_empty() {
        return decision;
    }

    let mut all: Vec<&ReplicaSet> = world.replica_sets.owned_by(&uid).map(AsRef::as_ref).collect();
    all.sort_by_key(|set| (set.creation_timestamp().map(|time| time.0), set.name_any()));
    let current = all.iter().copied().find(|set| same_template(set, &spec.template));
    let old: Vec<&ReplicaSet> = all
        .iter()
        .copied()
        .filter(|set| current.is_none_or(|current| current.uid() != set.uid()))
        .collect();
    let paused = spec.paused.unwrap_or(false);
    let sets = Sets { current, old: &old };

    let revision = old.iter().map(|set| revision_of(*set)).max().unwrap_or(0) + 1;
    match current {
        Some(set) => keep_revision(deployment, set, revision, &mut decision),
        None if paused => {}
        None => {
            if create(world, deployment, &sets, revision, &mut decision) {
                rollout::status(deployment, &sets, true, now, &mut decision);
            }
            return decision;
        }
    }

    if paused {
        rollout::scale_paused(deployment, &sets, &mut decision);
    } else if spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.type_.as_deref())
        == Some("Recreate")
    {
        let pods_left = old.iter().any(|set| {
            world
                .pods
                .owned_by(&set.uid().unwrap_or_default())
                .any(|pod| !pods::is_finished(pod))
        });
        rollout::recreate(deployment, &sets, pods_left, &mut decision);
    } else {
        rollout::rolling(deployment, &sets, &mut decision);
    }
    if !paused {
        forget_history(deployment, &old, &mut decision);
    }
    rollout::status(deployment, &sets, false, now, &mut decision);
    decision
}

pub(crate) fn revision_of<K: ResourceExt>(object: &K) -> i64 {
    object
        .annotations()
        .get(REVISION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Equal but for the label that tells the ReplicaSets apart.
fn same_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let bare = |template: &PodTemplateSpec| {
        let mut value = to_value(template);
        if let Some(labels) = value
            .pointer_mut("/metadata/labels")
            .and_then(Value::as_object_mut)
        {
            labels.remove(TEMPLATE_HASH);
        }
        value
    };
    set.spec
        .template
        .as_ref()
        .is_some_and(|own| bare(own) == bare(template))
}

/// The annotations that a Deployment hands on to its current ReplicaSet.
fn told(deployment: &Deployment) -> BTreeMap<String, String> {
    let mut annotations = deployment.annotations().clone();
    for own in [
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
    ] {
        annotations.remove(own);
    }
    annotations
}

/// The current ReplicaSet has the highest revision; a rollback makes an old one current again.
fn keep_revision(deployment: &Deployment, set: &ReplicaSet, revision: i64, decision: &mut Decision) {
    let own = revision_of(set);
    let shown = if own < revision { revision } else { own };
    // Annotations that the Deployment gets later, such as the cause of the change, are copied to its set too.
    let mut annotations = told(deployment);
    annotations.retain(|name, value| set.annotations().get(name) != Some(value));
    if own < revision {
        annotations.insert(REVISION.into(), revision.to_string());
        if own > 0 {
            let history = set
                .annotations()
                .get(REVISION_HISTORY)
                .map(|past| format!("{past},{own}"));
            annotations.insert(
                REVISION_HISTORY.into(),
                history.unwrap_or_else(|| own.to_string()),
            );
        }
    }
    if !annotations.is_empty() {
        decision.push(Action::Patch {
            target: Target::of(set),
            subresource: None,
            body: json!({"metadata": {"annotations": annotations}}),
        });
    }
    let min_ready = |seconds: Option<i32>| seconds.unwrap_or(0);
    let wanted = deployment.spec.min_ready_seconds;
    if min_ready(set.spec.min_ready_seconds) != min_ready(wanted) {
        let body = json!({"spec": {"minReadySeconds": min_ready(wanted)}});
        decision.push(Action::Patch {
            target: Target::of(set),
            subresource: None,
            body,
        });
    }
    show_revision(deployment, shown, decision);
}

fn show_revision(deployment: &Deployment, revision: i64, decision: &mut Decision) {
    if revision_of(deployment) != revision {
        let body = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
        decision.push(Action::Patch {
            target: Target::of(deployment),
            subresource: None,
            body,
        });
    }
}

/// Makes the ReplicaSet of the template. False: its name is taken by another template, and the
/// next try gets another hash.
fn create(
    world: &World,
    deployment: &Deployment,
    sets: &Sets<'_>,
    revision: i64,
    decision: &mut Decision,
) -> bool {
    let spec = &deployment.spec;
    let collisions = deployment
        .status
        .as_ref()
        .and_then(|status| status.collision_count)
        .unwrap_or(0);
    let hash = pods::hash(&to_value(&spec.template), collisions);
    let name = format!("{}-{hash}", deployment.name_any());
    let namespace = deployment.namespace().unwrap_or_default();
    if world
        .replica_sets
        .get(&(namespace.clone(), name.clone()))
        .is_some()
    {
        let body = json!({"status": {"collisionCount": collisions + 1}});
        decision.push(Action::Patch {
            target: Target::of(deployment),
            subresource: Some("status"),
            body,
        });
        return false;
    }
    let mut template = spec.template.clone();
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(TEMPLATE_HASH.into(), hash.clone());
    let mut selector = spec.selector.clone();
    selector
        .match_labels
        .get_or_insert_default()
        .insert(TEMPLATE_HASH.into(), hash);
    let mut annotations = told(deployment);
    annotations.insert(REVISION.into(), revision.to_string());
    let sized = rollout::size(deployment).annotations();
    let sized = sized.as_object().into_iter().flatten();
    annotations
        .extend(sized.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())));
    decision.push(Action::create(&ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name),
            labels: template.metadata.as_ref().and_then(|meta| meta.labels.clone()),
            annotations: Some(annotations),
            ..pods::owned_by(deployment)
        },
        spec: ReplicaSetSpec {
            replicas: Some(rollout::first_replicas(deployment, sets)),
            min_ready_seconds: Some(spec.min_ready_seconds.unwrap_or(0)),
            selector,
            template: Some(template),
        },
        status: None,
    }));
    show_revision(deployment, revision, decision);
    true
}

fn forget_history(deployment: &Deployment, old: &[&ReplicaSet], decision: &mut Decision) {
    let limit = deployment.spec.revision_history_limit.unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    let mut idle: Vec<&ReplicaSet> = old
        .iter()
        .copied()
        .filter(|set| rollout::wanted(set) == 0 && rollout::present(set) == 0)
        .collect();
    idle.sort_by_key(|set| revision_of(*set));
    let surplus = idle.len().saturating_sub(limit);
    for set in idle.into_iter().take(surplus) {
        decision.push(Action::Delete {
            target: Target::of(set),
            grace: None,
        });
    }
}

#[cfg(test)]
#[path = "deployment_tests.rs"]
mod tests;
