//! Embedded clusters without anything in them: for tests, drills and measurements.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use embedded_node::{Error, Names, Result};
use machine::{Plan, connect, daemon, nodes, program, up};

const USAGE: &str = "usage: embedded-cluster COMMAND
  up STATE NODES[,HYPERVISORS] STORE...   bring a cluster up, with images of the OCI layouts STORE;
                                          or several: control-plane=2,hypervisor=1
  down STATE [--purge]      stop it, and remove its files
  node STATE list | kill NAME | start NAME | connect ADDRESS PORT";

/// Those of the program whose clusters it stands for.
const NAMES: Names = Names {
    program: "c5c3",
    domain: "c5c3.io",
};

fn main() -> ExitCode {
    program::main(run)
}

async fn run(args: Vec<String>) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
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
                names: NAMES,
                state: PathBuf::from(state),
                plan,
                nodes,
                hypervisors,
                registries: Vec::new(),
                daemon: program::again(&command)?,
            };
            program::bring_up(&options).await
        }
        ["daemon", state, stores @ ..] => {
            let options = daemon::Options {
                names: NAMES,
                state: PathBuf::from(state),
                image_stores: stores.iter().map(PathBuf::from).collect(),
                init: program::again(&["init"])?,
                data_labels: Vec::new(),
            };
            daemon::run(&options).await
        }
        ["node", state, "list"] => {
            for node in nodes::list(NAMES, Path::new(state))? {
                println!("{}\t{}\t{}", node.name, node.address, node.state);
            }
            Ok(())
        }
        ["node", state, "kill", name] => nodes::kill(NAMES, Path::new(state), name).await,
        ["node", state, "start", name] => nodes::start(NAMES, Path::new(state), name).await,
        ["node", state, "connect", address, port] => {
            let (Ok(address), Ok(port)) = (address.parse(), port.parse()) else {
                return Err(Error::said(USAGE));
            };
            let stream = connect::connect(NAMES, Path::new(state), address, port)?;
            connect::pipe(stream).map_err(Error::system("copy"))
        }
        other => {
            let down = program::take_down(NAMES, other).await;
            down.unwrap_or_else(|| Err(Error::said(USAGE)))
        }
    }
}
