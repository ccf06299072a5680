//! In which shape objects leave: as they are, as metadata alone, or as a table.

use std::sync::Arc;

use bytes::Bytes;
use http::header;
use serde_json::{Value, json};

use crate::{
    registry::Kind,
    serve::Call,
    status::{ApiError, Result},
    store::Stored,
    table,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    /// `PartialObjectMetadata`
    Metadata,
    Table,
}

impl Shape {
    /// Reads `Accept`; the first form that we speak wins.
    pub(super) fn of(call: &Call) -> Result<Self> {
        let accept = call.header(header::ACCEPT);
        if accept.is_empty() {
            return Ok(Self::Object);
        }
        for range in accept.split(',') {
            let mut parameters = range.split(';').map(str::trim);
            let media = parameters.next().unwrap_or_default();
            if !matches!(
                media,
                "application/json" | "application/*" | "*/*" | "text/*" | "text/plain" | "text/html"
            ) {
                continue;
            }
            let mut form = "";
            let mut supported = true;
            for parameter in parameters {
                match parameter.split_once('=') {
                    Some(("as", wanted)) => form = wanted,
                    Some(("v", version)) => supported &= version == "v1",
                    Some(("g", group)) => supported &= group == "meta.k8s.io",
                    _ => {}
                }
            }
            match form {
                _ if !supported => {}
                "" => return Ok(Self::Object),
                "Table" => return Ok(Self::Table),
                "PartialObjectMetadata" | "PartialObjectMetadataList" => return Ok(Self::Metadata),
                _ => {}
            }
        }
        Err(ApiError::not_acceptable(
            "only the following media types are accepted: application/json, \
             application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ))
    }
}

/// Turns stored objects into what a request wants to see.
#[derive(Clone)]
pub(super) struct View {
    pub kind: Arc<Kind>,
    pub shape: Shape,
    /// `includeObject` of a table.
    pub include: table::Include,
}

impl View {
    pub(super) fn of(call: &Call, kind: &Arc<Kind>) -> Result<Self> {
        let include = match call.query.get("includeObject") {
            None | Some("Metadata") => table::Include::Metadata,
            Some("None") => table::Include::None,
            Some("Object") => table::Include::Object,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "includeObject: {other:?} is not one of None, Metadata, Object"
                )));
            }
        };
        Ok(Self {
            kind: kind.clone(),
            shape: Shape::of(call)?,
            include,
        })
    }

    /// The object in the version that is asked for.
    pub(super) fn value(&self, stored: &Stored) -> Value {
        super::version::read(&self.kind, stored)
    }

    /// One object of a list or watch as JSON.
    pub(super) fn item(&self, stored: &Stored) -> Bytes {
        match self.shape {
            Shape::Object if super::version::is_current(&self.kind, stored) => stored.bytes.clone(),
            Shape::Object => serde_json::to_vec(&self.value(stored)).unwrap_or_default().into(),
            Shape::Metadata => serde_json::to_vec(&partial_metadata(&self.value(stored)))
                .unwrap_or_default()
                .into(),
            Shape::Table => serde_json::to_vec(&self.table(vec![self.value(stored)], true))
                .unwrap_or_default()
                .into(),
        }
    }

    /// One object as the answer to a request.
    pub(super) fn single(&self, object: Value) -> Value {
        match self.shape {
            Shape::Object => object,
            Shape::Metadata => partial_metadata(&object),
            Shape::Table => self.table(vec![object], true),
        }
    }

    /// A table of `objects`; watches send the columns only once.
    pub(super) fn table(&self, objects: Vec<Value>, columns: bool) -> Value {
        table::render(&self.kind, &objects, self.include, columns)
    }
}

pub(super) fn partial_metadata(object: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
}
