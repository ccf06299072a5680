//! Embedded clusters without the rest of c5c3: for tests, drills and measurements.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use embedded_node::{Error, Result, init};
use machine::{Plan, connect, daemon, down, nodes, up};

const USAGE: &str = "usage: embedded-cluster COMMAND
  up STATE NODES[,HYPERVISORS] STORE...   bring a cluster up, with images of the OCI layouts STORE;
                                          or several: control-plane=2,hypervisor=1
  down STATE [--purge]      stop it, and remove its files
  node STATE list | kill NAME | start NAME | connect ADDRESS PORT";

fn main() -> ExitCode {
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
        Ok(runtime) => runtime.block_on(run(&args)),
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

fn own(args: &[&str]) -> Result<Vec<String>> {
    let own = std::env::current_exe().map_err(Error::system("find the own program"))?;
    let mut command = vec![own.to_string_lossy().into_owned()];
    command.extend(args.iter().map(|a| (*a).to_owned()));
    Ok(command)
}

async fn run(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut say = daemon::say;
    match args.as_slice() {
        ["up", state, count, stores @ ..] => {
            let mut command = vec!["daemon", *state];
            command.extend(stores);
            let mut plan = Plan::default();
            let (mut nodes, mut hypervisors) = (None, 0);
            if count.contains('=') {
                for text in count.split(',') {
                    plan.clusters.push(text.parse().map_err(Error::Refused)?);
                }
            } else {
                let (all, some) = count.split_once(',').unwrap_or((count, "0"));
                nodes = all.parse().ok();
                hypervisors = some.parse().unwrap_or_default();
            }
            let options = up::Options {
                state: PathBuf::from(state),
                plan,
                nodes,
                hypervisors,
                registries: Vec::new(),
                daemon: own(&command)?,
            };
            let up = up::up(&options, &mut say).await?;
            println!("export KUBECONFIG={}", up.kubeconfig.display());
            Ok(())
        }
        ["daemon", state, stores @ ..] => {
            let options = daemon::Options {
                state: PathBuf::from(state),
                image_stores: stores.iter().map(PathBuf::from).collect(),
                init: own(&["init"])?,
                data_labels: Vec::new(),
            };
            daemon::run(&options).await
        }
        ["down", state] => down::down(Path::new(state), false, &mut say).await,
        ["down", state, "--purge"] => down::down(Path::new(state), true, &mut say).await,
        ["node", state, "list"] => {
            for node in nodes::list(Path::new(state))? {
                println!("{}\t{}\t{}", node.name, node.address, node.state);
            }
            Ok(())
        }
        ["node", state, "kill", name] => nodes::kill(Path::new(state), name).await,
        ["node", state, "start", name] => nodes::start(Path::new(state), name).await,
        ["node", state, "connect", address, port] => {
            let (Ok(address), Ok(port)) = (address.parse(), port.parse()) else {
                return Err(Error::said(USAGE));
            };
            let stream = connect::connect(Path::new(state), address, port)?;
            connect::pipe(stream).map_err(Error::system("copy"))
        }
        _ => Err(Error::said(USAGE)),
    }
}
