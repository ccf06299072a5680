//! A real Kubernetes on this machine, for tests and for people who doubt: etcd, kube-apiserver,
//! kube-controller-manager, kube-scheduler, kubelet and kube-proxy in the namespaces of embedded nodes.
//! State directory, `up` and `down` are those of an embedded cluster; the daemon is another one.

mod access;
mod daemon;
mod images;
mod names;
mod programs;
mod volumes;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use embedded_node::{Error, Result, init};
use machine::{Plan, down, up};

const USAGE: &str = "usage: real-kubernetes COMMAND
  up STATE PROGRAMS STORE [IMAGE...]   bring it up with the programs of a directory; images of the OCI layout
                                       STORE come to its nodes, those with one of the names or all
  down STATE [--purge]                 stop it, and remove its files";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Before any thread starts: it changes the process' namespaces.
    if args.first().is_some_and(|a| a == "init") {
        return init::main(&args[1..]);
    }
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
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
    let mut say = machine::daemon::say;
    match args.as_slice() {
        ["up", state, programs, store, images @ ..] => {
            programs::check(Path::new(programs))?;
            let mut command = vec!["daemon", *state, *programs, *store];
            command.extend(images);
            let options = up::Options {
                state: PathBuf::from(state),
                plan: Plan::default(),
                nodes: None,
                hypervisors: 0,
                registries: Vec::new(),
                daemon: own(&command)?,
            };
            let up = up::up(&options, &mut say).await?;
            println!("export KUBECONFIG={}", up.kubeconfig.display());
            Ok(())
        }
        ["daemon", state, programs, store, images @ ..] => {
            daemon::run(&daemon::Options {
                state: PathBuf::from(state),
                programs: PathBuf::from(programs),
                store: PathBuf::from(store),
                images: images.iter().map(|name| (*name).to_owned()).collect(),
                init: own(&["init"])?,
            })
            .await
        }
        ["down", state] => down::down(Path::new(state), false, &mut say).await,
        ["down", state, "--purge"] => down::down(Path::new(state), true, &mut say).await,
        _ => Err(Error::said(USAGE)),
    }
}
