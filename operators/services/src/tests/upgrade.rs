//! From one version to another, and back where that is possible.

use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY};
use c5c3_api::openstack::Keystone;
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

type Seen = Observed<Services<Keystone>>;

/// The status says that the contraction begins, and only then is it done.
fn note_contraction(seen: &mut Seen) {
    assert_eq!(job_names(seen), Vec::<String>::new(), "it is noted before");
    let version = status(seen, "contracting");
    assert_eq!(version, "29.1.0");
    let report = seen.report(&applied(seen));
    let shown = format!("{report:?}");
    assert!(
        shown.contains("again: Some(1s)"),
        "our own note brings no pass: {shown}"
    );
    let noted = json!({"installedRelease": "28.1.0", "contracting": version});
    seen.object.status = serde_json::from_value(noted).expect("a status");
}

/// Keystone goes from 28.1.0 to 29.1.0, and its contraction is there.
fn contracting(condition: Option<&str>) -> Seen {
    let mut seen = running();
    seen.object.spec.common.image.tag = Some("29.1.0".into());
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    note_contraction(&mut seen);
    take_job(&mut seen, "keystone-db-contract", condition);
    seen
}

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
        "db-expand, db-migrate done; db-contract waiting until the new version is up"
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
            "db-expand, db-migrate done; db-contract waiting until pod keystone-1 (old image) is gone".into()
        )
    );
    seen.facts.pods.clear();
    note_contraction(&mut seen);
    let contract = object(&seen, "Job").expect("wanted").to_string();
    assert!(contract.contains("--contract"), "{contract}");
    assert_eq!(status(&seen, "upgradePhase"), "Contracting");
    assert_eq!(state(&seen, DATABASE_READY).1, "db-contract starting");
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

#[test]
fn an_upgrade_that_began_to_contract_is_not_taken_back() {
    let words = "contract of 29.1.0 has begun: set the image to 29.1.0; going back requires restoring the database from a backup";
    for (condition, other) in [
        (None, "28.1.0"),
        (Some("Failed"), "28.1.0"),
        (Some("Complete"), "28.1.0"),
        (None, "30.0.0"),
    ] {
        let mut seen = contracting(condition);
        seen.object.spec.common.image.tag = Some(other.into());
        assert_eq!(
            (job_names(&seen).len(), count(&seen, "Deployment")),
            (0, 0),
            "{other}"
        );
        let done = condition == Some("Complete");
        let stay = if done { 3 } else { 2 };
        assert_eq!(kept(&seen, "Job").len(), stay, "a contraction is not tried again");
        assert_eq!(
            (
                status(&seen, "upgradePhase"),
                status(&seen, "contracting"),
                status(&seen, "installedRelease")
            ),
            (json!("Failed"), json!("29.1.0"), json!("28.1.0"))
        );
        assert_eq!(state(&seen, DATABASE_READY), ("Failed".into(), words.into()));
        assert_eq!(
            state(&seen, DEPLOYMENT_READY).1,
            "left unchanged: the database schema is that of 29.1.0"
        );
        // Forward it goes on; that a database was restored only a person knows, who clears the note.
        seen.object.spec.common.image.tag = Some("29.1.0".into());
        let expected = if done { Value::Null } else { json!("29.1.0") };
        assert_eq!(status(&seen, "contracting"), expected);
        seen.object.spec.common.image.tag = Some("28.1.0".into());
        seen.object.status = serde_json::from_value(json!({"installedRelease": "28.1.0"})).expect("a status");
        assert_eq!(status(&seen, "contracting"), Value::Null);
        assert_eq!(count(&seen, "Deployment"), 1);
    }
}

#[test]
fn another_build_of_the_same_version_contracts_too() {
    let mut seen = contracting(Some("Failed"));
    seen.object.spec.common.image.tag = Some("29.1.0-p1".into());
    assert_ne!(status(&seen, "upgradePhase"), "Failed");
    assert_eq!(status(&seen, "contracting"), "29.1.0-p1");
    assert_eq!(job_names(&seen).len(), 1, "it expands first");
}

#[test]
fn a_service_whose_schema_is_newer_is_not_brought_back() {
    let mut seen = running();
    seen.object.status = serde_json::from_value(json!({"installedRelease": "29.1.0"})).expect("a status");
    let text = refusal(&seen);
    assert!(text.starts_with("image: 28.1.0 is older than 29.1.0"), "{text}");
    assert_eq!(count(&seen, "Deployment"), 0, "what runs stays as it is");
}
