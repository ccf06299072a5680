//! OVN, the network virtualization behind Neutron: a cluster of our own, or databases of somebody else.

use c5c3_api::c5c3::OVN_SIZE;
use c5c3_api::common::{Image, PodSettings};
use c5c3_api::conditions::control_plane::INFRASTRUCTURE_READY;
use c5c3_api::ovn::{OvnAgent, OvnCluster, OvnClusterSpec, OvnDatabase, OvnStorage};
use serde_json::{Value, json};

use super::child::{Child, images};
use super::infrastructure::{REPLICAS, note_held};
use super::rollout::{Rollout, same_image};
use super::{Draft, Object, Start, State, Step, catalogue, release, whole};

pub(crate) const OVN: &str = "ovn";

pub(super) fn plan(draft: &mut Draft<'_>, rollout: &Rollout) {
    let title = "OVN";
    let infrastructure = &draft.spec.infrastructure.ovn;
    if !draft.spec.services.neutron.common.enabled {
        draft.add_not_required(OVN, title, INFRASTRUCTURE_READY, "no enabled service needs it");
        return;
    }
    if let Some(host) = &infrastructure.northbound {
        let text = format!("using the external databases on {host}");
        draft.add_not_required(OVN, title, INFRASTRUCTURE_READY, text);
        return;
    }
    let Some(object) = object(draft, rollout) else {
        // Its images are not known: what runs stays as it is.
        let state = State::Waiting(vec!["release".to_owned()]);
        draft.push(Step {
            needs: vec!["release".to_owned()],
            objects: vec![Object::Keep(draft.named::<OvnCluster>(OVN))],
            ..Step::bare(OVN, title, INFRASTRUCTURE_READY, state)
        });
        return;
    };
    let wanted = images(&object);
    draft.changes_infrastructure |= draft.child(&object).is_some_and(|child| {
        let differs = |(field, image): (&String, &Value)| !same_image(child.images.get(field), Some(image));
        wanted.iter().any(differs)
    });
    let newer = held(draft, rollout);
    let needs: &[&str] = &["release"];
    let objects = vec![object];
    draft.add(OVN, title, INFRASTRUCTURE_READY, needs, Start::AtOnce, objects);
    note_held(draft, newer);
}

/// The fields of an OVNCluster that name an image, the image, and what the spec says of it.
fn named<'a>(draft: &Draft<'a>) -> [(&'static str, &'static str, Option<&'a Image>); 2] {
    let wanted = &draft.spec.infrastructure.ovn;
    [
        ("ovnImage", "ovn", wanted.image.as_ref()),
        ("ovsImage", "ovs", wanted.ovs_image.as_ref()),
    ]
}

fn there<'a>(draft: &'a Draft<'_>) -> Option<&'a Child> {
    draft.seen.children.get(&draft.named::<OvnCluster>(OVN))
}

/// The image that the spec names, or that of the release. What is there stays where updatePolicy holds newer
/// builds back.
fn image(draft: &Draft<'_>, rollout: &Rollout, field: &str) -> Option<Image> {
    let (_, name, own) = named(draft).into_iter().find(|(found, ..)| *found == field)?;
    if let Some(own) = own {
        return Some(own.clone());
    }
    let stays = there(draft).and_then(|child| child.images.get(field));
    let stays = stays.filter(|_| rollout.holds());
    stays
        .and_then(|image| serde_json::from_value(image.clone()).ok())
        .or_else(|| release::image(rollout.release()?, name).ok())
}

/// The images of the release that updatePolicy holds back.
fn held(draft: &Draft<'_>, rollout: &Rollout) -> Option<String> {
    let release = rollout.release().filter(|_| rollout.holds())?;
    let child = there(draft)?;
    let newer = named(draft).into_iter().filter_map(|(field, name, own)| {
        let newest = release::image(release, name).ok()?;
        let held = own.is_none() && !same_image(child.images.get(field), Some(&json!(newest)));
        held.then(|| newest.reference())
    });
    let newer: Vec<String> = newer.collect();
    (!newer.is_empty()).then(|| newer.join(" and "))
}

fn object(draft: &Draft<'_>, rollout: &Rollout) -> Option<Value> {
    let wanted = &draft.spec.infrastructure.ovn;
    rollout.release()?;
    let size = wanted.storage_size.as_deref().unwrap_or(OVN_SIZE);
    let database = OvnDatabase {
        replicas: wanted.replicas.unwrap_or(REPLICAS),
        storage: Some(OvnStorage {
            size: size.to_owned(),
            storage_class: wanted.storage_class.clone(),
        }),
        resources: wanted.resources.clone(),
    };
    let label = ("node-role.kubernetes.io/hypervisor".to_owned(), String::new());
    let nodes = OvnAgent {
        node_selector: [label].into(),
        resources: None,
    };
    let pods = draft.spec.global.pods.clone();
    Some(whole(&OvnCluster {
        metadata: draft.metadata(OVN),
        spec: OvnClusterSpec {
            ovn_image: image(draft, rollout, "ovnImage")?,
            ovs_image: image(draft, rollout, "ovsImage")?,
            northbound: database.clone(),
            southbound: database,
            controller: nodes.clone(),
            ovs: nodes,
            neutron_integration: Default::default(),
            tls: wanted.tls.clone().unwrap_or_default(),
            compute_ref: catalogue::hypervisors(draft.spec).cloned(),
            pods: pods.filter(|pods| *pods != PodSettings::default()),
        },
        status: None,
    }))
}
