//! `c5c3 up`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use embedded_node::cluster::up;

use super::{Place, block_on, own};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 up                          start it, or go on where it was
  c5c3 up --nodes 3                three nodes on this machine
  c5c3 up --cluster-only           a plain Kubernetes, without kinds and operators of CobaltCore";

/// Bring the embedded cluster up on this machine; it runs on when this returns.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Number of nodes of a new cluster.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=32))]
    nodes: Option<u8>,
    /// Without the kinds and operators of CobaltCore.
    #[arg(long)]
    cluster_only: bool,
    /// Store of images [default: that of `c5c3 image`]
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_IMAGE_STORE",
        default_value = "/var/lib/c5c3/images"
    )]
    image_store: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let state = arguments.place.state_dir.to_string_lossy().into_owned();
    let store = arguments.image_store.to_string_lossy().into_owned();
    let mut command = vec!["daemon", "--state-dir", &state, "--image-store", &store];
    if arguments.cluster_only {
        command.push("--cluster-only");
    }
    let options = up::Options {
        state: arguments.place.state_dir.clone(),
        nodes: arguments.nodes,
        daemon: own(&command)?,
    };
    let start = Instant::now();
    let mut say = |line: &str| println!("{:>5.1} s  {line}", start.elapsed().as_secs_f32());
    let up = block_on(async { Ok(up::up(&options, &mut say).await?) })?;
    let kubeconfig = up.kubeconfig.display();
    println!(
        "{}",
        if up.already {
            "It runs already."
        } else {
            "It runs."
        }
    );
    println!("\nUse it:\n  export KUBECONFIG={kubeconfig}\n  kubectl get nodes");
    if !arguments.cluster_only {
        println!(
            "  kubectl api-resources --categories c5c3\n  kubectl apply -f deploy/quickstart/identity.yaml   a database, a cache and Keystone"
        );
    }
    println!(
        "\nStop it:\n  c5c3 down{}",
        if state == "/var/lib/c5c3/cluster" {
            String::new()
        } else {
            format!(" --state-dir {state}")
        }
    );
    Ok(())
}
