//! Turns the state of a disk into an event.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::disk::Disk;

/// More than this is worth an event.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Thresholds {
    /// Acceptable number of grown defects of a SCSI disk
    #[arg(
        long = "grown-defects-threshold",
        default_value_t = 10,
        env = "GROWN_DEFECTS_THRESHOLD"
    )]
    pub grown_defects: u64,
    /// Acceptable number of pending sectors
    #[arg(
        long = "pending-sectors-threshold",
        default_value_t = 3,
        env = "PENDING_SECTORS_THRESHOLD"
    )]
    pub pending: u64,
    /// Acceptable number of reallocated sectors
    #[arg(
        long = "reallocated-sectors-threshold",
        default_value_t = 10,
        env = "REALLOCATED_SECTORS_THRESHOLD"
    )]
    pub reallocated: u64,
    /// Acceptable percentage of a flash disk's rated life that is used
    #[arg(
        long = "lifetime-used-threshold",
        default_value_t = 80,
        env = "LIFETIME_USED_THRESHOLD"
    )]
    pub life_used: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Event {
    pub node_name: String,
    pub instance_id: String,
    pub device: String,
    pub osd_id: String,
    /// `health`, `health_alert` or `lifetime_alert`.
    pub event_type: &'static str,
    /// `info`, `warning` or `critical`.
    pub severity: &'static str,
    pub message: String,
    pub details: BTreeMap<String, String>,
}

impl Event {
    /// What has to be different for the event to be told again: counters alone tick on.
    pub(crate) fn verdict(&self) -> (&'static str, &'static str, &str) {
        (self.event_type, self.severity, &self.message)
    }
}

pub(crate) fn event(disk: &Disk, limits: &Thresholds, node: &str, instance: &str) -> Event {
    let mut details: BTreeMap<String, String> = disk
        .attributes
        .iter()
        .map(|(name, value)| (name.clone(), value.to_string()))
        .collect();
    for (name, value) in [
        ("ReallocatedSectors", disk.reallocated),
        ("PendingSectors", disk.pending),
        ("PowerOnHours", disk.power_on_hours),
        ("SSDLifeUsed", disk.life_used),
    ] {
        details.extend(value.map(|value| (name.to_owned(), value.to_string())));
    }
    if let Some(degrees) = disk.temperature {
        details.insert("TemperatureCelsius".to_owned(), degrees.to_string());
    }
    let beyond = |value: Option<u64>, limit: u64| value.is_some_and(|value| value > limit);
    let mut found = Vec::new();
    let (mut severity, mut event_type) = ("info", "health");
    for (name, value, limit) in [
        ("grown defects", disk.grown_defects, limits.grown_defects),
        ("pending sectors", disk.pending, limits.pending),
        ("reallocated sectors", disk.reallocated, limits.reallocated),
    ] {
        // A SCSI disk's reallocated sectors are its grown defects: one finding, not two.
        let same = name == "reallocated sectors" && disk.grown_defects.is_some();
        if beyond(value, limit) && !same {
            found.push(format!("more than {limit} {name}"));
            (severity, event_type) = ("warning", "health_alert");
        }
    }
    if disk.passed == Some(false) || disk.critical_warning != 0 {
        found.push("the disk reports that it is failing".to_owned());
        (severity, event_type) = ("critical", "health_alert");
    }
    if beyond(disk.life_used, limits.life_used) {
        found.push(format!(
            "more than {} % of its rated life is used",
            limits.life_used
        ));
        severity = "critical";
        if event_type == "health" {
            event_type = "lifetime_alert";
        }
    }
    let message = if found.is_empty() {
        "the disk is healthy".to_owned()
    } else {
        found.join("; ")
    };
    Event {
        node_name: node.to_owned(),
        instance_id: instance.to_owned(),
        device: disk.device.clone(),
        osd_id: disk.osd.clone(),
        event_type,
        severity,
        message,
        details,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Thresholds = Thresholds {
        grown_defects: 10,
        pending: 3,
        reallocated: 10,
        life_used: 80,
    };

    #[test]
    fn only_what_is_beyond_a_threshold_is_an_alert() {
        let base = Disk {
            passed: Some(true),
            reallocated: Some(10),
            pending: Some(3),
            life_used: Some(80),
            ..Disk::default()
        };
        let pending = Disk {
            pending: Some(4),
            ..base.clone()
        };
        let worn = Disk {
            life_used: Some(81),
            ..base.clone()
        };
        let failing = Disk {
            critical_warning: 4,
            life_used: Some(99),
            ..base.clone()
        };
        let scsi = Disk {
            grown_defects: Some(11),
            reallocated: Some(11),
            ..base.clone()
        };
        for (disk, event_type, severity, message) in [
            (base, "health", "info", "the disk is healthy"),
            (pending, "health_alert", "warning", "more than 3 pending sectors"),
            (
                worn,
                "lifetime_alert",
                "critical",
                "more than 80 % of its rated life is used",
            ),
            (
                failing,
                "health_alert",
                "critical",
                "the disk reports that it is failing; more than 80 % of its rated life is used",
            ),
            (scsi, "health_alert", "warning", "more than 10 grown defects"),
        ] {
            let event = event(&disk, &LIMITS, "n", "i");
            assert_eq!(event.verdict(), (event_type, severity, message));
        }
    }
}
