//! Jobs: what they wait for, what ends them, and when they are recreated.

use c5c3_api::conditions::{DATABASE_READY, service};
use c5c3_api::openstack::{Cinder, Keystone};
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

#[test]
fn a_job_outlives_a_database_that_is_away() {
    for condition in [None, Some("Complete")] {
        let mut seen = observed(keystone(), facts());
        take_job(&mut seen, "keystone-db-sync", condition);
        seen.object.status = serde_json::from_value(json!({"installedRelease": "28.1.0"})).expect("a status");
        let down = json!({"metadata": {"name": "mariadb"}, "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "False", "message": "down"}]}});
        seen.facts
            .databases
            .insert("mariadb".into(), serde_json::from_value(down).expect("a MariaDB"));
        let job = seen.facts.jobs.keys().next().expect("a Job").clone();
        assert_eq!((kept(&seen, "Job"), job_names(&seen)), (vec![job], vec![]));
        // Another one is not started meanwhile.
        seen.object.spec.common.image.tag = Some("28.1.0-p1".into());
        assert_eq!(job_names(&seen), Vec::<String>::new());
    }
}

#[test]
fn a_step_at_work_is_ended_by_nobody_and_one_that_never_started_is() {
    let mut seen = observed(keystone(), facts());
    take_job(&mut seen, "keystone-db-sync", None);
    let old = seen.facts.jobs.keys().next().expect("a Job").clone();
    seen.facts.pods = vec![job_pod(
        &json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        &json!({}),
    )];
    seen.object.spec.common.image.tag = Some("29.1.0".into());
    assert_eq!(
        (kept(&seen, "Job"), job_names(&seen)),
        (vec![old.clone()], vec![])
    );
    assert_eq!(
        state(&seen, DATABASE_READY),
        (
            "Waiting".into(),
            format!("db-sync waiting for Job {old}, which is still running")
        )
    );
    // An image that is missing, and a try that failed and is repeated forever, hold nobody.
    let pulling = json!({"waiting": {"reason": "ImagePullBackOff"}});
    let failed = json!({"terminated": {"exitCode": 1}});
    for (now, last) in [(&pulling, &json!({})), (&pulling, &failed)] {
        seen.facts.pods = vec![job_pod(now, last)];
        assert_eq!(kept(&seen, "Job"), Vec::<String>::new());
        assert_eq!(job_names(&seen).len(), 1, "the next one starts");
    }
}

#[test]
fn a_job_without_a_node_says_so() {
    let mut seen = observed(keystone(), facts());
    take_job(&mut seen, "keystone-db-sync", None);
    let mut pod = job_pod(&json!({}), &json!({}));
    let unplaced = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: too little memory"}]});
    pod.status = serde_json::from_value(unplaced).ok();
    seen.facts.pods = vec![pod];
    assert_eq!(
        state(&seen, DATABASE_READY),
        (
            "Waiting".into(),
            "db-sync waiting: pod p is not scheduled: 0/1 nodes: too little memory".into()
        )
    );
}

#[test]
fn a_job_whose_pod_hangs_says_so() {
    let mut seen = observed(keystone(), facts());
    take_job(&mut seen, "keystone-db-sync", None);
    for (since, expected) in [
        (
            "2026-01-01T11:59:00Z",
            "db-sync waiting: pod p was scheduled at 2026-01-01T11:59:00Z but has not started: see its events",
        ),
        ("2026-01-01T11:59:01Z", "db-sync running"),
    ] {
        let mut pod = job_pod(&json!({}), &json!({}));
        pod.status = serde_json::from_value(on_its_way(since, None)).ok();
        seen.facts.pods = vec![pod];
        assert_eq!(state(&seen, DATABASE_READY).1, expected);
    }
}

/// The Job of that title is left to be pruned, and the next pass makes it.
fn is_made_anew(seen: &Observed<Services<Keystone>>) -> bool {
    let name = seen.facts.jobs.keys().next_back().expect("a Job").clone();
    assert_eq!(
        job_names(seen),
        Vec::<String>::new(),
        "not before the old one is gone"
    );
    if kept(seen, "Job").contains(&name) {
        return false;
    }
    let mut after = observed(seen.object.clone(), seen.facts.clone());
    after.now = seen.now;
    after.facts.jobs.remove(&name);
    after.facts.pods.clear();
    assert_eq!(job_names(&after), vec![name], "under the same name");
    take_job(&mut after, "keystone-", None);
    assert_eq!(job_names(&after), Vec::<String>::new());
    assert_eq!(
        kept(&after, "Job").len(),
        after.facts.jobs.len(),
        "once, and not again and again"
    );
    true
}

fn change(seen: &mut Observed<Services<Keystone>>, what: &str) {
    let common = &mut seen.object.spec.common;
    match what {
        "resources" => {
            let less = json!({"requests": {"memory": "1Gi"}});
            common.resources = serde_json::from_value(less).expect("resources");
        }
        "options" => {
            let less = json!({"token": {"expiration": "60"}});
            common.extra_config = serde_json::from_value(less).expect("options");
        }
        "cache" => seen.object.spec.cache.backend = "dogpile.cache.null".into(),
        "patience" => {
            let down = ("Database", "keystone".to_owned());
            seen.facts
                .backend_objects
                .insert(down, Err("not ready yet".into()));
        }
        _ => {}
    }
}

#[test]
fn a_job_that_gets_nowhere_is_made_anew_when_its_pod_would_be_another() {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let failed = json!({"terminated": {"exitCode": 2}});
    let pending = job_pod(&json!({}), &json!({}));
    let retried = job_pod(&waiting, &failed);
    let at_work = job_pod(&json!({"running": {}}), &failed);
    let cases: [(&str, Option<&str>, Vec<_>, bool); 9] = [
        ("resources", None, vec![pending.clone()], true),
        ("options", None, vec![retried.clone()], true),
        ("cache", None, vec![retried.clone()], true),
        ("cache", Some("Failed"), vec![], true),
        ("nothing", None, vec![retried.clone()], false),
        ("patience", None, vec![retried], false),
        ("options", None, vec![at_work], false),
        ("options", Some("Complete"), vec![], false),
        ("resources", Some("Complete"), vec![pending], false),
    ];
    for (what, condition, pods, anew) in cases {
        let mut seen = observed(keystone(), facts());
        take_job(&mut seen, "keystone-db-sync", condition);
        seen.facts.pods = pods;
        change(&mut seen, what);
        assert_eq!(is_made_anew(&seen), anew, "{what} {condition:?}");
    }
}

#[test]
fn a_job_of_a_database_of_others_gets_its_new_password() {
    let mut seen = running();
    seen.object.spec.database.cluster_ref = None;
    seen.object.spec.database.host = Some("db.example.org".into());
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    let key = |byte: u8| crate::keys::key([byte; 32]);
    let stored = secret(&[("0", &key(9)), ("1", &key(8)), ("2", &key(7))]);
    let since = keys(stored, "2025-12-31T11:00:00Z");
    seen.facts.key_secrets.insert("credential-keys", since);
    take_job(&mut seen, "keystone-credential-migrate", None);
    let password = secret(&[("username", "keystone"), ("password", "another")]);
    seen.facts.secrets.insert("keystone-db".to_owned(), password);
    take_job(&mut seen, "keystone-db-sync", Some("Complete"));
    let name = seen.facts.jobs.keys().find(|name| name.contains("migrate"));
    assert!(!kept(&seen, "Job").contains(name.expect("there")));
}

#[test]
fn a_new_admin_password_leaves_the_schema_alone() {
    let mut seen = running();
    let old = seen.facts.jobs.keys().next().expect("a Job").clone();
    let password = secret(&[("password", "another")]);
    seen.facts.secrets.insert("admin".to_owned(), password);
    let job = object(&seen, "Job").expect("wanted").to_string();
    assert!(
        job.contains("bootstrap") && !job.contains(r#""db_sync""#),
        "{job}"
    );
    let states = |seen: &Observed<Services<Keystone>>| {
        [DATABASE_READY, service::BOOTSTRAP_READY].map(|part| state(seen, part).1)
    };
    assert_eq!(states(&seen), ["db-sync done", "bootstrap starting"]);
    take_job(&mut seen, "keystone-db-sync", None);
    assert_eq!(job_names(&seen), Vec::<String>::new(), "once");
    assert!(
        kept(&seen, "Job").contains(&old),
        "it tells that the schema is there"
    );
    seen.facts.pods = vec![job_pod(
        &json!({"terminated": {"exitCode": 1, "message": "no"}}),
        &json!({}),
    )];
    assert_eq!(
        states(&seen),
        ["db-sync done", "bootstrap failed: no; it will be retried"]
    );
    // The next one speaks for the schema too, whoever asks.
    let name = kept(&seen, "Job").into_iter().find(|name| *name != old);
    let made = seen.facts.jobs.get_mut(&name.expect("there")).expect("there");
    made.status =
        serde_json::from_value(json!({"conditions": [{"type": "Complete", "status": "True"}]})).ok();
    seen.facts.pods.clear();
    assert!(!kept(&seen, "Job").contains(&old));
    assert_eq!(states(&seen), ["db-sync done", "bootstrap done"]);
    seen.facts.jobs.remove(&old);
    seen.object.spec.bootstrap.region = "Two".into();
    assert!(
        !object(&seen, "Job")
            .expect("wanted")
            .to_string()
            .contains(r#""db_sync""#)
    );
    // Another database has no schema yet.
    seen.object.spec.database.database = "another".into();
    let job = object(&seen, "Job").expect("wanted").to_string();
    assert!(job.contains(r#""db_sync""#), "{job}");
}

#[test]
fn no_job_starts_beside_a_pod_whose_job_is_gone() {
    let mut seen = observed(keystone(), facts());
    let mut pod = job_pod(&json!({"running": {}}), &json!({}));
    let labels = json!({"app.kubernetes.io/component": "db-sync"});
    pod.metadata.labels = serde_json::from_value(labels).expect("labels");
    seen.facts.pods = vec![pod];
    assert_eq!(job_names(&seen), Vec::<String>::new());
    assert_eq!(
        state(&seen, DATABASE_READY).1,
        "db-sync waiting for pod p, whose Job is gone"
    );
}

#[test]
fn the_last_run_of_a_recurring_job_stays_in_the_status_when_the_job_is_gone() {
    let mut seen = observed(cinder(), facts());
    let purge = |seen: &Observed<Services<Cinder>>| -> Value {
        let told = status(seen, "recurringJobs");
        let all = told.as_array().expect("a list").clone();
        let purge = all.into_iter().find(|one| one["name"] == "db-purge");
        purge.expect("told before it ever ran")
    };
    assert_eq!(
        purge(&seen),
        json!({"name": "db-purge", "schedule": "23 3 * * 0"})
    );
    let cron = objects(&seen)
        .into_iter()
        .find(|object| object["kind"] == "CronJob");
    assert_eq!(cron, None, "no schema is there yet");
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    let cron = objects(&seen)
        .into_iter()
        .find(|object| object["kind"] == "CronJob" && object["metadata"]["name"] == "cinder-db-purge");
    let mut job = cron.expect("wanted")["spec"]["jobTemplate"].clone();
    job["metadata"]["name"] = "cinder-db-purge-1".into();
    job["metadata"]["uid"] = "job".into();
    job["status"] = json!({"startTime": "2026-01-01T03:23:00Z",
        "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T03:24:00Z"}]});
    let job = serde_json::from_value(job).expect("a Job");
    seen.facts.jobs.insert("cinder-db-purge-1".to_owned(), job);
    let ended = json!({"terminated": {"exitCode": 1, "message": "the table is locked"}});
    seen.facts.pods.push(job_pod(&ended, &json!({})));
    let failed = json!({"name": "db-purge", "schedule": "23 3 * * 0", "lastRun": "2026-01-01T03:23:00Z",
        "succeeded": false, "failure": "db-purge: the table is locked"});
    assert_eq!(purge(&seen), failed);
    let before = json!({"recurringJobs": status(&seen, "recurringJobs")});
    seen.object.status = serde_json::from_value(before).expect("a status");
    seen.facts.jobs.remove("cinder-db-purge-1");
    seen.facts.pods.clear();
    assert_eq!(purge(&seen), failed);
}
