//! `c5c3 version`

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Format, print, print_values};

const EXAMPLES: &str = "\
Examples:
  c5c3 version
  c5c3 version -o json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    if arguments.output == Format::Table {
        return print(&format!("c5c3 {version} ({os}/{arch})\n"));
    }
    print_values(
        &[json!({"version": version, "os": os, "arch": arch})],
        arguments.output,
    )
}
