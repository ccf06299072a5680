//! The store, recipes and releases that a build and its relatives work with.

use std::path::PathBuf;

use super::Common;
use crate::build::builder::Builder;
use crate::build::host::Host;
use crate::build::plan::{Given, Image, Plan, Request};
use crate::build::progress::Progress;
use crate::error::{Error, Result};
use crate::oci::store::{Record, Store};
use crate::oci::tarball::digest;
use crate::oci::unpack::remove_tree;
use crate::sources::data::Data;
use crate::sources::graph::Recipes;
use crate::sources::release::ReleaseData;

pub(super) struct Workspace {
    pub data: Data,
    pub recipes: Recipes,
    pub release: ReleaseData,
    pub store: Store,
    pub progress: Progress,
    host: Host,
    given: Given,
}

impl Workspace {
    pub(super) fn open(
        common: &Common,
        release: &str,
        inputs: &[String],
        progress: Progress,
    ) -> Result<Self> {
        let data = match &common.images_dir {
            Some(directory) => Data::read(directory)?,
            None => Data::embedded(),
        };
        Ok(Self {
            recipes: Recipes::load(&data)?,
            release: ReleaseData::load(&data, release)?,
            data,
            given: given(inputs)?,
            store: Store::open(&common.store)?,
            progress,
            host: Host::gather(),
        })
    }

    pub(super) fn plan(&self, names: &[String]) -> Result<Plan> {
        let request = Request {
            recipes: &self.recipes,
            release: &self.release,
            names,
            given: &self.given,
            architecture: std::env::consts::ARCH,
            own_version: env!("CARGO_PKG_VERSION"),
        };
        if names.is_empty() {
            for (image, input) in request.passed_over() {
                self.progress
                    .note(&format!("{image:<16} left out: give --input {input}=PATH"));
            }
        }
        Plan::make(&request)
    }

    pub(super) fn builder(&self, jobs: Option<u16>) -> Builder<'_> {
        Builder {
            store: &self.store,
            host: &self.host,
            recipes: &self.recipes,
            release: &self.release,
            progress: &self.progress,
            schedule: jobs.map_or_else(
                || std::thread::available_parallelism().map_or(2, usize::from),
                usize::from,
            ),
        }
    }

    /// The layers of a planned image, when all are built.
    pub(super) fn layers(&self, plan: &Plan, image: &Image) -> Result<Option<Vec<Record>>> {
        image
            .layers
            .iter()
            .map(|index| self.store.layer(&plan.layers[*index].key))
            .collect()
    }

    /// Throws the unpacked trees away that no other layer needs.
    pub(super) fn tidy(&self, plan: &Plan) -> Result<()> {
        let leaves = plan.layers.iter().filter(|layer| !layer.is_base);
        leaves
            .map(|layer| self.store.tree(&layer.key))
            .try_for_each(|tree| remove_tree(&tree))
    }

    /// The directory of the release to write to.
    pub(super) fn release_directory(&self) -> Result<PathBuf> {
        let directory = self.data.directory().ok_or_else(|| {
            Error::Request("this writes beside the recipes: name their directory with --images-dir".into())
        })?;
        Ok(directory.join("releases").join(&self.release.release.name))
    }

    /// The services that share packages: what has a configuration of oslo's kind.
    pub(super) fn services(&self) -> Vec<String> {
        let pythons = self.recipes.iter().filter_map(|recipe| recipe.python.as_ref());
        let names = pythons
            .flat_map(|python| &python.shared_by)
            .map(|name| name.value.clone());
        names
            .filter(|name| self.release.release.versions.contains_key(name))
            .collect()
    }
}

/// `NAME=PATH` arguments with the digests of their files. `c5c3` names the running program.
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
