//! `c5c3 prysm …`: Prysm's own command, with our exit codes.

use c5c3_prysm::{Error, PrysmCommand};

use super::block_on;
use crate::failure::Failure;

pub(crate) fn run(command: PrysmCommand) -> Result<(), Failure> {
    block_on(async {
        command.run().await.map_err(|error| match error {
            Error::UnknownFamily { .. } | Error::Filter(_) => Failure::Usage(error.to_string()),
            other => Failure::from(other),
        })
    })
}
