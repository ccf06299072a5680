//! The init process of a node, a hidden subcommand of the binary.
//!
//! It runs in two stages, each a process of one thread. The first joins the node's
//! cgroups, leaves every namespace and starts the second, which is process 1 of the node:
//! it makes the node's root, starts containerd and reaps. The node outlives whoever
//! started it; killing its process 1 is pulling the plug.

mod devices;
mod reap;
mod root;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::setsid;
use serde::{Deserialize, Serialize};

use crate::cgroups;
use crate::error::{Error, Result};

/// What makes a node; the one argument, as a JSON file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spec {
    pub name: String,
    /// Persistent directory, at the same path inside.
    pub data: PathBuf,
    /// Short-lived directory; its `run` is the node's /run.
    pub run: PathBuf,
    pub cgroup: String,
    /// Machines are to run on it: it gets the devices for that.
    #[serde(default)]
    pub hypervisor: bool,
    /// Further directories at the same path inside.
    pub shared: Vec<PathBuf>,
    /// The node's /etc/hosts.
    pub hosts: String,
    /// What runs as long as the node does; containerd is the first.
    pub programs: Vec<Program>,
}

/// A program that process 1 starts, and starts again whenever it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub command: Vec<String>,
    pub log: PathBuf,
}

const SECOND: &str = "--second";
const READY: &str = "ready";

/// Entry of the subcommand; `args` are those after its name. Call it before any thread
/// starts.
pub fn main(args: &[String]) -> ExitCode {
    let outcome = match args {
        [file] => read(Path::new(file)).and_then(|spec| first(file, &spec)),
        [second, file] if second == SECOND => {
            // Only an error returns: process 1 ends with the node.
            read(Path::new(file)).and_then(|spec| self::second(&spec))
        }
        _ => Err(Error::said(
            "this subcommand is internal: it takes one node specification file",
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Nobody may listen any more.
            let _ = writeln!(std::io::stdout(), "{e}");
            complain(&e);
            ExitCode::FAILURE
        }
    }
}

/// A log that takes nothing more, as on a full disk, must not end the node.
fn complain(what: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "node init: {what}");
}

fn read(file: &Path) -> Result<Spec> {
    let text = std::fs::read(file).map_err(Error::file("read", file))?;
    serde_json::from_slice(&text)
        .map_err(|e| Error::said(format!("node specification {}: {e}", file.display())))
}

/// Prints `ready PID` once the node is up.
fn first(file: &str, spec: &Spec) -> Result<()> {
    // Best effort: the caller may lead a process group already.
    let _ = setsid();
    cgroups::join(&spec.cgroup)?;
    unshare(
        CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWCGROUP,
    )
    .map_err(Error::system("make the node's namespaces"))?;
    // Only now: the namespace's root is where its maker was.
    cgroups::step_aside(&spec.cgroup)?;
    let own = std::env::current_exe().map_err(Error::system("find the own program"))?;
    let subcommand: Vec<String> = std::env::args().skip(1).take_while(|a| a != file).collect();
    let mut child = Command::new(own)
        .args(subcommand)
        .args([SECOND, file])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::system("start the node's process 1"))?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut said)
            .map_err(Error::system("hear from the node's process 1"))?;
    }
    if said.trim() != READY {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::said(said.trim().to_owned()));
    }
    println!("{READY} {}", child.id());
    Ok(())
}

/// The process id in the first stage's answer.
pub(crate) fn parse_answer(answer: &str) -> Option<i32> {
    answer.trim().strip_prefix(READY)?.trim().parse().ok()
}

fn second(spec: &Spec) -> Result<()> {
    crate::limits::raise_files();
    root::enter(spec)?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}")
        .and_then(|()| stdout.flush())
        .map_err(Error::system("say that the node is ready"))?;
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(Error::file("open", "/dev/null"))?;
    nix::unistd::dup2_stdout(&null).map_err(Error::system("let go of the starter's pipe"))?;
    reap::forever(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(parse_answer("ready 12\n"), Some(12));
        assert_eq!(parse_answer("mount: no\n"), None);
        assert_eq!(parse_answer(""), None);
    }
}
