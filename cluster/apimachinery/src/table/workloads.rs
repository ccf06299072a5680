//! Cells of the workload kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{Fields, deleting, is_true, joined, labels, or, selector};
use super::duration::{human, since};

pub(super) fn cell(kind: &str, column: &str, object: &Value, now: Timestamp) -> Option<Value> {
    Some(match (kind, column) {
        ("Deployment" | "StatefulSet", "Ready") => {
            let ready = object.number("/status/readyReplicas");
            let desired = object.at("/spec/replicas").as_i64().unwrap_or(1);
            json!(format!("{ready}/{desired}"))
        }
        ("Deployment", "Selector") => {
            // A deployment prints the bare selector.
            json!(or(&selector(object.at("/spec/selector")), "").replace("<none>", ""))
        }
        ("ReplicationController", "Selector") => json!(labels(object.at("/spec/selector"))),
        ("Job", "Status") => json!(job_status(object)),
        ("Job", "Completions") => json!(completions(object)),
        ("Job", "Duration") => json!(job_duration(object, now)),
        ("CronJob", _) => return cron_job(column, object, now),
        ("ControllerRevision", "Controller") => json!(controller(object)),
        ("PodTemplate", "Containers") => json!(joined(object.items("/template/spec/containers"), "/name")),
        ("PodTemplate", "Images") => json!(joined(object.items("/template/spec/containers"), "/image")),
        ("PodTemplate", "Pod Labels") => json!(labels(object.at("/template/metadata/labels"))),
        ("PodDisruptionBudget", "Min Available") => json!(int_or_text(object.at("/spec/minAvailable"))),
        ("PodDisruptionBudget", "Max Unavailable") => {
            json!(int_or_text(object.at("/spec/maxUnavailable")))
        }
        _ => return None,
    })
}

fn job_status(job: &Value) -> &'static str {
    if is_true(job, "Complete") {
        "Complete"
    } else if is_true(job, "Failed") {
        "Failed"
    } else if deleting(job) {
        "Terminating"
    } else if is_true(job, "Suspended") {
        "Suspended"
    } else if is_true(job, "FailureTarget") {
        "FailureTarget"
    } else if is_true(job, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let succeeded = job.number("/status/succeeded");
    let parallelism = job.number("/spec/parallelism");
    match job.at("/spec/completions").as_i64() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer: &str| job.text(pointer).parse::<Timestamp>().ok();
    let Some(start) = time("/status/startTime") else {
        return String::new();
    };
    let end = time("/status/completionTime").unwrap_or(now);
    human(end.duration_since(start).as_secs())
}

fn cron_job(column: &str, object: &Value, now: Timestamp) -> Option<Value> {
    let containers = object.items("/spec/jobTemplate/spec/template/spec/containers");
    Some(match column {
        "Schedule" => json!(object.text("/spec/schedule")),
        "Timezone" => json!(object.at("/spec/timeZone").as_str().unwrap_or("<none>")),
        "Suspend" => json!(match object.at("/spec/suspend").as_bool() {
            None => "<unset>",
            Some(true) => "True",
            Some(false) => "False",
        }),
        "Active" => json!(object.items("/status/active").len()),
        "Last Schedule" => match object.at("/status/lastScheduleTime").as_str() {
            None => json!("<none>"),
            time => json!(since(time, now)),
        },
        "Containers" => json!(joined(containers, "/name")),
        "Images" => json!(joined(containers, "/image")),
        "Selector" => json!(selector(object.at("/spec/jobTemplate/spec/selector"))),
        _ => return None,
    })
}

fn controller(object: &Value) -> String {
    let owners = object.items("/metadata/ownerReferences").iter();
    let Some(owner) = owners.clone().find(|owner| owner.flag("/controller")) else {
        return "<none>".to_string();
    };
    let kind = owner.text("/kind").to_lowercase();
    let name = owner.text("/name");
    match owner.text("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn int_or_text(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
