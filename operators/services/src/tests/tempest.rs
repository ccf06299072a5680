//! When the tests of a cloud run, and what is reported about them.

use std::io::Write;
use std::process::Command;

use c5c3_api::conditions::service::TESTS_PASSED;
use c5c3_api::openstack::{RUN_NOW, RUN_ONLY, Tempest};
use c5c3_kit::Observed;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

pub(super) fn tempest(schedule: Option<&str>) -> Observed<Services<Tempest>> {
    let mut tempest = json!({
        "apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
        "metadata": {"namespace": "openstack", "name": "tempest", "uid": "t"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/tempest", "tag": "45.0.0"},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "tests": {"concurrency": 2, "includeRegex": "smoke"},
        },
    });
    if let Some(schedule) = schedule {
        tempest["spec"]["schedule"] = schedule.into();
    }
    observed(serde_json::from_value(tempest).expect("a Tempest"), facts())
}

/// The Job that is wanted now becomes one that is there.
fn start(seen: &mut Observed<Services<Tempest>>, at: &str) -> String {
    let mut job = object(seen, "Job").expect("a Job is wanted");
    let name = job["metadata"]["name"].as_str().expect("a name").to_owned();
    job["metadata"]["uid"] = format!("uid-{name}").into();
    job["status"] = json!({"startTime": at});
    seen.facts
        .jobs
        .insert(name.clone(), serde_json::from_value(job).expect("a Job"));
    name
}

/// It ends, and its pod with this last word.
fn end(seen: &mut Observed<Services<Tempest>>, name: &str, how: &str, at: &str, said: &Value) {
    let job = seen.facts.jobs.get_mut(name).expect("there");
    let mut changed = json!(job);
    changed["status"]["conditions"] = json!([{"type": how, "status": "True", "lastTransitionTime": at}]);
    if how == "Complete" {
        changed["status"]["completionTime"] = at.into();
    }
    *job = serde_json::from_value::<Job>(changed).expect("a Job");
    let code = i32::from(how != "Complete");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{name}-x"), "creationTimestamp": at,
            "labels": {"app.kubernetes.io/component": "tests"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": format!("uid-{name}")}],
        },
        "status": {"containerStatuses": [{
            "name": "tests", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "message": said.to_string()}},
        }]},
    }))
    .expect("a pod");
    seen.facts.pods.push(pod);
}

/// What is told now is what is known at the next pass.
fn note(seen: &mut Observed<Services<Tempest>>) {
    let report = seen.report(&applied(seen));
    seen.object.status = serde_json::from_value(report.status_fields().clone()).expect("a status");
}

fn results(failed: u64) -> Value {
    let failures: Vec<Value> = (0..failed)
        .map(|number| json!({"test": format!("tempest.api.test_{number}"), "words": "Conflict: hush in use"}))
        .collect();
    json!({"passed": 140 - failed, "failed": failed, "skipped": 3, "total": 143, "seconds": 60, "leftOver": 1,
        "failures": failures})
}

#[test]
fn without_a_schedule_it_runs_once_for_each_set_of_inputs() {
    let mut seen = tempest(None);
    let name = start(&mut seen, "2026-01-01T08:00:00Z");
    assert_eq!((count(&seen, "Job"), count(&seen, "CronJob")), (0, 0));
    assert_eq!(state(&seen, TESTS_PASSED).0, "Running");
    end(&mut seen, &name, "Complete", "2026-01-01T08:10:00Z", &results(0));
    assert_eq!(state(&seen, TESTS_PASSED).0, "Succeeded");
    assert_eq!((count(&seen, "Job"), kept(&seen, "Job").len()), (0, 1));
    assert_eq!(status(&seen, "lastRun"), "2026-01-01T08:00:00Z");
    assert_eq!(status(&seen, "lastDuration"), "600s");
    assert_eq!(status(&seen, "installedRelease"), "45.0.0");
    assert_eq!(status(&seen, "results")["passed"], 140);
    assert_eq!(status(&seen, "results")["leftOver"], 1);
    seen.object.spec.tests.concurrency = 4;
    assert_eq!(count(&seen, "Job"), 1);
    // No database, no bus, nothing that listens; a volume for the reports.
    for kind in ["Deployment", "Service", "Database", "User", "PodDisruptionBudget"] {
        assert_eq!(count(&seen, kind), 0, "{kind}");
    }
    assert_eq!(count(&seen, "PersistentVolumeClaim"), 1);
}

#[test]
fn its_pod_has_its_credential_its_reports_and_an_end() {
    let seen = tempest(None);
    let job = object(&seen, "Job").expect("wanted");
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 21600);
    assert_eq!(job["spec"]["backoffLimit"], 0);
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    assert!(
        mounts
            .iter()
            .any(|mount| mount["mountPath"] == "/var/lib/tempest"),
        "{mounts:?}"
    );
    assert_eq!(container["envFrom"].as_array().map(Vec::len), Some(1));
    let command = container["command"].as_array().expect("a command");
    let wish = command.last().and_then(Value::as_str).expect("a wish");
    let wish: Value = serde_json::from_str(wish).expect("JSON");
    assert_eq!(
        (&wish["include"], &wish["concurrency"]),
        (&json!("smoke"), &json!(2))
    );
    let config = object(&seen, "ConfigMap").expect("configured");
    let files: Vec<&String> = config["data"].as_object().expect("files").keys().collect();
    let expected = [
        "cloud.py",
        "outcome.py",
        "run.py",
        "selection.py",
        "skips.txt",
        "sweep.py",
        "tempest.conf",
    ];
    assert_eq!(files, expected);
    assert!(
        !json!(objects(&seen)).to_string().contains("hush"),
        "secrets are in Secrets alone"
    );
}

#[test]
fn a_failure_is_told_with_its_test_and_without_secrets() {
    let mut seen = tempest(None);
    let name = start(&mut seen, "2026-01-01T08:00:00Z");
    end(&mut seen, &name, "Failed", "2026-01-01T08:10:00Z", &results(2));
    assert_eq!(
        state(&seen, TESTS_PASSED).1,
        "tests failed: 2 of 143 tests failed; tempest.api.test_0: Conflict: *** in use"
    );
    assert_eq!(
        status(&seen, "results")["failures"][1]["words"],
        "Conflict: *** in use"
    );
    assert_eq!(status(&seen, "installedRelease"), Value::Null);
    // Tried again only by somebody's wish.
    assert_eq!(count(&seen, "Job"), 0);
    // The pod goes before its results do.
    note(&mut seen);
    seen.facts.pods.clear();
    assert_eq!(status(&seen, "results")["failed"], 2);
}

#[test]
fn on_a_schedule_each_version_is_run_once_at_once() {
    let mut seen = tempest(Some("0 3 * * *"));
    assert_eq!((count(&seen, "CronJob"), count(&seen, "Job")), (1, 1));
    let cron_job = object(&seen, "CronJob").expect("wanted");
    assert_eq!(cron_job["spec"]["concurrencyPolicy"], "Forbid");
    assert_eq!(cron_job["spec"]["jobTemplate"]["spec"]["backoffLimit"], 0);
    let name = start(&mut seen, "2026-01-01T08:00:00Z");
    end(&mut seen, &name, "Complete", "2026-01-01T08:10:00Z", &results(0));
    note(&mut seen);
    // Another option waits for the schedule, another image does not.
    seen.object
        .spec
        .extra_config
        .entry("compute".into())
        .or_default()
        .insert("build_timeout".into(), "600".into());
    assert_eq!(count(&seen, "Job"), 0);
    seen.object.spec.image.tag = Some("46.2.0".to_owned());
    assert_eq!(count(&seen, "Job"), 1);
    assert_eq!(status(&seen, "installedRelease"), "45.0.0");
}

#[test]
fn a_run_on_request_is_made_once_and_never_beside_another() {
    let mut seen = tempest(Some("0 3 * * *"));
    let ask = |seen: &mut Observed<Services<Tempest>>, mark: &str| {
        let notes = seen.object.metadata.annotations.get_or_insert_default();
        notes.insert(RUN_NOW.to_owned(), mark.to_owned());
        notes.insert(RUN_ONLY.to_owned(), "test_list".to_owned());
    };
    let first = start(&mut seen, "2026-01-01T08:00:00Z");
    ask(&mut seen, "one");
    assert_eq!(count(&seen, "Job"), 0, "another run goes on");
    end(&mut seen, &first, "Complete", "2026-01-01T08:10:00Z", &results(0));
    note(&mut seen);
    let asked = start(&mut seen, "2026-01-01T08:20:00Z");
    let job = serde_json::to_string(&seen.facts.jobs[&asked]).expect("writes");
    assert!(job.contains("test_list"), "{job}");
    let suspended = |seen: &Observed<_>| object(seen, "CronJob").expect("wanted")["spec"]["suspend"].clone();
    assert_eq!(suspended(&seen), true, "the schedule waits for it");
    assert_eq!(status(&seen, "runNow"), "one");
    end(&mut seen, &asked, "Failed", "2026-01-01T08:30:00Z", &results(1));
    assert_eq!((suspended(&seen), count(&seen, "Job")), (json!(false), 0));
    note(&mut seen);
    // Its Job is gone: it is not run again, until somebody asks again.
    seen.facts.jobs.remove(&asked);
    assert_eq!(count(&seen, "Job"), 0);
    ask(&mut seen, "two");
    assert_eq!(count(&seen, "Job"), 1);
}

#[test]
fn it_waits_for_what_it_tests() {
    let mut seen = tempest(None);
    seen.facts.unmet = Some(trouble("Nova nova is not Ready"));
    assert_eq!(count(&seen, "Job"), 0);
    assert_eq!(state(&seen, TESTS_PASSED).1, "Nova nova is not Ready");
}

#[test]
fn what_a_run_decides_is_right() {
    if Command::new("python3").arg("--version").output().is_err() {
        // Not by a macro: those are silent in tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: there is no python3 on this machine");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let files = crate::kinds::tempest::FILES.iter();
    for (name, text) in files.chain([&("run_test.py", include_str!("../kinds/tempest/run_test.py"))]) {
        std::fs::write(directory.path().join(name), text).expect("written");
    }
    let test = Command::new("python3")
        .arg(directory.path().join("run_test.py"))
        .output()
        .expect("python3 runs");
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));
}
