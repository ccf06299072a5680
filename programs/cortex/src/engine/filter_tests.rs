//! Every filter against the facts, by table: what is left, and why the others are not.

use serde_json::json;

use super::testing::*;
use super::{PipelineDraft, StepDraft, defaults};
use crate::fleet::{Aggregate, Draft, Host, HypervisorType};
use crate::request::{Destination, Group, ImageType, Intent, Spec};

#[test]
fn hosts_that_are_not_ready_are_dropped_with_their_reason() {
    let down = Host {
        unfit: Some("is disabled: maintenance".into()),
        ..host()
    };
    let (left, why) = filtered(
        "status_conditions",
        json!({}),
        &world(&[("a", host()), ("b", down)]),
        &spec(),
    );
    assert_eq!(
        (left, why.as_str()),
        (vec!["a".to_owned()], "is disabled: maintenance")
    );
}

#[test]
fn the_zone_must_be_the_same_where_one_is_asked_for() {
    let zone = |name: &str| Host {
        zone: Some(name.into()),
        ..host()
    };
    let draft = world(&[("a", zone("z1")), ("b", zone("z2")), ("c", host())]);
    let in_zone = |zone: &str| Spec {
        zone: Some(zone.into()),
        ..spec()
    };
    assert_eq!(left("correct_az", &draft, &in_zone("z1")), ["a"]);
    assert!(left("correct_az", &draft, &in_zone("z9")).is_empty());
    assert_eq!(left("correct_az", &draft, &spec()).len(), 3);
    let (_, why) = filtered("correct_az", json!({}), &draft, &in_zone("z1"));
    assert_eq!(why, "is in z2, not in z1; is in no zone, not in z1");
}

#[test]
fn ignored_and_forced_hosts_are_heeded_even_when_unknown() {
    let draft = world(&[("a", host()), ("b", host())]);
    for (ignore, force, expected) in [
        (vec!["a"], vec![], vec!["b", "x"]),
        (vec![], vec!["a", "x"], vec!["a", "x"]),
        (vec!["x"], vec!["a", "x"], vec!["a"]),
        (vec![], vec![], vec!["a", "b", "x"]),
    ] {
        let text = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let spec = Spec {
            ignore_hosts: text(ignore),
            force_hosts: text(force),
            ..spec()
        };
        let pipeline = only_filter(StepDraft::named("host_instructions"));
        let (left, _) = decide(&pipeline, draft.clone(), &question(&["x", "b", "a"], &spec));
        assert_eq!(left, expected);
    }
    let excluded = only_filter(step("exclude_hosts", json!({"excludedHosts": ["b", "x"]})));
    assert_eq!(
        decide(&excluded, draft, &question(&["x", "b", "a"], &spec())).0,
        ["a"]
    );
}

#[test]
fn images_of_other_hypervisors_find_no_kvm_host() {
    let draft = world(&[("a", host())]);
    for (image, expected) in [
        (ImageType::Kvm, 1),
        (ImageType::Undetermined, 1),
        (ImageType::Foreign, 0),
    ] {
        let spec = Spec { image, ..spec() };
        assert_eq!(
            left("image_properties", &draft, &spec).len(),
            expected,
            "{image:?}"
        );
    }
}

#[test]
fn capabilities_are_hypervisor_type_and_architecture() {
    let ch = Host {
        hypervisor_type: HypervisorType::Ch,
        ..host()
    };
    let arm = Host {
        arch: Some("aarch64".into()),
        ..host()
    };
    let draft = world(&[("arm", arm), ("ch", ch), ("x86", host())]);
    for (key, value, expected) in [
        ("capabilities:hypervisor_type", "QEMU", &["arm", "x86"][..]),
        ("capabilities:hypervisor_type", "CH", &["ch"]),
        ("capabilities:cpu_arch", "aarch64", &["arm"]),
        ("capabilities:cpu_arch", "riscv64", &[]),
        ("capabilities:unheard_of", "x", &[]),
        ("quota:x", "y", &["arm", "ch", "x86"]),
        // Not understood: the filter stays out.
        ("capabilities:cpu_arch", "s== aarch64", &["arm", "ch", "x86"]),
    ] {
        assert_eq!(
            left("capabilities", &draft, &with_specs(&[(key, value)])),
            expected,
            "{key}={value}"
        );
    }
    let (_, why) = filtered(
        "capabilities",
        json!({}),
        &draft,
        &with_specs(&[("capabilities:cpu_arch", "mips")]),
    );
    assert!(why.starts_with("does not have cpu_arch=mips"), "{why}");
}

#[test]
fn required_traits_are_there_and_forbidden_ones_are_not() {
    let with = |names: &[&str]| Host {
        traits: set(names),
        ..host()
    };
    let draft = world(&[("a", with(&["T1"])), ("b", with(&["T1", "T2"])), ("c", with(&[]))]);
    for (specs, expected) in [
        (&[("trait:T1", "required")][..], &["a", "b"][..]),
        (&[("trait:T1", "required"), ("trait:T2", "forbidden")], &["a"]),
        (&[("trait:T9", "required")], &[]),
        (&[("trait:T9", "forbidden")], &["a", "b", "c"]),
        (&[("trait:T1", "preferred")], &["a", "b", "c"]),
    ] {
        assert_eq!(
            left("has_requested_traits", &draft, &with_specs(specs)),
            expected,
            "{specs:?}"
        );
    }
    let specs = [("trait:T1", "required"), ("trait:T2", "forbidden")];
    let (_, why) = filtered("has_requested_traits", json!({}), &draft, &with_specs(&specs));
    assert_eq!(why, "has the forbidden trait T2; lacks the trait T1");
}

#[test]
fn customers_and_accelerators_need_hosts_with_the_trait() {
    let with = |name: &str| Host {
        traits: set(&[name]),
        ..host()
    };
    let draft = world(&[
        ("acc", with("COMPUTE_ACCELERATORS")),
        ("ext", with("CUSTOM_EXTERNAL_CUSTOMER_EXCLUSIVE")),
    ]);
    let params = json!({"domainNamePrefixes": ["iaas-"], "ignoredDomainNames": ["iaas-own"]});
    for (domain, expected) in [
        (Some("iaas-x"), 1),
        (Some("iaas-own"), 2),
        (Some("other"), 2),
        (None, 2),
    ] {
        let spec = Spec {
            domain_name: domain.map(str::to_owned),
            ..spec()
        };
        let (left, _) = filtered("external_customer", params.clone(), &draft, &spec);
        assert_eq!(left.len(), expected, "{domain:?}");
    }
    assert_eq!(
        left(
            "has_accelerators",
            &draft,
            &with_specs(&[("accel:device_profile", "gpu")])
        ),
        ["acc"]
    );
    assert_eq!(left("has_accelerators", &draft, &spec()).len(), 2);
}

#[test]
fn groups_keep_together_or_apart() {
    let mut draft = world(&[("a", host()), ("b", host()), ("c", host())]);
    for (id, on) in [("m1", "a"), ("m2", "a"), ("m3", "b")] {
        draft.servers.insert(id.into(), server(on, "p", 1, 1));
    }
    let group = |policy: &str, most: u32| Spec {
        group: Some(Group {
            policy: policy.into(),
            members: ["m1", "m2", "m3"].map(str::to_owned).into(),
            hosts: ["a", "b"].map(str::to_owned).into(),
            max_per_host: most,
        }),
        ..spec()
    };
    assert_eq!(
        left("instance_group_affinity", &draft, &group("affinity", 1)),
        ["a", "b"]
    );
    assert_eq!(
        left("instance_group_affinity", &draft, &group("anti-affinity", 1)).len(),
        3
    );
    let apart = "instance_group_anti_affinity";
    assert_eq!(left(apart, &draft, &group("anti-affinity", 1)), ["c"]);
    assert_eq!(left(apart, &draft, &group("anti-affinity", 2)), ["b", "c"]);
    assert_eq!(left(apart, &draft, &group("anti-affinity", 3)).len(), 3);
    // A resize may stay where the server is.
    let resize = Spec {
        instance: "m3".into(),
        ..group("anti-affinity", 1)
    };
    assert_eq!(left(apart, &draft, &resize), ["b", "c"]);
    let (_, why) = filtered(apart, json!({}), &draft, &group("anti-affinity", 2));
    assert_eq!(why, "has 2 servers of the group, the maximum is 2");
}

#[test]
fn hosts_are_kept_for_projects_by_list_and_by_aggregate() {
    let allowed = |names: &[&str]| Host {
        allowed_projects: set(names),
        ..host()
    };
    let aggregate = |key: &str, value: &str| Host {
        aggregates: vec![Aggregate {
            metadata: [(key.to_owned(), value.to_owned())].into(),
            ..Aggregate::default()
        }],
        ..host()
    };
    let draft = world(&[
        ("all", host()),
        ("p", allowed(&["p", "x"])),
        ("q", allowed(&["q"])),
    ]);
    assert_eq!(left("allowed_projects", &draft, &spec()), ["all", "p"]);
    let draft = world(&[
        ("empty", aggregate("filter_tenant_id", " , ")),
        ("other", aggregate("owner", "q")),
        ("p", aggregate("filter_tenant_id_2", "x, p")),
        ("q", aggregate("filter_tenant_id", "q")),
    ]);
    assert_eq!(
        left("aggregate_metadata", &draft, &spec()),
        ["empty", "other", "p"]
    );
}

#[test]
fn a_running_server_moves_where_its_processor_and_devices_are() {
    let with = |modes: &[&str], features: &[&str], arch: &str| Host {
        cpu_modes: set(modes),
        features: set(features),
        arch: Some(arch.into()),
        ..host()
    };
    let draft = world(&[
        ("arm", with(&["m"], &["f"], "aarch64")),
        ("less", with(&["m"], &[], "x86_64")),
        ("more", with(&["m", "n"], &["f", "g"], "x86_64")),
        ("source", with(&["m"], &["f"], "x86_64")),
    ]);
    let live = Spec {
        intent: Intent::LiveMigrate,
        source_host: Some("source".into()),
        ..spec()
    };
    let (left_over, why) = filtered("live_migratable", json!({}), &draft, &live);
    assert_eq!(left_over, ["more", "source"]);
    assert_eq!(
        why,
        "has another architecture than source; lacks features of source: f"
    );
    assert_eq!(left("live_migratable", &draft, &spec()).len(), 4);
}

#[test]
fn destinations_are_all_of_some_aggregates_and_one_host() {
    let of = |uuids: &[&str]| Host {
        aggregates: uuids
            .iter()
            .map(|uuid| Aggregate {
                uuid: (*uuid).into(),
                ..Aggregate::default()
            })
            .collect(),
        ..host()
    };
    let draft = world(&[("a", of(&["1", "2"])), ("b", of(&["1", "3"])), ("c", of(&["2"]))]);
    for (aggregates, forbidden, host, expected) in [
        (&["1"][..], &[][..], "", &["a", "b"][..]),
        (&["1", "2,3"], &[], "", &["a", "b"]),
        (&["1", "2"], &[], "", &["a"]),
        (&["1"], &["3"], "", &["a"]),
        (&[], &[], "c", &["c"]),
        (&["1"], &[], "c", &[]),
        (&[], &[], "", &["a", "b", "c"]),
    ] {
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let spec = Spec {
            destination: Some(Destination {
                host: host.into(),
                aggregates: text(aggregates),
                forbidden_aggregates: text(forbidden),
            }),
            ..spec()
        };
        assert_eq!(
            left("requested_destination", &draft, &spec),
            expected,
            "{aggregates:?} {host}"
        );
    }
}

#[test]
fn without_any_known_host_every_filter_fails_open() {
    let mut asked = with_specs(&[
        ("trait:T", "required"),
        ("capabilities:cpu_arch", "x"),
        ("accel:device_profile", "g"),
    ]);
    asked.zone = Some("z".into());
    let (left, explanation) = decide(
        &defaults::general(),
        Draft::default(),
        &question(&["b", "a"], &asked),
    );
    assert_eq!(left, ["a", "b"]);
    assert!(
        explanation
            .text
            .contains("status_conditions was skipped: no host is known yet"),
        "{}",
        explanation.text
    );
}

#[test]
fn an_unknown_host_is_dropped_once_hosts_are_known() {
    let (left, explanation) = decide(
        &defaults::general(),
        world(&[("a", host())]),
        &question(&["x", "a"], &spec()),
    );
    assert_eq!(left, ["a"]);
    assert_eq!(explanation.dropped[0].reason, "is not known to Cortex");
    assert!(
        explanation
            .text
            .starts_with("a is the best of 2 hosts; status_conditions dropped 1")
    );
}

#[test]
fn hosts_that_were_not_asked_about_need_pipeline_and_caller() {
    let draft = world(&[("a", host()), ("b", host())]);
    for (pipeline, caller, expected) in [(true, true, 2), (true, false, 1), (false, true, 1)] {
        let draft_of = PipelineDraft {
            ignore_preselection: pipeline,
            ..defaults::general()
        };
        let mut request = question(&["a"], &spec());
        request.options.allow_other_hosts = caller;
        assert_eq!(decide(&draft_of, draft.clone(), &request).0.len(), expected);
    }
}
