//! `c5c3 image` on its own.

use std::process::ExitCode;

use c5c3_image_builder::ImageCommand;
use clap::Parser;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    command: ImageCommand,
}

fn main() -> ExitCode {
    match Program::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
