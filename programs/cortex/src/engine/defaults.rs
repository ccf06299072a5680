//! The default pipelines, used where there is no Pipeline object.

use c5c3_api::cortex::SchedulingDomain;
use serde_json::json;

use super::{FILTERS, PipelineDraft, StepDraft};

pub const GENERAL: &str = "kvm-general-purpose-load-balancing";
pub const HANA: &str = "kvm-hana-bin-packing";

fn filters() -> Vec<StepDraft> {
    let of = |name: &&str| {
        let mut step = StepDraft::named(name);
        if *name == "external_customer" {
            step.params.insert("domainNamePrefixes".into(), json!(["iaas-"]));
        }
        step
    };
    // A list of hosts to exclude is nothing that one could guess.
    let usual = FILTERS.iter().filter(|name| **name != "exclude_hosts");
    usual.map(of).collect()
}

fn weighers(balance: bool) -> Vec<StepDraft> {
    let binpack = StepDraft {
        multiplier: balance.then_some(-1.0),
        ..StepDraft::named("kvm_binpack")
    };
    let mut all = Vec::new();
    if balance {
        all.push(StepDraft::named("kvm_prefer_smaller_hosts"));
    }
    all.extend([
        StepDraft::named("kvm_instance_group_soft_affinity"),
        binpack,
        StepDraft::named("kvm_failover_evacuation"),
        StepDraft::named("kvm_committed_resource_reservation"),
    ]);
    all
}

/// Spreads servers over hosts.
pub fn general() -> PipelineDraft {
    PipelineDraft {
        name: GENERAL.to_owned(),
        filters: filters(),
        weighers: weighers(true),
        ..PipelineDraft::default()
    }
}

/// Fills one host after the other, so that large servers find room.
pub fn hana() -> PipelineDraft {
    PipelineDraft {
        name: HANA.to_owned(),
        filters: filters(),
        weighers: weighers(false),
        ..PipelineDraft::default()
    }
}

/// Keeps the caller's order.
pub fn plain(name: &str) -> PipelineDraft {
    PipelineDraft {
        name: name.to_owned(),
        ..PipelineDraft::default()
    }
}

/// Room for what survives a lost host.
pub fn failover() -> PipelineDraft {
    PipelineDraft {
        name: "kvm-failover".to_owned(),
        filters: filters(),
        weighers: vec![StepDraft::named("kvm_failover_reservation_consolidation")],
        ..PipelineDraft::default()
    }
}

/// What is served where nothing else is said.
pub fn all() -> Vec<(SchedulingDomain, PipelineDraft)> {
    vec![
        (SchedulingDomain::Nova, general()),
        (SchedulingDomain::Nova, hana()),
        (SchedulingDomain::Cinder, plain("cinder")),
        (SchedulingDomain::Manila, plain("manila")),
    ]
}
