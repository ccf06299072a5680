//! The status of a CephCluster, as Rook words it. Pure.

use std::collections::BTreeMap;

use c5c3_api::foreign::rook::{
    Capacity, CephClusterStatus, CephClusterVersion, CephHealth, DaemonVersions, HealthMessage, OsdStatus,
    StorageStatus,
};
use jiff::Timestamp;

use super::view::{PgMap, View};

/// Part of the whole by which a use has to change before it is told again: else an idle cluster writes.
const NEWS: u64 = 100;

pub(crate) struct Seen<'a> {
    pub view: Option<&'a View>,
    pub image: &'a str,
    /// Why it is not ready, or `None`.
    pub blocker: Option<&'a str>,
    pub refused: Option<String>,
    pub now: Timestamp,
}

pub(crate) fn status(before: Option<&CephClusterStatus>, seen: &Seen<'_>) -> CephClusterStatus {
    let created = before.and_then(|status| status.state.as_deref()) == Some("Created");
    let (phase, state, message) = match (&seen.refused, seen.blocker) {
        (Some(refused), _) => ("Failure", "Error", refused.clone()),
        (None, None) => ("Ready", "Created", "Cluster created successfully".to_owned()),
        (None, Some(why)) if created => ("Progressing", "Created", why.to_owned()),
        (None, Some(why)) => ("Progressing", "Creating", why.to_owned()),
    };
    let ceph_before = before.and_then(|status| status.ceph.as_ref());
    CephClusterStatus {
        phase: Some(phase.to_owned()),
        state: Some(state.to_owned()),
        message: Some(message),
        // Who cannot be asked is as it was when last seen.
        ceph: match seen.view {
            Some(view) => Some(health(ceph_before, view, seen.now)),
            None => ceph_before.cloned(),
        },
        storage: match seen.view {
            Some(view) => Some(storage(view)),
            None => before.and_then(|status| status.storage.clone()),
        },
        version: Some(CephClusterVersion {
            image: Some(seen.image.to_owned()),
            version: seen.view.and_then(version).or_else(|| {
                let version = before.and_then(|status| status.version.as_ref());
                version.and_then(|version| version.version.clone())
            }),
        }),
        ..CephClusterStatus::default()
    }
}

fn health(before: Option<&CephHealth>, view: &View, now: Timestamp) -> CephHealth {
    let health = &view.status.health;
    let details: BTreeMap<String, HealthMessage> = health
        .checks
        .iter()
        .filter(|(_, check)| !check.muted)
        .map(|(code, check)| {
            let message = HealthMessage {
                severity: check.severity.clone(),
                message: check.summary.message.clone(),
            };
            (code.clone(), message)
        })
        .collect();
    let same = before.is_some_and(|before| before.health.as_deref() == Some(&health.status));
    let versions = &view.versions;
    CephHealth {
        health: Some(health.status.clone()),
        details,
        fsid: Some(view.status.fsid.clone()),
        previous_health: if same {
            before.and_then(|before| before.previous_health.clone())
        } else {
            before.and_then(|before| before.health.clone())
        },
        last_changed: if same {
            before.and_then(|before| before.last_changed.clone())
        } else {
            Some(now.to_string())
        },
        last_checked: None,
        capacity: capacity(
            before.and_then(|before| before.capacity.as_ref()),
            &view.status.pgmap,
            now,
        ),
        versions: Some(DaemonVersions {
            mon: versions.mon.clone(),
            mgr: versions.mgr.clone(),
            osd: versions.osd.clone(),
            rgw: versions.rgw.clone(),
            overall: versions.overall.clone(),
        }),
    }
}

fn capacity(before: Option<&Capacity>, now: &PgMap, time: Timestamp) -> Option<Capacity> {
    let (total, used) = (now.bytes_total, now.bytes_used);
    let still = before.is_some_and(|before| {
        let told = before.bytes_used.unwrap_or_default();
        before.bytes_total == Some(total) && told.abs_diff(used) <= total / NEWS
    });
    match before {
        Some(before) if still => Some(before.clone()),
        _ if total == 0 => None,
        _ => Some(Capacity {
            bytes_total: Some(total),
            bytes_used: Some(used),
            bytes_available: Some(now.bytes_avail),
            last_updated: Some(time.to_string()),
        }),
    }
}

fn storage(view: &View) -> StorageStatus {
    let count = i64::try_from(view.osds.osds.len()).unwrap_or_default();
    StorageStatus {
        device_classes: Vec::new(),
        osd: OsdStatus {
            store_type: BTreeMap::from([("bluestore".to_owned(), count)]),
        },
    }
}

/// `18.2.7-0` of `ceph version 18.2.7 (…) reef (stable)`: the oldest that runs.
fn version(view: &View) -> Option<String> {
    let of = |text: &String| {
        Some(format!(
            "{}-0",
            text.strip_prefix("ceph version ")?.split(' ').next()?
        ))
    };
    view.versions.overall.keys().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(health: &str, used: u64) -> View {
        let mut view = View::default();
        view.status.health.status = health.to_owned();
        view.status.pgmap = PgMap {
            bytes_total: 1000,
            bytes_used: used,
            bytes_avail: 1000 - used,
        };
        let text = "ceph version 18.2.7 (6b0e9 ) reef (stable)".to_owned();
        view.versions.overall.insert(text, 4);
        view
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn seen<'a>(view: &'a View, second: i64) -> Seen<'a> {
        Seen {
            view: Some(view),
            image: "i",
            blocker: None,
            refused: None,
            now: at(second),
        }
    }

    #[test]
    fn an_idle_cluster_says_the_same_again() {
        let first = status(None, &seen(&view("HEALTH_OK", 100), 1));
        assert_eq!(
            (first.phase.as_deref(), first.state.as_deref()),
            (Some("Ready"), Some("Created"))
        );
        let version = first
            .version
            .as_ref()
            .and_then(|version| version.version.as_deref());
        assert_eq!(version, Some("18.2.7-0"));
        assert_eq!(status(Some(&first), &seen(&view("HEALTH_OK", 105), 61)), first);
        let fuller = status(Some(&first), &seen(&view("HEALTH_OK", 200), 61));
        let used = fuller
            .ceph
            .and_then(|ceph| ceph.capacity)
            .and_then(|capacity| capacity.bytes_used);
        assert_eq!(used, Some(200));
    }

    #[test]
    fn a_change_of_health_is_dated() {
        let first = status(None, &seen(&view("HEALTH_OK", 100), 1));
        let ceph = status(Some(&first), &seen(&view("HEALTH_WARN", 100), 61))
            .ceph
            .expect("health");
        assert_eq!(ceph.previous_health.as_deref(), Some("HEALTH_OK"));
        assert_eq!(ceph.last_changed, Some(at(61).to_string()));
    }

    #[test]
    fn who_does_not_answer_is_as_last_seen_and_not_ready() {
        let first = status(None, &seen(&view("HEALTH_OK", 100), 1));
        let unseen = View::default();
        let silent = Seen {
            view: None,
            blocker: Some("no monitor answers"),
            ..seen(&unseen, 9)
        };
        let later = status(Some(&first), &silent);
        assert_eq!(later.ceph, first.ceph);
        assert_eq!(
            (later.phase.as_deref(), later.state.as_deref()),
            (Some("Progressing"), Some("Created"))
        );
        let refused = Seen {
            refused: Some("spec.mon.count: 2".to_owned()),
            ..silent
        };
        assert_eq!(status(Some(&first), &refused).phase.as_deref(), Some("Failure"));
    }
}
