//! `kubectl exec` and `kubectl attach`: the `channel.k8s.io` protocols. The first byte of a message
//! names the stream.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http::Response;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    ExecOptions, Exit, PodRef, Provider, Reader, Resize, Session, Writer, container,
    websocket::{self, Socket},
};
use crate::{
    serve::{Body, Call},
    status::{ApiError, Result},
};

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Of v5: the stream that the next byte names is at its end.
const CLOSE: u8 = 255;
const CHUNK: usize = 32 << 10;

fn options(call: &Call, pod: &PodRef, attach: bool) -> Result<ExecOptions> {
    let options = ExecOptions {
        container: container(call, pod)?,
        command: if attach {
            Vec::new()
        } else {
            call.query.all("command").map(str::to_owned).collect()
        },
        stdin: call.query.flag("stdin"),
        stdout: call.query.flag("stdout"),
        stderr: call.query.flag("stderr") && !call.query.flag("tty"),
        tty: call.query.flag("tty"),
    };
    if !options.stdin && !options.stdout && !options.stderr {
        return Err(ApiError::bad_request(
            "you must specify at least one of stdin, stdout, stderr",
        ));
    }
    if !attach && options.command.is_empty() {
        return Err(ApiError::bad_request(
            "you must specify at least one command for the container",
        ));
    }
    Ok(options)
}

pub async fn serve(
    call: Call,
    provider: Arc<dyn Provider>,
    pod: PodRef,
    attach: bool,
) -> Result<Response<Body>> {
    let options = options(&call, &pod, attach)?;
    let protocol = websocket::negotiate(&call, &[V5, V4])?;
    // Before the handshake: a container that is not there is a plain HTTP error.
    let session = if attach {
        provider.attach(&pod, &options).await?
    } else {
        provider.exec(&pod, &options).await?
    };
    websocket::accept(call, protocol, move |socket| run(socket, session))
}

type Outgoing = mpsc::Sender<Message>;

/// Carries the streams until the command ends or the client leaves.
async fn run(socket: Socket, session: Session) {
    let Session {
        stdin,
        stdout,
        stderr,
        resize,
        exit,
    } = session;
    let (sink, stream) = socket.split();
    let (outgoing, queue) = mpsc::channel(16);
    let first = if stdout.is_some() { STDOUT } else { STDERR };
    // Tells the client that the streams are there.
    let _ = outgoing.send(frame(first, &[])).await;
    let sender = tokio::spawn(send(sink, queue));
    let receiver = tokio::spawn(receive(stream, stdin, resize, outgoing.clone()));
    let out = tokio::spawn(copy(stdout, STDOUT, outgoing.clone()));
    let err = tokio::spawn(copy(stderr, STDERR, outgoing.clone()));
    let gone = receiver.abort_handle();
    let ended = tokio::select! {
        exit = exit => Some(exit),
        _ = receiver => None,
    };
    if let Some(exit) = ended {
        let _ = tokio::join!(out, err);
        let _ = outgoing
            .send(frame(ERROR, status(&exit).to_string().as_bytes()))
            .await;
        let _ = outgoing.send(websocket::goodbye()).await;
    } else {
        out.abort();
        err.abort();
    }
    gone.abort();
    drop(outgoing);
    let _ = sender.await;
}

async fn send(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let _ = sink.close().await;
}

/// Reads what the client sends; returns when it is gone.
async fn receive(
    mut stream: SplitStream<Socket>,
    mut stdin: Option<Writer>,
    resize: Option<mpsc::Sender<Resize>>,
    outgoing: Outgoing,
) {
    while let Some(Ok(message)) = stream.next().await {
        let data = match message {
            Message::Binary(data) => data,
            Message::Text(text) => Bytes::from(text),
            Message::Ping(data) => {
                let _ = outgoing.send(Message::Pong(data)).await;
                continue;
            }
            Message::Close(_) => return,
            _ => continue,
        };
        match data.split_first() {
            Some((&STDIN, rest)) => {
                if let Some(writer) = &mut stdin
                    && (writer.write_all(rest).await.is_err() || writer.flush().await.is_err())
                {
                    stdin = None;
                }
            }
            Some((&CLOSE, [STDIN, ..])) => {
                if let Some(mut writer) = stdin.take() {
                    let _ = writer.shutdown().await;
                }
            }
            Some((&RESIZE, rest)) => {
                if let (Some(resize), Ok(size)) = (&resize, serde_json::from_slice::<Resize>(rest)) {
                    let _ = resize.send(size).await;
                }
            }
            _ => {}
        }
    }
}

async fn copy(reader: Option<Reader>, channel: u8, outgoing: Outgoing) {
    let Some(mut reader) = reader else { return };
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

fn frame(channel: u8, data: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(data.len() + 1);
    bytes.put_u8(channel);
    bytes.put_slice(data);
    Message::Binary(bytes.freeze())
}

/// How the command ended, as clients read it from the error stream.
fn status(exit: &Exit) -> Value {
    match exit {
        Exit::Code(0) => json!({"metadata": {}, "status": "Success"}),
        Exit::Code(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Exit::Failed(message) => json!({
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": "InternalError",
            "code": 500,
        }),
    }
}
