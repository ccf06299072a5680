//! The main function of a program that runs clusters: its `init` for nodes, log, runtime and exit code.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use embedded_node::{Error, Names, Result, init};

use crate::{daemon, down, up};

/// Runs `command` with the arguments of this process, unless it was started as the `init` of a node.
pub fn main<F>(command: impl FnOnce(Vec<String>) -> F) -> ExitCode
where
    F: Future<Output = Result<()>>,
{
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Before any thread starts: it changes the process' namespaces.
    if args.first().is_some_and(|a| a == "init") {
        return init::main(&args[1..]);
    }
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        // A full disk must not be a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(command(args)),
        Err(e) => Err(Error::said(e.to_string())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "{e}");
            ExitCode::FAILURE
        }
    }
}

/// This program with other arguments.
pub fn again(args: &[&str]) -> Result<Vec<String>> {
    let own = std::env::current_exe().map_err(Error::system("find the path of this program"))?;
    let mut command = vec![own.to_string_lossy().into_owned()];
    command.extend(args.iter().map(|a| (*a).to_owned()));
    Ok(command)
}

/// Brings a cluster up and says how to reach it.
pub async fn bring_up(options: &up::Options) -> Result<()> {
    let up = up::up(options, &mut daemon::say).await?;
    println!("export KUBECONFIG={}", up.kubeconfig.display());
    Ok(())
}

/// `down STATE [--purge]`; `None` for other arguments.
pub async fn take_down(names: Names, args: &[&str]) -> Option<Result<()>> {
    let (state, purge) = match args {
        ["down", state] => (state, false),
        ["down", state, "--purge"] => (state, true),
        _ => return None,
    };
    Some(down::down(names, Path::new(state), purge, &mut daemon::say).await)
}
