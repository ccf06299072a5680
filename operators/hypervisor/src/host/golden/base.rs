//! A host in order, and ways to put it out of order.

use std::collections::BTreeMap;
use std::sync::Arc;

use c5c3_api::common::Time;
use c5c3_api::hypervisor::{
    AggregateStatus, HypervisorSpec, HypervisorStatus, Maintenance, OnboardingPhase, OnboardingStatus,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use openstack_client::{Guest, Inventory, Service, TestBed};

use crate::host::view::{EvictionView, NodeView, PlacementView, View};
use crate::nova::{Found, Group, Host};
use crate::pulse::AgentView;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

pub(crate) fn ago(seconds: i64) -> Option<Time> {
    Some(Time(now() - SignedDuration::from_secs(seconds)))
}

pub(crate) fn service(status: &str, reason: Option<&str>) -> Service {
    Service {
        id: "s1".into(),
        host: "node1".into(),
        status: status.into(),
        state: "up".into(),
        disabled_reason: reason.map(str::to_owned),
        forced_down: false,
    }
}

pub(crate) fn group(id: i64, name: &str) -> Group {
    Group {
        id,
        uuid: format!("u{id}"),
        name: name.into(),
    }
}

pub(crate) fn guest(id: &str, name: &str, status: &str) -> Guest {
    Guest {
        id: id.into(),
        name: name.into(),
        status: status.into(),
        host: "node1".into(),
        ram_mb: 512,
        ..Guest::default()
    }
}

/// A host whose phase is this, with everything in order.
pub(crate) fn world(phase: OnboardingPhase) -> View {
    View {
        name: "node1".into(),
        uid: "0123-4567-89ab-cdef".into(),
        spec: HypervisorSpec {
            aggregates: vec!["zone-a".into()],
            ..HypervisorSpec::default()
        },
        before: HypervisorStatus {
            service_id: Some("s1".into()),
            hypervisor_id: Some("p1".into()),
            host: Some("node1".into()),
            aggregates: vec![AggregateStatus {
                name: "zone-a".into(),
                uuid: "u1".into(),
            }],
            onboarding: Some(OnboardingStatus {
                phase,
                since: ago(30),
                attempt: 1,
                ..OnboardingStatus::default()
            }),
            ..HypervisorStatus::default()
        },
        deleting: false,
        retry: None,
        node: NodeView::There {
            ready: true,
            terminating: false,
        },
        complaints: Vec::new(),
        agent: AgentView::Missing,
        pressure: Vec::new(),
        taints: Vec::new(),
        fence: None,
        power: None,
        nova: Host {
            service: Found::One(service("enabled", None)),
            provider: Some("p1".into()),
            groups: Arc::new(vec![group(1, "zone-a"), group(2, "hana")]),
            member_of: [1].into(),
            hosts: 3,
            heard: 3,
        },
        placement: PlacementView {
            provider: Some("p1".into()),
            traits: Some((7, ["HW_CPU_X86_AVX".to_owned()].into())),
            inventories: Some((7, [("VCPU".to_owned(), Inventory::of(8))].into())),
            consumers: Vec::new(),
        },
        tests: Vec::new(),
        console: String::new(),
        bed: Some(TestBed {
            image: Some("i".into()),
            flavour: Some("f".into()),
            network: Some("n".into()),
        }),
        guests: Some(Vec::new()),
        troubled: Vec::new(),
        refused: BTreeMap::new(),
        moves: Vec::new(),
        no_room: BTreeMap::new(),
        eviction: None,
        now: now(),
    }
}

pub(crate) fn fresh() -> View {
    let mut view = world(OnboardingPhase::Initial);
    view.before = HypervisorStatus::default();
    view.nova.member_of.clear();
    view
}

pub(crate) fn with(mut view: View, change: impl FnOnce(&mut View)) -> View {
    change(&mut view);
    view
}

pub(crate) fn set(view: &mut View, service: Service) {
    view.nova.service = Found::One(service);
}

pub(crate) fn evicted() -> Option<EvictionView> {
    Some(EvictionView {
        succeeded: true,
        reason: "Succeeded".into(),
        message: "the host is empty; 3 moved".into(),
    })
}

pub(crate) fn maintained(kind: Maintenance) -> View {
    with(world(OnboardingPhase::Succeeded), |view| {
        view.spec.maintenance = kind;
        view.spec.maintenance_reason = Some("DIMM".into());
        set(
            view,
            service("disabled", Some("c5c3: maintenance (manual): DIMM")),
        );
    })
}

pub(crate) fn agent(view: &mut View, status: &str) {
    view.agent = AgentView::Heard;
    view.before.conditions.push(Condition {
        type_: "LibVirtConnection".into(),
        status: status.into(),
        reason: "Seen".into(),
        message: String::new(),
        last_transition_time: Time(now()),
        observed_generation: None,
    });
}
