//! A real Kubernetes on this machine, for tests and for people who doubt: etcd, kube-apiserver,
//! kube-controller-manager, kube-scheduler, kubelet and kube-proxy in the namespaces of embedded nodes.
//! State directory, `up` and `down` are those of an embedded cluster; the daemon is another one.

mod access;
mod daemon;
mod images;
mod names;
mod programs;
mod volumes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use embedded_node::{Error, Names, Result};
use machine::{Plan, program, up};

const USAGE: &str = "usage: real-kubernetes COMMAND
  up STATE PROGRAMS STORE [IMAGE...]   bring it up with the programs of a directory; images of the OCI layout
                                       STORE come to its nodes, those with one of the names or all
  down STATE [--purge]                 stop it, and remove its files";

pub(crate) const PROVISIONER: &str = "kubernetes.c5c3.io/local";
/// Those of the program whose objects it is tested with.
const NAMES: Names = Names {
    program: "c5c3",
    domain: "c5c3.io",
};

fn main() -> ExitCode {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    program::main(run)
}

async fn run(args: Vec<String>) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["up", state, programs, store, images @ ..] => {
            programs::check(Path::new(programs))?;
            let mut command = vec!["daemon", *state, *programs, *store];
            command.extend(images);
            let options = up::Options {
                names: NAMES,
                state: PathBuf::from(state),
                plan: Plan::default(),
                nodes: None,
                hypervisors: 0,
                registries: Vec::new(),
                daemon: program::again(&command)?,
            };
            program::bring_up(&options).await
        }
        ["daemon", state, programs, store, images @ ..] => {
            daemon::run(&daemon::Options {
                names: NAMES,
                state: PathBuf::from(state),
                programs: PathBuf::from(programs),
                store: PathBuf::from(store),
                images: images.iter().map(|name| (*name).to_owned()).collect(),
                init: program::again(&["init"])?,
            })
            .await
        }
        other => {
            let down = program::take_down(NAMES, other).await;
            down.unwrap_or_else(|| Err(Error::said(USAGE)))
        }
    }
}
