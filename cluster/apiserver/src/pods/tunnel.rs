//! Forwarded ports as kubectl does them: SPDY streams inside a WebSocket. Each connection is a pair of
//! streams, data and errors, that name their port and share a request number.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{Response, header};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, WriteHalf},
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    Connection, PodRef, Provider,
    spdy::{self, Decoder, Encoder, Frame},
    websocket::{self, Socket},
};
use crate::{
    serve::{Body, Call},
    status::Result,
};

const PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
const CHUNK: usize = 32 << 10;
/// Connections that one client may have open at once.
const CONNECTIONS: usize = 1024;

pub(super) fn is_asked(call: &Call) -> bool {
    call.header(header::SEC_WEBSOCKET_PROTOCOL)
        .split(',')
        .any(|name| name.trim() == PROTOCOL)
}

pub(super) fn serve(call: Call, provider: Arc<dyn Provider>, pod: PodRef) -> Result<Response<Body>> {
    let protocol = websocket::negotiate(&call, &[PROTOCOL])?;
    websocket::accept(call, protocol, move |socket| run(socket, provider, pod))
}

struct Tunnel {
    provider: Arc<dyn Provider>,
    pod: PodRef,
    outgoing: mpsc::Sender<Bytes>,
    encoder: Encoder,
    /// Error streams by request number.
    errors: HashMap<String, u32>,
    /// What the client sends, by data stream; `None` is its end.
    writers: HashMap<u32, mpsc::Sender<Option<Bytes>>>,
    connections: JoinSet<u32>,
}

async fn run(socket: Socket, provider: Arc<dyn Provider>, pod: PodRef) {
    let (mut sink, mut stream) = socket.split();
    let (outgoing, mut queue) = mpsc::channel::<Bytes>(64);
    let sender = tokio::spawn(async move {
        while let Some(bytes) = queue.recv().await {
            if sink.send(Message::Binary(bytes)).await.is_err() {
                return;
            }
        }
        let _ = sink.send(websocket::goodbye()).await;
    });
    let mut tunnel = Tunnel {
        provider,
        pod,
        outgoing,
        encoder: Encoder::default(),
        errors: HashMap::new(),
        writers: HashMap::new(),
        connections: JoinSet::new(),
    };
    let mut decoder = Decoder::default();
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            Some(ended) = tunnel.connections.join_next(), if !tunnel.connections.is_empty() => {
                if let Ok(stream) = ended {
                    tunnel.writers.remove(&stream);
                }
                continue;
            }
        };
        match message {
            Some(Ok(Message::Binary(bytes))) => decoder.push(&bytes),
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            // Pings are answered by the WebSocket itself.
            Some(Ok(_)) => continue,
        }
        if !tunnel.drain(&mut decoder).await {
            break;
        }
    }
    tunnel.connections.abort_all();
    drop(tunnel);
    let _ = sender.await;
}

impl Tunnel {
    /// Handles the frames that are complete; false ends the session.
    async fn drain(&mut self, decoder: &mut Decoder) -> bool {
        loop {
            match decoder.next() {
                Ok(None) => return true,
                Ok(Some(Frame::GoAway)) => return false,
                Ok(Some(frame)) => self.frame(frame).await,
                Err(error) => {
                    tracing::debug!(%error, "a port-forward session ends");
                    return false;
                }
            }
        }
    }

    async fn send(&self, bytes: Bytes) {
        let _ = self.outgoing.send(bytes).await;
    }

    async fn frame(&mut self, frame: Frame) {
        match frame {
            Frame::Open { stream, headers, .. } => {
                let reply = self.encoder.reply(stream);
                self.send(reply).await;
                self.open(stream, &headers).await;
            }
            Frame::Data { stream, data, fin } => {
                let Some(writer) = self.writers.get(&stream) else {
                    return;
                };
                if !data.is_empty() {
                    let _ = writer.send(Some(data)).await;
                }
                if fin {
                    let _ = writer.send(None).await;
                }
            }
            Frame::Reset { stream } => {
                self.writers.remove(&stream);
            }
            Frame::Ping(number) => self.send(spdy::ping(number)).await,
            Frame::GoAway | Frame::Other => {}
        }
    }

    async fn open(&mut self, stream: u32, headers: &[(String, String)]) {
        let header = |name: &str| {
            headers
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
                .unwrap_or_default()
        };
        let request = header("requestid").to_owned();
        if header("streamtype") == "error" {
            if self.errors.len() < CONNECTIONS {
                self.errors.insert(request, stream);
            }
            return;
        }
        let errors = self.errors.remove(&request);
        let Ok(port) = header("port").parse::<u16>() else {
            if let Some(errors) = errors {
                self.send(spdy::data(errors, b"the port is not a number", true))
                    .await;
            }
            return self.send(spdy::data(stream, &[], true)).await;
        };
        let (writer, data) = mpsc::channel(64);
        self.writers.insert(stream, writer);
        let (provider, pod, outgoing) = (self.provider.clone(), self.pod.clone(), self.outgoing.clone());
        self.connections.spawn(async move {
            let failure = connect(&*provider, &pod, port, stream, data, &outgoing)
                .await
                .err();
            let _ = outgoing.send(spdy::data(stream, &[], true)).await;
            if let Some(errors) = errors {
                let text = failure.unwrap_or_default();
                let _ = outgoing.send(spdy::data(errors, text.as_bytes(), true)).await;
            }
            stream
        });
    }
}

/// Carries one connection to its end.
async fn connect(
    provider: &dyn Provider,
    pod: &PodRef,
    port: u16,
    stream: u32,
    data: mpsc::Receiver<Option<Bytes>>,
    outgoing: &mpsc::Sender<Bytes>,
) -> std::result::Result<(), String> {
    let connection = provider.connect(pod, port).await.map_err(|error| error.message)?;
    let (mut reader, writer) = tokio::io::split(connection);
    let sending = tokio::spawn(write(writer, data));
    let mut buffer = vec![0; CHUNK];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => {
                if outgoing
                    .send(spdy::data(stream, &buffer[..n], false))
                    .await
                    .is_err()
                {
                    break;
                }
            }
            Err(error) => {
                sending.abort();
                return Err(format!("an error occurred forwarding port {port}: {error}"));
            }
        }
    }
    sending.abort();
    Ok(())
}

async fn write(mut writer: WriteHalf<Box<dyn Connection>>, mut data: mpsc::Receiver<Option<Bytes>>) {
    while let Some(Some(bytes)) = data.recv().await {
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
