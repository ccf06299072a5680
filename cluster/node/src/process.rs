//! Identity of a process: its id and its start time. A process id alone may belong to
//! another process by the time it is used.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

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

    /// Sends a signal to exactly this process; false when it is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        self.alive() && kill(Pid::from_raw(self.pid), signal).is_ok()
    }
}

/// State and start time. The command name, in parentheses, may hold anything.
fn parse(stat: &str) -> Option<(char, u64)> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
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
