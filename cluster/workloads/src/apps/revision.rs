//! ControllerRevisions: the templates that a StatefulSet or DaemonSet had, for `kubectl rollout`.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::action::{Action, Target, to_value};
use crate::pods;
use crate::world::World;

pub(crate) const REVISION_HASH: &str = "controller-revision-hash";

/// The revisions of one owner, oldest first.
pub(crate) fn of<'a>(world: &'a World, owner_uid: &str) -> Vec<&'a ControllerRevision> {
    let mut all: Vec<_> = world.revisions.owned_by(owner_uid).map(AsRef::as_ref).collect();
    all.sort_by_key(|revision| (revision.revision, revision.name_any()));
    all
}

/// The stored form is the patch that `kubectl rollout undo` sends.
fn stored(template: &PodTemplateSpec) -> Value {
    let mut template = to_value(template);
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    serde_json::from_value(revision.data.0.pointer("/spec/template")?.clone()).ok()
}

/// Revisions that an owner of this name left behind (`--cascade=orphan`) belong to it again.
pub(crate) fn orphans<O>(world: &World, owner: &O, selector: &LabelSelector) -> Vec<Action>
where
    O: Resource<DynamicType = ()> + ResourceExt,
{
    let named = |revision: &ControllerRevision| {
        let hash = revision.labels().get(REVISION_HASH);
        hash.is_some_and(|hash| revision.name_any() == format!("{}-{hash}", owner.name_any()))
    };
    pods::claims::<ControllerRevision, _>(world, owner, selector, named)
}

/// What StatefulSets and DaemonSets do before they look at their pods: adopt orphans, record the template as the
/// newest revision, and claim pods that `ours` takes for its own. The actions that come first, or all revisions of
/// the owner, of which the last is that of the template.
pub(crate) fn prepare<'a, O>(
    world: &'a World,
    owner: &O,
    selector: &LabelSelector,
    template: &PodTemplateSpec,
    ours: impl Fn(&Pod) -> bool,
) -> Result<Vec<&'a ControllerRevision>, Vec<Action>>
where
    O: Resource<DynamicType = ()> + ResourceExt,
{
    if pods::is_terminating(owner) {
        return Err(Vec::new());
    }
    let adopted = orphans(world, owner, selector);
    if !adopted.is_empty() {
        return Err(adopted);
    }
    let known = of(world, &owner.uid().unwrap_or_default());
    if let Some(first) = missing(world, owner, template, &known) {
        return Err(vec![first]);
    }
    let claimed = pods::claims::<Pod, _>(world, owner, selector, ours);
    if claimed.is_empty() {
        Ok(known)
    } else {
        Err(claimed)
    }
}

/// The hash of its template, which the name ends with.
pub(crate) fn hash<'a>(owner: &str, revision: &'a str) -> &'a str {
    let end = revision
        .strip_prefix(owner)
        .and_then(|rest| rest.strip_prefix('-'));
    end.unwrap_or(revision)
}

/// What to do first so that the newest revision is the one of `template`; none: it is.
pub(crate) fn missing<O>(
    world: &World,
    owner: &O,
    template: &PodTemplateSpec,
    known: &[&ControllerRevision],
) -> Option<Action>
where
    O: Resource<DynamicType = ()> + ResourceExt,
{
    let data = stored(template);
    let newest = known.last().map_or(0, |revision| revision.revision.unwrap_or(0));
    let same = known.iter().find(|revision| revision.data.0 == data);
    if let Some(same) = same {
        if same.revision == Some(newest) {
            return None;
        }
        // A template of the past is wanted again: it moves to the front.
        let body = json!({"revision": newest + 1});
        return Some(Action::Patch {
            target: Target::of(*same),
            subresource: None,
            body,
        });
    }
    let mut salt = 0;
    let mut hash = pods::hash(&data, salt);
    let namespace = owner.namespace().unwrap_or_default();
    let name = |hash: &str| format!("{}-{hash}", owner.name_any());
    // A revision of another owner may have the name.
    while world.revisions.get(&(namespace.clone(), name(&hash))).is_some() {
        salt += 1;
        hash = pods::hash(&data, salt);
    }
    let mut labels = template
        .metadata
        .as_ref()
        .and_then(|meta| meta.labels.clone())
        .unwrap_or_default();
    labels.insert(REVISION_HASH.into(), hash.clone());
    Some(Action::create(&ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name(&hash)),
            labels: Some(labels),
            ..pods::owned_by(owner)
        },
        revision: Some(newest + 1),
        data: RawExtension(data),
    }))
}

/// Revisions beyond the limit that nothing runs any more.
pub(crate) fn surplus(known: &[&ControllerRevision], limit: Option<i32>, in_use: &[&str]) -> Vec<Action> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let idle: Vec<_> = known
        .iter()
        .filter(|revision| !in_use.contains(&revision.name_any().as_str()))
        .collect();
    let surplus = idle.len().saturating_sub(limit);
    idle.into_iter()
        .take(surplus)
        .map(|revision| Action::Delete {
            target: Target::of(*revision),
            grace: None,
        })
        .collect()
}
