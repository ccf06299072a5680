//! `kubectl exec` and `kubectl attach`: the `channel.k8s.io` protocols. The first byte of a message
//! names the stream.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http::Response;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, sync::mpsc};
use tokio_tungstenite::tungstenite::Message;

use super::{
    ExecOptions, Exit, PodRef, Provider, Reader, Resize, Session, Writer, container,
    websocket::{self, Socket, copy, frame},
};
use crate::{
    serve::{Body, Call},
    status::{ApiError, Result},
};

/// A way to put streams into messages.
#[derive(Clone, Copy)]
struct Protocol {
    name: &'static str,
    /// Messages are text: the channel as a digit, then Base64.
    text: bool,
    /// The end comes as a Status; before v4 as plain words, and as nothing when all went well.
    status: bool,
}

const fn protocol(name: &'static str, text: bool, status: bool) -> Protocol {
    Protocol { name, text, status }
}

/// The last is that of a client which names none.
const PROTOCOLS: [Protocol; 6] = [
    protocol("v5.channel.k8s.io", false, true),
    protocol("v4.channel.k8s.io", false, true),
    protocol("v4.base64.channel.k8s.io", true, true),
    protocol("channel.k8s.io", false, false),
    protocol("base64.channel.k8s.io", true, false),
    protocol("", false, false),
];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Of v5: the stream that the next byte names is at its end.
const CLOSE: u8 = 255;

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

pub(crate) async fn serve(
    call: Call,
    provider: Arc<dyn Provider>,
    pod: PodRef,
    attach: bool,
) -> Result<Response<Body>> {
    let options = options(&call, &pod, attach)?;
    let name = websocket::negotiate(&call, &PROTOCOLS.map(|protocol| protocol.name))?;
    let protocol = PROTOCOLS.into_iter().find(|protocol| protocol.name == name);
    let protocol = protocol.unwrap_or(PROTOCOLS[PROTOCOLS.len() - 1]);
    // Before the handshake: a container that is not there is a plain HTTP error.
    let session = if attach {
        provider.attach(&pod, &options).await?
    } else {
        provider.exec(&pod, &options).await?
    };
    websocket::accept(call, name, move |socket| run(socket, session, protocol))
}

type Outgoing = mpsc::Sender<Message>;

/// Carries the streams until the command ends or the client leaves.
async fn run(socket: Socket, session: Session, protocol: Protocol) {
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
    let sender = tokio::spawn(send(sink, queue, protocol));
    let receiver = tokio::spawn(receive(stream, stdin, resize, outgoing.clone(), protocol));
    let out = tokio::spawn(copy_any(stdout, STDOUT, outgoing.clone()));
    let err = tokio::spawn(copy_any(stderr, STDERR, outgoing.clone()));
    let gone = receiver.abort_handle();
    let ended = tokio::select! {
        exit = exit => Some(exit),
        _ = receiver => None,
    };
    if let Some(exit) = ended {
        let _ = tokio::join!(out, err);
        if let Some(words) = last_words(&exit, protocol) {
            let _ = outgoing.send(frame(ERROR, words.as_bytes())).await;
        }
        let _ = outgoing.send(websocket::goodbye()).await;
    } else {
        out.abort();
        err.abort();
    }
    gone.abort();
    drop(outgoing);
    let _ = sender.await;
}

async fn send(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Message>, protocol: Protocol) {
    while let Some(message) = queue.recv().await {
        let message = match message {
            Message::Binary(data) if protocol.text => Message::Text(to_text(&data).into()),
            message => message,
        };
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
    protocol: Protocol,
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
        let data = if protocol.text { from_text(&data) } else { data };
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

async fn copy_any(reader: Option<Reader>, channel: u8, outgoing: Outgoing) {
    if let Some(reader) = reader {
        copy(reader, channel, outgoing).await;
    }
}

pub(crate) fn to_text(data: &[u8]) -> String {
    match data.split_first() {
        Some((channel, rest)) => format!("{}{}", char::from(b'0' + channel), STANDARD.encode(rest)),
        None => String::new(),
    }
}

/// Empty for what is no message.
pub(crate) fn from_text(text: &[u8]) -> Bytes {
    let Some((digit @ b'0'..=b'9', rest)) = text.split_first() else {
        return Bytes::new();
    };
    match STANDARD.decode(rest) {
        Ok(data) => [vec![digit - b'0'], data].concat().into(),
        Err(_) => Bytes::new(),
    }
}

fn last_words(exit: &Exit, protocol: Protocol) -> Option<String> {
    let status = status(exit);
    match (protocol.status, exit) {
        (true, _) => Some(status.to_string()),
        (false, Exit::Code(0)) => None,
        (false, _) => status["message"].as_str().map(str::to_owned),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_in_text_are_digits_and_base64() {
        assert_eq!(to_text(b"\x01hi"), "1aGk=");
        assert_eq!(from_text(b"0aGk="), Bytes::from_static(b"\0hi"));
        for bad in ["", "x", "aGk=", "0***", "\u{e4}"] {
            assert!(from_text(bad.as_bytes()).is_empty(), "{bad}");
        }
    }

    #[test]
    fn older_clients_hear_the_end_in_plain_words() {
        let [_, v4, _, first, ..] = PROTOCOLS;
        assert_eq!(last_words(&Exit::Code(0), first), None);
        let words = last_words(&Exit::Code(3), first).unwrap();
        assert_eq!(words, "command terminated with non-zero exit code: exit status 3");
        assert!(last_words(&Exit::Code(0), v4).unwrap().contains("Success"));
    }
}
