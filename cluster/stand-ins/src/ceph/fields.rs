//! What becomes of each field of a CephCluster here: it is run, refused, or has no effect and is told so. Pure.

use c5c3_api::foreign::rook::CephClusterSpec;
use serde_json::{Value, json};

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Run,
    /// It has no effect, and nothing is lost without it.
    Ignored,
    /// To leave it out silently would be a lie. With what to do instead.
    Refused(&'static str),
}

use Meaning::{Ignored, Refused, Run};

const NO_DISKS: &str = "embedded nodes have no disks of their own: use storageClassDeviceSets, whose volumes become files of that size";
const NO_NETWORKS: &str = "there is one network: leave it out";
const POD_NETWORK: &str =
    "is not supported here: leave it out, and daemons of the cluster speak as Ceph does by default";

/// Fields of Rook's type, those below others by their path. What is below a field without rows of its own shares its row.
pub(crate) const TABLE: &[(&str, Meaning)] = &[
    ("annotations", Ignored),
    ("cephConfig", Run),
    (
        "cephConfigFromSecret",
        Refused("secret settings are not supported here: use cephConfig"),
    ),
    ("cephVersion", Run),
    ("cleanupPolicy", Ignored),
    ("continueUpgradeAfterChecksEvenIfNotHealthy", Ignored),
    ("crashCollector", Ignored),
    ("csi", Ignored),
    ("dashboard", Ignored),
    // Volumes take its place.
    ("dataDirHostPath", Run),
    ("disruptionManagement", Ignored),
    // `enable` is refused by the check of the whole.
    ("external", Run),
    ("healthCheck.daemonHealth.mon", Run),
    ("healthCheck.daemonHealth.osd", Ignored),
    ("healthCheck.daemonHealth.status", Ignored),
    ("healthCheck.livenessProbe", Ignored),
    ("healthCheck.muteHealthWarning", Ignored),
    ("healthCheck.startupProbe", Ignored),
    ("labels", Ignored),
    ("logCollector", Ignored),
    ("mgr.allowMultiplePerNode", Ignored),
    ("mgr.count", Run),
    ("mgr.hostNetwork", Ignored),
    ("mgr.modules", Run),
    // One node has one monitor with the network of the host, and any number without.
    ("mon.allowMultiplePerNode", Ignored),
    ("mon.count", Run),
    ("mon.externalMonIDs", Run),
    ("mon.failureDomainLabel", Run),
    (
        "mon.floatingMon",
        Refused("it is not supported here: leave it out, or use a RemoteArbiter"),
    ),
    // Refused by the check of the whole.
    ("mon.stretchCluster", Run),
    ("mon.volumeClaimTemplate", Ignored),
    (
        "mon.zones",
        Refused("zones of monitors are not supported here: leave them out"),
    ),
    ("monitoring", Ignored),
    ("network.addressRanges", Refused(NO_NETWORKS)),
    ("network.connections.compression", Refused(POD_NETWORK)),
    ("network.connections.encryption", Refused(POD_NETWORK)),
    ("network.connections.requireMsgr2", Ignored),
    ("network.dualStack", Refused(NO_NETWORKS)),
    ("network.hostNetwork", Run),
    ("network.ipFamily", Ignored),
    ("network.multiClusterService", Run),
    ("network.provider", Run),
    ("network.selectors", Refused(NO_NETWORKS)),
    ("placement", Ignored),
    ("priorityClassNames", Ignored),
    ("removeOSDsIfOutAndSafeToRemove", Ignored),
    ("resources", Run),
    ("security.cephx", Ignored),
    ("security.keyRotation", Ignored),
    // Refused by the check of the whole.
    ("security.kms", Run),
    ("skipUpgradeChecks", Ignored),
    ("storage.allowDeviceClassUpdate", Ignored),
    ("storage.allowOsdCrushWeightUpdate", Ignored),
    ("storage.backfillFullRatio", Ignored),
    ("storage.config", Ignored),
    ("storage.deviceFilter", Run),
    ("storage.devicePathFilter", Refused(NO_DISKS)),
    ("storage.devices", Refused(NO_DISKS)),
    ("storage.flappingRestartIntervalHours", Ignored),
    ("storage.fullRatio", Ignored),
    (
        "storage.migration",
        Refused("OSDs are not made anew here: leave it out"),
    ),
    ("storage.nearFullRatio", Ignored),
    ("storage.nodes", Run),
    ("storage.onlyApplyOSDPlacement", Ignored),
    ("storage.osdMaxUpdatesInParallel", Ignored),
    ("storage.scheduleAlways", Ignored),
    ("storage.storageClassDeviceSets[].config", Ignored),
    ("storage.storageClassDeviceSets[].count", Run),
    ("storage.storageClassDeviceSets[].encrypted", Run),
    ("storage.storageClassDeviceSets[].name", Run),
    ("storage.storageClassDeviceSets[].placement", Run),
    ("storage.storageClassDeviceSets[].portable", Run),
    ("storage.storageClassDeviceSets[].preparePlacement", Ignored),
    ("storage.storageClassDeviceSets[].resources", Run),
    ("storage.storageClassDeviceSets[].schedulerName", Ignored),
    ("storage.storageClassDeviceSets[].tuneDeviceClass", Ignored),
    ("storage.storageClassDeviceSets[].tuneFastDeviceClass", Ignored),
    ("storage.storageClassDeviceSets[].volumeClaimTemplates", Run),
    ("storage.store", Ignored),
    ("storage.useAllDevices", Run),
    ("storage.useAllNodes", Run),
    ("storage.volumeClaimTemplates", Refused(NO_DISKS)),
    ("upgradeOSDRequiresHealthyPGs", Ignored),
    ("waitTimeoutForHealthyOSDInMinutes", Ignored),
];

/// An empty value asks for nothing.
fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(asks),
        Value::Object(fields) => fields.values().any(asks),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// Paths that ask for something: those of the table, and the first unknown part of others.
fn set(spec: &CephClusterSpec) -> Vec<String> {
    let mut found = Vec::new();
    below("", &json!(spec), &mut found);
    found.sort();
    found.dedup();
    found
}

fn below(path: &str, value: &Value, found: &mut Vec<String>) {
    let inside = |prefix: &str| TABLE.iter().any(|(row, _)| row.starts_with(prefix));
    match value {
        _ if !asks(value) => {}
        Value::Array(items) if inside(&format!("{path}[]")) => {
            items
                .iter()
                .for_each(|item| below(&format!("{path}[]"), item, found));
        }
        Value::Object(fields) if path.is_empty() || inside(&format!("{path}.")) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                below(&format!("{path}{dot}{name}"), value, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

fn row(path: &str) -> Option<&'static (&'static str, Meaning)> {
    TABLE.iter().find(|(row, _)| *row == path)
}

pub(crate) fn check(spec: &CephClusterSpec) -> Result<(), Error> {
    let refused = set(spec).into_iter().find_map(|path| match row(&path) {
        Some((field, Refused(why))) => Some((*field, *why)),
        _ => None,
    });
    match refused {
        Some((field, reason)) => Err(Error::Invalid {
            field,
            reason: reason.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Fields that are set and have no effect here, those that nobody here knows included.
pub(crate) fn ignored(spec: &CephClusterSpec) -> Vec<String> {
    let mut paths = set(spec);
    paths.retain(|path| matches!(row(path), None | Some((_, Ignored))));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of Rook's type of August 2026, by their paths.
    const ROOK: &[(&str, &str)] = &[
        (
            "",
            "cephVersion annotations labels placement resources priorityClassNames dataDirHostPath skipUpgradeChecks \
             continueUpgradeAfterChecksEvenIfNotHealthy waitTimeoutForHealthyOSDInMinutes upgradeOSDRequiresHealthyPGs \
             disruptionManagement crashCollector dashboard monitoring external removeOSDsIfOutAndSafeToRemove cleanupPolicy \
             logCollector csi cephConfig cephConfigFromSecret",
        ),
        (
            "mon.",
            "count allowMultiplePerNode failureDomainLabel zones stretchCluster volumeClaimTemplate externalMonIDs floatingMon",
        ),
        ("mgr.", "count allowMultiplePerNode modules hostNetwork"),
        (
            "network.",
            "provider selectors addressRanges connections.encryption connections.compression connections.requireMsgr2 \
             hostNetwork ipFamily dualStack multiClusterService",
        ),
        ("security.", "kms keyRotation cephx"),
        (
            "healthCheck.",
            "daemonHealth.status daemonHealth.mon daemonHealth.osd livenessProbe startupProbe muteHealthWarning",
        ),
        (
            "storage.",
            "nodes useAllNodes scheduleAlways onlyApplyOSDPlacement config useAllDevices deviceFilter devicePathFilter devices \
             volumeClaimTemplates migration store flappingRestartIntervalHours fullRatio nearFullRatio backfillFullRatio \
             allowDeviceClassUpdate allowOsdCrushWeightUpdate osdMaxUpdatesInParallel",
        ),
        (
            "storage.storageClassDeviceSets[].",
            "name count resources placement preparePlacement config volumeClaimTemplates portable tuneDeviceClass \
             tuneFastDeviceClass schedulerName encrypted",
        ),
    ];

    fn of_rook() -> Vec<String> {
        let paths = |(prefix, names): &(&str, &str)| {
            let paths = names.split_whitespace().map(|name| format!("{prefix}{name}"));
            paths.collect::<Vec<_>>()
        };
        let mut all: Vec<String> = ROOK.iter().flat_map(paths).collect();
        all.sort();
        all
    }

    /// A spec in which this field alone asks for something.
    fn with(path: &str) -> CephClusterSpec {
        let mut value = match path {
            "cephVersion" => json!({"image": "ceph:18"}),
            "external" => json!({"enable": true}),
            "healthCheck.daemonHealth.mon" => json!({"timeout": "45s"}),
            "mgr.modules" | "storage.nodes" => json!([{"name": "n"}]),
            "mon.externalMonIDs" => json!(["ext-a"]),
            "mon.stretchCluster" => json!({"failureDomainLabel": "zone"}),
            "mon.volumeClaimTemplate" => json!({"metadata": {"name": "data"}}),
            "network.multiClusterService" => json!({"enabled": true}),
            "resources" => json!({"mon": {"requests": {"memory": "1Gi"}}}),
            "cephConfig" => json!({"global": {"option": "value"}}),
            "security.kms" => json!({"connectionDetails": {"KMS_PROVIDER": "vault"}}),
            path if path.ends_with("count") => json!(3),
            path if path.ends_with("[].resources") => json!({"requests": {"memory": "1Gi"}}),
            path if path.ends_with("[].volumeClaimTemplates") => json!([{"metadata": {"name": "data"}}]),
            path if path.ends_with("[].name") => json!("disks"),
            path if [
                "dataDirHostPath",
                "storage.deviceFilter",
                "network.provider",
                "network.ipFamily",
            ]
            .contains(&path) =>
            {
                json!("text")
            }
            path if row(path).is_some_and(|(_, meaning)| *meaning == Run) => json!(true),
            path if ["mon.allowMultiplePerNode", "mgr.allowMultiplePerNode"].contains(&path) => json!(true),
            _ => json!({"some": "value"}),
        };
        for part in path.rsplit('.') {
            value = match part.strip_suffix("[]") {
                Some(list) => json!({list: [value]}),
                None => json!({part: value}),
            };
        }
        serde_json::from_value(value).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn every_field_of_rook_has_one_row() {
        let rows: Vec<&str> = TABLE.iter().map(|(path, _)| *path).collect();
        assert_eq!(rows, of_rook());
    }

    #[test]
    fn every_field_is_run_refused_or_told_to_have_no_effect() {
        for (path, meaning) in TABLE {
            let spec = with(path);
            let (refused, told) = (check(&spec).err(), ignored(&spec));
            assert_eq!(refused.is_some(), matches!(meaning, Refused(_)), "{path}");
            assert!(
                refused.is_none_or(|error| error.to_string().contains(path)),
                "{path}"
            );
            let expected: &[&str] = if *meaning == Ignored { &[path] } else { &[] };
            assert_eq!(told, expected, "{path}");
        }
    }

    #[test]
    fn what_asks_for_nothing_is_not_told() {
        let spec = json!({"dashboard": {"enabled": false}, "placement": {}, "crashCollector": {"disable": false}, "labels": null,
            "mon": {"zones": []}, "network": {"connections": {"encryption": {"enabled": false}}}, "invented": {"by": "somebody"}});
        let spec: CephClusterSpec = serde_json::from_value(spec).expect("a spec");
        assert!(check(&spec).is_ok());
        assert_eq!(ignored(&spec), ["invented"]);
    }

    #[test]
    fn the_documentation_has_every_field() {
        let page = include_str!("../../../../docs/components/ceph.md");
        let rows = [
            (Run, "| run |"),
            (Ignored, "| no effect |"),
            (Refused(""), "| refused |"),
        ];
        for (path, meaning) in TABLE {
            let same =
                |(one, _): &&(Meaning, &str)| std::mem::discriminant(one) == std::mem::discriminant(meaning);
            let (_, begins) = rows.iter().find(same).expect("a row");
            let line = page
                .lines()
                .find(|line| line.starts_with(begins))
                .unwrap_or_default();
            assert!(line.contains(&format!("`{path}`")), "{begins} {path}");
        }
    }
}
