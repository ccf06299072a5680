//! JSON, merge and strategic merge patches.

use apimachinery::openapi::ObjectType;
use apimachinery::patch::{json, merge, strategic};
use serde_json::Value;

use super::cases::{diff, run};

#[test]
fn patch() {
    run("patch.jsonl", |case| {
        let object = case["object"].clone();
        let patch = match case.get("patchText") {
            Some(text) => text.as_str().unwrap_or_default().to_owned(),
            None => case["patch"].to_string(),
        };
        let patch = patch.as_bytes();
        let outcome = match case["kind"].as_str() {
            Some("json") => json::apply(object, patch),
            Some("merge") => merge::apply(object, patch),
            Some("strategic") => {
                let name = case["type"].as_str().unwrap_or_default();
                let ty = ObjectType::builtin(name).ok_or(format!("no type {name}"))?;
                strategic::apply(object, patch, &ty)
            }
            other => return Err(format!("unknown kind {other:?}")),
        };
        let show = |reason: String| format!("{reason}\n    case {case}");
        match (outcome, case.get("error")) {
            (Ok(result), None) => diff("result", &result, &case["result"]).map_err(show),
            (Err(error), Some(want)) => diff("error", &Value::from(error.to_string()), want).map_err(show),
            (Ok(result), Some(want)) => Err(show(format!("got {result}, want error {want}"))),
            (Err(error), None) => Err(show(format!("fails: {error}"))),
        }
    });
}
