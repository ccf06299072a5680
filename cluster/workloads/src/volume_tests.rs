use super::*;
use crate::testing::Sim;
use serde_json::Value;

fn claim(extra: Value) -> Value {
    let mut claim = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "data", "uid": "u1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}});
    for (key, value) in extra.as_object().expect("an object") {
        claim["spec"][key] = value.clone();
    }
    claim
}

fn volume(name: &str, spec: Value) -> Value {
    json!({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec})
}

fn with_class() -> Sim {
    let mut sim = Sim::default();
    sim.learn(json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "provisioner": crate::testing::PROVISIONER, "reclaimPolicy": "Delete",
        "metadata": {"name": "directory", "annotations": {DEFAULT_CLASS: "true"}}}));
    sim
}

fn key() -> Key {
    ("n".to_owned(), "data".to_owned())
}

fn bound_to(sim: &Sim) -> Option<String> {
    let claim = sim.world.claims.get(&key())?;
    claim.spec.as_ref()?.volume_name.clone()
}

#[test]
fn a_claim_gets_a_directory_that_goes_with_it() {
    let mut sim = with_class();
    sim.learn(claim(json!({})));
    sim.settle();
    assert!(is_bound(&sim.world, &key()));
    let claim = sim.world.claims.get(&key()).unwrap().spec.clone().unwrap();
    assert_eq!(claim.volume_name.as_deref(), Some("pvc-u1"));
    assert_eq!(claim.storage_class_name.as_deref(), Some("directory"));
    assert_eq!(
        decide_claim(&sim.world, &key(), &crate::testing::config()),
        Decision::default()
    );

    sim.remove("PersistentVolumeClaim", "data");
    sim.settle();
    assert_eq!(sim.world.volumes.iter().count(), 0);
    assert_eq!(sim.removed_directories, [Path::new("/volumes/pvc-u1")]);
}

#[test]
fn a_claim_stays_while_a_pod_uses_it() {
    let mut sim = with_class();
    sim.learn(claim(json!({})));
    sim.learn(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": "p"},
        "spec": {"nodeName": "a", "containers": [], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}));
    sim.learn(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    sim.settle();
    sim.remove("PersistentVolumeClaim", "data");
    sim.settle();
    assert!(
        sim.world
            .claims
            .get(&key())
            .is_some_and(|claim| pods::is_terminating(claim.as_ref()))
    );
    assert_eq!(sim.removed_directories.len(), 0);
    sim.end_pod("Succeeded");
    sim.settle();
    assert!(sim.world.claims.get(&key()).is_none());
    assert_eq!(sim.removed_directories, [Path::new("/volumes/pvc-u1")]);
}

#[test]
fn a_bound_volume_stays_until_its_claim_is_gone() {
    let mut sim = with_class();
    sim.learn(claim(json!({})));
    sim.settle();
    sim.remove("PersistentVolume", "pvc-u1");
    sim.settle();
    assert_eq!(sim.world.volumes.iter().count(), 1);
    sim.remove("PersistentVolumeClaim", "data");
    sim.settle();
    assert_eq!(sim.world.volumes.iter().count(), 0);
    assert_eq!(sim.removed_directories, [Path::new("/volumes/pvc-u1")]);
}

#[test]
fn a_path_that_was_not_made_here_is_never_removed() {
    for path in ["/etc", "/volumes", "/volumes/other", "/volumes/../etc"] {
        let mut sim = with_class();
        let mut forged = volume(
            "forged",
            json!({"hostPath": {"path": path}, "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"namespace": "n", "name": "gone", "uid": "x"}}),
        );
        forged["metadata"]["annotations"] =
            json!({"pv.kubernetes.io/provisioned-by": crate::testing::PROVISIONER});
        sim.learn(forged);
        sim.settle();
        assert_eq!(sim.removed_directories.len(), 0, "{path}");
        let volume = sim.world.volumes.iter().next().expect("kept for a person");
        assert_eq!(volume.status.clone().unwrap().phase.as_deref(), Some("Released"));
    }
}

#[test]
fn the_smallest_volume_that_fits_is_bound_before_one_is_made() {
    let disk = |size: &str, modes: Value, class: &str| json!({"capacity": {"storage": size}, "accessModes": modes, "storageClassName": class, "hostPath": {"path": "/srv"}});
    let mut sim = with_class();
    sim.learn(volume("small", disk("1Gi", json!(["ReadWriteOnce"]), "slow")));
    sim.learn(volume("shared", disk("5Gi", json!(["ReadOnlyMany"]), "slow")));
    sim.learn(volume("other", disk("5Gi", json!(["ReadWriteOnce"]), "fast")));
    sim.learn(volume("large", disk("50Gi", json!(["ReadWriteOnce"]), "slow")));
    sim.learn(claim(json!({"storageClassName": "slow"})));
    sim.settle();
    assert_eq!(bound_to(&sim).as_deref(), Some("large"));

    let mut sim = with_class();
    sim.learn(claim(json!({"storageClassName": "slow"})));
    sim.settle();
    assert_eq!(bound_to(&sim), None);
    sim.learn(volume("late", disk("5Gi", json!(["ReadWriteOnce"]), "slow")));
    sim.settle();
    assert_eq!(
        bound_to(&sim).as_deref(),
        Some("late"),
        "a volume that comes later serves too"
    );
}

#[test]
fn a_volume_is_taken_before_its_claim_is_bound() {
    let mut sim = with_class();
    sim.learn(volume(
        "v",
        json!({"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "hostPath": {"path": "/srv"}}),
    ));
    let mut claim = claim(json!({"storageClassName": "slow"}));
    claim["metadata"]["finalizers"] = json!([CLAIM_IN_USE]);
    sim.learn(claim);
    let kinds = |sim: &Sim| -> Vec<String> {
        let actions = decide_claim(&sim.world, &key(), &crate::testing::config()).actions;
        let patched = actions.into_iter().map(|action| match action {
            Action::Patch { target, body, .. } => {
                assert!(body["status"].is_object() || body["metadata"]["resourceVersion"].is_string());
                target.kind
            }
            other => format!("{other:?}"),
        });
        patched.collect()
    };
    assert_eq!(kinds(&sim), ["PersistentVolume"]);
    sim.change::<PersistentVolume>("v", |volume| {
        let reference = json!({"namespace": "n", "name": "data", "uid": "u1"});
        volume.spec.as_mut().unwrap().claim_ref = Some(serde_json::from_value(reference).unwrap());
    });
    assert_eq!(kinds(&sim), ["PersistentVolumeClaim"]);
    assert_eq!(bound_to(&sim), None, "not bound before it says to what");
    sim.settle();
    assert!(is_bound(&sim.world, &key()));
}
