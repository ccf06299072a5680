//! `c5c3 down`.

use clap::Args;
use embedded_node::cluster::down;

use super::Place;
use crate::commands::block_on;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 down             stop it; `c5c3 up` goes on where it was
  c5c3 down --purge     stop it and remove all that it kept";

/// Stop the embedded cluster with all its pods.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Remove its objects, volumes and images too.
    #[arg(long)]
    purge: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut say = |line: &str| println!("{line}");
    block_on(async { Ok(down::down(&arguments.place.state_dir, arguments.purge, &mut say).await?) })
}
