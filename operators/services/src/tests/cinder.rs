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
    take_check(&mut seen, "volume-fast", None);
    assert_eq!(
        state(&seen, CEPH_CONNECTED).1,
        "volume-large has not opened pool large as client.large yet"
    );
    take_check(&mut seen, "volume-large", None);
    assert_eq!(state(&seen, CEPH_CONNECTED).0, "Ready");
    client(&mut seen, "fast", "Failure");
    assert_eq!(state(&seen, CEPH_CONNECTED).1, "CephClient fast is Failure");
}

/// One backend of files beside those in Ceph.
fn with_files() -> Cinder {
    let mut cinder = cinder();
    let files =
        json!({"name": "files", "driver": "cinder.volume.drivers.nfs.NfsDriver", "file": {"size": "20Gi"}});
    cinder
        .spec
        .backends
        .push(serde_json::from_value(files).expect("a backend"));
    cinder
}

/// Where each container of an object has which volume.
fn mounts(object: &serde_json::Value) -> Vec<(String, String)> {
    let pod = &object["spec"]["template"]["spec"];
    let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("mounts");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    mounts
        .iter()
        .map(|mount| (text(&mount["name"]), text(&mount["mountPath"])))
        .collect()
}

#[test]
fn files_are_where_cinder_and_nova_look_for_them() {
    let mut seen = observed(with_files(), facts());
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    let all = objects(&seen);
    let claim = all
        .iter()
        .find(|object| object["kind"] == "PersistentVolumeClaim");
    let claim = claim.expect("a claim");
    assert_eq!(claim["metadata"]["name"], "cinder-volumes-files");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
    let find = |objects: &[serde_json::Value], name: &str| {
        let found = objects.iter().find(|object| object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let volume = mounts(&find(&all, "cinder-volume-files"));
    let (_, path) = (volume.iter())
        .find(|(name, _)| name == "volumes-files")
        .expect("the claim");

    let compute = json!({
        "enabled": true, "volumeClaims": [{"name": "cinder-volumes-files"}],
        "libvirtImage": {"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3"},
    });
    let mut hypervisors = observed(nova(json!({"compute": compute})), facts());
    take_job(&mut hypervisors, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut hypervisors);
    let all = objects(&hypervisors);
    for set in ["nova-libvirt", "nova-compute-cell1"] {
        let set = find(&all, set);
        assert!(
            mounts(&set).contains(&("volumes-0".to_owned(), path.clone())),
            "{set}"
        );
    }
}

#[test]
fn keys_of_ceph_are_only_where_they_are_used() {
    let compute = |rbd: bool| {
        let mut compute = json!({
            "enabled": true, "volumeUsers": [{"cephSecretRef": {"name": "ceph"}}],
            "libvirtImage": {"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3"},
        });
        if rbd {
            compute["rbd"] = json!({"pool": "vms", "cephSecretRef": {"name": "ceph"}});
        }
        let mut seen = observed(nova(json!({"compute": compute})), facts());
        take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
        take_deployments(&mut seen);
        take_deployments(&mut seen);
        // What only tries a key before the program starts does not use it.
        let with_keys = objects(&seen).into_iter().filter(|object| {
            let pod = &object["spec"]["template"]["spec"];
            let volumes = pod["volumes"].as_array().into_iter().flatten();
            let mut keys = volumes.filter(|volume| volume["secret"]["secretName"] == "ceph");
            let mounts = pod["containers"][0]["volumeMounts"].to_string();
            keys.any(|key| mounts.contains(&format!("\"name\":{}", key["name"])))
        });
        let mut names: Vec<String> = with_keys
            .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    };
    // Guests open volumes; Nova only hands them on.
    assert_eq!(compute(false), ["nova-libvirt"]);
    assert_eq!(
        compute(true),
        ["nova-compute-cell1", "nova-compute-cell2", "nova-libvirt"]
    );
}

#[test]
fn two_processes_never_work_on_the_same_volumes() {
    let mut seen = seen();
    seen.object.spec.volume.replicas = 2;
    assert!(refusal(&seen).contains("volume.replicas"), "{}", refusal(&seen));
}

#[test]
fn the_room_of_a_backend_is_what_the_last_answer_said() {
    let mut seen = seen();
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    let ended = json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z",
        "message": r#"{"fast": {"state": "down", "availableCapacityGb": 7, "totalCapacityGb": 9}}"#}});
    let pod = json!({
        "metadata": {"name": "x", "labels": {"app.kubernetes.io/component": "capacity"}},
        "status": {"containerStatuses": [{"name": "x", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": ended}]},
    });
    seen.facts.pods.push(serde_json::from_value(pod).expect("a pod"));
    let told = json!([
        {"name": "fast", "status": "down", "availableCapacityGb": 7, "totalCapacityGb": 9},
        {"name": "large", "status": "Ready"},
    ]);
    assert_eq!(status(&seen, "backends"), told);
    // The answer is kept when its pod is gone.
    let before = json!({"backends": [{"name": "fast", "status": "Ready", "availableCapacityGb": 7, "totalCapacityGb": 9}]});
    seen.object.status = serde_json::from_value(before).ok();
    seen.facts
        .pods
        .retain(|pod| pod.metadata.name.as_deref() != Some("x"));
    assert_eq!(status(&seen, "backends")[0]["availableCapacityGb"], 7);
}
