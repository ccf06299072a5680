//! OpenAPI v3: an index with hashes and a document for each group and version. Clients explain and
//! validate with it, and find in it what parameters the server understands.

mod operations;
mod schemas;
mod v2;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    discovery::hash,
    registry::{Kind, Registry},
    serve::Document,
};

/// The documents of one registry snapshot, by path (`api/v1`, `apis/apps/v1`).
#[derive(Debug)]
pub struct Documents {
    index: Bytes,
    documents: BTreeMap<String, (Bytes, String)>,
}

/// Answers `/openapi/v3`, `/openapi/v3/…` and `/openapi/v2`. `None`: no such path.
pub fn document(registry: &Registry, path: &str, accept: &str) -> Option<Document> {
    if path.trim_matches('/') == "openapi/v2" {
        return Some(v2::document(accept));
    }
    let documents = registry.openapi.get_or_init(|| Arc::new(Documents::of(registry)));
    let (body, hash) = match path.trim_matches('/') {
        "openapi/v3" => (&documents.index, hash(&documents.index)),
        other => {
            let (body, hash) = documents.documents.get(other.strip_prefix("openapi/v3/")?)?;
            (body, hash.clone())
        }
    };
    Some(Document {
        content_type: "application/json",
        body: body.clone(),
        etag: Some(format!("\"{hash}\"")),
    })
}

impl Documents {
    fn of(registry: &Registry) -> Self {
        let mut by_version: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
        for kind in registry.kinds() {
            let root = if kind.group.is_empty() { "api" } else { "apis" };
            let path = format!("{root}/{}", kind.api_version());
            by_version.entry(path).or_default().push(kind);
        }
        let documents: BTreeMap<_, _> = by_version
            .into_iter()
            .map(|(path, kinds)| {
                // A Value always serialises: its keys are strings.
                let body = serde_json::to_vec(&version_document(&path, &kinds)).unwrap_or_default();
                let hash = hash(&body);
                (path, (Bytes::from(body), hash))
            })
            .collect();
        let paths: BTreeMap<_, _> = documents
            .iter()
            .map(|(path, (_, hash))| {
                let url = format!("/openapi/v3/{path}?hash={hash}");
                (path.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        let index = serde_json::to_vec(&json!({"paths": paths})).unwrap_or_default();
        Self {
            index: index.into(),
            documents,
        }
    }
}

fn version_document(path: &str, kinds: &[&Kind]) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": crate::paths::KUBERNETES_VERSION},
        "paths": operations::paths(path, kinds),
        "components": {"schemas": schemas::components(kinds)},
    })
}

#[cfg(test)]
mod tests;
