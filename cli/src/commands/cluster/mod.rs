//! The embedded cluster on this machine: up, down, its nodes, and the process behind it.

pub mod daemon;
pub mod down;
pub mod node;
pub mod up;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;

/// Where a cluster is kept when nobody says otherwise.
const STATE: &str = "/var/lib/c5c3/cluster";

/// Where a cluster keeps everything.
#[derive(Args, Clone)]
pub struct Place {
    /// Directory that holds the whole cluster.
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_STATE_DIR",
        default_value = STATE
    )]
    pub state_dir: PathBuf,
}

impl Place {
    pub fn is_default(&self) -> bool {
        self.state_dir == Path::new(STATE)
    }
}

/// This program with a subcommand, for processes that run on their own.
fn own(arguments: &[&str]) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(std::iter::once(program)
        .chain(arguments.iter().map(|text| (*text).to_owned()))
        .collect())
}
