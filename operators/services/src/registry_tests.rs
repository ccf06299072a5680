//! What the table of services says of each is what its shape declares.

use std::collections::BTreeSet;

use c5c3_api::conditions::READY;
use c5c3_api::services::{self, SERVICES};
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
