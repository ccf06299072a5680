//! Cells of autoscalers.

use serde_json::{Value, json};

use super::cells::{Fields, quantity};

pub(super) fn cell(column: &str, object: &Value) -> Option<Value> {
    Some(match column {
        "Reference" => {
            let target = object.at("/spec/scaleTargetRef");
            json!(format!("{}/{}", target.text("/kind"), target.text("/name")))
        }
        "Targets" => json!(targets(object)),
        "MinPods" => match object.at("/spec/minReplicas").as_i64() {
            Some(replicas) => json!(replicas.to_string()),
            None => json!("<unset>"),
        },
        "MaxPods" => json!(object.number("/spec/maxReplicas")),
        "Replicas" => json!(object.number("/status/currentReplicas")),
        _ => return None,
    })
}

fn targets(object: &Value) -> String {
    const SHOWN: usize = 2;
    let metrics = object.items("/spec/metrics");
    if metrics.is_empty() {
        return first_version_target(object);
    }
    let current = object.items("/status/currentMetrics");
    let texts: Vec<_> = metrics
        .iter()
        .enumerate()
        .map(|(i, metric)| target(metric, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    if texts.len() > SHOWN {
        let more = texts.len() - SHOWN;
        return format!("{} + {more} more...", texts[..SHOWN].join(", "));
    }
    texts.join(", ")
}

/// The one metric of autoscaling/v1.
fn first_version_target(object: &Value) -> String {
    let Some(target) = object.at("/spec/targetCPUUtilizationPercentage").as_i64() else {
        return "<none>".to_string();
    };
    match object.at("/status/currentCPUUtilizationPercentage").as_i64() {
        Some(current) => format!("cpu: {current}%/{target}%"),
        None => format!("cpu: <unknown>/{target}%"),
    }
}

fn target(metric: &Value, current: &Value) -> String {
    let source = match metric.text("/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_string(),
    };
    let wanted = metric.at(&format!("/{source}/target"));
    let seen = current.at(&format!("/{source}/current"));
    let amount = |value: &Value| match value {
        Value::Null => "<unknown>".to_string(),
        value => quantity(value),
    };
    let percent = |value: &Value, none: &str| match value.as_i64() {
        Some(percent) => format!("{percent}%"),
        None => none.to_string(),
    };
    let average = wanted.at("/averageValue");
    let resource = metric.text(&format!("/{source}/name"));
    match (source, average.is_null()) {
        ("resource" | "containerResource", false) => {
            format!(
                "{resource}: {}/{}",
                amount(seen.at("/averageValue")),
                quantity(average)
            )
        }
        ("resource" | "containerResource", true) => {
            let seen = percent(seen.at("/averageUtilization"), "<unknown>");
            let wanted = percent(wanted.at("/averageUtilization"), "<auto>");
            format!("{resource}: {seen}/{wanted}")
        }
        ("pods", _) => format!("{}/{}", amount(seen.at("/averageValue")), quantity(average)),
        (_, false) => format!("{}/{} (avg)", amount(seen.at("/averageValue")), quantity(average)),
        (_, true) => format!("{}/{}", amount(seen.at("/value")), quantity(wanted.at("/value"))),
    }
}
