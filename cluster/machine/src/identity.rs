//! Which process is the daemon of a cluster: recorded in a file, and proven by the lock on it.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use embedded_node::error::{Error, Result};
use embedded_node::layout::Layout;
use embedded_node::process::Process;

/// What a daemon tells others by a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    #[serde(flatten)]
    pub process: Process,
    #[serde(default)]
    pub program: PathBuf,
    /// Its nodes are Ready, and the objects that it brings along exist.
    #[serde(default)]
    pub ready: bool,
}

impl Identity {
    pub fn file(layout: &Layout) -> PathBuf {
        layout.state().join("daemon.json")
    }

    fn load(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(layout)).ok()?).ok()
    }

    pub fn store(&self, layout: &Layout) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|e| Error::said(e.to_string()))?;
        embedded_node::node::write(&Self::file(layout), &text)
    }

    /// Process ids and start times are reused after a reboot: the program and the lock tell more.
    fn is_daemon(&self, lock: &Path) -> bool {
        let program = self.process.program();
        program.is_some_and(|p| p == self.program) && self.process.holds(lock)
    }
}

/// Whether the daemon has finished starting. If the file is damaged, it is enough that the API answers.
pub fn is_ready(layout: &Layout, daemon: &Process) -> bool {
    let told = |known: Identity| known.ready && known.process == *daemon;
    Identity::load(layout).map_or_else(|| Identity::file(layout).exists(), told)
}

/// The daemon of this cluster, when it runs.
pub fn running(layout: &Layout) -> Option<Process> {
    let lock = lock_file(layout);
    let known = Identity::load(layout).filter(|known| known.is_daemon(&lock));
    known.map(|known| known.process).or_else(|| {
        // It has just started, or its file is damaged: the lock tells too.
        let own = std::env::current_exe().ok()?;
        let inode = std::fs::metadata(&lock).ok()?.ino();
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let mut holders = holders(&locks, inode).into_iter().filter_map(Process::of);
        holders.find(|process| {
            let program = process.program();
            program.is_some_and(|p| p.file_name() == own.file_name()) && process.holds(&lock)
        })
    })
}

fn lock_file(layout: &Layout) -> PathBuf {
    layout.state().join("lock")
}

/// Who locks a file with this number, from /proc/locks. Several file systems may use one number, and
/// not every one is named there as elsewhere: who is meant has the file open.
fn holders(locks: &str, inode: u64) -> Vec<i32> {
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields.as_slice() else {
            return None;
        };
        let same = file.rsplit(':').next()?.parse() == Ok(inode);
        same.then(|| pid.parse().ok()).flatten()
    };
    locks.lines().filter_map(holder).collect()
}

/// One daemon for each state directory. The lock goes with the process; threads of one
/// that was just killed may hold it a moment longer.
pub async fn lock(layout: &Layout) -> Result<File> {
    let path = lock_file(layout);
    // Who can open it can lock it.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .map_err(Error::file("open", &path))?;
    for _ in 0..100 {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Error::said(format!(
        "another {} process runs the cluster in {}",
        layout.names().program,
        layout.state().display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(process: Process, ready: bool) -> Identity {
        Identity {
            process,
            program: process.program().unwrap_or_default(),
            ready,
        }
    }

    #[test]
    fn a_daemon_is_ready_when_it_says_so_of_itself() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(crate::settings::EXAMPLE, directory.path()).unwrap();
        let process = Process::current().unwrap();
        assert!(!is_ready(&layout, &process));
        let _held = File::create(lock_file(&layout)).unwrap();
        for ready in [false, true] {
            identity(process, ready).store(&layout).unwrap();
            assert_eq!(running(&layout), Some(process));
            assert_eq!(is_ready(&layout, &process), ready);
        }
        std::fs::write(Identity::file(&layout), "{").unwrap();
        assert!(is_ready(&layout, &process), "a damaged file");
        identity(process, true).store(&layout).unwrap();
        // Another process that has the number by now.
        let other = Process {
            start: process.start + 1,
            ..process
        };
        assert!(!is_ready(&layout, &other));
    }

    #[test]
    fn a_stranger_is_never_taken_for_the_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(crate::settings::EXAMPLE, directory.path()).unwrap();
        let lock = lock_file(&layout);
        let held = File::create(&lock).unwrap();
        held.lock().unwrap();
        let process = Process::current().unwrap();
        assert_eq!(running(&layout), Some(process), "by its lock");
        // After a reboot a number and a start time may come back.
        let stranger = |stdin: std::process::Stdio| {
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("1000").stdin(stdin).spawn().unwrap()
        };
        let mut children = [
            stranger(std::process::Stdio::null()),
            stranger(File::open(&lock).unwrap().into()),
        ];
        let own = process.program().unwrap();
        for child in &children {
            let process = Process::of(child.id().cast_signed()).unwrap();
            let known = Identity {
                program: own.clone(),
                ..identity(process, true)
            };
            assert!(!known.is_daemon(&lock), "another program");
        }
        drop(held);
        // One that locks the file and is none of ours.
        let mut flock = std::process::Command::new("flock");
        let mut locks = flock
            .arg("-F")
            .arg(&lock)
            .args(["sleep", "1000"])
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let free = File::open(&lock).unwrap();
        while free.try_lock().is_ok() && std::time::Instant::now() < deadline {
            free.unlock().unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(free);
        let found = running(&layout);
        for child in children.iter_mut().chain([&mut locks]) {
            let _ = child.kill();
            child.wait().unwrap();
        }
        assert_eq!(found, None);
    }

    #[test]
    fn the_lock_names_its_holders() {
        let locks = "1: POSIX  ADVISORY  WRITE 5 fe:00:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 fe:00:77 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 99 fe:00:77 0 EOF\n3: FLOCK  ADVISORY  WRITE 8 00:1f:77 0 EOF\n";
        assert_eq!(holders(locks, 77), [1234, 8]);
        assert!(holders(locks, 78).is_empty() && holders("nonsense\n\n", 77).is_empty());
    }
}
