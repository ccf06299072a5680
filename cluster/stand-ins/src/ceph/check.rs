//! Refuses the parts of a CephCluster that are not supported here, by name.

use c5c3_api::foreign::rook::{CephCluster, CephClusterSpec, DeviceSet};

use super::{fields, members, placement, size};
use crate::error::Error;

/// Smallest file in which bluestore can be made, with room for its own tables.
const SMALLEST: u64 = 1 << 30;
/// As many as Rook takes, and how many it makes when nobody says.
const MOST_MONS: i32 = 9;
const USUAL_MONS: i32 = 3;
/// On one machine.
const MOST_OSDS: i32 = 16;

/// The letters of monitors: as many as wanted. To Rook none means that nobody said.
pub(crate) fn mon_ids(spec: &CephClusterSpec) -> Vec<String> {
    let count = spec.mon.as_ref().and_then(|mon| mon.count);
    letters(count.filter(|count| *count != 0).unwrap_or(USUAL_MONS))
}

/// Whether monitors have addresses that other clusters reach.
pub(crate) fn exported(spec: &CephClusterSpec) -> bool {
    let network = spec.network.as_ref();
    let shared = network.and_then(|network| network.multi_cluster_service.as_ref());
    shared.is_some_and(|shared| shared.enabled)
}

/// The label of nodes that says in which site they are, where daemons are spread over sites.
pub(crate) fn site_label(spec: &CephClusterSpec) -> Option<&str> {
    let label = spec.mon.as_ref()?.more.get("failureDomainLabel")?.as_str()?;
    (!label.is_empty()).then_some(label)
}

/// Rook runs two managers by default, one of them standing by.
pub(crate) fn mgr_ids(spec: &CephClusterSpec) -> Vec<String> {
    letters(spec.mgr.as_ref().and_then(|mgr| mgr.count).unwrap_or(2))
}

fn letters(count: i32) -> Vec<String> {
    let count = usize::try_from(count).unwrap_or_default();
    ('a'..='z').take(count).map(String::from).collect()
}

fn wrong<T>(field: &'static str, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid {
        field,
        reason: reason.into(),
    })
}

pub(crate) fn cluster(cluster: &CephCluster) -> Result<(), Error> {
    let spec = &cluster.spec;
    if spec.external.as_ref().is_some_and(|external| external.enable) {
        return wrong(
            "spec.external.enable",
            "external clusters are not supported here: leave it out, and this cluster runs its own daemons",
        );
    }
    if let Some(mon) = &spec.mon {
        if mon.stretch_cluster.is_some() {
            return wrong(
                "spec.mon.stretchCluster",
                "stretched clusters are not supported here: leave it out, or use a cluster with the real Rook",
            );
        }
        let count = mon.count.unwrap_or_default();
        // An even count is no better than one less, but Rook takes it: two sites have as many each.
        if !(0..=MOST_MONS).contains(&count) {
            return wrong(
                "spec.mon.count",
                format!("{count} monitors: set 1 to {MOST_MONS}, best an odd number"),
            );
        }
        if let Some(id) = mon.external_mon_ids.iter().find(|id| members::is_own(id)) {
            return wrong(
                "spec.mon.externalMonIDs",
                format!("{id:?}: letters are names of monitors of this cluster, choose a longer one"),
            );
        }
    }
    if let Some(count) = spec.mgr.as_ref().and_then(|mgr| mgr.count)
        && !(1..=2).contains(&count)
    {
        return wrong("spec.mgr.count", format!("{count} managers: set 1 or 2"));
    }
    if let Some(network) = &spec.network {
        let provider = network.provider.as_deref().unwrap_or_default();
        if !["", "host"].contains(&provider) {
            return wrong(
                "spec.network.provider",
                format!("{provider:?} is not supported here: use host, or leave it out for the pod network"),
            );
        }
    }
    if spec.security.as_ref().is_some_and(|security| {
        let kms = security.kms.as_ref();
        kms.is_some_and(|kms| !kms.connection_details.is_empty())
    }) {
        return wrong(
            "spec.security.kms",
            "encryption is not supported here: leave it out",
        );
    }
    fields::check(spec)?;
    storage(spec)
}

/// `before`: whether the monitors that are there are exported. A cluster whose keys are gone is not started over: its data would be lost forever.
pub(crate) fn known(cluster: &CephCluster, before: Option<bool>, has_identity: bool) -> Result<(), Error> {
    // Monitors know each other by their addresses.
    let exported = exported(&cluster.spec);
    if before.is_some_and(|before| before != exported) {
        return Err(Error::Invalid {
            field: "spec.network.multiClusterService.enabled",
            reason: format!(
                "the addresses of monitors cannot change: set it back to {}",
                !exported
            ),
        });
    }
    let before = cluster
        .status
        .as_ref()
        .and_then(|status| status.ceph.as_ref()?.fsid.as_deref());
    match (before, has_identity) {
        (Some(fsid), false) => Err(Error::Invalid {
            field: "Secret rook-ceph-mon",
            reason: format!(
                "is missing or incomplete, and without it cluster {fsid} cannot be read: restore it"
            ),
        }),
        _ => Ok(()),
    }
}

fn storage(spec: &CephClusterSpec) -> Result<(), Error> {
    let Some(storage) = &spec.storage else {
        return Ok(());
    };
    let devices = storage.use_all_devices == Some(true) || storage.device_filter.is_some();
    if devices || storage.use_all_nodes == Some(true) || !storage.nodes.is_empty() {
        return wrong(
            "spec.storage",
            "embedded nodes have no disks of their own: use storageClassDeviceSets, whose volumes become files of that size",
        );
    }
    let mut total = 0;
    for set in &storage.storage_class_device_sets {
        device_set(set)?;
        total += set.count;
    }
    if total > MOST_OSDS {
        return wrong(
            "spec.storage.storageClassDeviceSets",
            format!("{total} OSDs are too many for one machine: use {MOST_OSDS} or fewer"),
        );
    }
    let mut names: Vec<&str> = storage
        .storage_class_device_sets
        .iter()
        .map(|s| s.name.as_str())
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => wrong(
            "spec.storage.storageClassDeviceSets",
            format!("there are two sets {:?}: give each its own name", pair[0]),
        ),
        None => Ok(()),
    }
}

fn device_set(set: &DeviceSet) -> Result<(), Error> {
    let name = &set.name;
    if name.is_empty() || set.count < 0 {
        return wrong(
            "spec.storage.storageClassDeviceSets",
            format!(
                "set {name:?} with count {}: a name and a count of 0 or more are needed",
                set.count
            ),
        );
    }
    if set.encrypted == Some(true) {
        return wrong(
            "spec.storage.storageClassDeviceSets.encrypted",
            format!("set {name:?}: encryption is not supported here: leave it out"),
        );
    }
    if let Err(why) = placement::of(set) {
        return wrong(
            "spec.storage.storageClassDeviceSets.placement",
            format!("set {name:?}: it cannot be read: {why}"),
        );
    }
    let [template] = set.volume_claim_templates.as_slice() else {
        return wrong(
            "spec.storage.storageClassDeviceSets.volumeClaimTemplates",
            format!("set {name:?}: one volume for each OSD is needed, with the name data"),
        );
    };
    let asked = template.spec.resources.as_ref();
    let asked = asked.and_then(|resources| resources.requests.as_ref()?.get("storage").cloned());
    match asked
        .as_ref()
        .map(|quantity| (quantity, size::bytes(&quantity.0)))
    {
        Some((_, Some(bytes))) if bytes >= SMALLEST => Ok(()),
        Some((quantity, _)) => wrong(
            "spec.storage.storageClassDeviceSets.volumeClaimTemplates.spec.resources.requests.storage",
            format!(
                "set {name:?}: {:?} is too small for an OSD: use 1Gi or more",
                quantity.0
            ),
        ),
        None => wrong(
            "spec.storage.storageClassDeviceSets.volumeClaimTemplates.spec.resources.requests.storage",
            format!("set {name:?}: the size of its OSDs is missing"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refused(spec: Value) -> Option<String> {
        let spec: CephClusterSpec = serde_json::from_value(spec).expect("a spec");
        let found = cluster(&CephCluster::new("c", spec));
        found.err().map(|error| error.to_string())
    }

    fn set(count: i32, size: &str) -> Value {
        json!({"name": "s", "count": count, "volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": size}}}}]})
    }

    #[test]
    fn what_is_run_here_is_taken() {
        for spec in [
            json!({}),
            json!({"mon": {"count": 1}, "mgr": {"count": 1}}),
            json!({"mon": {"count": 2}}),
            json!({"mon": {"count": 4}}),
            json!({"mon": {"count": 9}}),
            json!({"mon": {"count": 3, "externalMonIDs": ["ext-a"]}, "external": {"enable": false}}),
            json!({"storage": {"useAllNodes": false, "storageClassDeviceSets": [set(2, "4Gi")]}}),
        ] {
            assert_eq!(refused(spec.clone()), None, "{spec}");
        }
    }

    #[test]
    fn there_are_as_many_monitors_as_rook_makes() {
        for (count, letters) in [
            (None, "abc"),
            (Some(0), "abc"),
            (Some(2), "ab"),
            (Some(4), "abcd"),
        ] {
            let spec: CephClusterSpec =
                serde_json::from_value(json!({"mon": {"count": count}})).expect("a spec");
            assert_eq!(mon_ids(&spec).concat(), letters, "{count:?}");
        }
    }

    #[test]
    fn what_is_not_run_here_is_refused_by_name() {
        for (spec, field) in [
            (json!({"external": {"enable": true}}), "spec.external.enable"),
            (json!({"mon": {"count": 10}}), "spec.mon.count"),
            (json!({"mon": {"count": -1}}), "spec.mon.count"),
            (
                json!({"mon": {"count": 3, "externalMonIDs": ["b"]}}),
                "spec.mon.externalMonIDs",
            ),
            (
                json!({"mon": {"stretchCluster": {"zones": []}}}),
                "spec.mon.stretchCluster",
            ),
            (json!({"mgr": {"count": 3}}), "spec.mgr.count"),
            (
                json!({"network": {"provider": "multus"}}),
                "spec.network.provider",
            ),
            (
                json!({"security": {"kms": {"connectionDetails": {"KMS_PROVIDER": "vault"}}}}),
                "spec.security.kms",
            ),
            (json!({"storage": {"useAllNodes": true}}), "spec.storage"),
            (json!({"storage": {"nodes": [{"name": "n"}]}}), "spec.storage"),
            (
                json!({"storage": {"storageClassDeviceSets": [set(2, "100Mi")]}}),
                "too small",
            ),
            (
                json!({"storage": {"storageClassDeviceSets": [set(2, "much")]}}),
                "too small",
            ),
            (
                json!({"storage": {"storageClassDeviceSets": [set(99, "4Gi")]}}),
                "too many",
            ),
            (
                json!({"storage": {"storageClassDeviceSets": [set(1, "4Gi"), set(1, "4Gi")]}}),
                "two sets",
            ),
            (
                json!({"storage": {"storageClassDeviceSets": [{"name": "s", "count": 1}]}}),
                "one volume",
            ),
        ] {
            let said = refused(spec.clone()).unwrap_or_default();
            assert!(said.contains(field), "{spec}: {said}");
        }
    }
}
