//! Tables: what `kubectl get` prints. The server makes the cells, wide ones included; the client
//! chooses among them by priority.

mod builtin;
mod cells;
pub mod duration;
mod events;
mod network;
mod nodes;
mod pods;
mod scaling;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::jsonpath::{JsonPath, JsonPathError};

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    pub format: String,
    pub description: String,
    /// Zero is always shown, more only in wide output.
    pub priority: i32,
}

impl Column {
    fn new(name: &str, kind: &str, format: &str, description: &str) -> Self {
        Self {
            name: name.to_string(),
            kind: kind.to_string(),
            format: format.to_string(),
            description: description.to_string(),
            priority: 0,
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// How objects of one kind become rows.
#[derive(Clone, Debug)]
pub struct TableView {
    columns: Vec<Column>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Name and creation time.
    Plain,
    BuiltIn(String),
    /// One path for each column but the name.
    Paths(Vec<JsonPath>),
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// What each row carries of its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the `includeObject` parameter.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

impl TableView {
    /// Name and creation time, for kinds without columns of their own.
    pub fn plain() -> Self {
        Self {
            columns: vec![
                Column::new("Name", "string", "name", NAME),
                Column::new("Created At", "date", "", CREATED),
            ],
            source: Source::Plain,
        }
    }

    /// A built-in kind with the columns of its schema; without any, the plain view.
    pub fn built_in(kind: &str, columns: Vec<Column>) -> Self {
        if columns.is_empty() {
            return Self::plain();
        }
        Self {
            columns,
            source: Source::BuiltIn(kind.to_string()),
        }
    }

    /// A custom resource with its printer columns and their paths; without any, its age.
    pub fn custom<'a>(
        printer_columns: impl IntoIterator<Item = (Column, &'a str)>,
    ) -> Result<Self, JsonPathError> {
        let mut columns = vec![Column::new("Name", "string", "name", NAME)];
        let mut paths = Vec::new();
        for (mut column, path) in printer_columns {
            if column.description.is_empty() {
                column.description =
                    format!("Custom resource definition column (in JSONPath format): {path}");
            }
            paths.push(JsonPath::parse(path)?);
            columns.push(column);
        }
        if paths.is_empty() {
            columns.push(Column::new("Age", "date", "", CREATED));
            paths.push(JsonPath::parse(".metadata.creationTimestamp")?);
        }
        Ok(Self {
            columns,
            source: Source::Paths(paths),
        })
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of one object.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.source {
            Source::Plain => vec![
                cells::name(object),
                object["metadata"]["creationTimestamp"].clone(),
            ],
            Source::BuiltIn(kind) => self
                .columns
                .iter()
                .map(|column| builtin::cell(kind, &column.name, object, now))
                .collect(),
            Source::Paths(paths) => {
                let columns = self.columns.iter().skip(1);
                let cell = |(column, path): (&Column, &JsonPath)| {
                    path.first(object)
                        .map_or(Value::Null, |value| cells::custom(&column.kind, value, now))
                };
                std::iter::once(cells::name(object))
                    .chain(columns.zip(paths).map(cell))
                    .collect()
            }
        }
    }

    /// One row.
    pub fn row(&self, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let mut row = json!({"cells": self.cells(object, now)});
        match include {
            IncludeObject::None => row["object"] = Value::Null,
            IncludeObject::Metadata => row["object"] = partial(object),
            IncludeObject::Object => row["object"] = object.clone(),
        }
        if matches!(&self.source, Source::BuiltIn(kind) if kind == "Pod")
            && let Some(condition) = pods::row_condition(object)
        {
            row["conditions"] = json!([condition]);
        }
        row
    }

    /// A table of the objects, without list metadata. Of a watch, only the first one has headers.
    pub fn table<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        include: IncludeObject,
        headers: bool,
        now: Timestamp,
    ) -> Value {
        let definitions: Vec<_> = self.columns.iter().map(Column::definition).collect();
        let rows: Vec<_> = objects
            .into_iter()
            .map(|object| self.row(object, include, now))
            .collect();
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {},
            "columnDefinitions": if headers { json!(definitions) } else { Value::Null },
            "rows": rows,
        })
    }
}

/// The object as `PartialObjectMetadata`.
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

#[cfg(test)]
mod tests;
