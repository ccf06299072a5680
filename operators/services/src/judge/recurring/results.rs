//! Services that only run jobs, such as Tempest: what the status says of the last run.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Map, Value, json};

use crate::build::{self, Configuration};
use crate::facts::Facts;
use crate::shape::Service;

/// What is known of the runs.
pub(super) struct Seen<'a> {
    /// The status as it is.
    pub before: &'a Value,
    /// When the newest run began.
    pub began: Option<Timestamp>,
    /// The last run that ended.
    pub ended: Option<&'a Job>,
    pub took: Option<SignedDuration>,
    /// The last request that was acted on.
    pub acted: Option<String>,
}

/// What nothing new is known of stays: pods of runs go before their results do.
pub(super) fn status(
    service: &Service,
    facts: &Facts,
    configuration: &Configuration,
    seen: &Seen<'_>,
) -> Value {
    let mut status = Map::new();
    let mut put = |field: &str, value: Option<Value>| {
        let value = value.or_else(|| seen.before.get(field).cloned());
        if let Some(value) = value.filter(|value| !value.is_null()) {
            status.insert(field.to_owned(), value);
        }
    };
    put("lastRun", seen.began.map(|began| began.to_string().into()));
    put(
        "lastDuration",
        seen.took.map(|took| format!("{}s", took.as_secs()).into()),
    );
    let said = seen.ended.and_then(|job| build::last_word(facts, job));
    put(
        "results",
        said.and_then(|said| results(&configuration.hidden.hide(said))),
    );
    put("runNow", seen.acted.clone().map(Value::from));
    let passed = seen
        .ended
        .filter(|job| build::is_complete(job) && image(job) == Some(service.image()));
    put(
        "installedRelease",
        passed.and_then(|_| service.version()).map(Value::from),
    );
    Value::Object(status)
}

fn image(job: &Job) -> Option<String> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.clone()
}

/// A run's last word is its results, unless it failed before it had any.
fn results(said: &str) -> Option<Value> {
    let Value::Object(mut said) = serde_json::from_str(said).ok()? else {
        return None;
    };
    said.get("total")?.as_u64()?;
    // Told by lastDuration.
    said.remove("seconds");
    Some(json!(said))
}

/// The same in a sentence, for the condition.
pub(super) fn words(said: &str) -> Option<String> {
    let results = results(said)?;
    let first = &results["failures"][0];
    let example = first["test"].as_str().map(|test| {
        let words = first["words"].as_str().unwrap_or_default();
        format!("; {test}: {words}")
    });
    Some(format!(
        "{} of {} tests failed{}",
        results["failed"],
        results["total"],
        example.unwrap_or_default()
    ))
}
