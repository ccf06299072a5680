//! `c5c3 image …`: the image builder's own command, with our exit codes.

use c5c3_image_builder::{Error, ImageCommand};

use crate::failure::Failure;

pub(crate) fn run(command: ImageCommand) -> Result<(), Failure> {
    command.run().map_err(|error| match error {
        Error::NoImage { .. } => Failure::NotFound(error.to_string()),
        Error::Request(_) => Failure::Usage(error.to_string()),
        other => Failure::from(other),
    })
}
