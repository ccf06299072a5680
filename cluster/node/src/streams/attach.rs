//! Attached containers: their own streams, by the runtime's streaming server, which
//! listens on the node's loopback.

use std::net::SocketAddr;

use apiserver::pods::{ExecOptions, Exit, Reader, Resize, Session, Writer};
use futures::{SinkExt, StreamExt};
use k8s_cri::v1::AttachRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use super::NodeRuntime;
use crate::error::{Error, Result};

const PROTOCOL: &str = "v4.channel.k8s.io";
const BUFFER: usize = 64 << 10;

pub async fn attach(place: &NodeRuntime, container: &str, options: &ExecOptions) -> Result<Session> {
    let url = place
        .cri
        .attach_url(AttachRequest {
            container_id: container.into(),
            stdin: options.stdin,
            stdout: options.stdout,
            stderr: options.stderr && !options.tty,
            tty: options.tty,
        })
        .await?;
    let odd = || Error::said(format!("the runtime answered with {url:?}"));
    let address: SocketAddr = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .and_then(|host| host.parse().ok())
        .ok_or_else(odd)?;
    let stream = place
        .node
        .ns
        .connect(address)
        .await
        .map_err(Error::system("connect to the runtime's streaming server"))?;
    let mut request = url
        .replacen("http://", "ws://", 1)
        .into_client_request()
        .map_err(|_| odd())?;
    request
        .headers_mut()
        .insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
    let (socket, _) = tokio_tungstenite::client_async(request, stream)
        .await
        .map_err(|e| Error::said(format!("attach: {e}")))?;
    let (mut sink, mut source) = socket.split();

    let (stdin, mut typed) = duplex(BUFFER);
    let (mut out_end, stdout) = duplex(BUFFER);
    let (mut err_end, stderr) = duplex(BUFFER);
    let (resize, mut sizes) = mpsc::channel::<Resize>(4);
    let (ended, end) = oneshot::channel();
    let (wants_stdin, tty) = (options.stdin, options.tty);
    tokio::spawn(async move {
        let mut buffer = vec![0; 16 << 10];
        let mut open = wants_stdin;
        let result = loop {
            tokio::select! {
                read = typed.read(&mut buffer), if open => match read {
                    Ok(count) if count > 0 => {
                        let mut message = vec![0];
                        message.extend_from_slice(&buffer[..count]);
                        if sink.send(Message::binary(message)).await.is_err() {
                            break Exit::Code(0);
                        }
                    }
                    _ => open = false,
                },
                Some(size) = sizes.recv(), if tty => {
                    let text = format!("\u{4}{{\"Width\":{},\"Height\":{}}}", size.width, size.height);
                    let _ = sink.send(Message::binary(text.into_bytes())).await;
                }
                message = source.next() => match message {
                    Some(Ok(Message::Binary(data))) => match data.split_first() {
                        Some((1, rest)) => { let _ = out_end.write_all(rest).await; }
                        Some((2, rest)) => { let _ = err_end.write_all(rest).await; }
                        Some((3, rest)) => break outcome(rest),
                        _ => {}
                    },
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break Exit::Code(0),
                    Some(Ok(_)) => {}
                },
            }
        };
        drop((out_end, err_end));
        let _ = ended.send(result);
    });
    let reader = |wanted: bool, stream: DuplexStream| wanted.then(|| Box::new(stream) as Reader);
    Ok(Session {
        stdin: options.stdin.then(|| Box::new(stdin) as Writer),
        stdout: reader(options.stdout || options.tty, stdout),
        stderr: reader(options.stderr && !options.tty, stderr),
        resize: options.tty.then_some(resize),
        exit: Box::pin(async move { end.await.unwrap_or(Exit::Code(0)) }),
    })
}

/// The last message: a Status of the API.
fn outcome(text: &[u8]) -> Exit {
    let status: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    match status["status"].as_str() {
        Some("Failure") => Exit::Failed(status["message"].as_str().unwrap_or_default().into()),
        _ => Exit::Code(0),
    }
}
