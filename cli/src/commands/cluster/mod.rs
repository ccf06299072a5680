//! The embedded cluster on this machine: up, down, its nodes, and the process behind it.

pub mod daemon;
pub mod down;
pub mod node;
pub mod up;

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;

/// Where a cluster keeps everything.
#[derive(Args, Clone)]
pub struct Place {
    /// Directory that holds the whole cluster.
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_STATE_DIR",
        default_value = "/var/lib/c5c3/cluster"
    )]
    pub state_dir: PathBuf,
}

/// Runs a future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

/// This program with a subcommand, for processes that run on their own.
fn own(arguments: &[&str]) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(std::iter::once(program)
        .chain(arguments.iter().map(|text| (*text).to_owned()))
        .collect())
}
