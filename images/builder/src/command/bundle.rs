//! `c5c3 bundle …`: one file with images and Helm charts, for places without a network.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use c5c3_catalogue::Release;
use clap::{Args, Subcommand};

use super::Common;
use super::actions::say;
use super::registry::{references, send};
use crate::error::{Context, Error, Result};
use crate::oci::key::{PrivateKey, PublicKey};
use crate::oci::registry::Repository;
use crate::oci::store::{Descriptor, Store};
use crate::oci::{archive, chart, sign};

/// The files of a Helm chart, by their path in its directory.
pub type ChartFiles<'a> = &'a [(&'a str, &'a str)];

/// Pack images and Helm charts into one file, for places without a network.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 bundle create --file cloud.tar
  c5c3 bundle load --file cloud.tar --to registry.internal/cloud
  helm install c5c3-crds oci://registry.internal/cloud/c5c3-crds -n c5c3-system --create-namespace")]
pub struct BundleCommand {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Create(CreateArgs),
    Load(LoadArgs),
}

/// Write the images of a release that are in the store, and the charts, to one file
#[derive(Debug, Args)]
#[command(
    after_help = "The file is an OCI archive. Images that were not built are left out and named.

Examples:
  c5c3 bundle create --file cloud.tar
  c5c3 bundle create keystone mariadb --file two.tar
  c5c3 bundle create --file cloud.tar --release 2025.2 --release 2026.1 --key cosign.key"
)]
struct CreateArgs {
    /// Images to pack [default: all of the release that are in the store]
    names: Vec<String>,
    /// The file to write
    #[arg(long)]
    file: PathBuf,
    /// The OpenStack release; may be given several times, for an update
    #[arg(long, default_value = "2025.2")]
    release: Vec<String>,
    /// Sign everything in it with this private key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Load a bundle into the store, and optionally send it to a registry
#[derive(Debug, Args)]
#[command(
    after_help = "Every part is checked against its digest; a damaged file leaves no image behind.

Examples:
  c5c3 bundle load --file cloud.tar
  c5c3 bundle load --file cloud.tar --key cosign.pub --to registry.internal/cloud"
)]
struct LoadArgs {
    /// The file to read
    #[arg(long)]
    file: PathBuf,
    /// Accept it only if everything in it is signed by the owner of this public key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Destination; images and charts are named REGISTRY/PATH/<name>:<version>
    #[arg(long, value_name = "REGISTRY/PATH")]
    to: Option<String>,
}

impl BundleCommand {
    pub fn run(self, charts: &[ChartFiles<'_>]) -> Result<()> {
        match self.command {
            Sub::Create(args) => create(&self.common, &args, charts),
            Sub::Load(args) => load(&self.common, &args),
        }
    }
}

fn create(common: &Common, args: &CreateArgs, charts: &[ChartFiles<'_>]) -> Result<()> {
    let key = args.key.as_deref().map(PrivateKey::read).transpose()?;
    let releases: Vec<Release> = (args.release.iter())
        .map(|name| Release::load(name))
        .collect::<Result<_, _>>()?;
    let store = Store::existing(&common.store)?;
    // Nothing is thrown away meanwhile.
    let _shared = store.share()?;
    let (mut parts, missing) = chosen(&store.index()?.manifests, &releases, &args.names)?;
    if parts.is_empty() {
        let releases = args.release.join(", ");
        return Err(Error::Request(format!(
            "the store {} has no image of {releases}: `c5c3 image build` makes them",
            common.store.display()
        )));
    }
    let registry = releases.first().map_or("", |release| &release.registry);
    for files in charts {
        parts.push(chart::put(&store, registry, files)?);
    }
    if let Some(key) = &key {
        parts.iter().try_for_each(|part| sign::sign(&store, part, key))?;
    }
    write_archive(&store, &parts, &args.file)?;
    for part in &parts {
        say(&format!("packed    {}\n", part.reference()));
    }
    for reference in missing {
        say(&format!(
            "left out  {reference}: not in the store; `c5c3 image build` makes it\n"
        ));
    }
    Ok(())
}

/// The images of some releases that exist, and the names of those that are missing. Pure.
fn chosen(
    known: &[Descriptor],
    releases: &[Release],
    names: &[String],
) -> Result<(Vec<Descriptor>, Vec<String>)> {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    let mut wanted = BTreeSet::new();
    for release in releases {
        wanted.extend(references(release, names)?);
    }
    for reference in wanted {
        match known.iter().find(|image| image.reference() == reference) {
            Some(image) => there.push(image.clone()),
            None => missing.push(reference),
        }
    }
    Ok((there, missing))
}

/// Writes images with all that is about them. A file that has the name is whole.
pub(super) fn write_archive(store: &Store, images: &[Descriptor], path: &Path) -> Result<()> {
    let mut half = path.as_os_str().to_owned();
    half.push(".part");
    let half = PathBuf::from(half);
    let file = File::create(&half).context("creating", &half)?;
    let everything = archive::with_referrers(store, images)?;
    let written = archive::write(store, &everything, BufWriter::with_capacity(1 << 20, &file))
        .and_then(|()| file.sync_all().context("writing", &half))
        .and_then(|()| fs::rename(&half, path).context("writing", path));
    if written.is_err() {
        // The failure before counts.
        let _ = fs::remove_file(&half);
    }
    written
}

fn load(common: &Common, args: &LoadArgs) -> Result<()> {
    // A wrong place is found before anything is read.
    let to = args.to.as_deref();
    to.map(|to| Repository::parse("--to", to)).transpose()?;
    let key = args.key.as_deref().map(PublicKey::read).transpose()?;
    let store = Store::open(&common.store)?;
    let parts = archive::read(&store, &args.file, key.as_ref())?;
    for part in &parts {
        say(&format!("loaded    {}\n", part.reference()));
    }
    to.map_or(Ok(()), |to| send(&store, &parts, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::registry::testing::image;

    #[test]
    fn what_was_not_built_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let release = Release::load("2025.2").unwrap();
        let built = release.image("keystone").unwrap();
        let known = [Descriptor {
            annotations: [(crate::oci::store::NAME.to_owned(), built.clone())].into(),
            ..image(&store)
        }];
        let all = release.versions.len();
        let (there, missing) = chosen(&known, &[release.clone(), release], &[]).unwrap();
        assert_eq!(there, known);
        assert_eq!(missing.len() + 1, all);
        assert!(!missing.contains(&built));
    }

    #[test]
    fn a_bundle_goes_from_one_store_to_another() {
        let directory = tempfile::tempdir().unwrap();
        let here = Store::open(&directory.path().join("here")).unwrap();
        let common = |name: &str| Common {
            store: directory.path().join(name),
            images_dir: None,
        };
        let release = Release::load("2025.2").unwrap();
        let built = Descriptor {
            annotations: [(crate::oci::store::NAME.to_owned(), release.image("nova").unwrap())].into(),
            ..image(&here)
        };
        let file = directory.path().join("cloud.tar");
        let args = CreateArgs {
            names: Vec::new(),
            file: file.clone(),
            release: vec![release.name.clone()],
            key: None,
        };
        let chart: ChartFiles<'_> = &[("Chart.yaml", "name: one\nversion: 0.1.0\n")];
        let empty = create(&common("here"), &args, &[chart]).unwrap_err().to_string();
        assert!(empty.contains("has no image of 2025.2"), "{empty}");
        here.update_index(|index| index.enter(vec![built])).unwrap();
        create(&common("here"), &args, &[chart]).unwrap();
        let args = LoadArgs {
            file,
            key: None,
            to: None,
        };
        load(&common("there"), &args).unwrap();
        let there = Store::existing(&common("there").store).unwrap();
        there.find("nova").unwrap();
        there.find("one:0.1.0").unwrap();
    }
}
