//! `c5c3 up`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use c5c3_image_builder::Images;
use clap::{Args, ValueEnum};
use embedded_node::cluster::up;
use kube::ResourceExt;

use super::{Place, own};
use crate::cloud::access::Target;
use crate::cloud::profile::Bundle;
use crate::cloud::{apply, explain, progress, snapshot};
use crate::commands::block_on;
use crate::commands::cloud::explain::words;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 up                          a small cloud, or go on where it was
  c5c3 up --profile ha             three replicas of everything on three nodes
  c5c3 up -f my-cloud.yaml         a ControlPlane of your own
  c5c3 up --profile none           the cluster and all operators, without a cloud
  c5c3 up --cluster-only           a plain Kubernetes, without kinds and operators of CobaltCore

It can be stopped at any time: what runs goes on, and `c5c3 up` again waits for the rest.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// One replica of everything.
    Small,
    /// Three replicas on three nodes.
    Ha,
    /// No cloud.
    None,
}

impl Profile {
    fn text(self) -> Option<&'static str> {
        match self {
            Profile::Small => Some(include_str!("../../../../deploy/profiles/small.yaml")),
            Profile::Ha => Some(include_str!("../../../../deploy/profiles/ha.yaml")),
            Profile::None => None,
        }
    }
}

/// Bring a cloud up on this machine; it runs on when this returns.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// How much of a cloud [default: small]
    #[arg(long, value_enum, conflicts_with_all = ["file", "cluster_only"])]
    profile: Option<Profile>,
    /// A ControlPlane of your own and what belongs to it; - reads standard input.
    #[arg(long, short, conflicts_with = "cluster_only")]
    file: Option<PathBuf>,
    /// Number of nodes of a new cluster [default: 1, for the profile ha 3]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=32))]
    nodes: Option<u8>,
    /// Move the public ports of the machine by so many, for a second cloud.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    port_offset: u16,
    /// How long to wait for the cloud before giving up with exit code 4; it goes on all the same.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    wait: u64,
    /// Let images come from this registry, `*` for any; those on this machine always may.
    #[arg(long = "registry", value_name = "HOST")]
    registries: Vec<String>,
    /// Without the kinds and operators of CobaltCore.
    #[arg(long)]
    cluster_only: bool,
    /// Store of images [default: that of `c5c3 image`]
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_IMAGE_STORE",
        default_value = c5c3_image_builder::STORE
    )]
    image_store: PathBuf,
}

impl Arguments {
    fn bundle(&self) -> Result<Bundle, Failure> {
        let text = match (&self.file, self.profile) {
            _ if self.cluster_only => String::new(),
            (Some(file), _) => read(file)?,
            (None, profile) => profile
                .unwrap_or(Profile::Small)
                .text()
                .unwrap_or_default()
                .to_owned(),
        };
        let named = |error| match &self.file {
            Some(file) => Failure::Usage(format!("{}: {error}", file.display())),
            None => Failure::Usage(error),
        };
        Bundle::parse(&text)
            .and_then(|bundle| bundle.shifted(self.port_offset))
            .map_err(named)
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(text)
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bundle = arguments.bundle()?;
    let start = Instant::now();
    let building = build(&arguments.image_store, &bundle, start);
    let up = cluster(arguments, start)?;
    if let Some(building) = building {
        building
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    for plane in &bundle.planes {
        cloud(
            arguments,
            &bundle,
            &plane.namespace().unwrap_or_default(),
            &plane.name_any(),
            start,
        )?;
    }
    finish(arguments, &up, &bundle, start);
    Ok(())
}

fn tell(start: Instant, line: &str) {
    println!("{:>6.1} s  {line}", start.elapsed().as_secs_f32());
}

type Building = std::thread::JoinHandle<Result<(), c5c3_image_builder::Error>>;

/// Builds what is missing while the cluster starts.
fn build(store: &Path, bundle: &Bundle, start: Instant) -> Option<Building> {
    let wanted = bundle.images();
    if wanted.is_empty() {
        return None;
    }
    let images = Images::at(store);
    Some(std::thread::spawn(move || {
        for (release, names) in wanted {
            images.build(&release, &names, move |line| tell(start, line.trim_start()))?;
        }
        Ok(())
    }))
}

fn cluster(arguments: &Arguments, start: Instant) -> Result<up::Up, Failure> {
    let state = arguments.place.state_dir.to_string_lossy().into_owned();
    let store = arguments.image_store.to_string_lossy().into_owned();
    let mut command = vec!["daemon", "--state-dir", &state, "--image-store", &store];
    if arguments.cluster_only {
        command.push("--cluster-only");
    }
    let ha = arguments.profile == Some(Profile::Ha);
    let options = up::Options {
        state: arguments.place.state_dir.clone(),
        nodes: arguments.nodes.or(ha.then_some(3)),
        registries: arguments.registries.clone(),
        daemon: own(&command)?,
    };
    let mut say = |line: &str| tell(start, line);
    block_on(async { Ok(up::up(&options, &mut say).await?) })
}

/// Applies the objects, unless they are there and nobody asked for others, and waits until all is Ready.
fn cloud(
    arguments: &Arguments,
    bundle: &Bundle,
    namespace: &str,
    name: &str,
    start: Instant,
) -> Result<(), Failure> {
    let target = Target::embedded(&arguments.place, namespace);
    let asked = arguments.file.is_some() || arguments.profile.is_some();
    block_on(async {
        let client = target.client().await?;
        for namespace in bundle.namespaces() {
            apply::namespace(&client, namespace).await?;
        }
        for object in bundle.exposures().iter().chain(&bundle.objects) {
            if asked || !apply::exists(&client, object).await? {
                apply::apply(&client, object).await?;
            }
        }
        let mut say = |line: &str| tell(start, line);
        let patience = Duration::from_secs(arguments.wait);
        if progress::follow(&client, namespace, name, patience, &mut say).await? {
            return Ok(());
        }
        let seen = snapshot::read(&client, namespace).await?;
        let blocked = explain::start(&seen, None)
            .ok()
            .flatten()
            .map(|object| words(&explain::explain(&seen, object)))
            .unwrap_or_default();
        Err(Failure::NotReady(format!(
            "the cloud is not ready after {} s; it goes on, `c5c3 up` waits again\n\n{blocked}",
            arguments.wait
        )))
    })
}

fn finish(arguments: &Arguments, up: &up::Up, bundle: &Bundle, start: Instant) {
    let state = if arguments.place.is_default() {
        String::new()
    } else {
        format!(" --state-dir {}", arguments.place.state_dir.display())
    };
    if bundle.planes.is_empty() {
        println!(
            "{}",
            if up.already {
                "It runs already."
            } else {
                "It runs."
            }
        );
    } else {
        println!(
            "\nThe cloud is ready after {:.1} s.\n",
            start.elapsed().as_secs_f32()
        );
        println!("Use it:");
        println!("  c5c3 openstack{state} token issue        the openstack command, logged in as admin");
        println!("  c5c3 status{state}                       all of it on one screen");
        println!("  eval \"$(c5c3 env{state})\"                the login for any other client");
    }
    println!("\nLook into it:\n  export KUBECONFIG={}", up.kubeconfig.display());
    if bundle.planes.is_empty() {
        println!("  kubectl get nodes");
    } else {
        println!("  kubectl -n openstack get controlplane,pods");
    }
    println!("\nStop it:\n  c5c3 down{state}");
}
