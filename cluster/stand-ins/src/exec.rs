//! Commands in the servers' own pods, through the API's `exec`.
//!
//! What is secret goes to a command's input, never to its arguments.

use std::time::Duration;

use c5c3_kit::Touch;
use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use kube::{Api, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
/// Longest text of a command's complaint that is passed on.
const COMPLAINT: usize = 400;

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("cannot run a command in pod {pod}: {}", c5c3_kit::fault::plain(.source))]
    Unreachable { pod: String, source: Box<kube::Error> },
    #[error("the connection to the command in pod {pod} was lost: {reason}")]
    CutOff { pod: String, reason: String },
    #[error("in pod {pod}: {}", short(.said))]
    Failed { pod: String, said: String },
}

/// Cut only when shown: a secret that was cut in two would not be recognised.
fn short(said: &str) -> String {
    said.chars().take(COMPLAINT).collect()
}

/// A container in which commands are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecTarget {
    pub namespace: String,
    pub pod: String,
    pub container: &'static str,
}

/// What the command printed; an error when it failed.
pub(crate) async fn run(
    client: &Client,
    place: &ExecTarget,
    command: &[&str],
    input: &str,
) -> Result<String, ExecError> {
    let late = || ExecError::CutOff {
        pod: place.pod.clone(),
        reason: format!("it did not end within {} s", LIMIT.as_secs()),
    };
    timeout(LIMIT, attached(client, place, command, input))
        .await
        .map_err(|_| late())?
}

/// What a controller that runs commands declares.
pub(crate) fn touched() -> Touch {
    Touch::part_of::<Pod>("/exec", &["create", "get"])
}

async fn attached(
    client: &Client,
    place: &ExecTarget,
    command: &[&str],
    input: &str,
) -> Result<String, ExecError> {
    let pod = &place.pod;
    let cut = |reason: String| ExecError::CutOff {
        pod: pod.clone(),
        reason,
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), &place.namespace);
    let params = AttachParams::default()
        .container(place.container)
        .stdin(!input.is_empty())
        .stdout(true)
        .stderr(true);
    let mut process = api
        .exec(pod, command.iter().copied(), &params)
        .await
        .map_err(|source| ExecError::Unreachable {
            pod: pod.clone(),
            source: Box::new(source),
        })?;
    let status = process.take_status();
    let (stdin, stdout, stderr) = (process.stdin(), process.stdout(), process.stderr());
    let send = async {
        if let Some(mut stdin) = stdin {
            stdin.write_all(input.as_bytes()).await?;
            stdin.shutdown().await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let (mut out, mut err) = (String::new(), String::new());
    let read_out = async {
        match stdout {
            Some(mut stream) => stream.read_to_string(&mut out).await,
            None => Ok(0),
        }
    };
    let read_err = async {
        match stderr {
            Some(mut stream) => stream.read_to_string(&mut err).await,
            None => Ok(0),
        }
    };
    // A command that ends before it has read all of its input says why in its status.
    let (_, read, complained) = tokio::join!(send, read_out, read_err);
    read.map_err(|e| cut(e.to_string()))?;
    complained.map_err(|e| cut(e.to_string()))?;
    let ended = match status {
        Some(status) => status.await,
        None => None,
    };
    match ended {
        Some(status) if status.status.as_deref() == Some("Success") => Ok(out),
        Some(status) => {
            let said = err.trim();
            let said = if said.is_empty() {
                status.message.unwrap_or_default()
            } else {
                said.to_owned()
            };
            Err(ExecError::Failed {
                pod: pod.clone(),
                said,
            })
        }
        None => Err(cut("it ended without a status".to_owned())),
    }
}
