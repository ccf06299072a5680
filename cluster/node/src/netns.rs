//! Sockets inside a network namespace, used from outside.
//!
//! Only `socket()` has to happen inside; bind, connect and accept work from anywhere.
//! One thread for each namespace enters it once and makes sockets forever; no thread
//! of the async runtime ever changes its namespace.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, Result};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that lives in a network namespace. The namespace stays alive as long as
/// any clone of this exists: drop them all when a node goes down.
#[derive(Clone)]
pub struct NetNs {
    jobs: mpsc::Sender<Job>,
    file: Arc<File>,
}

impl NetNs {
    /// Enters the namespace behind `path` (`/proc/PID/ns/net` or a bound handle).
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file("open namespace", path))?;
        Self::start(file, |file| {
            setns(file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
        })
        .map_err(Error::file("enter namespace", path))
    }

    fn start(file: File, enter: impl FnOnce(&File) -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let file = Arc::new(file);
        let (jobs, queue) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let inner = file.clone();
        let runtime = Handle::current();
        thread::Builder::new().name("netns".into()).spawn(move || {
            // Sockets register with the reactor of the runtime that uses them.
            let _runtime = runtime.enter();
            let entered = enter(&inner);
            drop(inner);
            let failed = entered.is_err();
            if tell.send(entered).is_err() || failed {
                return;
            }
            for job in queue {
                job();
            }
        })?;
        told.recv()
            .unwrap_or_else(|_| Err(io::Error::other("the namespace thread ended")))?;
        Ok(Self { jobs, file })
    }

    /// One where nothing can be done any more.
    #[cfg(test)]
    pub(crate) fn gone() -> Self {
        let file = File::open("/dev/null").expect("it is always there");
        Self {
            jobs: mpsc::channel().0,
            file: Arc::new(file),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Runs a short piece of work inside the namespace.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (tell, told) = oneshot::channel();
        let gone = || io::Error::other("the namespace thread ended");
        self.jobs
            .send(Box::new(move || {
                let _ = tell.send(work());
            }))
            .map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    pub async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.run(TcpSocket::new_v4).await?.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    pub async fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        let socket = self.run(TcpSocket::new_v4).await?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(1024)
    }

    pub async fn udp(&self, at: SocketAddr) -> io::Result<UdpSocket> {
        let socket = self.run(move || std::net::UdpSocket::bind(at)).await?;
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket)
    }

    /// A netlink connection to this namespace.
    pub(crate) async fn netlink(&self) -> io::Result<rtnetlink::Handle> {
        let (connection, handle, _) = self.run(rtnetlink::new_connection).await?;
        tokio::spawn(connection);
        Ok(handle)
    }

    /// Runs a program in the namespace: a child inherits the namespace of the thread
    /// that starts it.
    pub async fn command(
        &self,
        program: &str,
        args: &[&str],
        input: impl Into<Vec<u8>>,
    ) -> io::Result<Output> {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.into();
        let child = self.run(move || command.spawn()).await?;
        tokio::task::spawn_blocking(move || {
            let mut child = child;
            if let Some(mut stdin) = child.stdin.take() {
                // A program that ends early says why on stderr.
                let _ = stdin.write_all(&input);
            }
            child.wait_with_output()
        })
        .await
        .map_err(io::Error::other)?
    }

    /// Sets a network sysctl; the kernel shows those of the calling thread's namespace.
    pub async fn sysctl(&self, name: &'static str, value: &'static str) -> io::Result<()> {
        self.run(move || std::fs::write(Path::new("/proc/sys/net").join(name), value))
            .await
    }

    pub async fn read_sysctl(&self, name: &'static str) -> io::Result<String> {
        self.run(move || std::fs::read_to_string(Path::new("/proc/sys/net").join(name)))
            .await
    }
}

/// A connection made inside the namespace behind `handle`, for a program that does nothing else.
pub fn dial(handle: &Path, to: SocketAddr, patience: Duration) -> Result<std::net::TcpStream> {
    let file = File::open(handle).map_err(Error::file("open namespace", handle))?;
    let made = thread::spawn(move || -> io::Result<_> {
        setns(&file, CloneFlags::CLONE_NEWNET)?;
        std::net::TcpStream::connect_timeout(&to, patience)
    });
    made.join()
        .unwrap_or_else(|_| Err(io::Error::other("the namespace thread ended")))
        .map_err(Error::system(format!("connect to {to}")))
}

/// Makes a network namespace without a process and keeps it by a mount at `handle`.
pub fn create(handle: &Path) -> Result<()> {
    File::create(handle).map_err(Error::file("make", handle))?;
    let at = handle.to_path_buf();
    let made = thread::spawn(move || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        nix::mount::mount(
            Some("/proc/thread-self/ns/net"),
            &at,
            None::<&str>,
            nix::mount::MsFlags::MS_BIND,
            None::<&str>,
        )
    })
    .join()
    .unwrap_or(Err(nix::Error::EIO));
    made.map_err(|e| Error::file("make network namespace", handle)(e.into()))
}
