//! Claims of volumes that outlive their service.

use c5c3_api::common::parse_quantity;
use c5c3_api::conditions::DEPLOYMENT_READY;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::error::Error;
use crate::facts::Facts;
use crate::shape::{Service, Sharing, VolumeSource};

/// So long a new claim may be on its way.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// A claim that many nodes are to share waits: most default classes make volumes for one node only, and one that
/// cannot make it says so in an event alone.
pub fn unshared(claim: &PersistentVolumeClaim, now: Timestamp) -> Option<String> {
    let since = waits_shared(claim)?;
    if named_from(since) > now {
        return None;
    }
    let name = claim.name_any();
    let class = claim.spec.as_ref()?.storage_class_name.as_deref();
    let class = class.map_or_else(
        || "the default StorageClass".to_owned(),
        |class| format!("StorageClass {class}"),
    );
    Some(format!(
        "PersistentVolumeClaim {name} is Pending since {since}: does {class} make volumes that several nodes share \
         (ReadWriteMany)? If not, set replicas to 1 without storage.file.shared and delete this claim, which is \
         empty, or begin again with a storageClass that does"
    ))
}

/// When the next claim will have waited for long enough to be named, which no watch reports.
pub fn next_unshared(facts: &Facts, now: Timestamp) -> Option<Timestamp> {
    let claims = facts.claims.values().filter_map(waits_shared).map(named_from);
    claims.filter(|from| *from > now).min()
}

fn named_from(since: Timestamp) -> Timestamp {
    since.checked_add(PATIENCE).unwrap_or(Timestamp::MAX)
}

/// Since when it has waited.
fn waits_shared(claim: &PersistentVolumeClaim) -> Option<Timestamp> {
    let modes = claim.spec.as_ref()?.access_modes.as_ref()?;
    let pending = claim.status.as_ref()?.phase.as_deref() == Some("Pending");
    let shared = modes.iter().any(|mode| mode == "ReadWriteMany");
    let made = claim.metadata.creation_timestamp.as_ref()?;
    (pending && shared).then_some(made.0)
}

fn larger(wanted: String, there: String) -> String {
    if parse_quantity(&wanted) > parse_quantity(&there) {
        wanted
    } else {
        there
    }
}

/// Whether several pods can use the claim: as it is, or as it will be made.
pub(super) fn is_shared(name: &str, sharing: Sharing, facts: &Facts) -> bool {
    let live = facts.claims.get(name).and_then(|claim| claim.spec.as_ref());
    let modes = live.and_then(|spec| spec.access_modes.as_ref());
    modes.map_or(sharing != Sharing::None, |modes| {
        modes.iter().any(|mode| mode == "ReadWriteMany")
    })
}

/// Claims outlive the service. One that is there keeps its mode and its class, and does not shrink.
pub fn claims(service: &Service, facts: &Facts) -> Result<Vec<PersistentVolumeClaim>, Error> {
    let names = &service.names;
    let mut objects = Vec::new();
    for volume in service.volumes() {
        if let VolumeSource::Claim { size, class, sharing } = volume.source.clone() {
            let name = names.suffixed(&volume.name);
            let many = is_shared(&name, sharing, facts);
            if sharing == Sharing::Now && !many {
                return Err(Error::ClaimOfOne {
                    claim: name,
                    part: volume.part.unwrap_or(DEPLOYMENT_READY),
                });
            }
            let mode = if many { "ReadWriteMany" } else { "ReadWriteOnce" };
            let live = facts.claims.get(&name).and_then(|claim| claim.spec.as_ref());
            let asked = live.and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage"));
            let size = asked.map_or(size.clone(), |asked| larger(size, asked.0.clone()));
            let class = live.map_or(class, |spec| spec.storage_class_name.clone());
            objects.push(PersistentVolumeClaim {
                metadata: names.metadata(&name),
                spec: Some(PersistentVolumeClaimSpec {
                    access_modes: Some(vec![mode.to_owned()]),
                    resources: Some(VolumeResourceRequirements {
                        requests: Some([("storage".to_owned(), Quantity(size))].into()),
                        ..VolumeResourceRequirements::default()
                    }),
                    storage_class_name: class,
                    ..PersistentVolumeClaimSpec::default()
                }),
                ..PersistentVolumeClaim::default()
            });
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(mode: &str, phase: &str, class: Option<&str>) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "glance-images", "creationTimestamp": "2026-01-01T12:00:00Z"},
            "spec": {"accessModes": [mode], "storageClassName": class}, "status": {"phase": phase},
        }))
        .expect("a claim")
    }

    #[test]
    fn a_claim_that_no_class_can_share_names_the_field() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (soon, later) = (at("2026-01-01T12:00:30Z"), at("2026-01-01T12:01:00Z"));
        let shared = claim("ReadWriteMany", "Pending", Some("fast"));
        assert_eq!(unshared(&shared, soon), None);
        let words = unshared(&shared, later).expect("named");
        assert!(
            words.contains("glance-images is Pending since 2026-01-01T12:00:00Z"),
            "{words}"
        );
        assert!(
            words.contains("StorageClass fast") && words.contains("set replicas to 1"),
            "{words}"
        );
        let words = unshared(&claim("ReadWriteMany", "Pending", None), later).expect("named");
        assert!(words.contains("the default StorageClass"), "{words}");
        for other in [
            claim("ReadWriteOnce", "Pending", None),
            claim("ReadWriteMany", "Bound", None),
        ] {
            assert_eq!(unshared(&other, later), None);
        }
        let mut facts = Facts::default();
        facts.claims.insert("glance-images".to_owned(), shared);
        assert_eq!(next_unshared(&facts, soon), Some(later));
        assert_eq!(next_unshared(&facts, later), None);
    }
}
