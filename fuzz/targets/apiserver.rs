//! What the API server must hold for anything that a client sends.

use apiserver::fuzzing;

/// A body is an object or an error; what was read is read again from its own text.
pub(crate) fn bodies(data: &[u8]) {
    for media in [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ] {
        if let Ok(value) = fuzzing::body(media, data) {
            let text = value.to_string();
            let again = fuzzing::body("application/json", text.as_bytes());
            // A value nests deeper as YAML than JSON may; then it is refused, not cut.
            if let Ok(again) = again {
                assert_eq!(again, value, "{media}");
            }
        }
    }
}

/// Frames do not depend on how the bytes arrive.
pub(crate) fn spdy(data: &[u8]) {
    let whole = fuzzing::spdy([data]);
    let (first, second) = data.split_at(data.len() / 3);
    assert_eq!(fuzzing::spdy([first, second]), whole);
    if data.len() < 512 {
        assert_eq!(fuzzing::spdy(data.chunks(1)), whole);
    }
}

/// Messages of the text protocols are a channel and bytes, or nothing.
pub(crate) fn websocket(data: &[u8]) {
    let message = fuzzing::websocket_text(data);
    if let Some(channel) = message.first() {
        assert!(*channel < 10);
        assert_eq!(
            fuzzing::websocket_text(fuzzing::websocket_to_text(&message).as_bytes()),
            message
        );
    }
}
