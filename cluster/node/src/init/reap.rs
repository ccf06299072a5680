//! Process 1 of a node: keeps its programs running and reaps orphaned processes.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Program, Spec, complain};
use crate::error::{Error, Result};

/// A log beyond this size is put aside when its program starts.
const LOG_LIMIT: u64 = 16 << 20;
const SHORT_LIFE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The polling interval while a program waits for its next start.
const LOOK: Duration = Duration::from_millis(20);

/// A program and what became of its last start.
struct Kept<'a> {
    program: &'a Program,
    running: Option<Pid>,
    started: Instant,
    /// Between its end and its next start.
    pause: Duration,
    due: Instant,
}

impl<'a> Kept<'a> {
    fn new(program: &'a Program) -> Result<Self> {
        let now = Instant::now();
        Ok(Self {
            program,
            running: Some(start(program)?),
            started: now,
            pause: Duration::ZERO,
            due: now,
        })
    }

    /// At once after a long life, slower and slower when it fails to start.
    fn ended(&mut self, now: Instant) {
        let name = self.program.command.first().map_or("a program", String::as_str);
        complain(format_args!("{name} ended and is started again"));
        self.pause = next_pause(self.pause, now - self.started);
        self.running = None;
        self.due = now + self.pause;
    }

    fn revive(&mut self, now: Instant) {
        self.started = now;
        match start(self.program) {
            Ok(pid) => self.running = Some(pid),
            Err(e) => {
                complain(&e);
                self.pause = LONGEST_PAUSE;
                self.due = now + self.pause;
            }
        }
    }
}

fn next_pause(last: Duration, life: Duration) -> Duration {
    if life < SHORT_LIFE {
        (last * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE)
    } else {
        Duration::ZERO
    }
}

/// Never returns but for an error at the start.
pub(super) fn forever(spec: &Spec) -> Result<()> {
    if spec.programs.is_empty() {
        return Err(Error::said("the node specification names no program"));
    }
    let mut kept = spec.programs.iter().map(Kept::new).collect::<Result<Vec<_>>>()?;
    loop {
        let now = Instant::now();
        for one in kept
            .iter_mut()
            .filter(|one| one.running.is_none() && one.due <= now)
        {
            one.revive(now);
        }
        let all_run = kept.iter().all(|one| one.running.is_some());
        // With nothing to start, there is only the end of a process to wait for.
        let flags = (!all_run).then_some(WaitPidFlag::WNOHANG);
        match waitpid(None, flags) {
            Ok(WaitStatus::Exited(ended, _) | WaitStatus::Signaled(ended, _, _)) => {
                let now = Instant::now();
                let found = kept.iter_mut().find(|one| one.running == Some(ended));
                if let Some(one) = found {
                    one.ended(now);
                }
            }
            Ok(WaitStatus::StillAlive) => sleep(LOOK),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => {
                // Somebody else reaped them.
                let now = Instant::now();
                for one in kept.iter_mut().filter(|one| one.running.is_some()) {
                    one.ended(now);
                }
                sleep(LOOK);
            }
            Err(e) => complain(format_args!("wait: {e}")),
        }
    }
}

fn start(program: &Program) -> Result<Pid> {
    let Program { command, log } = program;
    if fs::metadata(log).is_ok_and(|m| m.len() > LOG_LIMIT) {
        let _ = fs::rename(log, log.with_extension("log.1"));
    }
    let out = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::file("open", log))?;
    let error: File = out.try_clone().map_err(Error::file("open", log))?;
    let [name, args @ ..] = command.as_slice() else {
        return Err(Error::said(
            "the node specification names a program without a command",
        ));
    };
    let child = Command::new(name)
        .args(args)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(error)
        .process_group(0)
        .spawn()
        .map_err(Error::system(format!("start {name}")))?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_to_start_is_tried_slower_and_slower() {
        let (short, long) = (Duration::from_secs(1), SHORT_LIFE);
        let mut pause = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pause = next_pause(pause, short);
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(next_pause(pause, long), Duration::ZERO);
    }
}
