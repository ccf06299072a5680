//! Steps on a schedule fit the one shape: Tempest as it will be, for the decisions alone.

use c5c3_api::common::ServiceCommon;
use c5c3_api::conditions::service::TESTS_PASSED;
use c5c3_api::openstack::Tempest;
use c5c3_kit::{Observed, Part};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::shape::{Recurring, Service, Settings, Step, Subject};
use crate::testing::*;

impl Subject for Tempest {
    const SERVICE: &'static str = "tempest";
    const PARTS: &'static [Part] = &[Part::required(TESTS_PASSED)];
    const RECURRING: bool = true;

    fn shape(&self) -> Service {
        let common = ServiceCommon {
            image: self.spec.image.clone(),
            depends_on: self.spec.depends_on.clone(),
            resources: self.spec.resources.clone(),
            ..ServiceCommon::default()
        };
        let tests = &self.spec.tests;
        let concurrency = tests.concurrency.to_string();
        let regex = tests.include_regex.iter().flat_map(|regex| ["--regex", regex]);
        let run = [
            "tempest",
            "run",
            "--workspace-path",
            "/tmp/workspace",
            "--concurrency",
            &concurrency,
        ];
        let run: Vec<&str> = run.into_iter().chain(regex).collect();
        let init = [
            "tempest",
            "init",
            "--config-dir",
            "/etc/tempest",
            "/tmp/workspace",
        ];
        Service {
            settings: vec![Settings::new("tempest.conf").with(&[
                ("auth", "use_dynamic_credentials", "true"),
                ("identity", "uri_v3", &self.spec.keystone.auth_url),
            ])],
            recurring: vec![Recurring {
                steps: vec![Step::new("workspace", &init), Step::new("tests", &run)],
                schedule: self.spec.schedule.clone(),
                nodes_of: Vec::new(),
                again: false,
                part: Some(TESTS_PASSED),
                told: true,
            }],
            ..Service::new(self, common)
        }
    }
}

fn tempest(schedule: Option<&str>) -> Observed<Services<Tempest>> {
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

/// A Job that the CronJob made, as it ended.
fn run(seen: &mut Observed<Services<Tempest>>, name: &str, at: &str, ended: Option<&str>) {
    let template = object(seen, "CronJob").expect("wanted")["spec"]["jobTemplate"].clone();
    let conditions: Vec<Value> = ended
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T09:00:00Z"}))
        .into_iter()
        .collect();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "openstack", "uid": "job", "labels": template["metadata"]["labels"]},
        "spec": template["spec"], "status": {"startTime": at, "conditions": conditions},
    }))
    .expect("a Job");
    seen.facts.jobs.insert(name.to_owned(), job);
}

#[test]
fn a_schedule_becomes_a_cron_job_whose_last_run_tells() {
    let mut seen = tempest(Some("0 3 * * *"));
    assert_eq!((count(&seen, "CronJob"), count(&seen, "Job")), (1, 0));
    let cron_job = object(&seen, "CronJob").expect("wanted");
    assert_eq!(cron_job["spec"]["concurrencyPolicy"], "Forbid");
    assert_eq!(cron_job["spec"]["jobTemplate"]["spec"]["backoffLimit"], 0);
    let command = cron_job.pointer("/spec/jobTemplate/spec/template/spec/containers/0/command");
    let command = command.and_then(Value::as_array).expect("a command");
    let last = &command[command.len() - 5..];
    assert_eq!(last, ["/tmp/workspace", "--concurrency", "2", "--regex", "smoke"]);
    assert_eq!(
        state(&seen, TESTS_PASSED).1,
        "tests starts at its first time (0 3 * * *)"
    );
    run(&mut seen, "tempest-tests-1", "2026-01-01T03:00:00Z", None);
    assert_eq!(state(&seen, TESTS_PASSED).0, "Running");
    run(
        &mut seen,
        "tempest-tests-1",
        "2026-01-01T03:00:00Z",
        Some("Complete"),
    );
    assert_eq!(state(&seen, TESTS_PASSED).0, "Succeeded");
    assert_eq!(status(&seen, "lastRun"), "2026-01-01T03:00:00Z");
    // The one at work says nothing yet; the one that failed does.
    run(&mut seen, "tempest-tests-2", "2026-01-01T08:50:00Z", None);
    assert_eq!(state(&seen, TESTS_PASSED).0, "Succeeded");
    run(
        &mut seen,
        "tempest-tests-2",
        "2026-01-01T08:50:00Z",
        Some("Failed"),
    );
    let failed = json!({"terminated": {"exitCode": 2, "message": "test_list_users ... FAILED"}});
    seen.facts.pods.push(job_pod(&failed, &json!({})));
    assert_eq!(
        state(&seen, TESTS_PASSED).1,
        "tests failed: test_list_users ... FAILED"
    );
    assert_eq!(
        (status(&seen, "lastDuration"), status(&seen, "installedRelease")),
        (json!("600s"), Value::Null)
    );
}

#[test]
fn without_a_schedule_it_runs_once_for_each_set_of_inputs() {
    let mut seen = tempest(None);
    take_job(&mut seen, "tempest-tests", Some("Complete"));
    assert_eq!((count(&seen, "Job"), kept(&seen, "Job").len()), (0, 1));
    assert_eq!(state(&seen, TESTS_PASSED).0, "Succeeded");
    seen.object.spec.tests.concurrency = 4;
    assert_eq!(count(&seen, "Job"), 1);
    // No database, no bus, nothing that listens.
    for kind in [
        "Secret",
        "Service",
        "Deployment",
        "PodDisruptionBudget",
        "CronJob",
    ] {
        assert_eq!(count(&seen, kind), 0, "{kind}");
    }
}

#[test]
fn it_waits_for_what_it_depends_on_and_then_goes_on() {
    let mut seen = tempest(Some("0 3 * * *"));
    seen.facts.unmet = Some(trouble("Keystone keystone is not ready"));
    assert_eq!(count(&seen, "CronJob"), 0);
    assert_eq!(state(&seen, TESTS_PASSED).1, "Keystone keystone is not ready");
    // A CronJob that is there stays.
    assert_eq!(kept(&seen, "CronJob"), ["tempest-tests"]);
}
