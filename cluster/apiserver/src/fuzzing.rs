//! The readers of what clients send, for the fuzz targets alone.

use bytes::Bytes;
use serde_json::Value;

use crate::{pods, resource, status::ApiError};

pub fn body(media: &str, bytes: &[u8]) -> Result<Value, ApiError> {
    resource::parse(media, bytes).map(|(value, _)| value)
}

/// The frames in a stream that arrives in these parts, as text, and the error at its end.
pub fn spdy<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = pods::spdy::Decoder::default();
    let mut told = Vec::new();
    for part in parts {
        decoder.push(part);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => told.push(format!("{frame:?}")),
                Ok(None) => break,
                Err(error) => {
                    told.push(error.to_string());
                    return told;
                }
            }
        }
    }
    told
}

pub fn websocket_text(bytes: &[u8]) -> Bytes {
    pods::exec::from_text(bytes)
}

pub fn websocket_to_text(message: &[u8]) -> String {
    pods::exec::to_text(message)
}
