//! Volumes: a directory of the machine for each claim of the class `local`, as a provisioner makes them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use embedded_node::{Error, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::PROVISIONER;

const CLASS: &str = "local";
/// The scheduler's word that a pod of the claim has a place.
const PLACED: &str = "volume.kubernetes.io/selected-node";

/// The default class. Claims wait for their first pod, as with most classes of real clusters.
pub(crate) async fn install(client: &Client) -> Result<()> {
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }))
    .map_err(|e| Error::said(e.to_string()))?;
    let classes: Api<StorageClass> = Api::all(client.clone());
    let own = PatchParams::apply("real-kubernetes").force();
    let applied = classes.patch(CLASS, &own, &Patch::Apply(&class)).await;
    applied
        .map(drop)
        .map_err(|e| Error::said(format!("StorageClass {CLASS}: {e}")))
}

/// Makes volumes for claims and removes those that were given back, forever.
pub(crate) async fn provide(client: Client, directory: PathBuf) {
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let volumes: Api<PersistentVolume> = Api::all(client);
    let mut asked = watcher(claims, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    let mut given = watcher(volumes.clone(), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    loop {
        let done = tokio::select! {
            Some(Ok(claim)) = asked.next() => make(&volumes, &directory, &claim).await,
            Some(Ok(volume)) = given.next() => reclaim(&volumes, &directory, &volume).await,
            else => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(())
            }
        };
        if let Err(e) = done {
            tracing::warn!("{e}");
        }
    }
}

async fn make(
    volumes: &Api<PersistentVolume>,
    directory: &Path,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let Some(volume) = wanted(claim, directory) else {
        return Ok(());
    };
    let place = directory.join(volume.name_any());
    std::fs::create_dir_all(&place)
        // Whoever runs in the pod: the directory above is closed.
        .and_then(|()| std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)))
        .map_err(Error::file("make directory", &place))?;
    match volumes.create(&PostParams::default(), &volume).await {
        Err(kube::Error::Api(e)) if e.code == 409 => Ok(()),
        made => made
            .map(drop)
            .map_err(|e| Error::said(format!("volume {}: {e}", place.display()))),
    }
}

async fn reclaim(volumes: &Api<PersistentVolume>, directory: &Path, volume: &PersistentVolume) -> Result<()> {
    let own = volume
        .annotations()
        .get("pv.kubernetes.io/provisioned-by")
        .is_some_and(|by| by == PROVISIONER);
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if !own || phase != Some("Released") {
        return Ok(());
    }
    let name = volume.name_any();
    let place = directory.join(&name);
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(Error::file("remove", &place))?;
    }
    match volumes.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(e)) if e.code == 404 => Ok(()),
        gone => gone
            .map(drop)
            .map_err(|e| Error::said(format!("volume {name}: {e}"))),
    }
}

/// Pure: the volume of a claim that has none and whose pod has a place.
fn wanted(claim: &PersistentVolumeClaim, directory: &Path) -> Option<PersistentVolume> {
    let spec = claim.spec.as_ref()?;
    let placed = claim.annotations().contains_key(PLACED);
    if spec.storage_class_name.as_deref() != Some(CLASS) || spec.volume_name.is_some() || !placed {
        return None;
    }
    let uid = claim.uid()?;
    let name = format!("pvc-{uid}");
    let size = spec.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    let by: BTreeMap<&str, &str> = [("pv.kubernetes.io/provisioned-by", PROVISIONER)].into();
    serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": by},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": spec.access_modes,
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(), "name": claim.name_any(), "uid": uid,
            },
            // Of this type, and not hostPath: the kubelet gives it to the pod's group.
            "local": {"path": directory.join(&name)},
            // Every node sees the directory.
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}},
        },
    }))
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: &str, placed: bool, volume: Option<&str>) -> PersistentVolumeClaim {
        let mut annotations = BTreeMap::new();
        if placed {
            annotations.insert(PLACED, "node-1");
        }
        serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "n", "uid": "u", "annotations": annotations},
            "spec": {"storageClassName": class, "volumeName": volume, "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "2Gi"}}},
        }))
        .expect("a claim")
    }

    #[test]
    fn a_claim_gets_one_volume_once_its_pod_has_a_place() {
        let at = Path::new("/v");
        for (claim, why) in [
            (claim("other", true, None), "another class"),
            (claim(CLASS, false, None), "no pod yet"),
            (claim(CLASS, true, Some("pvc-u")), "it has one"),
        ] {
            assert!(wanted(&claim, at).is_none(), "{why}");
        }
        let volume = wanted(&claim(CLASS, true, None), at).expect("a volume");
        let spec = volume.spec.clone().expect("a spec");
        assert_eq!(spec.local.expect("local").path, "/v/pvc-u");
        assert_eq!(spec.access_modes.expect("modes"), ["ReadWriteMany"]);
        assert_eq!(spec.claim_ref.expect("bound").uid.as_deref(), Some("u"));
    }
}
