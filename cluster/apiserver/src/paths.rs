//! Everything that is not a resource: health, version, metrics, discovery, OpenAPI.

use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::json;

use crate::{
    discovery, openapi,
    serve::{self, Body, Call, Document},
    status::{ApiError, Result},
};

/// The version of Kubernetes whose API is served.
pub(crate) const KUBERNETES_VERSION: &str = "v1.36.3";

pub(crate) fn serve(call: &Call) -> Result<Response<Body>> {
    if !matches!(call.parts.method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed());
    }
    let path = call.attributes.path.as_str();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "healthz" | "livez" | "readyz" => health(call, path),
        "version" => Ok(serve::json(StatusCode::OK, &version())),
        "metrics" => Ok(text(
            call.core.metrics.render(&call.core.store),
            "text/plain; version=0.0.4",
        )),
        "api" | "apis" => {
            let accept = call.header(header::ACCEPT);
            document(call, discovery::document(&call.cluster.registry(), path, accept))
        }
        "openapi" => {
            let accept = call.header(header::ACCEPT);
            document(call, openapi::document(&call.cluster.registry(), path, accept))
        }
        "" => Ok(serve::json(
            StatusCode::OK,
            &json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}),
        )),
        _ => Err(ApiError::no_route()),
    }
}

fn health(call: &Call, path: &str) -> Result<Response<Body>> {
    if path.starts_with("/readyz") {
        if call.core.stopping.is_cancelled() {
            return Err(ApiError::unavailable("the server is stopping"));
        }
        call.core
            .store
            .ready()
            .map_err(|error| ApiError::unavailable(error.to_string()))?;
    }
    Ok(text("ok".into(), "text/plain; charset=utf-8"))
}

fn version() -> serde_json::Value {
    json!({
        "buildDate": "1970-01-01T00:00:00Z",
        "compiler": "rustc",
        "gitCommit": "",
        "gitTreeState": "clean",
        "gitVersion": KUBERNETES_VERSION,
        "goVersion": "",
        "major": "1",
        "minor": "36",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn text(body: String, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(serve::full(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn document(call: &Call, document: Option<Document>) -> Result<Response<Body>> {
    let document = document.ok_or_else(ApiError::no_route)?;
    let mut response = Response::new(serve::empty());
    if let Some(etag) = &document.etag {
        if call.header(header::IF_NONE_MATCH) == etag {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
        if let Ok(value) = HeaderValue::from_str(etag) {
            response.headers_mut().insert(header::ETAG, value);
        }
    }
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(document.content_type),
    );
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept"));
    *response.body_mut() = serve::full(document.body);
    Ok(response)
}
