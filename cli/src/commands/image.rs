//! `c5c3 image …` and `c5c3 bundle …`: the image builder's own commands, with our exit codes.

use c5c3_image_builder::{BundleCommand, ChartFiles, Error, ImageCommand};

use crate::failure::Failure;

/// The charts of `deploy/charts`, so that the program needs no repository beside it.
static CHARTS: &[ChartFiles<'static>] = include!(concat!(env!("OUT_DIR"), "/charts.rs"));

pub(crate) fn run(command: ImageCommand) -> Result<(), Failure> {
    command.run().map_err(failure)
}

pub(crate) fn bundle(command: BundleCommand) -> Result<(), Failure> {
    command.run(CHARTS).map_err(failure)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::NoImage { .. } => Failure::NotFound(error.to_string()),
        Error::Request(_) => Failure::Usage(error.to_string()),
        other => Failure::from(other),
    }
}
