//! The embedded cluster on this machine: up, down, its nodes, and the process behind it.

mod bring;
pub(crate) mod daemon;
pub(crate) mod down;
mod elsewhere;
mod farewell;
pub(crate) mod node;
pub(crate) mod up;

use std::path::{Path, PathBuf};

use clap::Args;
use embedded_node::Names;

use crate::failure::Failure;

/// The caller can correct a refusal: it gets the exit code of wrong arguments.
fn failed(error: embedded_node::Error) -> Failure {
    match error {
        embedded_node::Error::Refused(text) => Failure::Usage(text),
        other => other.into(),
    }
}

/// What embedded clusters of this program are called.
pub(crate) const NAMES: Names = Names {
    program: "c5c3",
    domain: "c5c3.io",
};

/// The default directory of a cluster.
const STATE: &str = "/var/lib/c5c3/cluster";

/// The state directory of a cluster.
#[derive(Args, Clone)]
pub(crate) struct StateDir {
    /// Directory that holds the whole cluster [default: /var/lib/c5c3/cluster]
    #[arg(long, value_name = "DIRECTORY", env = "C5C3_STATE_DIR", value_parser = absolute)]
    state_dir: Option<PathBuf>,
}

impl StateDir {
    #[cfg(test)]
    pub(crate) fn at(state_dir: Option<PathBuf>) -> Self {
        StateDir { state_dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.state_dir.as_deref().unwrap_or(Path::new(STATE))
    }

    /// Whether somebody chose it.
    pub(crate) fn named(&self) -> bool {
        self.state_dir.is_some()
    }

    /// What other commands need to find it: empty, or with a blank before it.
    pub(crate) fn argument(&self) -> String {
        if self.path() == Path::new(STATE) {
            return String::new();
        }
        format!(" --state-dir {}", self.path().display())
    }
}

/// The daemon works elsewhere: a relative path would be another one there.
pub(crate) fn absolute(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|error| format!("{text:?} is not a path: {error}"))
}

/// This program with a subcommand, for processes that run on their own.
fn own(arguments: &[&str]) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(std::iter::once(program)
        .chain(arguments.iter().map(|text| (*text).to_owned()))
        .collect())
}
