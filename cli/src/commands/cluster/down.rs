//! `c5c3 down`.

use clap::Args;
use machine::down;

use super::{NAMES, StateDir, failed};
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::say;

const EXAMPLES: &str = "\
Examples:
  c5c3 down             stop the cluster; `c5c3 up` resumes it
  c5c3 down --purge     stop the cluster and delete all its data

Only a directory that contains a cluster is purged, and only what the cluster created there.";

/// Stop the embedded cluster with all its pods.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: StateDir,
    /// Also remove its objects, volumes and images.
    #[arg(long)]
    purge: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        down::down(NAMES, arguments.place.path(), arguments.purge, &mut say)
            .await
            .map_err(failed)
    })
}
