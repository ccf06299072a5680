//! Tables for people: a pure function of a kind and its objects.

use serde_json::{Value, json};

use crate::registry::Kind;

/// What a row carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// A `meta.k8s.io/v1` Table without list metadata. Watches ask for the columns only once.
pub fn render(kind: &Kind, objects: &[Value], include: Include, columns: bool) -> Value {
    let definitions: Vec<Value> = kind
        .columns
        .iter()
        .map(|column| {
            json!({"name": column.name, "type": column.type_, "format": column.format,
                "description": column.description, "priority": column.priority})
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": [object["metadata"]["name"], object["metadata"]["creationTimestamp"]]});
            match include {
                Include::None => {}
                Include::Metadata => {
                    row["object"] = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                        "metadata": object["metadata"]});
                }
                Include::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "metadata": {},
        "columnDefinitions": if columns { Value::Array(definitions) } else { Value::Null },
        "rows": rows,
    })
}
