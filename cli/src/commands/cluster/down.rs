//! `c5c3 down`.

use clap::Args;
use machine::down;

use super::{StateDir, failed};
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::say;

const EXAMPLES: &str = "\
Examples:
  c5c3 down             stop it; `c5c3 up` resumes it
  c5c3 down --purge     stop it and remove all of its data

Only a directory that holds a cluster is purged, and of that only what the cluster made.";

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
        down::down(arguments.place.path(), arguments.purge, &mut say)
            .await
            .map_err(failed)
    })
}
