//! `c5c3 node …`: drills.

use std::net::Ipv4Addr;

use clap::{Args, Subcommand};
use machine::{connect, nodes};

use super::{NAMES, StateDir, failed};
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values};

const EXAMPLES: &str = "\
Examples:
  c5c3 node list
  c5c3 node kill node-2      cut its power: all its processes die at once
  c5c3 node start node-2     restore its power";

/// List embedded nodes, cut their power and restore it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the nodes.
    #[command(after_help = "Examples:
  c5c3 node list
  c5c3 node list -o json")]
    List {
        #[command(flatten)]
        place: StateDir,
        #[arg(long, short, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Cut a node's power; it stays off until it is started.
    #[command(after_help = "Examples:
  c5c3 node kill node-2      its pods are lost and recreated on other nodes")]
    Kill {
        #[command(flatten)]
        place: StateDir,
        name: String,
    },
    /// Restore a node's power.
    #[command(after_help = "Examples:
  c5c3 node start node-2")]
    Start {
        #[command(flatten)]
        place: StateDir,
        name: String,
    },
    /// Connect standard input and output to a port on the data network, for ssh's ProxyCommand.
    #[command(
        hide = true,
        after_help = "Examples:
  ssh -o ProxyCommand='c5c3 node connect %h %p' debian@10.194.0.77"
    )]
    Connect {
        #[command(flatten)]
        place: StateDir,
        address: Ipv4Addr,
        port: u16,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::List { place, output } => list(place, *output),
        Command::Kill { place, name } => {
            block_on(async { Ok(nodes::kill(NAMES, place.path(), name).await?) })
        }
        Command::Start { place, name } => {
            block_on(async { Ok(nodes::start(NAMES, place.path(), name).await?) })
        }
        Command::Connect { place, address, port } => {
            let stream = connect::connect(NAMES, place.path(), *address, *port).map_err(failed)?;
            Ok(connect::pipe(stream)?)
        }
    }
}

fn list(place: &StateDir, output: Format) -> Result<(), Failure> {
    let listed = nodes::list(NAMES, place.path())?;
    if output != Format::Table {
        let values: Vec<_> = listed
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?;
        return print_values(&values, output);
    }
    let mut table = Table::new(&["NAME", "CLUSTER", "STATE", "ADDRESS", "PID"]);
    for node in listed {
        let pid = node.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        table.row([node.name, node.cluster, node.state.to_owned(), node.address, pid]);
    }
    print_table(&table)
}
