//! No field of a Hypervisor is accepted and ignored: each changes what is done, or is reported as not supported.

use c5c3_api::common::LocalRef;
use c5c3_api::hypervisor::{
    Eviction, EvictionSpec, Fencing, HypervisorSpec, Maintenance, OnboardingPhase, RedfishFence,
};

use super::base::{fresh, maintained, with, world};
use crate::host::transition;
use crate::host::view::View;

type Change = fn(&mut HypervisorSpec);

/// A world in which the field matters, and a value that asks for something else.
fn fields() -> Vec<(&'static str, View, Change)> {
    let served = || world(OnboardingPhase::Succeeded);
    let updating = || with(served(), |view| view.spec.reboot = true);
    let certified = || with(served(), |view| view.spec.create_cert_manager_certificate = true);
    vec![
        ("version", served(), |spec| spec.version = Some("2".into())),
        ("reboot", served(), |spec| spec.reboot = true),
        ("evacuateOnReboot", updating(), |spec| {
            spec.evacuate_on_reboot = false;
        }),
        ("lifecycleEnabled", served(), |spec| {
            spec.lifecycle_enabled = false;
        }),
        ("skipTests", fresh(), |spec| spec.skip_tests = true),
        ("customTraits", served(), |spec| {
            spec.custom_traits = vec!["CUSTOM_A".into()];
        }),
        ("aggregates", served(), |spec| {
            spec.aggregates = vec!["hana".into()];
        }),
        ("allowedProjects", served(), |spec| {
            spec.allowed_projects = vec!["p".into()];
        }),
        ("highAvailability", served(), |spec| {
            spec.high_availability = false;
        }),
        ("createCertManagerCertificate", served(), |spec| {
            spec.create_cert_manager_certificate = true;
        }),
        ("installCertificate", certified(), |spec| {
            spec.install_certificate = false;
        }),
        ("maintenance", served(), |spec| {
            spec.maintenance = Maintenance::Auto;
        }),
        ("maintenanceReason", maintained(Maintenance::Manual), |spec| {
            spec.maintenance_reason = Some("fan".into());
        }),
        ("overcommit", served(), |spec| {
            spec.overcommit = [("cpu".to_owned(), 4.0)].into();
        }),
    ]
}

#[test]
fn no_field_of_a_hypervisor_is_accepted_and_ignored() {
    let full = HypervisorSpec {
        version: Some("1".into()),
        custom_traits: vec!["A".into()],
        aggregates: vec!["a".into()],
        allowed_projects: vec!["p".into()],
        maintenance_reason: Some("r".into()),
        overcommit: [("cpu".to_owned(), 2.0)].into(),
        fencing: Some(Fencing {
            redfish: RedfishFence {
                endpoint: "https://bmc".into(),
                system: None,
                secret_ref: LocalRef::new("bmc"),
            },
        }),
        ..HypervisorSpec::default()
    };
    let full = serde_json::to_value(full).expect("JSON");
    let table = fields();
    for field in full.as_object().expect("an object").keys() {
        // The controller is asked where facts are read; `golden/failures.rs` has what follows.
        if field == "fencing" {
            continue;
        }
        let row = table.iter().find(|(name, ..)| name == field);
        let (_, view, change) = row.unwrap_or_else(|| panic!("{field} neither acts nor is refused"));
        let mut changed = view.clone();
        change(&mut changed.spec);
        assert_ne!(changed.spec, view.spec, "{field}: the row changes nothing");
        assert_ne!(
            transition(&changed),
            transition(view),
            "{field} is accepted and ignored"
        );
    }
}

#[test]
fn no_field_of_an_eviction_is_accepted_and_ignored() {
    let full = EvictionSpec {
        hypervisor: "a".into(),
        reason: "b".into(),
        paused: Some(true),
        parallel: Some(1),
        deadline_seconds: Some(60),
    };
    let fields = serde_json::to_value(full).expect("JSON");
    // `eviction/tests.rs` shows what the last three do; the first is what it is about, the second is for people.
    let known = ["hypervisor", "reason", "paused", "parallel", "deadlineSeconds"];
    for field in fields.as_object().expect("an object").keys() {
        assert!(
            known.contains(&field.as_str()),
            "{field} neither acts nor is refused"
        );
    }
    assert!(Eviction::default().status.is_none());
}
