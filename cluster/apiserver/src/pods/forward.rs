//! Forwarded ports over WebSocket channels: two for each port, data and errors, each opened by the
//! server with the port's number.

use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::Response;
use tokio::{
    io::{AsyncWriteExt, WriteHalf},
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    Connection, PodRef, Provider,
    websocket::{self, Socket, copy, frame},
};
use crate::{
    serve::{Body, Call},
    status::{ApiError, Result},
};

const V4: &str = "v4.channel.k8s.io";
/// A channel's number is one byte, and each port has two.
const PORTS: usize = 127;

fn ports(call: &Call) -> Result<Vec<u16>> {
    let mut ports = Vec::new();
    for text in call
        .query
        .all("ports")
        .flat_map(|list| list.split(','))
        .filter(|text| !text.is_empty())
    {
        match text.parse() {
            Ok(port) if port != 0 && ports.len() < PORTS => ports.push(port),
            _ => {
                return Err(ApiError::bad_request(format!(
                    "ports: {text:?} is not a port number"
                )));
            }
        }
    }
    if ports.is_empty() {
        return Err(ApiError::bad_request("query parameter \"ports\" is required"));
    }
    Ok(ports)
}

pub(super) fn serve(call: Call, provider: Arc<dyn Provider>, pod: PodRef) -> Result<Response<Body>> {
    if super::tunnel::is_asked(&call) {
        return super::tunnel::serve(call, provider, pod);
    }
    let protocol = websocket::negotiate(&call, &[V4])?;
    let ports = ports(&call)?;
    websocket::accept(call, protocol, move |socket| run(socket, provider, pod, ports))
}

enum Port {
    Open(WriteHalf<Box<dyn Connection>>),
    Closed,
}

async fn run(socket: Socket, provider: Arc<dyn Provider>, pod: PodRef, ports: Vec<u16>) {
    let (mut sink, mut stream) = socket.split();
    let (outgoing, mut queue) = mpsc::channel::<Message>(16);
    let sender = tokio::spawn(async move {
        while let Some(message) = queue.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    });
    let mut open = Vec::new();
    let mut readers = tokio::task::JoinSet::new();
    for (i, &port) in ports.iter().enumerate() {
        // Two channels a port and at most PORTS ports: the numbers fit a byte.
        let (data, error) = (2 * i as u8, 2 * i as u8 + 1);
        let _ = outgoing.send(frame(data, &port.to_le_bytes())).await;
        let _ = outgoing.send(frame(error, &port.to_le_bytes())).await;
        match provider.connect(&pod, port).await {
            Ok(connection) => {
                let (reader, writer) = tokio::io::split(connection);
                readers.spawn(copy(reader, data, outgoing.clone()));
                open.push(Port::Open(writer));
            }
            Err(refused) => {
                let _ = outgoing.send(frame(error, refused.message.as_bytes())).await;
                open.push(Port::Closed);
            }
        }
    }
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            // All connections have ended: nothing is left to forward.
            ended = readers.join_next(), if !readers.is_empty() => {
                let _ = ended;
                if readers.is_empty() {
                    break;
                }
                continue;
            }
        };
        let data = match message {
            Some(Ok(Message::Binary(data))) => data,
            Some(Ok(Message::Ping(data))) => {
                let _ = outgoing.send(Message::Pong(data)).await;
                continue;
            }
            Some(Ok(Message::Text(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
        };
        deliver(&mut open, &data).await;
    }
    readers.abort_all();
    let _ = outgoing.send(websocket::goodbye()).await;
    drop(outgoing);
    let _ = sender.await;
}

async fn deliver(open: &mut [Port], data: &Bytes) {
    let Some((&channel, rest)) = data.split_first() else {
        return;
    };
    let Some(port) = open
        .get_mut(usize::from(channel / 2))
        .filter(|_| channel % 2 == 0)
    else {
        return;
    };
    if let Port::Open(writer) = port
        && (writer.write_all(rest).await.is_err() || writer.flush().await.is_err())
    {
        *port = Port::Closed;
    }
}
