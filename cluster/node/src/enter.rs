//! Work inside a node's mount namespace, with the node's root.
//!
//! Each piece of work gets a thread of its own that ends with it: a thread that stayed
//! would keep a dead node's mounts alive.

use std::fs::File;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Error, Result};
use crate::process::Process;

/// Runs `work` with the files of the node whose init is `init`.
pub async fn mounts_of<T: Send + 'static>(
    init: Process,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, told) = tokio::sync::oneshot::channel();
    thread::Builder::new()
        .name("node-files".into())
        .spawn(move || {
            let _ = tell.send(enter(init).and_then(|()| work()));
        })
        .map_err(Error::system("start a thread"))?;
    told.await
        .unwrap_or_else(|_| Err(Error::said("work inside the node ended unexpectedly")))
}

fn enter(init: Process) -> Result<()> {
    let failed = |e: io::Error| Error::System {
        what: "enter the node's mount namespace".into(),
        source: e,
    };
    let file = File::open(format!("/proc/{}/ns/mnt", init.pid)).map_err(failed)?;
    // The file pins the namespace; the process that owns it must still be the node.
    if !init.alive() {
        return Err(Error::said("the node is down"));
    }
    // Root and working directory are per process until a thread stops sharing them.
    unshare(CloneFlags::CLONE_FS).map_err(|e| failed(e.into()))?;
    // The mask too: what is made here has the mode that is asked for, from its first moment on.
    rustix::process::umask(rustix::fs::Mode::empty());
    setns(&file, CloneFlags::CLONE_NEWNS).map_err(|e| failed(e.into()))
}
