//! `c5c3`: one binary, every role a subcommand. Arguments and wiring, nothing else.

mod commands;
mod failure;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 crds | kubectl apply --server-side -f -        install every kind
  c5c3 crds -o table                                  list the kinds
  c5c3 crds --group c5c3.io --kind SecretAggregate    one definition
  c5c3 operator control-plane --context production    run an operator here
  c5c3 image build keystone                           build an image and what it stands on
  c5c3 completions bash > /etc/bash_completion.d/c5c3

Exit codes:
  0  done                     3  what was asked for is not there
  1  failed                   4  not ready, or not in time
  2  wrong arguments";

/// CobaltCore: OpenStack on Kubernetes, in one binary.
#[derive(Parser)]
#[command(name = "c5c3", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the definitions of the API's kinds.
    Crds(commands::crds::Arguments),
    /// Run an operator against a cluster.
    Operator(commands::operator::Arguments),
    Image(c5c3_image_builder::ImageCommand),
    /// Print the version.
    Version(commands::version::Arguments),
    /// Print the completion script for a shell.
    Completions(commands::completions::Arguments),
}

impl Cli {
    fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Crds(arguments) => commands::crds::run(&arguments),
            Command::Operator(arguments) => commands::operator::run(arguments),
            Command::Image(arguments) => commands::image::run(arguments),
            Command::Version(arguments) => commands::version::run(&arguments),
            Command::Completions(arguments) => commands::completions::run::<Cli>(&arguments),
        }
    }
}

fn main() -> ExitCode {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
