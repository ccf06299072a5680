//! `c5c3 image …`

use std::collections::BTreeMap;
use std::fs::{self, File};
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
use crate::store::{Record, Store};
use crate::tarball::Hashed;
use crate::{lock, options};

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
    #[arg(
        long,
        global = true,
        env = "C5C3_IMAGE_STORE",
        default_value = "/var/lib/c5c3/images"
    )]
    store: PathBuf,
    /// Recipes and releases from this directory instead of those in the program
    #[arg(long, global = true, env = "C5C3_IMAGES_DIR")]
    images_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Build(BuildArgs),
    Lock(LockArgs),
    Options(OptionsArgs),
}

/// Ask the service images for their configuration options and keep the answers with the release
#[derive(Debug, Args)]
#[command(
    after_help = "Writes releases/<RELEASE>/options/<service>.json below --images-dir.

Examples:
  c5c3 image options --images-dir images
  c5c3 image options nova --release 2026.1 --images-dir images"
)]
struct OptionsArgs {
    /// Services to ask; all of the release when none is named
    names: Vec<String>,
    /// The OpenStack release
    #[arg(long, default_value = "2025.2")]
    release: String,
}

/// Make the pins of a release with uv, within its upper-constraints and overrides
#[derive(Debug, Args)]
#[command(
    after_help = "Writes releases/<RELEASE>/pins.txt and sets.yaml (or debian.yaml) below --images-dir.

Examples:
  c5c3 image lock 2026.1 --images-dir images
  c5c3 image lock 2025.2 --images-dir images --debian"
)]
struct LockArgs {
    /// The OpenStack release
    release: String,
    /// Record the Debian packages of the layers in the store instead
    #[arg(long)]
    debian: bool,
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
            Sub::Lock(args) => lock(&self.common, &data, &args),
            Sub::Options(args) => options(&self.common, &data, &args),
        }
    }
}

/// What a build and its relatives work with.
struct Workshop {
    recipes: Recipes,
    release: ReleaseData,
    store: Store,
    progress: Progress,
    host: Host,
    given: Given,
}

impl Workshop {
    fn open(common: &Common, data: &Data, release: &str, inputs: &[String]) -> Result<Self> {
        Ok(Self {
            recipes: Recipes::load(data)?,
            release: ReleaseData::load(data, release)?,
            given: given(inputs)?,
            store: Store::open(&common.store)?,
            progress: Progress::new(false),
            host: Host::gather(),
        })
    }

    fn plan(&self, names: &[String]) -> Result<Plan> {
        Plan::make(&Request {
            recipes: &self.recipes,
            release: &self.release,
            names,
            given: &self.given,
            architecture: std::env::consts::ARCH,
            own_version: env!("CARGO_PKG_VERSION"),
        })
    }

    fn builder(&self, jobs: Option<usize>) -> Builder<'_> {
        Builder {
            store: &self.store,
            host: &self.host,
            recipes: &self.recipes,
            release: &self.release,
            progress: &self.progress,
            lanes: jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from)),
        }
    }
}

/// The directory of a release to write to.
fn release_directory(data: &Data, release: &str) -> Result<PathBuf> {
    let directory = data.directory().ok_or_else(|| {
        Error::Request("this writes beside the recipes: name their directory with --images-dir".into())
    })?;
    Ok(directory.join("releases").join(release))
}

fn options(common: &Common, data: &Data, args: &OptionsArgs) -> Result<()> {
    let directory = release_directory(data, &args.release)?.join("options");
    fs::create_dir_all(&directory).context("creating", &directory)?;
    let shop = Workshop::open(common, data, &args.release, &[])?;
    // A service is what shares the common packages; a client has no configuration of this kind.
    let shared = shop
        .recipes
        .iter()
        .filter_map(|recipe| recipe.python.as_ref())
        .flat_map(|python| &python.shared_by);
    let services: Vec<String> = shared
        .map(|name| name.value.clone())
        .filter(|name| shop.release.release.versions.contains_key(name))
        .filter(|name| args.names.is_empty() || args.names.contains(name))
        .collect();
    if let Some(unknown) = args.names.iter().find(|name| !services.contains(name)) {
        return Err(Error::Request(format!(
            "release {} has no service `{unknown}` to ask",
            args.release
        )));
    }
    let plan = shop.plan(&services)?;
    shop.builder(None).build(&plan)?;
    for image in &plan.images {
        let chain = image
            .layers
            .iter()
            .map(|index| shop.store.layer(&plan.layers[*index].key));
        let layers: Vec<Record> = chain.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        let python = image
            .layers
            .iter()
            .find_map(|index| plan.layers[*index].inputs.python.as_ref());
        let environment = python
            .map(|python| python.environment.as_str())
            .unwrap_or_default();
        let catalogue = options::ask(&shop.store, &image.recipe, &image.version, &layers, environment)?;
        let path = directory.join(format!("{}.json", image.recipe));
        fs::write(&path, catalogue.render()).context("writing", &path)?;
        let count: usize = catalogue.groups.values().map(BTreeMap::len).sum();
        shop.progress.note(&format!(
            "{:<16} {count} options in {} groups",
            image.recipe,
            catalogue.groups.len()
        ));
    }
    Ok(())
}

fn lock(common: &Common, data: &Data, args: &LockArgs) -> Result<()> {
    let directory = release_directory(data, &args.release)?;
    let shop = Workshop::open(common, data, &args.release, &[])?;
    let builder = shop.builder(None);
    if args.debian {
        let names: Vec<String> = shop.recipes.images().map(|recipe| recipe.name.clone()).collect();
        let known = names
            .into_iter()
            .filter(|name| shop.release.release.versions.contains_key(name));
        let plan = shop.plan(&known.collect::<Vec<_>>())?;
        let count = lock::save_debian(&directory, &builder, &plan)?;
        shop.progress.note(&format!("{count} Debian packages recorded"));
        return Ok(());
    }
    let file = format!("releases/{}/upper-constraints.txt", args.release);
    let limits = data.get(&file).unwrap_or_default();
    let wanted = lock::Wanted::gather(&builder)?;
    // The lowest layer that has Python: what makes the environment lies directly on it.
    let python = shop
        .recipes
        .iter()
        .find(|recipe| crate::graph::environment(recipe).is_some());
    let base = python
        .and_then(|recipe| recipe.base.as_ref())
        .map(|base| base.value.clone());
    let base = base.ok_or_else(|| Error::Request("no recipe makes a Python environment".into()))?;
    let locked = lock::resolve(&builder, &shop.plan(&[base])?, &wanted, limits)?;
    lock::save(&directory, &locked)?;
    let count = crate::pins::Pins::parse("pins.txt", &locked.pins)?.0.len();
    shop.progress.note(&format!(
        "{count} packages pinned for {} services",
        wanted.services.len()
    ));
    Ok(())
}

fn build(common: &Common, data: &Data, args: &BuildArgs) -> Result<()> {
    let shop = Workshop::open(common, data, &args.release, &args.inputs)?;
    let outcome = shop.builder(args.jobs).build(&shop.plan(&args.names)?)?;
    let progress = &shop.progress;
    for (reference, digest) in &outcome.images {
        println!("{reference} {digest}");
    }
    progress.note(&format!(
        "{} images, {} layers built",
        outcome.images.len(),
        outcome.made.len()
    ));
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
