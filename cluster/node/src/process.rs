//! Identity of a process: its id and its start time. A process id alone may belong to
//! another process by the time it is used.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// Field 22 of /proc/PID/stat: clock ticks between boot and start.
    pub start: u64,
}

impl Process {
    /// The process that has this id now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start) = parse(&stat)?;
        // A zombie holds nothing any more.
        (state != 'Z' && state != 'X').then_some(Self { pid, start })
    }

    pub fn current() -> Option<Self> {
        Self::of(i32::try_from(std::process::id()).ok()?)
    }

    pub fn alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Returns as soon as the process has ended.
    pub async fn ended(&self) {
        let handle = Pid::from_raw(self.pid)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok())
            // Whatever can be polled can be waited for this way.
            .and_then(|fd| pipe::Receiver::from_owned_fd_unchecked(fd).ok());
        // The handle may be that of another process which has the number by now.
        while self.alive() {
            match &handle {
                Some(handle) => {
                    let _ = handle.readable().await;
                    // Readable before the last thread is gone.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                None => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Sends a signal to exactly this process; false when it is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        let handle = Pid::from_raw(self.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The handle stays with the process that had the number when it was opened: this one, if it is
        // alive now.
        handle.is_some_and(|handle| self.alive() && pidfd_send_signal(handle, signal).is_ok())
    }

    /// The program that it runs, also when the file was replaced since.
    pub fn program(&self) -> Option<PathBuf> {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid)).ok()?;
        let text = program.to_str().and_then(|text| text.strip_suffix(" (deleted)"));
        let program = text.map_or(program.clone(), PathBuf::from);
        self.alive().then_some(program)
    }

    /// Whether it has this very file open.
    pub fn holds(&self, file: &Path) -> bool {
        let Ok(wanted) = fs::metadata(file) else {
            return false;
        };
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid));
        let found = open.into_iter().flatten().flatten().any(|entry| {
            fs::metadata(entry.path())
                .is_ok_and(|meta| (meta.dev(), meta.ino()) == (wanted.dev(), wanted.ino()))
        });
        found && self.alive()
    }
}

/// State and start time. The command name, in parentheses, may hold anything.
fn parse(stat: &str) -> Option<(char, u64)> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// The program's path, when it is installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain([
            "/usr/sbin",
            "/usr/bin",
            "/sbin",
            "/usr/local/sbin",
            "/usr/local/bin",
        ])
        .map(|d| Path::new(d).join(name))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_a_hostile_name() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        assert_eq!(parse(stat), Some(('S', 987_654)));
        assert_eq!(parse("garbage"), None);
        assert_eq!(parse(""), None);
    }

    #[tokio::test]
    async fn the_end_is_noticed_at_once() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id().cast_signed()).unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), process.ended()).await;
        assert!(early.is_err(), "it runs");
        child.kill().unwrap();
        let started = std::time::Instant::now();
        tokio::time::timeout(Duration::from_secs(10), process.ended())
            .await
            .unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
        child.wait().unwrap();
    }

    #[test]
    fn a_signal_reaches_the_process_that_is_meant_alone() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id().cast_signed()).unwrap();
        let another = Process {
            start: process.start + 1,
            ..process
        };
        assert!(!another.signal(Signal::KILL));
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        assert!(process.signal(Signal::KILL));
        child.wait().unwrap();
        assert!(!process.signal(Signal::KILL) && process.program().is_none());
    }

    #[test]
    fn own_identity() {
        let own = Process::current().unwrap();
        assert!(own.alive());
        assert!(
            !Process {
                start: own.start + 1,
                ..own
            }
            .alive()
        );
    }
}
