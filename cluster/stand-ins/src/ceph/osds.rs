//! OSDs: one for each claim of a device set, in a file of the claim's size.

use std::collections::BTreeMap;

use c5c3_api::foreign::rook::{CephCluster, DeviceSet};
use c5c3_kit::pod::env;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, ResourceRequirements, Secret};
use kube::ResourceExt;

use super::keyring;
use super::names::{self, Daemon, OSD};
use super::placement::Placement;
use super::pods::{self, Pod, Ready};
use super::{check, placement, seats, size};

const SET: &str = "ceph.rook.io/DeviceSet";
const INDEX: &str = "ceph.rook.io/setIndex";
const CLAIM: &str = "ceph.rook.io/DeviceSetPVCId";
/// What bluestore may keep in memory beside its tables.
const CACHE: u64 = 64 << 20;
/// The least that Ceph takes.
const MEMORY: u64 = 896 << 20;

/// Claims of all sets.
pub(crate) const CLAIMS: &str = SET;

/// A disk that should be there.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub claim: String,
    pub set: String,
    /// In bytes; what it has is never taken back.
    pub size: u64,
    pub portable: bool,
    pub resources: Option<ResourceRequirements>,
    pub placement: Placement,
    /// Known when the claim is there: the name of the OSD forever.
    pub uuid: Option<String>,
    pub wanted: PersistentVolumeClaim,
}

/// Disks of the sets, and those that a smaller set no longer counts: data does not go with a number.
pub(crate) fn disks(cluster: &CephCluster, found: &[PersistentVolumeClaim]) -> Vec<Disk> {
    let namespace = cluster.namespace().unwrap_or_default();
    let sets = cluster
        .spec
        .storage
        .iter()
        .flat_map(|storage| &storage.storage_class_device_sets);
    let mut disks = Vec::new();
    for set in sets {
        let count = usize::try_from(set.count).unwrap_or_default();
        let more = found
            .iter()
            .filter_map(|claim| index(claim, &set.name))
            .map(|index| index + 1)
            .max();
        for index in 0..count.max(more.unwrap_or_default()) {
            disks.extend(disk(&namespace, set, index, found));
        }
    }
    disks
}

fn index(claim: &PersistentVolumeClaim, set: &str) -> Option<usize> {
    let labels = claim.labels();
    labels.get(SET).filter(|name| *name == set)?;
    labels.get(INDEX)?.parse().ok()
}

fn disk(namespace: &str, set: &DeviceSet, index: usize, found: &[PersistentVolumeClaim]) -> Option<Disk> {
    let template = set.volume_claim_templates.first()?;
    let purpose = template
        .metadata
        .as_ref()
        .and_then(|meta| meta.name.as_deref())
        .unwrap_or("data");
    let name = format!("{}-{purpose}-{index}", set.name);
    let mut spec = template.spec.clone();
    // Here a volume is a directory, and the disk a file in it.
    spec.volume_mode = None;
    spec.access_modes = Some(vec!["ReadWriteOnce".to_owned()]);
    let live = found.iter().find(|claim| claim.name_any() == name);
    let asked = spec.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    let size = size::bytes(&asked.0)?;
    let labels = names::map(&[(SET, &set.name), (INDEX, &index.to_string()), (CLAIM, &name)]);
    Some(Disk {
        size,
        set: set.name.clone(),
        portable: set.portable == Some(true),
        resources: set.resources.clone(),
        // What cannot be read is refused before.
        placement: placement::of(set).unwrap_or_default(),
        uuid: live.and_then(ResourceExt::uid).map(|uid| keyring::uuid(&uid)),
        wanted: PersistentVolumeClaim {
            metadata: names::meta(namespace, &name, labels),
            spec: Some(spec),
            ..PersistentVolumeClaim::default()
        },
        claim: name,
    })
}

/// The Secret with the key of the OSD on this claim.
pub(crate) fn secret_name(claim: &str) -> String {
    format!("{OSD}-{claim}-key")
}

pub(crate) fn secret(namespace: &str, claim: &str, key: &str) -> Secret {
    names::secret(
        names::meta(namespace, &secret_name(claim), names::map(&[("app", OSD)])),
        &[("key", key)],
    )
}

/// Keys by claim, of those that have one already.
pub(crate) fn keys(secrets: &[Secret]) -> BTreeMap<String, String> {
    let read = |secret: &Secret| {
        let name = secret.name_any();
        let claim = name
            .strip_prefix(OSD)?
            .strip_prefix('-')?
            .strip_suffix("-key")?
            .to_owned();
        let key = secret.data.as_ref()?.get("key")?.0.clone();
        Some((claim, String::from_utf8(key).ok()?))
    };
    secrets.iter().filter_map(read).collect()
}

pub(crate) fn deployment(cluster: &CephCluster, image: &str, fsid: &str, id: u32, disk: &Disk) -> Deployment {
    let (namespace, parent) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let id = id.to_string();
    let host = if disk.portable {
        disk.claim.as_str()
    } else {
        "$(NODE_NAME)"
    };
    let site = placement::site(&disk.placement, &cluster.spec);
    let site = site.map_or_else(String::new, |site| format!(" zone={site}"));
    let mut built = pods::deployment(Pod {
        daemon: Daemon {
            namespace: &namespace,
            app: OSD,
            kind: "osd",
            id: &id,
            parent: &parent,
        },
        image,
        fsid,
        script: include_str!("osd.sh"),
        arguments: vec![
            "--keyfile=/etc/ceph-keyring/key".to_owned(),
            format!("--osd-memory-target={MEMORY}"),
            "--bluestore-cache-autotune=false".to_owned(),
            format!("--bluestore-cache-size={CACHE}"),
        ],
        env: vec![
            env("OSD_UUID", disk.uuid.as_deref().unwrap_or_default()),
            env("SIZE", disk.size.to_string()),
            env("CRUSH_LOCATION", format!("root=default{site} host={host}")),
        ],
        keys: (secret_name(&disk.claim), "key"),
        data: Some((disk.claim.clone(), format!("/var/lib/ceph/osd/ceph-{id}"))),
        ports: &[],
        ready: Ready::Running,
        resources: disk
            .resources
            .clone()
            .or_else(|| cluster.spec.resources.get("osd").cloned()),
        replicas: 1,
        host: seats::is_host(&cluster.spec),
        node: None,
        placement: Some(&disk.placement),
        sites: check::site_label(&cluster.spec),
    });
    let own = names::map(&[
        ("ceph-osd-id", &id),
        (SET, &disk.set),
        ("ceph.rook.io/pvc", &disk.claim),
        ("osd-store", "bluestore"),
        ("portable", if disk.portable { "true" } else { "false" }),
    ]);
    built.metadata.labels.get_or_insert_default().extend(own.clone());
    let meta = built.spec.template.metadata.get_or_insert_default();
    meta.labels.get_or_insert_default().extend(own);
    built
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(count: i32) -> CephCluster {
        let spec = json!({"storage": {"storageClassDeviceSets": [{"name": "s", "count": count, "portable": true,
            "volumeClaimTemplates": [{"spec": {"volumeMode": "Block", "resources": {"requests": {"storage": "2Gi"}}}}]}]}});
        let mut cluster = CephCluster::new("c", serde_json::from_value(spec).expect("a spec"));
        cluster.metadata.namespace = Some("n".to_owned());
        cluster
    }

    fn there(index: usize) -> PersistentVolumeClaim {
        let mut claim = disks(&cluster(3), &[])[index].wanted.clone();
        claim.metadata.uid = Some(format!("uid-{index}"));
        claim
    }

    #[test]
    fn an_osd_is_known_by_its_claim() {
        let found = [there(0)];
        let disks = disks(&cluster(2), &found);
        let names: Vec<&str> = disks.iter().map(|disk| disk.claim.as_str()).collect();
        assert_eq!(names, ["s-data-0", "s-data-1"]);
        assert_eq!(disks[0].uuid, Some(keyring::uuid("uid-0")));
        assert_eq!(disks[1].uuid, None);
        assert_eq!(disks[0].size, 2 << 30);
        // A file in a directory, whatever a template says of blocks.
        assert_eq!(disks[0].wanted.spec.as_ref().expect("a spec").volume_mode, None);
    }

    #[test]
    fn a_smaller_number_takes_no_data_away() {
        let found = [there(0), there(1), there(2)];
        for count in 0..=3 {
            assert_eq!(disks(&cluster(count), &found).len(), 3, "{count}");
        }
        assert_eq!(disks(&cluster(4), &found).len(), 4);
    }

    #[test]
    fn an_osd_is_in_the_site_of_its_set() {
        let mut cluster = cluster(1);
        let location = |cluster: &CephCluster| {
            let disk = &disks(cluster, &[])[0];
            let pod = deployment(cluster, "i", "f", 0, disk)
                .spec
                .template
                .spec
                .expect("a pod");
            let variables = pod.containers[0].env.clone().expect("variables");
            let found = variables.iter().find(|one| one.name == "CRUSH_LOCATION");
            let affinity = pod.affinity.and_then(|affinity| affinity.node_affinity);
            (found.and_then(|one| one.value.clone()), affinity.is_some())
        };
        assert_eq!(
            location(&cluster),
            (Some("root=default host=s-data-0".to_owned()), false)
        );
        let placement = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["site-1"]}]}]}}});
        let sets = &mut cluster
            .spec
            .storage
            .as_mut()
            .expect("storage")
            .storage_class_device_sets;
        sets[0].more.insert("placement".to_owned(), placement);
        assert_eq!(
            location(&cluster),
            (Some("root=default zone=site-1 host=s-data-0".to_owned()), true)
        );
    }

    #[test]
    fn keys_are_found_by_claim() {
        let secrets = [
            secret("n", "s-data-0", "K"),
            names::secret(names::meta("n", "other", names::Labels::new()), &[]),
        ];
        assert_eq!(keys(&secrets), names::map(&[("s-data-0", "K")]));
    }
}
