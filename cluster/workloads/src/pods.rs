//! What every workload controller asks of a pod, and how it makes one.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::action::{Action, Target, to_value};
use crate::world::{Cached, World};

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn is_terminating<K: ResourceExt>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Deleted without grace: only finalizers keep it.
pub(crate) fn is_forced(pod: &Pod) -> bool {
    is_terminating(pod) && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// Counts towards its controller's replicas.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// Since when the pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(
        ready
            .last_transition_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// When a ready pod becomes available: at once, or after `minReadySeconds`.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    ready_since(pod).map(|since| later(since, min_ready_seconds.into()))
}

pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|at| at <= now)
}

/// `seconds` after `time`, at most the end of time.
pub(crate) fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

pub(crate) fn owner_reference<K: Resource<DynamicType = ()> + ResourceExt>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Metadata of an object in the namespace of `owner`, which controls it.
pub(crate) fn owned_by<K: Resource<DynamicType = ()> + ResourceExt>(owner: &K) -> ObjectMeta {
    ObjectMeta {
        namespace: owner.namespace(),
        owner_references: Some(vec![owner_reference(owner)]),
        ..ObjectMeta::default()
    }
}

pub(crate) fn controller_of<K: ResourceExt>(object: &K) -> Option<&OwnerReference> {
    object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
}

/// An empty selector selects all; Kubernetes refuses a workload without one.
pub(crate) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(name, value)| labels.get(name) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|rule| {
            let value = labels.get(&rule.key);
            let listed =
                value.is_some_and(|value| rule.values.iter().flatten().any(|wanted| wanted == value));
            match rule.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// Takes over objects of the selector that nobody controls, and lets go of its own that left the
/// selector. `member` is what else an object must be to belong to the owner.
pub(crate) fn claims<K, O>(
    world: &World,
    owner: &O,
    selector: &LabelSelector,
    member: impl Fn(&K) -> bool,
) -> Vec<Action>
where
    K: Cached,
    O: Resource<DynamicType = ()> + ResourceExt,
{
    let (Some(namespace), Some(uid)) = (owner.namespace(), owner.uid()) else {
        return Vec::new();
    };
    let belongs = |object: &K| selects(selector, object.labels()) && member(object);
    let owners = |object: &K, owners: Vec<OwnerReference>| Action::Patch {
        target: Target::of(object),
        subresource: None,
        body: json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(), "ownerReferences": to_value(&owners)}}),
    };
    let lone = K::table(world)
        .in_namespace(&namespace)
        .map(AsRef::as_ref)
        .filter(|object| controller_of(*object).is_none() && !is_terminating(*object) && belongs(object))
        .map(|object| {
            let mut all = object.owner_references().to_vec();
            all.push(owner_reference(owner));
            owners(object, all)
        });
    let strayed = K::table(world)
        .owned_by(&uid)
        .map(AsRef::as_ref)
        .filter(|object| !belongs(object))
        .map(|object| {
            let others = object.owner_references().iter().filter(|owner| owner.uid != uid);
            owners(object, others.cloned().collect())
        });
    lone.chain(strayed).collect()
}

pub(crate) fn set_finalizers<K: Resource<DynamicType = ()> + ResourceExt>(
    object: &K,
    all: Vec<String>,
) -> Action {
    Action::Patch {
        target: Target::of(object),
        subresource: None,
        body: json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": all}}),
    }
}

/// Removes a finalizer, if the object has it.
pub(crate) fn without_finalizer<K>(object: &K, finalizer: &str) -> Option<Action>
where
    K: Resource<DynamicType = ()> + ResourceExt,
{
    let all = object.finalizers();
    let left: Vec<String> = all.iter().filter(|name| *name != finalizer).cloned().collect();
    (left.len() < all.len()).then(|| set_finalizers(object, left))
}

/// Names of the claims that a pod uses.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = String> {
    let own = pod.name_any();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(move |volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        None => volume
            .ephemeral
            .as_ref()
            .map(|_| format!("{own}-{}", volume.name)),
    })
}

/// The name that a new pod gets.
pub(crate) enum PodName {
    Generated(String),
    Fixed(String),
}

/// A pod of the template, controlled by `owner`.
pub(crate) fn from_template<O>(owner: &O, template: &PodTemplateSpec, name: PodName) -> Pod
where
    O: Resource<DynamicType = ()> + ResourceExt,
{
    let meta = template.metadata.clone().unwrap_or_default();
    let (name, generate_name) = match name {
        PodName::Generated(prefix) => (None, Some(prefix)),
        PodName::Fixed(name) => (Some(name), None),
    };
    Pod {
        metadata: ObjectMeta {
            name,
            generate_name,
            labels: Some(meta.labels.unwrap_or_default()),
            annotations: Some(meta.annotations.unwrap_or_default()),
            finalizers: meta.finalizers,
            ..owned_by(owner)
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// A short, stable name for what a template says, in letters that cannot form words.
pub(crate) fn hash(content: &Value, salt: i32) -> String {
    use sha2::{Digest, Sha256};
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut digest = Sha256::new();
    // Maps are sorted, so equal content has equal text.
    digest.update(content.to_string());
    digest.update(salt.to_be_bytes());
    digest
        .finalize()
        .iter()
        .take(10)
        .map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()] as char)
        .collect()
}

/// Resolves `25%` or `3` against a total.
pub(crate) fn scaled(
    value: &k8s_openapi::apimachinery::pkg::util::intstr::IntOrString,
    total: i32,
    round_up: bool,
) -> i32 {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|number| number.trim().parse::<i64>().ok())
                .unwrap_or(0);
            let exact = percent.saturating_mul(total.into());
            let whole = if round_up {
                exact.saturating_add(99).div_euclid(100)
            } else {
                exact.div_euclid(100)
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

/// The order in which surplus pods go: those that matter least first.
pub(crate) fn by_deletion_rank(pods: &mut [&Pod], now: Timestamp) {
    pods.sort_by_key(|pod| {
        let spec = pod.spec.as_ref();
        let phase_rank = match phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let restarts: i32 = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
            .map(|container| container.restart_count)
            .max()
            .unwrap_or(0);
        let age = |time: Timestamp| now.duration_since(time).as_secs();
        (
            spec.is_some_and(|spec| spec.node_name.is_some()),
            phase_rank,
            is_ready(pod),
            std::cmp::Reverse(restarts),
            ready_since(pod).map_or(0, age),
            pod.creation_timestamp().map_or(0, |time| age(time.0)),
            pod.name_any(),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    #[test]
    fn percentages_round_as_asked() {
        let quarter = IntOrString::String("25%".into());
        assert_eq!(scaled(&quarter, 10, true), 3);
        assert_eq!(scaled(&quarter, 10, false), 2);
        assert_eq!(scaled(&IntOrString::Int(4), 10, false), 4);
        assert_eq!(scaled(&IntOrString::String("many".into()), 10, true), 0);
    }

    #[test]
    fn selectors_of_all_operators() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let cases = [
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
                false,
            ),
        ];
        for (selector, expected) in cases {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).expect("a selector");
            assert_eq!(selects(&parsed, &labels), expected, "{selector}");
        }
    }
}
