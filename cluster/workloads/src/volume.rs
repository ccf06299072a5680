//! PersistentVolumeClaims on a directory of the machine, shared by all its nodes.

use std::path::Path;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;
use serde_json::json;

use crate::action::{Action, Decision, Target};
use crate::pods;
use crate::table::Key;
use crate::world::World;

pub const PROVISIONER: &str = "c5c3.io/directory";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Binds a claim: to a free volume that fits, or to a new directory.
pub fn decide_claim(world: &World, key: &Key, directory: &Path) -> Decision {
    let mut decision = Decision::default();
    let Some(claim) = world.claims.get(key) else {
        return decision;
    };
    let Some(spec) = claim
        .spec
        .as_ref()
        .filter(|_| !pods::is_terminating(claim.as_ref()))
    else {
        return decision;
    };
    if phase(claim) == "Bound" {
        return decision;
    }
    let mine = world.volumes.iter().find(|volume| is_claimed_by(volume, claim));
    let chosen = mine.or_else(|| {
        let name = spec.volume_name.as_ref()?;
        world
            .volumes
            .get(&(String::new(), name.clone()))
            .filter(|volume| volume.spec.as_ref().is_some_and(|s| s.claim_ref.is_none()))
    });
    if let Some(volume) = chosen {
        bind(claim, volume, &mut decision);
        return decision;
    }
    let Some(class) = class_of(world, claim) else {
        return decision;
    };
    let provisioned_here = world
        .storage_classes
        .iter()
        .find(|known| known.name_any() == class)
        .is_some_and(|known| known.provisioner == PROVISIONER);
    if !provisioned_here || spec.volume_name.is_some() {
        return decision;
    }
    let uid = claim.uid().unwrap_or_default();
    let name = format!("pvc-{uid}");
    let policy = world
        .storage_classes
        .iter()
        .find(|known| known.name_any() == class)
        .and_then(|known| known.reclaim_policy.clone());
    let size = spec
        .resources
        .as_ref()
        .and_then(|r| r.requests.as_ref())
        .and_then(|r| r.get("storage").cloned());
    decision.push(Action::Create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": size.map_or_else(|| "1Gi".to_owned(), |size| size.0)},
            "accessModes": spec.access_modes.clone().unwrap_or_else(|| vec!["ReadWriteOnce".into()]),
            "persistentVolumeReclaimPolicy": policy.unwrap_or_else(|| "Delete".into()),
            "storageClassName": class,
            "volumeMode": "Filesystem",
            "hostPath": {"path": directory.join(&name).to_string_lossy(), "type": "DirectoryOrCreate"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.0, "name": key.1, "uid": uid},
        },
    })));
    decision
}

/// A volume whose claim is gone: its directory goes with it, or waits for a person.
pub fn decide_volume(world: &World, name: &str) -> Decision {
    let mut decision = Decision::default();
    let Some(volume) = world.volumes.get(&(String::new(), name.to_owned())) else {
        return decision;
    };
    let Some(spec) = volume
        .spec
        .as_ref()
        .filter(|_| !pods::is_terminating(volume.as_ref()))
    else {
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
    let ours = volume
        .annotations()
        .get("pv.kubernetes.io/provisioned-by")
        .map(String::as_str)
        == Some(PROVISIONER);
    if wanted == "Released" && ours && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
        if let Some(path) = spec.host_path.as_ref().map(|host| host.path.clone()) {
            decision.push(Action::RemoveDirectory(path.into()));
        }
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

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

pub fn is_bound(world: &World, key: &Key) -> bool {
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

fn bind(claim: &PersistentVolumeClaim, volume: &PersistentVolume, decision: &mut Decision) {
    let spec = volume.spec.clone().unwrap_or_default();
    if spec
        .claim_ref
        .as_ref()
        .is_none_or(|reference| reference.uid.is_none())
    {
        let body = json!({"spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace(), "name": claim.name_any(), "uid": claim.uid()}}});
        decision.push(Action::Patch {
            target: Target::of(volume),
            subresource: None,
            body,
        });
    }
    let wanted = claim.spec.as_ref();
    if wanted.and_then(|spec| spec.volume_name.as_deref()) != Some(&volume.name_any()) {
        let mut body = json!({"spec": {"volumeName": volume.name_any()}});
        if wanted.is_some_and(|spec| spec.storage_class_name.is_none()) {
            body["spec"]["storageClassName"] = json!(spec.storage_class_name);
        }
        decision.push(Action::Patch {
            target: Target::of(claim),
            subresource: None,
            body,
        });
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
mod tests {
    use super::*;
    use crate::testing::Sim;

    #[test]
    fn a_claim_gets_a_directory_that_goes_with_it() {
        let mut sim = Sim::default();
        sim.learn(json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "provisioner": PROVISIONER, "reclaimPolicy": "Delete",
            "metadata": {"name": "directory", "annotations": {DEFAULT_CLASS: "true"}}}));
        sim.learn(json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "data", "uid": "u1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}}));
        sim.settle();
        let key = ("n".to_owned(), "data".to_owned());
        assert!(is_bound(&sim.world, &key));
        let claim = sim.world.claims.get(&key).unwrap().spec.clone().unwrap();
        assert_eq!(claim.volume_name.as_deref(), Some("pvc-u1"));
        assert_eq!(claim.storage_class_name.as_deref(), Some("directory"));
        assert_eq!(
            decide_claim(&sim.world, &key, Path::new("/v")),
            Decision::default()
        );

        sim.remove("PersistentVolumeClaim", "data");
        sim.settle();
        assert_eq!(sim.world.volumes.iter().count(), 0);
        assert_eq!(sim.removed_directories, [Path::new("/volumes/pvc-u1")]);
    }
}
