//! `c5c3 completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  c5c3 completions bash > /etc/bash_completion.d/c5c3
  c5c3 completions zsh > \"${fpath[1]}/_c5c3\"
  c5c3 completions fish > ~/.config/fish/completions/c5c3.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run<C: CommandFactory>(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut C::command(), "c5c3", &mut script);
    print(&String::from_utf8(script)?)
}
