//! What the table of services says of each is what its shape declares.

use std::collections::BTreeSet;

use c5c3_api::conditions::READY;
use c5c3_api::ovn::OvnCluster;
use c5c3_api::services::{self, SERVICES};
use c5c3_kit::{Key, Kind};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::shape::{Process, Subject};
use crate::testing::*;

fn agrees<S: Subject>() {
    let row = services::of_kind(&S::kind(&())).expect("a row");
    let parts = S::PARTS.iter().map(|part| part.name);
    let declared: BTreeSet<&str> = [READY].into_iter().chain(parts).collect();
    let listed: BTreeSet<&str> = row.conditions.iter().copied().collect();
    assert_eq!(declared, listed, "conditions of {row:?}");
    assert_eq!((S::SERVICE, S::MESSAGING), (row.name, row.messaging), "{row:?}");
}

#[test]
fn conditions_and_buses_are_those_of_the_shapes() {
    macro_rules! all {
        ($($kind:ty),*) => { $(agrees::<$kind>();)* };
    }
    c5c3_api::each_service!(all);
}

#[test]
fn an_api_listens_where_the_catalogue_says() {
    let shapes = [
        keystone().shape(),
        glance(json!({"backend": "file"})).shape(),
        placement().shape(),
        nova(json!({})).shape(),
        neutron().shape(),
        cinder().shape(),
    ];
    for shape in shapes {
        let row = services::named(shape.names.service).expect("a row");
        let port = shape.api().and_then(Process::port).map(|port| port.number);
        assert_eq!(port, Some(row.port), "{row:?}");
    }
    assert!(SERVICES.len() >= 6);
}

/// The kit knows nothing of our kinds, and says the same words.
#[test]
fn the_kit_speaks_as_the_kinds_do() {
    use c5c3_api::common::Blocker;
    use c5c3_api::conditions::reason as ours;
    use c5c3_kit::conditions::{self, reason};
    assert_eq!(conditions::READY, READY);
    for (kit, api) in [
        (reason::READY, ours::READY),
        (reason::DELETING, ours::DELETING),
        (reason::NOT_REQUIRED, ours::NOT_REQUIRED),
        (reason::NOT_REACHED, ours::NOT_REACHED),
        (reason::NOT_REPORTED, ours::NOT_REPORTED),
    ] {
        assert_eq!(kit, api);
    }
    let own = Key::new(Some("openstack"), "nova");
    let node = Kind::of::<Node>().in_cluster("hypervisor").named(None, "node-1");
    let cluster = Kind::of::<OvnCluster>().named(Some("ovn"), "ovn");
    for (reference, whole) in [(node, false), (cluster, true)] {
        let told = json!(c5c3_kit::Blocker::of(&own, &reference));
        let read: Blocker = serde_json::from_value(told.clone()).expect("a blocker");
        assert_eq!(json!(read), told);
        assert_eq!((read.group.is_some(), read.namespace.is_some()), (whole, whole));
        assert_eq!(read.cluster.is_some(), !whole);
    }
}
