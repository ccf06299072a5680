//! Claims of volumes that outlive their service.

use c5c3_api::common::parse_quantity;
use c5c3_api::conditions::DEPLOYMENT_READY;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::error::Error;
use crate::facts::Facts;
use crate::shape::{Service, Sharing, VolumeSource};

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
