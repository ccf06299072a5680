//! The server's end of a WebSocket.

use bytes::{BufMut, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{
    serve::{self, Body, Call},
    status::{ApiError, Result},
};

pub(super) type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Messages beyond this are refused; clients send a few kilobytes at a time.
const MESSAGE: usize = 4 << 20;

/// How much of a stream goes into one message.
const CHUNK: usize = 32 << 10;

/// A message of one of several channels: its number, then the data.
pub(super) fn frame(channel: u8, data: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(data.len() + 1);
    bytes.put_u8(channel);
    bytes.put_slice(data);
    Message::Binary(bytes.freeze())
}

/// Sends what can be read as messages of a channel, until either side ends.
pub(super) async fn copy(mut reader: impl AsyncRead + Unpin, channel: u8, outgoing: mpsc::Sender<Message>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => {
                if outgoing.send(frame(channel, &buffer[..n])).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The end that clients take for a good one.
pub(super) fn goodbye() -> Message {
    Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    }))
}

/// The protocol that both sides speak: the client's first choice among ours.
pub(super) fn negotiate(call: &Call, ours: &[&'static str]) -> Result<&'static str> {
    let upgrade = call.header(header::UPGRADE);
    if !upgrade.eq_ignore_ascii_case("websocket") {
        return Err(if upgrade.is_empty() {
            ApiError::bad_request("unable to upgrade: a WebSocket is expected")
        } else {
            ApiError::bad_request(format!(
                "unable to upgrade to {upgrade:?}: only WebSockets are served"
            ))
        });
    }
    let offered = call.parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offered: Vec<&str> = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let named = offered
        .iter()
        .find_map(|name| ours.iter().find(|own| *own == name));
    let nameless = || ours.iter().find(|own| own.is_empty() && offered.is_empty());
    let chosen = named.or_else(nameless);
    chosen.copied().ok_or_else(|| {
        ApiError::bad_request(format!(
            "unable to negotiate protocol: client supports {offered:?}, server accepts {ours:?}"
        ))
    })
}

/// Answers the handshake and hands the socket to `run` once it is there.
pub(super) fn accept<F, R>(call: Call, protocol: &'static str, run: F) -> Result<Response<Body>>
where
    F: FnOnce(Socket) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let key = call.header(header::SEC_WEBSOCKET_KEY).to_owned();
    if key.is_empty() || call.header(header::SEC_WEBSOCKET_VERSION) != "13" {
        return Err(ApiError::bad_request("not a WebSocket handshake of version 13"));
    }
    let stopping = call.core.stopping.clone();
    let place = call.lasting;
    let upgrade = hyper::upgrade::on(Request::from_parts(call.parts, ()));
    tokio::spawn(async move {
        let _until_the_end = place;
        let upgraded = match upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "the connection was not upgraded"),
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE))
            .max_frame_size(Some(MESSAGE));
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        tokio::select! {
            () = run(socket) => {}
            () = stopping.cancelled() => {}
        }
    });
    let mut response = Response::new(serve::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    if !protocol.is_empty() {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}
