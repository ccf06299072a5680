//! StatefulSet: pods with names, volumes and an order.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::action::{Action, Decision, Target};
use crate::apps::revision::{self, REVISION_HASH};
use crate::pods::{self, PodName};
use crate::table::Key;
use crate::world::World;

pub(crate) fn decide(world: &World, key: &Key, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(set) = world.stateful_sets.get(key) else {
        return decision;
    };
    let (spec, Some(uid)) = (&set.spec, set.uid()) else {
        return decision;
    };
    let ours = |pod: &Pod| ordinal(set, pod).is_some();
    let known = match revision::prepare(world, set.as_ref(), &spec.selector, &spec.template, ours) {
        Ok(known) => known,
        Err(first) => {
            decision.actions = first;
            return decision;
        }
    };
    let Some(update) = known.last() else {
        return decision;
    };
    let named = set
        .status
        .as_ref()
        .and_then(|status| status.current_revision.clone());
    let current = known
        .iter()
        .find(|revision| Some(revision.name_any()) == named)
        .unwrap_or(update);

    let turn = Turn {
        world,
        set,
        spec,
        current,
        update,
        now,
    };
    let owned = turn.pods(&uid);
    turn.scale_and_update(&owned, &mut decision);
    let status = turn.status(&owned, &mut decision);
    let in_use = [
        status.current_revision.as_deref().unwrap_or_default(),
        status.update_revision.as_deref().unwrap_or_default(),
    ];
    decision
        .actions
        .extend(revision::surplus(&known, spec.revision_history_limit, &in_use));
    decision.status(set.as_ref(), set.status.as_ref(), &status);
    decision
}

/// The number in a name of the set's own pattern.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.name_any();
    let text = name.strip_prefix(&set.name_any())?.strip_prefix('-')?;
    let number = text.parse::<i32>().ok()?;
    (number.to_string() == text).then_some(number)
}

fn delete(pod: &Pod, decision: &mut Decision) {
    decision.push(Action::Delete {
        target: Target::of(pod),
        grace: None,
    });
}

struct Turn<'a> {
    world: &'a World,
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    current: &'a ControllerRevision,
    update: &'a ControllerRevision,
    now: Timestamp,
}

impl<'a> Turn<'a> {
    fn pods(&self, uid: &str) -> BTreeMap<i32, &'a Pod> {
        self.world
            .pods
            .owned_by(uid)
            .filter_map(|pod| Some((ordinal(self.set, pod)?, pod.as_ref())))
            .collect()
    }

    fn ordinals(&self) -> std::ops::Range<i32> {
        let start = self
            .spec
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start)
            .unwrap_or(0);
        start..start + self.spec.replicas.unwrap_or(1).max(0)
    }

    fn healthy(&self, pod: &Pod) -> bool {
        pods::is_active(pod) && pods::is_available(pod, self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        pod.labels().get(REVISION_HASH) == Some(&self.update.name_any())
    }

    /// Pods below the partition stay at the current revision.
    fn partition(&self) -> i32 {
        let strategy = self.spec.update_strategy.as_ref();
        let partition = strategy
            .and_then(|strategy| strategy.rolling_update.as_ref())
            .and_then(|rolling| rolling.partition);
        self.ordinals().start + partition.unwrap_or(0)
    }

    fn scale_and_update(&self, owned: &BTreeMap<i32, &Pod>, decision: &mut Decision) {
        let ordered = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        let ordinals = self.ordinals();
        let mut waits = false;
        for ordinal in ordinals.clone() {
            // A claim that went while the pod waited for it is made again.
            if let Some(pod) = owned
                .get(&ordinal)
                .filter(|pod| pods::is_active(pod) && pods::phase(pod) == "Pending")
            {
                let claims = self.claims(&pod.name_any());
                decision.actions.extend(claims.into_iter().flatten());
            }
            match owned.get(&ordinal) {
                None => self.create(ordinal, decision),
                // A finished pod is replaced under the same name.
                Some(pod) if pods::is_finished(pod) && !pods::is_terminating(*pod) => delete(pod, decision),
                Some(pod) if self.healthy(pod) => continue,
                Some(pod) => {
                    if let Some(at) = pods::available_at(pod, self.spec.min_ready_seconds.unwrap_or(0)) {
                        decision.again(at.max(self.now));
                    }
                    if ordered && self.is_outdated(ordinal, pod) && self.may_replace_broken(owned) {
                        delete(pod, decision);
                    }
                }
            }
            waits = true;
            if ordered {
                return;
            }
        }
        for (_, pod) in owned
            .iter()
            .rev()
            .filter(|(ordinal, _)| !ordinals.contains(ordinal))
        {
            if !pods::is_terminating(*pod) {
                delete(pod, decision);
            }
            waits = true;
            if ordered {
                return;
            }
        }
        let outdated = owned
            .iter()
            .rev()
            .filter(|(ordinal, pod)| ordinals.contains(ordinal) && self.is_outdated(**ordinal, pod));
        let next = if waits {
            let mut broken = outdated.filter(|(_, pod)| !self.healthy(pod));
            broken.next().filter(|_| self.may_replace_broken(owned))
        } else {
            outdated.into_iter().next()
        };
        if let Some((_, pod)) = next {
            delete(pod, decision);
        }
    }

    fn is_outdated(&self, ordinal: i32, pod: &Pod) -> bool {
        self.rolls() && ordinal >= self.partition() && !self.is_updated(pod)
    }

    /// An outdated pod that does not serve is no reason to wait, since the new revision may cure it;
    /// but only while no other pod is on its way: members of a quorum change one by one.
    fn may_replace_broken(&self, owned: &BTreeMap<i32, &Pod>) -> bool {
        self.ordinals().all(|ordinal| {
            owned
                .get(&ordinal)
                .is_some_and(|pod| pods::is_active(pod) && (!self.is_updated(pod) || self.healthy(pod)))
        })
    }

    fn rolls(&self) -> bool {
        self.spec
            .update_strategy
            .as_ref()
            .and_then(|strategy| strategy.type_.as_deref())
            != Some("OnDelete")
    }

    fn create(&self, ordinal: i32, decision: &mut Decision) {
        let revision = if ordinal < self.partition() {
            self.current
        } else {
            self.update
        };
        let template = revision::template(revision).unwrap_or_else(|| self.spec.template.clone());
        let name = format!("{}-{ordinal}", self.set.name_any());
        let key = (self.set.namespace().unwrap_or_default(), name.clone());
        if self.world.pods.get(&key).is_some() {
            // A pod that belongs to another owner has the name; ours is created when it is gone.
            return;
        }
        let Some(claims) = self.claims(&name) else {
            return;
        };
        decision.actions.extend(claims);
        let template = self.identity(template, &name, ordinal, &revision.name_any());
        let pod = pods::from_template(self.set, &template, PodName::Fixed(name));
        decision.push(Action::create(&pod));
    }

    /// The claims that a pod lacks. None while one of them is on its way out: the pod must not
    /// come to depend on it.
    fn claims(&self, pod: &str) -> Option<Vec<Action>> {
        let namespace = self.set.namespace().unwrap_or_default();
        let templates = || self.spec.volume_claim_templates.iter().flatten();
        let leaves = |template: &PersistentVolumeClaim| {
            let key = (namespace.clone(), format!("{}-{pod}", template.name_any()));
            let claim = self.world.claims.get(&key);
            claim.is_some_and(|claim| pods::is_terminating(claim.as_ref()))
        };
        let missing = templates().filter_map(|template| self.claim(template, pod));
        (!templates().any(leaves)).then(|| missing.collect())
    }

    /// The claim of a pod outlives it: the next pod of that name finds its data.
    fn claim(&self, template: &PersistentVolumeClaim, pod: &str) -> Option<Action> {
        let namespace = self.set.namespace().unwrap_or_default();
        let name = format!("{}-{pod}", template.name_any());
        if self
            .world
            .claims
            .get(&(namespace.clone(), name.clone()))
            .is_some()
        {
            return None;
        }
        let mut labels = template.labels().clone();
        labels.extend(self.spec.selector.match_labels.clone().unwrap_or_default());
        let policy = self.spec.persistent_volume_claim_retention_policy.as_ref();
        let goes_with_set = policy.and_then(|policy| policy.when_deleted.as_deref()) == Some("Delete");
        Some(Action::create(&PersistentVolumeClaim {
            metadata: ObjectMeta {
                namespace: Some(namespace),
                name: Some(name),
                labels: Some(labels),
                annotations: Some(template.annotations().clone()),
                owner_references: goes_with_set.then(|| vec![pods::owner_reference(self.set)]),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }))
    }

    fn identity(
        &self,
        mut template: PodTemplateSpec,
        name: &str,
        ordinal: i32,
        revision: &str,
    ) -> PodTemplateSpec {
        let labels = template
            .metadata
            .get_or_insert_default()
            .labels
            .get_or_insert_default();
        labels.insert("statefulset.kubernetes.io/pod-name".into(), name.into());
        labels.insert("apps.kubernetes.io/pod-index".into(), ordinal.to_string());
        labels.insert(REVISION_HASH.into(), revision.into());
        let spec = template.spec.get_or_insert_default();
        spec.hostname = Some(name.into());
        spec.subdomain.clone_from(&self.spec.service_name);
        let volumes = spec.volumes.get_or_insert_default();
        for claim in self.spec.volume_claim_templates.iter().flatten() {
            let volume = claim.name_any();
            volumes.retain(|other| other.name != volume);
            volumes.push(Volume {
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: format!("{volume}-{name}"),
                    ..Default::default()
                }),
                name: volume,
                ..Default::default()
            });
        }
        template
    }

    fn status(&self, owned: &BTreeMap<i32, &Pod>, decision: &mut Decision) -> StatefulSetStatus {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        let active: Vec<&Pod> = owned
            .values()
            .copied()
            .filter(|pod| pods::is_active(pod))
            .collect();
        let count = |keep: &dyn Fn(&Pod) -> bool| {
            i32::try_from(active.iter().filter(|pod| keep(pod)).count()).unwrap_or(i32::MAX)
        };
        for at in active
            .iter()
            .filter_map(|pod| pods::available_at(pod, min_ready))
            .filter(|at| *at > self.now)
        {
            decision.again(at);
        }
        let wanted = self.spec.replicas.unwrap_or(1);
        let updated = count(&|pod| self.is_updated(pod));
        let ready = count(&pods::is_ready);
        let complete = updated == wanted && ready == wanted && count(&|_| true) == wanted;
        let current = if complete { self.update } else { self.current }.name_any();
        StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas: count(&|_| true),
            ready_replicas: Some(ready),
            available_replicas: Some(count(&|pod| pods::is_available(pod, min_ready, self.now))),
            current_replicas: Some(count(&|pod| pod.labels().get(REVISION_HASH) == Some(&current))),
            updated_replicas: Some(updated),
            update_revision: Some(self.update.name_any()),
            current_revision: Some(current),
            collision_count: Some(0),
            conditions: None,
        }
    }
}

#[cfg(test)]
#[path = "statefulset_tests.rs"]
mod tests;
