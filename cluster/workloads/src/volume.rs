//! PersistentVolumeClaims on a directory of the machine, shared by all its nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apimachinery::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::action::{Action, Decision, Target};
use crate::engine::Config;
use crate::pods;
use crate::table::Key;
use crate::world::World;

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

const CLAIM_IN_USE: &str = "kubernetes.io/pvc-protection";
const VOLUME_IN_USE: &str = "kubernetes.io/pv-protection";

/// Binds a claim: to a free volume that fits, or to a new directory.
pub(crate) fn decide_claim(world: &World, key: &Key, config: &Config) -> Decision {
    let mut decision = Decision::default();
    let Some(claim) = world.claims.get(key) else {
        return decision;
    };
    if pods::is_terminating(claim.as_ref()) {
        // Data is not taken from under a pod that runs.
        if !is_used(world, key) {
            decision
                .actions
                .extend(pods::without_finalizer(claim.as_ref(), CLAIM_IN_USE));
        }
        return decision;
    }
    if let Some(hold) = hold(claim.as_ref(), CLAIM_IN_USE) {
        decision.push(hold);
        return decision;
    }
    let Some(spec) = claim.spec.as_ref().filter(|_| phase(claim) != "Bound") else {
        return decision;
    };
    let mine = world.volumes.iter().find(|volume| is_claimed_by(volume, claim));
    let class = class_of(world, claim);
    let chosen = mine.or_else(|| match &spec.volume_name {
        Some(name) => world
            .volumes
            .get(&(String::new(), name.clone()))
            .filter(|volume| is_free(volume)),
        None => matching(world, spec, class.as_deref().unwrap_or_default()),
    });
    if let Some(volume) = chosen {
        bind(claim, volume, &mut decision);
        return decision;
    }
    let class = class.and_then(|name| world.storage_classes.get(&(String::new(), name)));
    let Some(class) =
        class.filter(|class| class.provisioner == config.provisioner && spec.volume_name.is_none())
    else {
        return decision;
    };
    let uid = claim.uid().unwrap_or_default();
    let name = format!("pvc-{uid}");
    let asked = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    let size = asked.and_then(|r| r.get("storage").cloned());
    decision.push(Action::create(&PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), config.provisioner.clone())].into()),
            finalizers: Some(vec![VOLUME_IN_USE.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: Some([("storage".to_owned(), size.unwrap_or_else(|| Text("1Gi".into())))].into()),
            access_modes: Some((spec.access_modes.clone()).unwrap_or_else(|| vec!["ReadWriteOnce".into()])),
            persistent_volume_reclaim_policy: Some(
                (class.reclaim_policy.clone()).unwrap_or_else(|| "Delete".into()),
            ),
            storage_class_name: Some(class.name_any()),
            volume_mode: Some("Filesystem".into()),
            host_path: Some(HostPathVolumeSource {
                path: config.volumes.join(&name).to_string_lossy().into_owned(),
                type_: Some("DirectoryOrCreate".into()),
            }),
            claim_ref: Some(reference_to(claim)),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }));
    decision
}

fn reference_to(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        namespace: claim.namespace(),
        name: Some(claim.name_any()),
        uid: claim.uid(),
        ..ObjectReference::default()
    }
}

/// A volume whose claim is gone: its directory goes with it, or waits for a person.
pub(crate) fn decide_volume(world: &World, name: &str, config: &Config) -> Decision {
    let mut decision = Decision::default();
    let Some(volume) = world.volumes.get(&(String::new(), name.to_owned())) else {
        return decision;
    };
    let Some(spec) = volume.spec.as_ref() else {
        return decision;
    };
    let bound_to = spec.claim_ref.as_ref();
    let claim = bound_to.and_then(|claim| {
        world.claims.get(&(
            claim.namespace.clone().unwrap_or_default(),
            claim.name.clone().unwrap_or_default(),
        ))
    });
    let wanted = match (bound_to, claim) {
        (None, _) => "Available",
        (Some(reference), Some(claim)) if reference.uid.is_none() || reference.uid == claim.uid() => "Bound",
        _ => "Released",
    };
    let reclaimed = (wanted == "Released"
        && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete"))
    .then(|| own_directory(volume, config))
    .flatten();
    if pods::is_terminating(volume.as_ref()) {
        if wanted == "Bound" {
            return decision;
        }
        // The object goes last: it is what reminds us of the directory.
        let last = pods::without_finalizer(volume.as_ref(), VOLUME_IN_USE);
        decision.actions.extend(last.map(|last| match reclaimed {
            Some(path) => Action::RemoveDirectory {
                path,
                then: Box::new(last),
            },
            None => last,
        }));
        return decision;
    }
    if let Some(hold) = hold(volume.as_ref(), VOLUME_IN_USE) {
        decision.push(hold);
        return decision;
    }
    if reclaimed.is_some() {
        decision.push(Action::Delete {
            target: Target::of(volume.as_ref()),
            grace: None,
        });
        return decision;
    }
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some(wanted) {
        let body = json!({"status": {"phase": wanted}});
        decision.push(Action::Patch {
            target: Target::of(volume.as_ref()),
            subresource: Some("status"),
            body,
        });
    }
    decision
}

/// The directory that was made for the volume. A path from anywhere else is never removed.
fn own_directory(volume: &PersistentVolume, config: &Config) -> Option<PathBuf> {
    let provisioner = volume.annotations().get(PROVISIONED_BY)?;
    let path = Path::new(&volume.spec.as_ref()?.host_path.as_ref()?.path);
    let name = volume.name_any();
    let plain = !name.contains('/') && !name.starts_with('.');
    (*provisioner == config.provisioner && plain && path == config.volumes.join(&name))
        .then(|| path.to_owned())
}

/// Keeps the object, once deleted, until this controller lets it go.
fn hold<K: Resource<DynamicType = ()> + ResourceExt>(object: &K, finalizer: &str) -> Option<Action> {
    let mut all = object.finalizers().to_vec();
    if all.iter().any(|name| name == finalizer) {
        return None;
    }
    all.push(finalizer.to_owned());
    Some(pods::set_finalizers(object, all))
}

/// Whether a pod that has not ended uses the claim.
fn is_used(world: &World, key: &Key) -> bool {
    world
        .pods
        .in_namespace(&key.0)
        .any(|pod| !pods::is_finished(pod) && pods::claims_of(pod).any(|name| name == key.1))
}

fn is_free(volume: &PersistentVolume) -> bool {
    !pods::is_terminating(volume) && volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
}

/// The smallest free volume of the class that has what the claim asks for.
fn matching<'a>(
    world: &'a World,
    wanted: &PersistentVolumeClaimSpec,
    class: &str,
) -> Option<&'a Arc<PersistentVolume>> {
    let storage = |amounts: Option<&BTreeMap<String, Text>>| {
        let text = amounts.and_then(|amounts| amounts.get("storage"));
        text.and_then(|text| Quantity::parse(&text.0).ok())
            .map_or(0, |quantity| quantity.value())
    };
    let size = storage(wanted.resources.as_ref().and_then(|r| r.requests.as_ref()));
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".into());
    world
        .volumes
        .iter()
        .filter(|volume| is_free(volume))
        .filter_map(|volume| Some((volume, volume.spec.as_ref()?)))
        .filter(|(volume, spec)| {
            let modes = spec.access_modes.as_deref().unwrap_or_default();
            spec.storage_class_name.as_deref().unwrap_or_default() == class
                && mode(&spec.volume_mode) == mode(&wanted.volume_mode)
                && wanted
                    .access_modes
                    .iter()
                    .flatten()
                    .all(|wish| modes.contains(wish))
                && wanted
                    .selector
                    .as_ref()
                    .is_none_or(|selector| pods::selects(selector, volume.labels()))
        })
        .map(|(volume, spec)| (storage(spec.capacity.as_ref()), volume))
        .filter(|(capacity, _)| *capacity >= size)
        .min_by_key(|(capacity, volume)| (*capacity, volume.name_any()))
        .map(|(_, volume)| volume)
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

pub(crate) fn is_bound(world: &World, key: &Key) -> bool {
    world.claims.get(key).is_some_and(|claim| phase(claim) == "Bound")
}

fn is_claimed_by(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref())
        .is_some_and(|reference| {
            reference.namespace == claim.namespace()
                && reference.name == claim.metadata.name
                && (reference.uid.is_none() || reference.uid == claim.uid())
        })
}

fn class_of(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    match claim
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.clone())
    {
        Some(name) => Some(name),
        None => {
            let marked = |value: Option<&String>| value.map(String::as_str) == Some("true");
            world
                .storage_classes
                .iter()
                .find(|class| marked(class.annotations().get(DEFAULT_CLASS)))
                .map(|class| class.name_any())
        }
    }
}

/// One write after the other, each when the one before it is seen: broken off anywhere, it goes on
/// from there, and never is a claim bound to a volume that another got.
fn bind(claim: &PersistentVolumeClaim, volume: &PersistentVolume, decision: &mut Decision) {
    let spec = volume.spec.clone().unwrap_or_default();
    if spec
        .claim_ref
        .as_ref()
        .is_none_or(|reference| reference.uid.is_none())
    {
        let body = json!({"spec": {"claimRef": reference_to(claim)}});
        decision.push(Action::replace(volume, None, body));
        return;
    }
    let wanted = claim.spec.as_ref();
    if wanted.and_then(|spec| spec.volume_name.as_deref()) != Some(&volume.name_any()) {
        let mut body = json!({"spec": {"volumeName": volume.name_any()}});
        if wanted.is_some_and(|spec| spec.storage_class_name.is_none()) {
            body["spec"]["storageClassName"] = json!(spec.storage_class_name);
        }
        decision.push(Action::replace(claim, None, body));
        return;
    }
    let body =
        json!({"status": {"phase": "Bound", "accessModes": spec.access_modes, "capacity": spec.capacity}});
    decision.push(Action::Patch {
        target: Target::of(claim),
        subresource: Some("status"),
        body,
    });
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
