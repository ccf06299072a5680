//! `c5c3 completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::print;

#[derive(Args)]
pub struct Arguments {
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run<C: CommandFactory>(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut C::command(), "c5c3", &mut script);
    print(&String::from_utf8(script)?)
}
