//! Cinder has a process for each backend, which alone knows the way to it.

use c5c3_api::common::ObjectRef;
use c5c3_api::conditions::CEPH_CONNECTED;
use c5c3_api::openstack::Cinder;
use c5c3_kit::Observed;
use serde_json::json;

use crate::reconcile::Services;
use crate::testing::*;

fn seen() -> Observed<Services<Cinder>> {
    let mut seen = observed(cinder(), facts());
    for name in ["fast", "large"] {
        client(&mut seen, name, "Ready");
    }
    seen
}

fn client(seen: &mut Observed<Services<Cinder>>, name: &str, phase: &str) {
    let reference = ObjectRef {
        name: name.to_owned(),
        namespace: None,
    };
    let client = json!({"metadata": {"name": name}, "spec": {"caps": {}}, "status": {"phase": phase}});
    let client = serde_json::from_value(client).expect("a CephClient");
    seen.facts.ceph_clients.insert(reference, client);
}

#[test]
fn every_backend_has_a_process_that_alone_has_its_keyring() {
    let mut seen = seen();
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    let all = objects(&seen);
    let find = |kind: &str, name: &str| {
        let is = |object: &&serde_json::Value| {
            let found = object["metadata"]["name"].as_str().unwrap_or_default();
            object["kind"] == kind && found.starts_with(name)
        };
        all.iter()
            .find(is)
            .unwrap_or_else(|| panic!("{kind} {name}"))
            .clone()
    };
    let text = |name: &str| {
        let map = find("ConfigMap", name);
        map["data"]["cinder.conf"].as_str().expect("a file").to_owned()
    };
    let (api, fast) = (text("cinder-config-"), text("cinder-volume-fast-config-"));
    assert!(
        api.contains("enabled_backends = fast,large") && !api.contains("[fast]"),
        "{api}"
    );
    for line in ["enabled_backends = fast\n", "[fast]", "rbd_pool = fast"] {
        assert!(fast.contains(line), "{fast}");
    }
    assert!(!fast.contains("[large]"), "{fast}");
    let volume = find("Deployment", "cinder-volume-large");
    assert_eq!(volume["spec"]["strategy"]["type"], "Recreate");
    assert!(volume.to_string().contains("/etc/ceph"));
    assert!(
        !find("Deployment", "cinder-scheduler")
            .to_string()
            .contains("/etc/ceph")
    );
    let backends = status(&seen, "backends");
    assert_eq!(
        backends,
        json!([{"name": "fast", "status": "Ready"}, {"name": "large", "status": "Ready"}])
    );
}

#[test]
fn the_backend_that_is_not_well_speaks() {
    let mut seen = seen();
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    assert_eq!(state(&seen, CEPH_CONNECTED).0, "Ready");
    client(&mut seen, "fast", "Failure");
    assert_eq!(state(&seen, CEPH_CONNECTED).1, "CephClient fast is Failure");
}
