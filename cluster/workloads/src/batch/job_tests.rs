use super::*;
use crate::testing::Sim;
use serde_json::{Value, json};

fn job(extra: Value) -> Value {
    let mut job = json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"namespace": "n", "name": "sync", "uid": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    for (key, value) in extra.as_object().expect("an object") {
        job["spec"][key] = value.clone();
    }
    job
}

fn state(sim: &Sim) -> Option<String> {
    sim.world
        .jobs
        .iter()
        .next()
        .and_then(|job| finished_as(job).map(str::to_owned))
}

#[test]
fn it_completes_when_enough_pods_succeeded() {
    let mut sim = Sim::default();
    sim.learn(job(json!({"completions": 3, "parallelism": 2})));
    sim.settle();
    assert_eq!(
        sim.world.pods.iter().filter(|pod| pods::is_active(pod)).count(),
        2
    );
    for _ in 0..3 {
        sim.end_pod("Succeeded");
        sim.settle();
    }
    assert_eq!(state(&sim).as_deref(), Some("Complete"));
    assert_eq!(sim.world.pods.iter().count(), 3);
}

#[test]
fn it_fails_after_the_backoff_limit_and_waits_between_tries() {
    let mut sim = Sim::default();
    sim.learn(job(json!({"backoffLimit": 1})));
    sim.settle();
    sim.end_pod("Failed");
    sim.settle();
    assert_eq!(
        sim.world.pods.iter().filter(|pod| pods::is_active(pod)).count(),
        0,
        "the second try waits"
    );
    sim.pass(10);
    assert_eq!(
        sim.world.pods.iter().filter(|pod| pods::is_active(pod)).count(),
        1
    );
    sim.end_pod("Failed");
    sim.settle();
    assert_eq!(state(&sim).as_deref(), Some("Failed"));
}

#[test]
fn a_deadline_and_a_time_to_live_are_kept() {
    let mut sim = Sim::default();
    sim.learn(job(
        json!({"activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 5}),
    ));
    sim.settle();
    sim.pass(30);
    assert_eq!(state(&sim).as_deref(), Some("Failed"));
    sim.pass(5);
    assert_eq!(sim.world.jobs.iter().count(), 0);
}

#[test]
fn indexes_are_given_once_each() {
    let mut sim = Sim::default();
    sim.learn(job(
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
    ));
    sim.settle();
    let indexes: BTreeSet<_> = sim.world.pods.iter().filter_map(|pod| index_of(pod)).collect();
    assert_eq!(indexes, BTreeSet::from([0, 1, 2]));
}

fn status(sim: &Sim) -> JobStatus {
    let job = sim.world.jobs.iter().next().expect("the Job");
    job.status.clone().unwrap_or_default()
}

fn active(sim: &Sim) -> Vec<String> {
    let active = sim.world.pods.iter().filter(|pod| pods::is_active(pod));
    active.map(|pod| pod.name_any()).collect()
}

#[test]
fn what_succeeded_stays_counted_when_its_pod_is_gone() {
    let mut sim = Sim::default();
    sim.learn(job(json!({"completions": 3})));
    for round in 1..=3 {
        sim.settle();
        let name = active(&sim).remove(0);
        sim.end_pod("Succeeded");
        sim.settle();
        assert_eq!(status(&sim).succeeded, Some(round));
        sim.remove("Pod", &name);
        sim.settle();
    }
    assert_eq!(state(&sim).as_deref(), Some("Complete"));
    assert_eq!(sim.world.pods.iter().count(), 0);
}

#[test]
fn a_pod_that_is_removed_before_it_was_seen_to_end_is_counted_first() {
    let mut sim = Sim::default();
    sim.learn(job(json!({"completions": 2})));
    sim.settle();
    let name = active(&sim).remove(0);
    sim.end_pod("Succeeded");
    sim.remove("Pod", &name);
    sim.settle();
    assert_eq!(status(&sim).succeeded, Some(1));
    assert!(sim.world.pods.get(&("n".into(), name)).is_none());
}

#[test]
fn a_pod_that_is_lost_is_a_failure_and_nothing_keeps_it() {
    let mut sim = Sim::default();
    sim.learn(job(json!({})));
    sim.settle();
    let name = active(&sim).remove(0);
    sim.remove("Pod", &name);
    sim.settle();
    assert_eq!(status(&sim).failed, Some(1));
    assert!(sim.world.pods.get(&("n".into(), name)).is_none());
    sim.pass(10);
    assert_eq!(active(&sim).len(), 1);
}

#[test]
fn pods_of_a_job_that_is_gone_are_let_go() {
    let mut sim = Sim::default();
    sim.learn(job(json!({"parallelism": 2, "completions": 2})));
    sim.settle();
    sim.remove("Job", "sync");
    sim.settle();
    assert!(sim.world.pods.iter().all(|pod| pod.finalizers().is_empty()));
}

#[test]
fn a_suspended_job_resumes() {
    let mut sim = Sim::default();
    sim.learn(job(json!({})));
    sim.settle();
    sim.change::<Job>("sync", |job| job.spec.as_mut().unwrap().suspend = Some(true));
    sim.settle();
    assert_eq!(active(&sim).len(), 0);
    assert!(is_true(&status(&sim), "Suspended"));
    assert_eq!(status(&sim).failed, None, "stopped is not failed");
    sim.change::<Job>("sync", |job| job.spec.as_mut().unwrap().suspend = Some(false));
    sim.settle();
    assert_eq!(active(&sim).len(), 1);
    let condition = status(&sim).conditions.unwrap().remove(0);
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_deref()),
        ("False", Some("JobResumed"))
    );
}

#[test]
fn restarts_in_the_pod_count_against_the_limit() {
    for (limit, restarts, ends) in [(2, 1, false), (2, 2, true), (0, 0, false), (0, 1, true)] {
        let mut sim = Sim::default();
        let mut retried = job(json!({"backoffLimit": limit}));
        retried["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
        sim.learn(retried);
        sim.settle();
        let name = active(&sim).remove(0);
        sim.change::<Pod>(&name, |pod| {
            let status = json!({"phase": "Running", "containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": restarts}]});
            pod.status = serde_json::from_value(status).expect("a status");
        });
        sim.settle();
        assert_eq!(state(&sim).is_some(), ends, "{restarts} of {limit}");
    }
}

#[test]
fn completed_indexes_outlive_their_pods() {
    let mut sim = Sim::default();
    sim.learn(job(json!({"completions": 3, "completionMode": "Indexed"})));
    for _ in 0..3 {
        sim.settle();
        let name = active(&sim).remove(0);
        sim.end_pod("Succeeded");
        sim.settle();
        sim.remove("Pod", &name);
    }
    sim.settle();
    assert_eq!(state(&sim).as_deref(), Some("Complete"));
    assert_eq!(status(&sim).completed_indexes.as_deref(), Some("0-2"));
}

#[test]
fn what_failed_stays_failed_when_the_pods_that_showed_it_are_gone() {
    for reason in ["BackoffLimitExceeded", "DeadlineExceeded"] {
        let mut sim = Sim::default();
        let mut failing = job(json!({}));
        failing["status"] = json!({"startTime": crate::testing::now().to_string(), "conditions": [
            {"type": "FailureTarget", "status": "True", "reason": reason}]});
        sim.learn(failing);
        sim.settle();
        assert_eq!(state(&sim).as_deref(), Some("Failed"));
        assert_eq!(sim.world.pods.iter().count(), 0);
        let job = sim.world.jobs.iter().next().expect("the job");
        let conditions = job.status.as_ref().and_then(|status| status.conditions.clone());
        let said: Vec<_> = conditions.into_iter().flatten().map(|c| c.reason).collect();
        assert_eq!(said, [Some(reason.to_owned()), Some(reason.to_owned())]);
    }
}
