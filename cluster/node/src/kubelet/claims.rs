//! Which directory a claim stands for. Both sides must agree: anybody who may write claims may name
//! any volume in one.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;

use crate::pods::Claimed;

/// The volume that a claim says it is bound to, or why it is not bound.
pub(super) fn volume_of(claim: Option<&PersistentVolumeClaim>, name: &str) -> Result<String, String> {
    let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    let volume = claim.spec.as_ref().and_then(|s| s.volume_name.clone());
    match (phase, volume) {
        (Some("Bound"), Some(volume)) => Ok(volume),
        (phase, _) => Err(format!(
            "persistentvolumeclaim {name:?} is not bound yet: its phase is {}",
            phase.unwrap_or("not known")
        )),
    }
}

/// The volume's directory, when the volume is that very claim's.
pub(super) fn directory(claim: &PersistentVolumeClaim, volume: Option<PersistentVolume>) -> Claimed {
    let name = claim.name_any();
    let volume = volume
        .ok_or_else(|| format!("the persistentvolume of persistentvolumeclaim {name:?} does not exist"))?;
    let title = volume.name_any();
    let spec = volume.spec.unwrap_or_default();
    let holder = spec.claim_ref.unwrap_or_default();
    let own = holder.namespace == claim.namespace()
        && holder.name == claim.metadata.name
        && holder.uid.is_some()
        && holder.uid == claim.uid();
    if !own {
        let whose = match holder.name {
            None => "nobody's yet".to_owned(),
            Some(other) => format!(
                "that of {}/{other} (uid {})",
                holder.namespace.unwrap_or_default(),
                holder.uid.as_deref().unwrap_or("not known")
            ),
        };
        return Err(format!(
            "persistentvolumeclaim {name:?} names the persistentvolume {title:?}, which is {whose}: \
             its claimRef must name this claim"
        ));
    }
    let host = spec.host_path.map(|h| h.path);
    host.or_else(|| spec.local.map(|l| l.path))
        .map(PathBuf::from)
        .ok_or_else(|| {
            format!(
                "persistentvolume {title:?} is not a directory: embedded nodes support only hostPath and local volumes"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(phase: &str) -> PersistentVolumeClaim {
        serde_json::from_value(
            json!({ "metadata": { "namespace": "n", "name": "data", "uid": "u-1" },
            "spec": { "volumeName": "pv" }, "status": { "phase": phase } }),
        )
        .unwrap()
    }

    fn volume(reference: Value) -> Option<PersistentVolume> {
        let volume = json!({ "metadata": { "name": "pv" },
            "spec": { "claimRef": reference, "hostPath": { "path": "/volumes/pv" } } });
        Some(serde_json::from_value(volume).unwrap())
    }

    #[test]
    fn a_volume_is_mounted_for_the_claim_that_it_names_alone() {
        let own = json!({ "namespace": "n", "name": "data", "uid": "u-1" });
        let path = directory(&claim("Bound"), volume(own)).unwrap();
        assert_eq!(path, PathBuf::from("/volumes/pv"));
        for (reference, said) in [
            (Value::Null, "nobody's yet"),
            (
                json!({ "namespace": "other", "name": "data", "uid": "u-1" }),
                "that of other/data",
            ),
            (
                json!({ "namespace": "n", "name": "theirs", "uid": "u-1" }),
                "that of n/theirs",
            ),
            // One of that name before, or one that is not bound from both sides.
            (
                json!({ "namespace": "n", "name": "data", "uid": "u-0" }),
                "(uid u-0)",
            ),
            (json!({ "namespace": "n", "name": "data" }), "(uid not known)"),
        ] {
            let error = directory(&claim("Bound"), volume(reference)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(
            directory(&claim("Bound"), None)
                .unwrap_err()
                .contains("does not exist")
        );
    }

    #[test]
    fn a_claim_that_is_not_bound_says_so() {
        assert_eq!(volume_of(Some(&claim("Bound")), "data").unwrap(), "pv");
        let said = |claim: Option<&PersistentVolumeClaim>| volume_of(claim, "data").unwrap_err();
        assert!(said(Some(&claim("Pending"))).contains("its phase is Pending"));
        assert!(said(Some(&claim("Lost"))).contains("its phase is Lost"));
        assert!(said(None).contains("\"data\" not found"));
    }
}
