//! Process 1 of a node: keeps containerd running and reaps what nobody else waits for.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Spec, complain};
use crate::error::{Error, Result};

/// A log beyond this size is put aside when containerd starts.
const LOG_LIMIT: u64 = 16 << 20;
const SHORT_LIFE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Never returns but for an error at the start.
pub(super) fn forever(spec: &Spec) -> Result<()> {
    let mut pause = Duration::ZERO;
    let mut started = Instant::now();
    let mut containerd = Some(start(spec)?);
    loop {
        let Some(pid) = containerd.as_ref().map(Child::id) else {
            sleep(pause);
            started = Instant::now();
            match start(spec) {
                Ok(child) => containerd = Some(child),
                Err(e) => {
                    complain(&e);
                    pause = LONGEST_PAUSE;
                }
            }
            continue;
        };
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(ended, _) | WaitStatus::Signaled(ended, _, _))
                if ended == Pid::from_raw(pid.cast_signed()) =>
            {
                complain("containerd ended and is started again");
                // At once after a long life, slower and slower when it fails to start.
                pause = match started.elapsed() < SHORT_LIFE {
                    true => (pause * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE),
                    false => Duration::ZERO,
                };
                containerd = None;
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => containerd = None,
            Err(e) => complain(format_args!("wait: {e}")),
        }
    }
}

fn start(spec: &Spec) -> Result<Child> {
    if fs::metadata(&spec.log).is_ok_and(|m| m.len() > LOG_LIMIT) {
        let _ = fs::rename(&spec.log, spec.log.with_extension("log.1"));
    }
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&spec.log)
        .map_err(Error::file("open", &spec.log))?;
    let error: File = log.try_clone().map_err(Error::file("open", &spec.log))?;
    let [program, args @ ..] = spec.containerd.as_slice() else {
        return Err(Error::said("the node specification names no containerd"));
    };
    Command::new(program)
        .args(args)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(error)
        .process_group(0)
        .spawn()
        .map_err(Error::system(format!("start {program}")))
}
