//! From one version to another, and back where that is possible.

use c5c3_api::conditions::DATABASE_READY;
use serde_json::{Value, json};

use crate::testing::*;

#[test]
fn an_upgrade_expands_rolls_out_and_contracts() {
    let mut seen = running();
    let before = seen.facts.jobs.keys().next().expect("a Job").clone();
    seen.object.spec.common.image.tag = Some("29.1.0".into());
    let expand = object(&seen, "Job").expect("wanted");
    let text = expand.to_string();
    assert!(
        text.contains("--expand") && text.contains("--migrate") && !text.contains("--contract"),
        "{text}"
    );
    assert_eq!(status(&seen, "upgradePhase"), "Expanding");
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    assert!(kept(&seen, "Job").contains(&before), "the way back needs no step");
    assert_eq!(
        (
            status(&seen, "upgradePhase"),
            status(&seen, "installedRelease"),
            job_names(&seen).len()
        ),
        (json!("RollingOut"), json!("28.1.0"), 0)
    );
    assert_eq!(
        state(&seen, DATABASE_READY).1,
        "db-expand, db-migrate done; db-contract waits until the new version is up"
    );
    take_deployments(&mut seen);
    seen.facts.pods = vec![process_pod(&json!({}))];
    assert_eq!(
        job_names(&seen).len(),
        0,
        "a pod of the old version is on its way out"
    );
    assert_eq!(
        state(&seen, DATABASE_READY),
        (
            "Progressing".into(),
            "db-expand, db-migrate done; db-contract waits until pod keystone-1 (old image) is gone".into()
        )
    );
    seen.facts.pods.clear();
    let contract = object(&seen, "Job").expect("wanted").to_string();
    assert!(contract.contains("--contract"), "{contract}");
    assert_eq!(status(&seen, "upgradePhase"), "Contracting");
    assert_eq!(state(&seen, DATABASE_READY).1, "db-contract starts");
    take_job(&mut seen, "keystone-db-contract", Some("Complete"));
    assert_eq!(
        (status(&seen, "upgradePhase"), status(&seen, "installedRelease")),
        (Value::Null, json!("29.1.0"))
    );
    seen.object.status = serde_json::from_value(json!({"installedRelease": "29.1.0"})).expect("a status");
    assert_eq!(job_names(&seen).len(), 0, "nothing is left to do");
    assert_eq!(state(&seen, DATABASE_READY).1, "db-sync done");
}

#[test]
fn an_upgrade_that_was_not_contracted_can_be_taken_back() {
    let mut seen = running();
    seen.object.spec.common.image.tag = Some("29.1.0".into());
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    seen.object.spec.common.image.tag = Some("28.1.0".into());
    assert_eq!((job_names(&seen).len(), count(&seen, "Deployment")), (0, 1));
    assert_eq!(status(&seen, "upgradePhase"), Value::Null);
}

#[test]
fn what_others_do_to_a_pod_holds_no_upgrade() {
    let (old, new) = ("ghcr.io/c5c3/keystone:28.1.0", "ghcr.io/c5c3/keystone:29.1.0");
    let mirrored = "mirror.example.org/keystone:29.1.0";
    let pod = |told: Option<&str>, image: &str, phase: &str| {
        let sidecar = json!({"name": "mesh", "image": "mesh:1"});
        let mut pod = process_pod(&json!({"phase": phase}));
        let containers = json!([sidecar, {"name": "api", "image": image}]);
        let spec = pod.spec.as_mut().expect("a spec");
        spec.containers = serde_json::from_value(containers).expect("containers");
        let note = told.map(|told| [("c5c3.io/image".to_owned(), told.to_owned())].into());
        pod.metadata.annotations = note;
        pod
    };
    let cases = [
        (pod(Some(new), new, "Running"), true),
        (pod(Some(new), mirrored, "Running"), true),
        (pod(Some(old), mirrored, "Running"), false),
        // Pods from before the image was noted.
        (pod(None, new, "Running"), true),
        (pod(None, old, "Running"), false),
        // An evicted pod does nothing any more.
        (pod(Some(old), old, "Failed"), true),
    ];
    for (pod, contracts) in cases {
        let mut seen = running();
        seen.object.spec.common.image.tag = Some("29.1.0".into());
        take_job(&mut seen, "keystone-db-sync", Some("Complete"));
        take_deployments(&mut seen);
        let text = format!("{pod:?}");
        seen.facts.pods = vec![pod];
        assert_eq!(
            status(&seen, "upgradePhase") == "Contracting",
            contracts,
            "{text}"
        );
    }
}
