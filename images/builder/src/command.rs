//! `c5c3 image …`

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::build::Builder;
use crate::data::Data;
use crate::error::{Context, Error, Result};
use crate::graph::Recipes;
use crate::host::Host;
use crate::plan::{Given, Plan, Request};
use crate::progress::Progress;
use crate::release::ReleaseData;
use crate::store::Store;
use crate::tarball::Hashed;

/// Build and look after the container images of the control plane.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image build                          all images of the newest complete release
  c5c3 image build keystone mariadb         two images and the layers below them
  c5c3 image list
  c5c3 image import --socket /run/containerd/containerd.sock")]
pub struct ImageCommand {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Args)]
struct Common {
    /// Where images, layers and caches are kept
    #[arg(long, global = true, env = "C5C3_IMAGE_STORE", default_value = "/var/lib/c5c3/images")]
    store: PathBuf,
    /// Recipes and releases from this directory instead of those in the program
    #[arg(long, global = true, env = "C5C3_IMAGES_DIR")]
    images_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Build(BuildArgs),
}

/// Build images: what is there already is not built again
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image build
  c5c3 image build keystone --release 2026.1
  c5c3 image build c5c3 --input c5c3=target/release/c5c3")]
struct BuildArgs {
    /// Images to build; all of the release when none is named
    names: Vec<String>,
    /// The OpenStack release
    #[arg(long, default_value = "2025.2")]
    release: String,
    /// Layers to build at the same time; as many as there are processors when not given
    #[arg(long)]
    jobs: Option<usize>,
    /// A file that a recipe asks for
    #[arg(long = "input", value_name = "NAME=PATH")]
    inputs: Vec<String>,
}

impl ImageCommand {
    pub fn run(self) -> Result<(), Error> {
        let data = match &self.common.images_dir {
            Some(directory) => Data::read(directory)?,
            None => Data::embedded(),
        };
        match self.command {
            Sub::Build(args) => build(&self.common, &data, &args),
        }
    }
}

fn build(common: &Common, data: &Data, args: &BuildArgs) -> Result<()> {
    let recipes = Recipes::load(data)?;
    let release = ReleaseData::load(data, &args.release)?;
    let given = given(&args.inputs)?;
    let plan = Plan::make(&Request {
        recipes: &recipes,
        release: &release,
        names: &args.names,
        given: &given,
        architecture: std::env::consts::ARCH,
        own_version: env!("CARGO_PKG_VERSION"),
    })?;
    let store = Store::open(&common.store)?;
    let progress = Progress::new(false);
    let host = Host::gather();
    let lanes = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    let builder =
        Builder { store: &store, host: &host, recipes: &recipes, release: &release, progress: &progress, lanes };
    let outcome = builder.build(&plan)?;
    for (reference, digest) in &outcome.images {
        println!("{reference} {digest}");
    }
    progress.note(&format!("{} images, {} layers built", outcome.images.len(), outcome.made.len()));
    Ok(())
}

/// `NAME=PATH` arguments with the digests of their files. The running program is `c5c3` when it is called so.
fn given(inputs: &[String]) -> Result<Given> {
    let mut given = Given::new();
    if let Ok(own) = std::env::current_exe()
        && own.file_name().is_some_and(|name| name == "c5c3")
    {
        given.insert("c5c3".into(), (own.clone(), digest(&own)?));
    }
    for input in inputs {
        let (name, path) = input
            .split_once('=')
            .ok_or_else(|| Error::Request(format!("--input {input}: write NAME=PATH")))?;
        let path = PathBuf::from(path);
        given.insert(name.to_owned(), (path.clone(), digest(&path)?));
    }
    Ok(given)
}

fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).context("reading", path)?;
    let mut hashed = Hashed::new(std::io::sink());
    std::io::copy(&mut file, &mut hashed).context("reading", path)?;
    let (_, digest, _) = hashed.finish();
    Ok(digest)
}
