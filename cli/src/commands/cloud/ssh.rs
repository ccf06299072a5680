//! `c5c3 ssh`.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::commands::block_on;
use crate::failure::Failure;
use crate::guests::{self, Here, key_file, ssh};

/// Log in to a server by its floating address, or run a command there.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 ssh demo
  c5c3 ssh demo -- uname -a
  c5c3 ssh --user debian --key ~/.ssh/id_ed25519 web

It runs this machine's ssh and returns the exit code of the command. Exit code 3: there is
no such server, no floating address or no ssh. Options of c5c3 come before the server's name.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    here: Here,
    /// User to log in as; the guest of `c5c3 demo` has only root.
    #[arg(long, default_value = "root")]
    user: String,
    /// Private key [default: that of `c5c3 demo`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Name or id of the server.
    server: String,
    /// Command to run there.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let state = arguments.here.place.path();
    let address = block_on(async {
        let session = arguments.here.session().await?;
        ssh::address(&guests::find(&session, &arguments.server).await?)
    })?;
    let own = key_file(state);
    let key = arguments.key.as_deref().unwrap_or(&own);
    if !key.exists() {
        return Err(Failure::NotFound(format!(
            "there is no key {}: `c5c3 demo` creates one; --key selects another",
            key.display()
        )));
    }
    let words = ssh::arguments(&ssh::Call {
        program: &std::env::current_exe()?,
        state,
        key,
        user: &arguments.user,
        address,
        command: &arguments.command,
    });
    // Returns only when it could not begin.
    let error = Command::new("ssh").args(words).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => Failure::NotFound(
            "there is no ssh on this machine: install it, on Debian with `apt-get install openssh-client`"
                .into(),
        ),
        _ => error.into(),
    })
}
