//! OpenAPI v2, for clients that look into it where v3 does not help: kubectl does for lists and for
//! kinds that it does not find. The document names no kinds, so that such clients leave validation to
//! the server, which does it anyway.

use serde_json::json;

use crate::{discovery::hash, paths::KUBERNETES_VERSION, serve::Document};

const TITLE: &str = "Kubernetes";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

pub(super) fn document(accept: &str) -> Document {
    let protobuf = accept.contains("proto-openapi.spec.v2");
    let body = if protobuf {
        encoded()
    } else {
        let info = json!({"title": TITLE, "version": KUBERNETES_VERSION});
        json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})
            .to_string()
            .into_bytes()
    };
    Document {
        content_type: if protobuf { PROTOBUF } else { "application/json" },
        etag: Some(format!("\"{}\"", hash(&body))),
        body: body.into(),
    }
}

/// The same in the protobuf form: the version (1), the information (2) and no paths (8).
fn encoded() -> Vec<u8> {
    let info = [
        field(1, TITLE.as_bytes()),
        field(2, KUBERNETES_VERSION.as_bytes()),
    ]
    .concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

/// A field of less than 128 bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    [&[number << 3 | 2, length][..], content].concat()
}
