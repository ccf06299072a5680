//! What objects of Kubernetes say: Hypervisors, Reservations and Pipelines.

use std::collections::BTreeMap;

use c5c3_api::common::Condition;
use c5c3_api::conditions::{self, READY};
use c5c3_api::cortex::{self, Pipeline, PipelineSpec, PipelineType, ReservationPhase, ReservationType};
use c5c3_api::hypervisor::Hypervisor;
use jiff::Timestamp;
use kube::ResourceExt;

use super::quantity::amount;
use crate::engine::{PipelineDraft, StepDraft};
use crate::fleet::{Aggregate, Host, HypervisorType, Reservation, ReservationKind};

const ZONE: &str = "topology.kubernetes.io/zone";
/// A Pipeline with it is asked beside the one that decides, and compared.
pub const SHADOW: &str = "cortex.c5c3.io/shadow";

/// A condition that is not there says nothing.
fn unfit(all: &[Condition]) -> Option<String> {
    let status = |name: &str| all.iter().find(|one| one.type_ == name);
    let not = |name: &str, expected: &str| status(name).filter(|one| one.status != expected);
    let told = |one: &Condition, what: &str| {
        if one.message.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {}", one.message)
        }
    };
    not(READY, "True")
        .map(|one| told(one, "is not ready"))
        .or_else(|| {
            not(conditions::hypervisor::HYPERVISOR_DISABLED, "False").map(|one| told(one, "is disabled"))
        })
        .or_else(|| not(conditions::hypervisor::TERMINATING, "False").map(|one| told(one, "goes")))
}

/// The name that Nova has for it, and what is known.
pub fn host(hypervisor: &Hypervisor) -> (String, Host) {
    let status = hypervisor.status.clone().unwrap_or_default();
    let name = status.host.clone().unwrap_or_else(|| hypervisor.name_any());
    let domain = status.domain_capabilities.unwrap_or_default();
    let arch = status.capabilities.and_then(|all| all.cpu_arch).or(domain.arch);
    let capacity = amount(&status.effective_capacity).or_else(|| amount(&status.capacity));
    let traits = status.traits.iter().chain(&hypervisor.spec.custom_traits);
    let host = Host {
        unfit: unfit(&status.conditions),
        zone: hypervisor.labels().get(ZONE).cloned(),
        hypervisor_type: match domain.hypervisor_type.as_deref() {
            Some("kvm" | "qemu") => HypervisorType::Kvm,
            Some("ch") => HypervisorType::Ch,
            _ => HypervisorType::Other,
        },
        arch,
        traits: traits.cloned().collect(),
        aggregates: status
            .aggregates
            .iter()
            .map(|one| Aggregate {
                uuid: one.uuid.clone(),
                name: one.name.clone(),
                metadata: BTreeMap::new(),
            })
            .collect(),
        capacity,
        used: amount(&status.allocation),
        allowed_projects: hypervisor.spec.allowed_projects.iter().cloned().collect(),
        cpu_modes: domain.supported_cpu_modes.into_iter().collect(),
        features: domain.supported_features.into_iter().collect(),
        devices: domain.supported_devices.into_iter().collect(),
    };
    (name, host)
}

/// `None`: it reserves nothing at the moment.
pub fn reservation(object: &cortex::Reservation, now: Timestamp) -> Option<Reservation> {
    let spec = &object.spec;
    let status = object.status.clone().unwrap_or_default();
    let begun = spec.start_time.as_ref().is_none_or(|start| start.0 <= now);
    let over = spec.end_time.as_ref().is_some_and(|end| end.0 <= now);
    if !begun
        || over
        || matches!(
            status.phase,
            Some(ReservationPhase::Failed | ReservationPhase::Expired)
        )
    {
        return None;
    }
    let committed = spec.committed_resource.clone();
    let failover = spec.failover.clone().unwrap_or_default();
    let group = committed.as_ref().and_then(|one| one.resource_group.clone());
    Some(Reservation {
        kind: match spec.type_ {
            ReservationType::CommittedResource => ReservationKind::CommittedResource,
            ReservationType::Failover => ReservationKind::Failover,
        },
        size: amount(&spec.resources).unwrap_or_default(),
        hosts: spec.target_host.iter().chain(&status.host).cloned().collect(),
        active: status.phase == Some(ReservationPhase::Active),
        project: committed.as_ref().map(|one| one.project_id.clone()),
        zone: committed.and_then(|one| one.availability_zone),
        group: group.or(failover.resource_group),
        servers: failover.servers.into_iter().collect(),
    })
}

/// `None`: its steps do not place.
pub fn pipeline(object: &Pipeline) -> Option<PipelineDraft> {
    (object.spec.type_ == PipelineType::FilterWeigher).then(|| steps(&object.name_any(), &object.spec))
}

pub fn steps(name: &str, spec: &PipelineSpec) -> PipelineDraft {
    PipelineDraft {
        name: name.to_owned(),
        ignore_preselection: spec.ignore_preselection,
        create_decisions: spec.create_decisions,
        filters: spec
            .filters
            .iter()
            .map(|step| StepDraft {
                name: step.name.clone(),
                params: step.params.clone(),
                multiplier: None,
            })
            .collect(),
        weighers: spec
            .weighers
            .iter()
            .map(|step| StepDraft {
                name: step.name.clone(),
                params: step.params.clone(),
                multiplier: step.multiplier,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Amount;
    use serde_json::json;

    #[test]
    fn a_hypervisor_is_a_host_under_novas_name() {
        let condition = |name: &str, status: &str| {
            json!({"type": name, "status": status, "reason": "R", "message": "why",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let of = |conditions: serde_json::Value| -> Hypervisor {
            serde_json::from_value(json!({
                "apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
                "metadata": {"name": "node1", "labels": {ZONE: "z"}},
                "spec": {"customTraits": ["CUSTOM_A"], "allowedProjects": ["p"]},
                "status": {"conditions": conditions, "host": "node1.example", "traits": ["T"],
                    "capacity": {"cpu": "8", "memory": "16Gi"}, "effectiveCapacity": {"cpu": "32", "memory": "16Gi"},
                    "allocation": {"cpu": "2", "memory": "1Gi"}, "capabilities": {"cpuArch": "x86_64"},
                    "domainCapabilities": {"hypervisorType": "kvm", "supportedCpuModes": ["host-model"]}},
            }))
            .expect("a Hypervisor")
        };
        let (name, host_of) = host(&of(json!([
            condition("Ready", "True"),
            condition("Tainted", "True")
        ])));
        assert_eq!((name.as_str(), host_of.unfit.clone()), ("node1.example", None));
        assert_eq!(host_of.capacity, Some(Amount::new(32, 16384)));
        assert_eq!((host_of.zone.as_deref(), host_of.traits.len()), (Some("z"), 2));
        let why = |name, status| host(&of(json!([condition(name, status)]))).1.unfit;
        assert_eq!(why("Ready", "False").as_deref(), Some("is not ready: why"));
        assert_eq!(
            why("HypervisorDisabled", "True").as_deref(),
            Some("is disabled: why")
        );
        assert_eq!(why("Terminating", "True").as_deref(), Some("goes: why"));
        assert_eq!(why("HypervisorDisabled", "False"), None);
    }

    #[test]
    fn a_reservation_counts_between_its_times_and_until_it_failed() {
        let of = |spec: serde_json::Value, phase: &str| {
            let mut object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Reservation",
                "metadata": {"name": "r"}, "spec": {"type": "CommittedResource", "targetHost": "a",
                "resources": {"cpu": "4", "memory": "8Gi"}, "committedResource": {"projectID": "p"}},
                "status": {"phase": phase, "host": "b"}});
            for (key, value) in spec.as_object().expect("an object") {
                object["spec"][key] = value.clone();
            }
            let object: cortex::Reservation = serde_json::from_value(object).expect("a Reservation");
            reservation(&object, "2027-06-01T00:00:00Z".parse().expect("a time"))
        };
        let active = of(json!({}), "Active").expect("counts");
        assert_eq!((active.size, active.active), (Amount::new(4, 8192), true));
        assert_eq!((active.hosts.len(), active.project.as_deref()), (2, Some("p")));
        assert!(!of(json!({}), "Pending").expect("counts").active);
        assert!(of(json!({}), "Failed").is_none());
        assert!(of(json!({"startTime": "2027-07-01T00:00:00Z"}), "Active").is_none());
        assert!(of(json!({"endTime": "2027-05-01T00:00:00Z"}), "Active").is_none());
    }
}
