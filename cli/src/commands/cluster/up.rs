//! `c5c3 up`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use c5c3_api::c5c3::ControlPlane;
use c5c3_image_builder::Images;
use clap::{Args, ValueEnum};
use embedded_node::cluster::plan::ClusterPlan;
use embedded_node::cluster::{Plan, up};
use kube::{Api, Client, ResourceExt};

use super::farewell::farewell;
use super::{Place, absolute, failed, own};
use crate::cloud::access::Target;
use crate::cloud::profile::{Bundle, exposures};
use crate::cloud::{apply, explain, images, progress, snapshot};
use crate::commands::block_on;
use crate::commands::cloud::explain::words;
use crate::failure::Failure;
use crate::output::{print, say_when};

const EXAMPLES: &str = "\
Examples:
  c5c3 up                          a small cloud, or go on where it was
  c5c3 up --profile ha             three replicas of everything on three nodes
  c5c3 up -f my-cloud.yaml         a ControlPlane of your own, or any other objects
  c5c3 up --profile none           the cluster and all operators, without a cloud
  c5c3 up --nodes 3 --hypervisors 2
  c5c3 up --cluster control-plane=3 --cluster hypervisor=2
  c5c3 up --cluster-only           a plain Kubernetes, without kinds and operators of CobaltCore

Without --profile and --file it waits for the clouds that are there, and makes a small one when
there is none. What names no namespace in a file belongs to `openstack`. It can be stopped at any
time: what runs goes on, and `c5c3 up` again waits for the rest.

Exit codes: 2 when a file or a directory is refused, 4 when the cloud is not ready in time.";

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
    /// So many of the nodes run guests, the last ones.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=32))]
    hypervisors: u8,
    /// A cluster with nodes of its own, the first for what names none [default: one for everything]
    #[arg(long = "cluster", value_name = "NAME=NODES", conflicts_with_all = ["nodes", "hypervisors"])]
    clusters: Vec<ClusterPlan>,
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
    /// Store of images, that of `c5c3 image`.
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_IMAGE_STORE",
        value_parser = absolute,
        default_value = c5c3_image_builder::STORE
    )]
    image_store: PathBuf,
}

impl Arguments {
    /// What is asked for; `None` when the clouds that are there already decide.
    fn asked(&self) -> Result<Option<Bundle>, Failure> {
        let known = self.place.path().join("api").exists();
        match (&self.file, self.profile) {
            _ if self.cluster_only => Ok(Some(Bundle::default())),
            (Some(file), _) => {
                let bundle = self.parse(&read(file)?)?;
                if bundle.objects.is_empty() {
                    return Err(Failure::Usage(format!("{}: it holds no object", file.display())));
                }
                Ok(Some(bundle))
            }
            (None, Some(profile)) => self.parse(profile.text().unwrap_or_default()).map(Some),
            (None, None) if known => Ok(None),
            (None, None) => self.small().map(Some),
        }
    }

    fn small(&self) -> Result<Bundle, Failure> {
        self.parse(Profile::Small.text().unwrap_or_default())
    }

    fn parse(&self, text: &str) -> Result<Bundle, Failure> {
        let named = |error| match &self.file {
            Some(file) => Failure::Usage(format!("{}: {error}", file.display())),
            None => Failure::Usage(error),
        };
        Bundle::parse(text)
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
    let asked = arguments.asked()?;
    let start = Instant::now();
    let store = &arguments.image_store;
    // Images are built while the cluster starts, when it is clear which.
    let building = asked.as_ref().and_then(|bundle| build(store, bundle, start));
    let machine = asked.as_ref().map(|bundle| bundle.machine.clone());
    let up = cluster(arguments, machine.unwrap_or_default(), start)?;
    let bundle = match asked {
        Some(bundle) => bundle,
        None => block_on(present(arguments))?,
    };
    if let Some(building) = building.or_else(|| build(store, &bundle, start)) {
        building
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    if !bundle.objects.is_empty() || !bundle.planes.is_empty() {
        block_on(bring(arguments, &bundle, start))?;
    }
    print(&farewell(&arguments.place, &up, &bundle, start.elapsed()))
}

type Building = std::thread::JoinHandle<Result<(), c5c3_image_builder::Error>>;

/// Builds what is missing, beside whatever else happens.
fn build(store: &Path, bundle: &Bundle, start: Instant) -> Option<Building> {
    let wanted = images::wanted(bundle);
    if wanted.is_empty() {
        return None;
    }
    let store = Images::at(store);
    Some(std::thread::spawn(move || {
        for (release, names) in wanted {
            store.build(&release, &names, move |line| say_when(start, line.trim_start()))?;
        }
        Ok(())
    }))
}

fn cluster(arguments: &Arguments, mut plan: Plan, start: Instant) -> Result<up::Up, Failure> {
    plan.clusters.extend(arguments.clusters.iter().cloned());
    let state = arguments.place.path().to_string_lossy().into_owned();
    let store = arguments.image_store.to_string_lossy().into_owned();
    let mut command = vec!["daemon", "--state-dir", &state, "--image-store", &store];
    if arguments.cluster_only {
        command.push("--cluster-only");
    }
    // Clusters say their nodes themselves.
    let ha = arguments.profile == Some(Profile::Ha) && plan.clusters.is_empty();
    let options = up::Options {
        state: arguments.place.path().to_owned(),
        plan,
        nodes: arguments.nodes.or(ha.then_some(3)),
        hypervisors: arguments.hypervisors,
        registries: arguments.registries.clone(),
        daemon: own(&command)?,
    };
    let mut say = |line: &str| say_when(start, line);
    block_on(async { up::up(&options, &mut say).await.map_err(failed) })
}

/// The clouds that are there, else a small one.
async fn present(arguments: &Arguments) -> Result<Bundle, Failure> {
    let client = Target::embedded(&arguments.place).client().await?;
    let planes = match Api::<ControlPlane>::all(client).list(&Default::default()).await {
        Ok(list) => list.items,
        // Applying a cloud will say what to do about a cluster without our kinds.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let staying = |plane: &ControlPlane| plane.metadata.deletion_timestamp.is_none();
    let planes: Vec<ControlPlane> = planes.into_iter().filter(staying).collect();
    if planes.is_empty() {
        return arguments.small();
    }
    Ok(Bundle::of(planes))
}

/// Applies the objects and waits until every cloud among them is ready.
async fn bring(arguments: &Arguments, bundle: &Bundle, start: Instant) -> Result<(), Failure> {
    let client = Target::embedded(&arguments.place).client().await?;
    for object in &bundle.objects {
        apply::apply(&client, object).await?;
    }
    for plane in &bundle.planes {
        let api: Api<ControlPlane> = Api::namespaced(client.clone(), &place(plane));
        // As the server knows it: what belongs to it names its uid.
        for service in exposures(&api.get(&plane.name_any()).await?) {
            apply::apply(&client, &service).await?;
        }
    }
    let began = Instant::now();
    for plane in &bundle.planes {
        let patience = Duration::from_secs(arguments.wait).saturating_sub(began.elapsed());
        let mut say = |line: &str| say_when(start, line);
        if !progress::follow(&client, &place(plane), &plane.name_any(), patience, &mut say).await? {
            return Err(late(&client, plane, arguments.wait).await?);
        }
    }
    Ok(())
}

/// Reading a file has given it a namespace, and so has the server.
fn place(plane: &ControlPlane) -> String {
    plane.namespace().unwrap_or_default()
}

async fn late(client: &Client, plane: &ControlPlane, wait: u64) -> Result<Failure, Failure> {
    let seen = snapshot::read(client, &place(plane)).await?;
    let blocked = explain::start(&seen, None)
        .ok()
        .flatten()
        .map(|object| words(&explain::explain(&seen, object)))
        .unwrap_or_default();
    Ok(Failure::NotReady(format!(
        "the cloud is not ready after {wait} s; it goes on, `c5c3 up` waits again\n\n{blocked}"
    )))
}
