//! Commands in containers, by containerd's own interface: unlike CRI's, it lets the input
//! end. Streams are named pipes in the node's /run, which both sides see.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use apiserver::pods::{ExecOptions, Exit, Reader, Resize, Session, Writer};
use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{
    CloseIoRequest, DeleteProcessRequest, ExecProcessRequest, GetContainerRequest, KillRequest,
    ResizePtyRequest, StartRequest, WaitRequest,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use prost_types::Any;
use serde_json::Value;
use tokio::io::AsyncWrite;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::NodeRuntime;
use crate::error::{Error, Result};

const PROCESS: &str = "types.containerd.io/opencontainers/runtime-spec/1/Process";
static NEXT: AtomicU64 = AtomicU64::new(0);

fn ask<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let namespace = tonic::metadata::MetadataValue::from_static("k8s.io");
    request.metadata_mut().insert("containerd-namespace", namespace);
    request
}

fn failed(call: &'static str) -> impl FnOnce(Status) -> Error {
    move |status| Error::Runtime {
        call,
        status: Box::new(status),
    }
}

/// A command of a container, known to containerd by two ids.
#[derive(Clone)]
struct Command {
    channel: Channel,
    container: String,
    id: String,
    /// Pipes, seen from the machine; removed at the end.
    pipes: PathBuf,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Pipes(PathBuf);

pub async fn exec(place: &NodeRuntime, container: &str, options: &ExecOptions) -> Result<Session> {
    let channel = place.cri.channel();
    let id = format!(
        "exec-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let outside = place.node.layout.inner_run().join("exec").join(&id);
    let inside = Path::new("/run/exec").join(&id);
    std::fs::create_dir_all(&outside).map_err(Error::file("make directory", &outside))?;
    let pipes = Pipes(outside.clone());
    let name = |wanted: bool, name: &str| -> Result<String> {
        if !wanted {
            return Ok(String::new());
        }
        let path = outside.join(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)
            .map_err(|e| Error::file("make pipe", &path)(e.into()))?;
        Ok(inside.join(name).to_string_lossy().into_owned())
    };
    let (stdin, stdout) = (
        name(options.stdin, "in")?,
        name(options.stdout || options.tty, "out")?,
    );
    let stderr = name(options.stderr && !options.tty, "err")?;
    // Readers first: the runtime waits for them.
    let open = |path: &str, file: &str| -> Result<Option<pipe::Receiver>> {
        if path.is_empty() {
            return Ok(None);
        }
        let at = outside.join(file);
        let receiver = pipe::OpenOptions::new().open_receiver(&at);
        receiver.map(Some).map_err(Error::file("open", at))
    };
    let (out, err) = (open(&stdout, "out")?, open(&stderr, "err")?);
    let command = Command {
        channel: channel.clone(),
        container: container.into(),
        id: id.clone(),
        pipes: outside.clone(),
    };
    let mut tasks = TasksClient::new(channel.clone());
    tasks
        .exec(ask(ExecProcessRequest {
            container_id: container.into(),
            exec_id: id.clone(),
            terminal: options.tty,
            stdin: stdin.clone(),
            stdout,
            stderr,
            spec: Some(process(channel, container, options).await?),
        }))
        .await
        .map_err(failed("exec"))?;
    let started = tasks
        .start(ask(StartRequest {
            container_id: container.into(),
            exec_id: id,
        }))
        .await;
    if let Err(status) = started {
        command.forget().await;
        return Err(failed("exec")(status));
    }
    let input = if stdin.is_empty() {
        None
    } else {
        Some(input_pipe(&command.pipes.join("in")).await?)
    };
    Ok(session(command, pipes, options, input, out, err))
}

/// The runtime opens its end a moment after it says that the command runs.
async fn input_pipe(at: &Path) -> Result<pipe::Sender> {
    const TRIES: u32 = 1000;
    let mut tried = 0;
    loop {
        match pipe::OpenOptions::new().open_sender(at) {
            Err(e) if e.raw_os_error() == Some(nix::libc::ENXIO) && tried < TRIES => {
                tried += 1;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            opened => return opened.map_err(Error::file("open", at)),
        }
    }
}

/// The container's own process, with another command.
async fn process(channel: Channel, container: &str, options: &ExecOptions) -> Result<Any> {
    let request = GetContainerRequest { id: container.into() };
    let found = ContainersClient::new(channel)
        .get(ask(request))
        .await
        .map_err(failed("get container"))?
        .into_inner();
    let spec = found.container.and_then(|c| c.spec).unwrap_or_default();
    let spec: Value = serde_json::from_slice(&spec.value)
        .map_err(|e| Error::said(format!("specification of container {container}: {e}")))?;
    let mut process = spec["process"].clone();
    process["args"] = serde_json::json!(options.command);
    process["terminal"] = options.tty.into();
    if options.tty
        && let Some(env) = process["env"].as_array_mut()
    {
        env.retain(|e| !e.as_str().is_some_and(|e| e.starts_with("TERM=")));
        env.push("TERM=xterm".into());
    }
    Ok(Any {
        type_url: PROCESS.into(),
        value: process.to_string().into_bytes(),
    })
}

fn session(
    command: Command,
    pipes: Pipes,
    options: &ExecOptions,
    input: Option<pipe::Sender>,
    out: Option<pipe::Receiver>,
    err: Option<pipe::Receiver>,
) -> Session {
    let resize = options.tty.then(|| command.resizer());
    let boxed = |r: Option<pipe::Receiver>| r.map(|r| Box::new(r) as Reader);
    let stdin = input.map(|pipe| {
        let input = Input {
            pipe: Some(pipe),
            command: command.clone(),
        };
        Box::new(input) as Writer
    });
    // A session that is dropped before its end takes the command along.
    let guard = Guard(Some(command.clone()));
    let exit = Box::pin(async move {
        let exit = command.wait().await;
        guard.disarm();
        command.forget().await;
        drop(pipes);
        exit
    });
    Session {
        stdin,
        stdout: boxed(out),
        stderr: boxed(err),
        resize,
        exit,
    }
}

/// The command's input. The runtime keeps its own end of the pipe open, so it must be told
/// when the input is at its end.
struct Input {
    pipe: Option<pipe::Sender>,
    command: Command,
}

impl Input {
    fn end(&mut self) {
        if self.pipe.take().is_some() {
            let command = self.command.clone();
            tokio::spawn(async move { command.close_input().await });
        }
    }

    fn pipe(&mut self) -> std::io::Result<Pin<&mut pipe::Sender>> {
        let ended = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.pipe.as_mut().map(Pin::new).ok_or_else(ended)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.end();
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.pipe()?.poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.pipe()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

struct Guard(Option<Command>);

impl Guard {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(command) = self.0.take() {
            tokio::spawn(async move {
                command.kill().await;
                let _ = command.wait().await;
                command.forget().await;
            });
        }
    }
}

impl Command {
    fn tasks(&self) -> TasksClient<Channel> {
        TasksClient::new(self.channel.clone())
    }

    async fn wait(&self) -> Exit {
        let request = WaitRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
        };
        match self.tasks().wait(ask(request)).await {
            Ok(done) => Exit::Code(done.into_inner().exit_status.cast_signed()),
            Err(status) => Exit::Failed(status.message().into()),
        }
    }

    async fn close_input(&self) {
        let request = CloseIoRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
            stdin: true,
        };
        let _ = self.tasks().close_io(ask(request)).await;
    }

    async fn kill(&self) {
        let request = KillRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
            signal: 9,
            all: false,
        };
        let _ = self.tasks().kill(ask(request)).await;
    }

    async fn forget(&self) {
        let request = DeleteProcessRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
        };
        let _ = self.tasks().delete_process(ask(request)).await;
    }

    fn resizer(&self) -> mpsc::Sender<Resize> {
        let (tell, mut told) = mpsc::channel::<Resize>(4);
        let command = self.clone();
        tokio::spawn(async move {
            while let Some(size) = told.recv().await {
                let request = ResizePtyRequest {
                    container_id: command.container.clone(),
                    exec_id: command.id.clone(),
                    width: size.width.into(),
                    height: size.height.into(),
                };
                let _ = command.tasks().resize_pty(ask(request)).await;
            }
        });
        tell
    }
}
