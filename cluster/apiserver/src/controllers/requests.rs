//! Requests of controllers to their own server, through the same door as everyone's.

use std::sync::Arc;

use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::Cluster,
    identity::Identity,
    registry::Kind,
    serve::{ApiService, full},
};

const MANAGER: &str = "kube-controller-manager";

/// One controller's way to its cluster.
#[derive(Clone)]
pub(crate) struct Requests {
    service: ApiService,
    pub cluster: Arc<Cluster>,
    identity: Identity,
}

/// A request that was refused.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct Refused {
    pub code: u16,
    pub message: String,
}

impl Refused {
    /// The object is gone or another one by now: nothing is left to do, or a new change tells what.
    pub(crate) fn is_outdated(&self) -> bool {
        matches!(self.code, 404 | 409)
    }
}

impl Requests {
    pub(crate) fn new(service: ApiService, cluster: Arc<Cluster>, name: &str) -> Self {
        let user = format!("system:serviceaccount:kube-system:{name}");
        Self {
            service,
            cluster,
            identity: Identity::new(
                &user,
                &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
            ),
        }
    }

    pub(crate) fn stopping(&self) -> CancellationToken {
        self.service.0.stopping.clone()
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.send(Method::POST, path, "application/json", Some(object))
            .await
    }

    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.send(Method::PUT, path, "application/json", Some(object))
            .await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Refused> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch))
            .await
    }

    pub(crate) async fn delete(&self, path: &str, options: Option<&Value>) -> Result<Value, Refused> {
        self.send(Method::DELETE, path, "application/json", options).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let refused = |code: u16, message: String| Refused { code, message };
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(format!(
                "/clusters/{}{path}?fieldManager={MANAGER}",
                self.cluster.name
            ))
            .header(header::CONTENT_TYPE, media)
            .body(full(bytes))
            .map_err(|error| refused(400, error.to_string()))?;
        request.extensions_mut().insert(self.identity.clone());
        let response = self
            .service
            .answer(request)
            .await
            .unwrap_or_else(|never| match never {});
        let code = response.status().as_u16();
        let body = response
            .into_body()
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        let answer: Value = body
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        if (200..300).contains(&code) {
            return Ok(answer);
        }
        Err(refused(
            code,
            answer["message"].as_str().unwrap_or_default().to_owned(),
        ))
    }
}

/// The path of an object, or of a collection if the name is empty.
pub(super) fn path(kind: &Kind, namespace: &str, name: &str) -> String {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let mut path = format!("{root}/{}", kind.api_version());
    if kind.namespaced && !namespace.is_empty() {
        path = format!("{path}/namespaces/{namespace}");
    }
    path = format!("{path}/{}", kind.plural);
    if !name.is_empty() {
        // Names of roles may hold what a path may not.
        let escaped: String = name
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        path = format!("{path}/{escaped}");
    }
    path
}
