//! Filters that count: capacity, reservations, quotas.

use serde_json::json;

use super::testing::*;
use crate::fleet::{Amount, Draft, Host, Quota, Reservation, ReservationKind};
use crate::request::{Intent, Spec};

#[test]
fn room_is_capacity_less_servers_less_reservations() {
    let mut draft = world(&[
        ("a", host()),
        ("b", host()),
        (
            "c",
            Host {
                capacity: None,
                ..host()
            },
        ),
    ]);
    draft.servers.insert("s".into(), server("a", "p", 10, 60 * 1024));
    let size = |cpu, gib: i64, count| {
        let mut spec = spec();
        (spec.flavor.vcpus, spec.flavor.memory_mb, spec.num_instances) = (cpu, gib * 1024, count);
        spec
    };
    let name = "has_enough_capacity";
    for (wanted, expected) in [
        (size(6, 4, 1), &["a", "b"][..]),
        (size(7, 4, 1), &["b"]),
        (size(6, 5, 1), &["b"]),
        // All instances of a question fit on one host.
        (size(3, 2, 2), &["a", "b"]),
        (size(3, 2, 3), &["b"]),
        (size(17, 1, 1), &[]),
        // Nothing to compare with: the filter fails open.
        (size(0, 1, 1), &["a", "b", "c"]),
    ] {
        assert_eq!(left(name, &draft, &wanted), expected, "{:?}", wanted.flavor);
    }
    let (_, why) = filtered(name, json!({}), &draft, &size(7, 5, 1));
    assert_eq!(
        why,
        "has only 6 of 7 CPUs and 4096 of 5120 MiB of memory free; has an unknown capacity"
    );
    let empty = filtered(name, json!({"ignoreAllocations": true}), &draft, &size(16, 64, 1)).0;
    assert_eq!(empty, ["a", "b"]);
}

fn reserved(kind: ReservationKind) -> Draft {
    let mut draft = world(&[("a", host()), ("b", host())]);
    let reservation = Reservation {
        kind,
        size: Amount::new(16, 65536),
        hosts: set(&["a"]),
        active: true,
        project: Some("p".into()),
        group: Some("v2".into()),
        servers: set(&["vm"]),
        ..Reservation::default()
    };
    draft.reservations.insert("r".into(), reservation);
    draft
}

#[test]
fn committed_room_is_open_to_its_project_and_group_alone() {
    let draft = reserved(ReservationKind::CommittedResource);
    let name = "has_enough_capacity";
    let of = |project: &str, group: &str| Spec {
        project: project.into(),
        resource_group: Some(group.into()),
        ..spec()
    };
    assert_eq!(left(name, &draft, &of("p", "v2")), ["a", "b"]);
    assert_eq!(left(name, &draft, &of("p", "v3")), ["b"]);
    assert_eq!(left(name, &draft, &of("q", "v2")), ["b"]);
    let locked = filtered(name, json!({"lockReserved": true}), &draft, &of("p", "v2")).0;
    assert_eq!(locked, ["b"]);
    let ignored = json!({"ignoredReservationTypes": ["CommittedResource"]});
    assert_eq!(filtered(name, ignored, &draft, &of("q", "v2")).0, ["a", "b"]);
    let (_, why) = filtered(name, json!({}), &draft, &of("q", "v2"));
    assert!(
        why.contains("with 16 CPUs and 65536 MiB kept for others"),
        "{why}"
    );
    // One that is not confirmed yet keeps its room from everybody.
    let mut pending = draft.clone();
    pending.reservations.get_mut("r").expect("there").active = false;
    assert_eq!(left(name, &pending, &of("p", "v2")), ["b"]);
    // Servers of the project use it up; what they use is not kept twice.
    let mut used = draft;
    used.servers.insert("s".into(), server("a", "p", 8, 32768));
    let mut half = of("q", "v2");
    (half.flavor.vcpus, half.flavor.memory_mb) = (1, 1);
    assert_eq!(left(name, &used, &half), ["b"]);
    let mut own = of("p", "v2");
    (own.flavor.vcpus, own.flavor.memory_mb) = (8, 32768);
    assert_eq!(left(name, &used, &own), ["a", "b"]);
    own.flavor.vcpus = 9;
    assert_eq!(left(name, &used, &own), ["b"]);
}

#[test]
fn failover_room_is_open_to_evacuations_of_its_servers_alone() {
    let draft = reserved(ReservationKind::Failover);
    let of = |instance: &str, intent| Spec {
        instance: instance.into(),
        intent,
        ..spec()
    };
    let name = "has_enough_capacity";
    assert_eq!(left(name, &draft, &of("vm", Intent::Evacuate)), ["a", "b"]);
    assert_eq!(left(name, &draft, &of("vm", Intent::LiveMigrate)), ["b"]);
    assert_eq!(left(name, &draft, &of("other", Intent::Evacuate)), ["b"]);
}

#[test]
fn quotas_refuse_only_when_they_are_enforced() {
    let mut draft = world(&[("a", host())]);
    let quota = Quota {
        limits: [("hw_version_v2_ram".to_owned(), 4)].into(),
        used: [("hw_version_v2_ram".to_owned(), 3)].into(),
    };
    draft.features.quotas = Some([("p/z".to_owned(), quota)].into());
    let mut spec = Spec {
        zone: Some("z".into()),
        resource_group: Some("v2".into()),
        ..spec()
    };
    let enforced = |draft: &Draft, spec: &Spec| {
        filtered("quota_enforcement", json!({"enforce": true}), draft, spec)
            .0
            .len()
    };
    assert_eq!(enforced(&draft, &spec), 1);
    spec.flavor.memory_mb = 2048;
    assert_eq!(enforced(&draft, &spec), 0);
    assert_eq!(left("quota_enforcement", &draft, &spec).len(), 1, "shadow");
    spec.intent = Intent::Evacuate;
    assert_eq!(enforced(&draft, &spec), 1, "what is there is never refused");
    spec.intent = Intent::Create;
    // A commitment with room is headroom of its own.
    let committed = Reservation {
        size: Amount::new(4, 4096),
        hosts: set(&["a"]),
        active: true,
        project: Some("p".into()),
        group: Some("v2".into()),
        ..Reservation::default()
    };
    draft.reservations.insert("r".into(), committed);
    assert_eq!(enforced(&draft, &spec), 1);
}
