//! Cells of events, of both API groups: the newer one calls some fields by other names.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{Fields, or};
use super::duration::since;

pub(super) fn cell(column: &str, event: &Value, now: Timestamp) -> Option<Value> {
    let either = |a: &str, b: &str| or(event.text(a), event.text(b)).to_string();
    let target = |field: &str| {
        either(
            &format!("/involvedObject/{field}"),
            &format!("/regarding/{field}"),
        )
    };
    Some(match column {
        "Last Seen" => json!(last_seen(event, now)),
        "First Seen" => json!(first_seen(event, now)),
        "Type" => json!(event.text("/type")),
        "Reason" => json!(event.text("/reason")),
        "Object" => {
            let kind = target("kind").to_lowercase();
            let name = target("name");
            json!(if name.is_empty() {
                kind
            } else {
                format!("{kind}/{name}")
            })
        }
        "Subobject" => json!(target("fieldPath")),
        "Source" => {
            let component = either("/source/component", "/deprecatedSource/component");
            let component = or(&component, event.text("/reportingController"));
            let component = or(component, event.text("/reportingComponent"));
            let host = either("/source/host", "/deprecatedSource/host");
            match or(&host, event.text("/reportingInstance")) {
                "" => json!(component),
                instance => json!(format!("{component}, {instance}")),
            }
        }
        "Message" => json!(either("/message", "/note").trim()),
        "Count" => json!(count(event)),
        _ => return None,
    })
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = or(
        event.text("/firstTimestamp"),
        event.text("/deprecatedFirstTimestamp"),
    );
    since(Some(or(first, event.text("/eventTime"))), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if !event.at("/series").is_null() {
        return since(event.at("/series/lastObservedTime").as_str(), now);
    }
    match or(
        event.text("/lastTimestamp"),
        event.text("/deprecatedLastTimestamp"),
    ) {
        "" => first_seen(event, now),
        last => since(Some(last), now),
    }
}

fn count(event: &Value) -> i64 {
    if !event.at("/series").is_null() {
        return event.number("/series/count");
    }
    // A single event of the newer API carries no count.
    event
        .number("/count")
        .max(event.number("/deprecatedCount"))
        .max(1)
}
