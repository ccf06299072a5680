//! `c5c3 image …`: the arguments.

mod actions;
mod bundle;
mod images;
mod registry;
mod workspace;

pub use bundle::{BundleCommand, ChartFiles};
pub use images::Images;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::error::{Error, Result};
use crate::output::Format;

/// The default image store.
pub const STORE: &str = "/var/lib/c5c3/images";

/// Build and manage the container images of the control plane.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image build                          all images of a release
  c5c3 image build keystone mariadb         two images and the layers below them
  c5c3 image list
  c5c3 image import --socket /run/containerd/containerd.sock")]
pub struct ImageCommand {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Clone, Args)]
struct Common {
    /// Where images, layers and caches are kept
    #[arg(
        long,
        global = true,
        env = "C5C3_IMAGE_STORE",
        default_value = "/var/lib/c5c3/images"
    )]
    store: PathBuf,
    /// Directory of recipes and releases to use instead of the built-in ones
    #[arg(long, global = true, env = "C5C3_IMAGES_DIR")]
    images_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Build(BuildArgs),
    Check(CheckArgs),
    Diff(DiffArgs),
    Disk(DiskArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Inspect(InspectArgs),
    Key(KeyArgs),
    List(ListArgs),
    Lock(LockArgs),
    Mirror(MirrorArgs),
    Options(OptionsArgs),
    Prune(PruneArgs),
    Pull(PullArgs),
    Push(PushArgs),
    Sbom(SbomArgs),
    Sign(SignArgs),
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct Output {
    /// How to write the result
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// Build images; existing layers are reused
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image build
  c5c3 image build keystone --release 2026.1
  c5c3 image build c5c3 --input c5c3=target/release/c5c3")]
struct BuildArgs {
    /// Images to build [default: all of the release]
    names: Vec<String>,
    #[command(flatten)]
    release: ReleaseArg,
    /// Number of layers to build at a time [default: the number of processors]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// File that a recipe needs as an input
    #[arg(long = "input", value_name = "NAME=PATH")]
    inputs: Vec<String>,
    /// Print nothing while building
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct ReleaseArg {
    /// The OpenStack release
    #[arg(long, default_value = "2025.2")]
    release: String,
}

/// Start a container of each image, unprivileged and read-only, and ask it for its version
#[derive(Debug, Args)]
#[command(after_help = "Needs runc. The images must be built.

Examples:
  c5c3 image check
  c5c3 image check keystone -o json")]
struct CheckArgs {
    /// Images to check; all of the release that are built when none is named
    names: Vec<String>,
    #[command(flatten)]
    release: ReleaseArg,
    /// File that a recipe needs as an input
    #[arg(long = "input", value_name = "NAME=PATH")]
    inputs: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Compare two images: packages and sizes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image diff keystone:28.1.0 keystone:29.1.0
  c5c3 image diff keystone:28.1.0 keystone:29.1.0 -o json")]
struct DiffArgs {
    from: String,
    to: String,
    #[command(flatten)]
    output: Output,
}

/// Print the path of a virtual machine's disk image, or write the disk to a file
#[derive(Debug, Args)]
#[command(after_help = "The disk is raw and must not be changed in place.

Examples:
  openstack image create guest --disk-format raw --file $(c5c3 image disk guest)
  c5c3 image disk guest --file guest.raw")]
struct DiskArgs {
    /// A name, name:tag or full reference
    #[arg(default_value = "guest")]
    name: String,
    /// The file to write
    #[arg(long)]
    file: Option<PathBuf>,
}

/// Write images to a file, as an OCI archive
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image export --file all.tar
  c5c3 image export keystone mariadb --file two.tar")]
struct ExportArgs {
    /// Images to write; all when none is named
    names: Vec<String>,
    /// The file to write
    #[arg(long)]
    file: PathBuf,
}

/// Import images into containerd; existing ones are skipped
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image import
  c5c3 image import keystone --socket /run/c5c3/containerd.sock")]
struct ImportArgs {
    /// Images to import; all when none is named
    names: Vec<String>,
    /// The socket of containerd
    #[arg(long, default_value = "/run/containerd/containerd.sock")]
    socket: PathBuf,
    /// The namespace of containerd; Kubernetes uses k8s.io
    #[arg(long, default_value = "k8s.io")]
    namespace: String,
}

/// Show an image: how it starts, its layers and its packages
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image inspect keystone
  c5c3 image inspect ghcr.io/c5c3/keystone:28.1.0 -o yaml")]
struct InspectArgs {
    /// A name, name:tag or full reference
    image: String,
    #[command(flatten)]
    output: Output,
}

/// List the images in the store
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  c5c3 image list
  c5c3 image list -o json"
)]
struct ListArgs {
    #[command(flatten)]
    output: Output,
}

/// Pin the packages of a release with uv, within its upper-constraints and overrides
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

/// Collect the configuration options of the service images and store them with the release
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
    #[command(flatten)]
    release: ReleaseArg,
}

/// Remove layers and blobs that no image needs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image prune --dry-run
  c5c3 image prune keystone:28.0.0
  c5c3 image prune --cache")]
struct PruneArgs {
    /// Images to remove as well
    names: Vec<String>,
    /// Also remove the downloaded packages
    #[arg(long)]
    cache: bool,
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

/// Send images to a registry, each with its bill of materials
#[derive(Debug, Args)]
#[command(
    after_help = "Logins are those of `docker login` (~/.docker/config.json). A registry on this machine's
loopback is spoken to by HTTP, all others by HTTPS.

Examples:
  c5c3 image push nova:32.2.1 --to registry.example/cloud
  c5c3 image push --to localhost:5000"
)]
struct PushArgs {
    /// Images to send; all when none is named
    names: Vec<String>,
    /// Destination; the images are named REGISTRY/PATH/<image>:<version>
    #[arg(long, value_name = "REGISTRY/PATH")]
    to: String,
}

/// Fetch images from a registry under the names that `c5c3 up` uses, each with its bill of materials
#[derive(Debug, Args)]
#[command(
    after_help = "The reverse of `push`. Every blob is checked against its digest.

Examples:
  c5c3 image pull --from registry.example/cloud
  c5c3 image pull nova neutron --from registry.example/cloud --key cosign.pub"
)]
struct PullArgs {
    /// Images to fetch, NAME or NAME:TAG; all of the release when none is named
    names: Vec<String>,
    /// Source; the images are named REGISTRY/PATH/<image>:<version>
    #[arg(long, value_name = "REGISTRY/PATH")]
    from: String,
    /// Accept only images signed by the owner of this public key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    release: ReleaseArg,
}

/// Copy images from one registry to another, through the store
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image mirror --from registry.example/cloud --to registry.internal/cloud --key cosign.pub")]
struct MirrorArgs {
    #[command(flatten)]
    pull: PullArgs,
    /// Destination; the images are named REGISTRY/PATH/<image>:<version>
    #[arg(long, value_name = "REGISTRY/PATH")]
    to: String,
}

/// Create a key pair for signing images
#[derive(Debug, Args)]
#[command(
    after_help = "Keep the private key secret; it is not encrypted. cosign and openssl read both files.

Examples:
  c5c3 image key --file cosign.key      writes cosign.key and cosign.pub"
)]
struct KeyArgs {
    /// The file for the private key; the public one ends with .pub
    #[arg(long, value_name = "FILE", default_value = "cosign.key")]
    file: PathBuf,
}

/// Sign images and their bills of materials, in cosign's formats
#[derive(Debug, Args)]
#[command(
    after_help = "Signatures are kept with the images; `c5c3 image push` sends them along.

Examples:
  c5c3 image sign --key cosign.key
  c5c3 image sign nova:32.2.1 --key cosign.key"
)]
struct SignArgs {
    /// Images to sign; all when none is named
    names: Vec<String>,
    /// The file of the private key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Check the signatures of images and of their bills of materials
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image verify --key cosign.pub
  c5c3 image verify nova:32.2.1 --key cosign.pub")]
struct VerifyArgs {
    /// Images to check; all when none is named
    names: Vec<String>,
    /// The file of the public key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Print the bill of materials of an image, CycloneDX 1.6 as JSON
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 image sbom nova:32.2.1 > nova.cdx.json")]
struct SbomArgs {
    /// A name, name:tag or full reference
    image: String,
}

impl ImageCommand {
    pub fn run(self) -> Result<(), Error> {
        let common = &self.common;
        match self.command {
            Sub::Build(args) => actions::build(common, &args),
            Sub::Check(args) => actions::check(common, &args),
            Sub::Diff(args) => actions::diff(common, &args),
            Sub::Disk(args) => actions::disk(common, &args),
            Sub::Export(args) => actions::export(common, &args),
            Sub::Import(args) => actions::import(common, &args),
            Sub::Inspect(args) => actions::inspect(common, &args),
            Sub::Key(args) => registry::key(&args),
            Sub::List(args) => actions::list(common, &args),
            Sub::Lock(args) => actions::lock(common, &args),
            Sub::Mirror(args) => registry::mirror(common, &args),
            Sub::Options(args) => actions::options(common, &args),
            Sub::Prune(args) => actions::prune(common, &args),
            Sub::Pull(args) => registry::pull(common, &args).map(drop),
            Sub::Push(args) => registry::push(common, &args),
            Sub::Sbom(args) => actions::sbom(common, &args),
            Sub::Sign(args) => registry::sign(common, &args),
            Sub::Verify(args) => registry::verify(common, &args),
        }
    }
}
