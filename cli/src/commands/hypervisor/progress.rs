//! Describes a host and its eviction. Pure.

use c5c3_api::conditions::READY;
use c5c3_api::conditions::hypervisor::EVICTING;
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{Eviction, Hypervisor, InstanceEviction, InstanceState, Maintenance};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;

/// One line of the list.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub name: String,
    pub ready: bool,
    pub state: String,
    pub maintenance: String,
    pub address: String,
    pub message: String,
}

fn ready(host: &Hypervisor) -> Option<&Condition> {
    let status = host.status.as_ref()?;
    status.conditions.iter().find(|one| one.type_ == READY)
}

pub(crate) fn row(host: &Hypervisor) -> Row {
    let ready = ready(host);
    let maintenance = serde_json::to_value(host.spec.maintenance).unwrap_or_default();
    Row {
        name: host.name_any(),
        ready: ready.is_some_and(|one| one.status == "True"),
        state: ready.map(|one| one.reason.clone()).unwrap_or_default(),
        maintenance: maintenance.as_str().unwrap_or_default().to_owned(),
        address: host
            .status
            .as_ref()
            .and_then(|status| status.internal_ip.clone())
            .unwrap_or_default(),
        message: ready.map(|one| one.message.clone()).unwrap_or_default(),
    }
}

/// Show the progress of a host.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    #[serde(flatten)]
    pub row: Row,
    pub empty: bool,
    pub evicting: Option<String>,
    pub moved: i32,
    pub outstanding: usize,
    /// When the host is expected to be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_completion: Option<Timestamp>,
    pub instances: Vec<InstanceEviction>,
    /// Servers that cannot move, with the reason.
    pub stuck: Vec<String>,
    #[serde(skip)]
    failed: bool,
    #[serde(skip)]
    maintained: bool,
}

impl Progress {
    pub(crate) fn of(host: &Hypervisor, eviction: Option<&Eviction>) -> Self {
        let status = eviction.and_then(|one| one.status.clone()).unwrap_or_default();
        let evicting = status.conditions.iter().find(|one| one.type_ == EVICTING);
        let stuck = status
            .instances
            .iter()
            .filter(|one| matches!(one.state, InstanceState::Failed | InstanceState::Unmovable));
        let stuck = stuck
            .map(|one| {
                format!(
                    "{} ({}): {}",
                    one.name,
                    one.server,
                    one.message.as_deref().unwrap_or("-")
                )
            })
            .collect();
        Progress {
            row: row(host),
            empty: host
                .status
                .as_ref()
                .is_some_and(|status| status.evicted == Some(true)),
            failed: evicting.is_some_and(|one| one.status == "False" && one.reason == reason::FAILED),
            evicting: evicting.map(|one| format!("{}: {}", one.reason, one.message)),
            moved: status.moved.unwrap_or(0),
            outstanding: status.outstanding_instances.len(),
            estimated_completion: status.estimated_completion.map(|time| time.0),
            stuck,
            instances: status.instances,
            maintained: host.spec.maintenance != Maintenance::None,
        }
    }

    /// `None`: it goes on.
    pub(crate) fn drained(&self) -> Option<Result<(), String>> {
        if !self.maintained {
            return None;
        }
        match (self.empty, self.failed) {
            (true, _) => Some(Ok(())),
            (false, true) => Some(Err(format!(
                "{} of {} servers cannot move; the operator keeps trying",
                self.stuck.len(),
                self.outstanding
            ))),
            (false, false) => None,
        }
    }

    pub(crate) fn enabled(&self) -> Option<Result<(), String>> {
        if self.maintained {
            return None;
        }
        match (self.row.ready, self.row.state.as_str()) {
            (true, _) => Some(Ok(())),
            (false, reason::ABORTED | reason::DISABLED_BY_OTHERS) => Some(Err(self.row.message.clone())),
            _ => None,
        }
    }

    /// For a person; each line is said when it is new.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.evicting {
            Some(text) if self.maintained => lines.push(text.clone()),
            _ => lines.push(format!("{}: {}", self.row.state, self.row.message)),
        }
        if let Some(until) = self.estimated_completion.filter(|_| self.maintained) {
            lines.push(format!("expected to be empty at {until}"));
        }
        for one in &self.instances {
            let far = one
                .progress
                .map(|percent| format!(" {percent} %"))
                .unwrap_or_default();
            if matches!(
                one.state,
                InstanceState::Migrating | InstanceState::Confirming | InstanceState::Aborting
            ) {
                lines.push(format!("{:?} {}, try {}{far}", one.state, one.name, one.attempts));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::hypervisor::{EvictionSpec, EvictionStatus, HypervisorSpec, HypervisorStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn condition(kind: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: "words".into(),
            last_transition_time: Time(Default::default()),
            observed_generation: None,
        }
    }

    fn host(maintenance: Maintenance, state: &str, evicted: bool) -> Hypervisor {
        let mut host = Hypervisor::new("node-2", HypervisorSpec::default());
        host.spec.maintenance = maintenance;
        let truth = if state == "Ready" { "True" } else { "False" };
        host.status = Some(HypervisorStatus {
            conditions: vec![condition(READY, truth, state)],
            evicted: Some(evicted),
            ..HypervisorStatus::default()
        });
        host
    }

    fn eviction(truth: &str, reason: &str, state: InstanceState) -> Eviction {
        let mut eviction = Eviction::new("node-2", EvictionSpec::default());
        eviction.status = Some(EvictionStatus {
            conditions: vec![condition(EVICTING, truth, reason)],
            outstanding_instances: vec!["a".into()],
            instances: vec![InstanceEviction {
                server: "a".into(),
                name: "web".into(),
                state,
                progress: Some(40),
                message: Some("is suspended".into()),
                ..InstanceEviction::default()
            }],
            ..EvictionStatus::default()
        });
        eviction
    }

    #[test]
    fn a_drain_ends_when_the_host_is_empty_or_what_is_left_cannot_move() {
        let of = |host: &Hypervisor, eviction: Option<&Eviction>| Progress::of(host, eviction);
        let runs = eviction("True", "Running", InstanceState::Migrating);
        let draining = of(&host(Maintenance::Manual, "Evicting", false), Some(&runs));
        assert_eq!(draining.drained(), None);
        assert_eq!(draining.lines(), ["Running: words", "Migrating web, try 0 40 %"]);
        let mut soon = runs.clone();
        let until: Timestamp = "2026-11-01T10:00:00Z".parse().unwrap();
        soon.status.as_mut().unwrap().estimated_completion = Some(Time(until));
        let told = of(&host(Maintenance::Manual, "Evicting", false), Some(&soon)).lines();
        assert_eq!(told[1], "expected to be empty at 2026-11-01T10:00:00Z");
        let done = of(&host(Maintenance::Manual, "Maintenance", true), None);
        assert_eq!(done.drained(), Some(Ok(())));
        let failed = eviction("False", "Failed", InstanceState::Unmovable);
        let stuck = of(&host(Maintenance::Manual, "Evicting", false), Some(&failed));
        assert!(
            stuck
                .drained()
                .is_some_and(|end| end.is_err_and(|why| why.contains("1 of 1")))
        );
        assert_eq!(stuck.stuck, ["web (a): is suspended"]);
        assert_eq!(of(&host(Maintenance::None, "Ready", false), None).drained(), None);
    }

    #[test]
    fn enabling_ends_in_service_or_with_a_reason() {
        let of = |state: &str| Progress::of(&host(Maintenance::None, state, false), None).enabled();
        assert_eq!(of("Ready"), Some(Ok(())));
        assert_eq!(of("Testing"), None);
        assert_eq!(of("Aborted"), Some(Err("words".into())));
        assert_eq!(
            Progress::of(&host(Maintenance::Manual, "Ready", false), None).enabled(),
            None
        );
    }
}
