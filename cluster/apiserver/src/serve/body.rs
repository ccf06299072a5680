//! Bodies in and out.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

use crate::status::{ApiError, Reason, Result};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body that broke off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(String);

/// Any body as ours.
pub fn wrap<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(|error| BodyError(error.into().to_string()))
        .boxed_unsync()
}

/// A document that is derived from the registry.
pub struct Document {
    pub content_type: &'static str,
    pub body: Bytes,
    /// With quotes, as in the header; answers `If-None-Match`.
    pub etag: Option<String>,
}

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub fn empty() -> Body {
    full(Bytes::new())
}

/// A body that grows as the reader takes it.
pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(chunks.map(|chunk| Ok::<_, BodyError>(Frame::data(chunk)))).boxed_unsync()
}

pub fn json(code: StatusCode, value: &Value) -> Response<Body> {
    // A Value always serialises: its keys are strings.
    bytes(code, serde_json::to_vec(value).unwrap_or_default().into())
}

pub fn bytes(code: StatusCode, json: Bytes) -> Response<Body> {
    let mut response = Response::new(full(json));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub fn status(error: &ApiError) -> Response<Body> {
    if error.reason == Reason::None {
        let mut response = Response::new(full(format!("{}\n", error.message)));
        *response.status_mut() = error.status_code();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, text);
        return response;
    }
    let mut response = json(error.status_code(), &error.to_status());
    if let Some(seconds) = error
        .details
        .as_ref()
        .map(|d| d.retry_after_seconds)
        .filter(|&s| s > 0)
    {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Reads a request's body, at most `limit` bytes.
pub(super) async fn read_all(body: Body, limit: usize) -> Result<Bytes> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::too_large(limit)),
        Err(error) => Err(ApiError::bad_request(format!(
            "cannot read the request body: {error}"
        ))),
    }
}
