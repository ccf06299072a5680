//! The pipeline for programs that need images, such as `c5c3 up`.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use c5c3_catalogue::Release;

use super::Common;
use super::workspace::Workspace;
use crate::build::disk;
use crate::build::progress::Progress;
use crate::error::Error;
use crate::oci::import::{Containerd, choose};
use crate::oci::run::{self, Call};
use crate::oci::store::Store;

/// The images in one store.
#[derive(Debug, Clone)]
pub struct Images {
    common: Common,
}

impl Images {
    /// Recipes and releases are those of the program.
    pub fn at(store: &Path) -> Self {
        Self {
            common: Common {
                store: store.to_owned(),
                images_dir: None,
            },
        }
    }

    /// Builds what is missing of some images (all of the release when none is named) and gives their
    /// references. `tell` hears a line for each step.
    pub fn build(
        &self,
        release: &str,
        names: &[String],
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Vec<String>, Error> {
        let shop = Workspace::open(&self.common, release, &[], Progress::new(tell))?;
        let outcome = shop.builder(None).build(&shop.plan(names)?)?;
        Ok(outcome
            .images
            .into_iter()
            .map(|(reference, _)| reference)
            .collect())
    }

    /// The file of a virtual machine's disk that was built: raw, not to be changed.
    pub fn disk(&self, release: &str, name: &str) -> Result<PathBuf, Error> {
        let reference = Release::load(release)?.image(name);
        let reference =
            reference.ok_or_else(|| Error::Request(format!("the release {release} has no disk {name}")))?;
        disk::path(&Store::existing(&self.common.store)?, &reference)
    }

    /// Runs a program of an image on this machine, with the caller's terminal and files.
    pub fn run(&self, release: &str, name: &str, call: &Call) -> Result<ExitStatus, Error> {
        let shop = Workspace::open(&self.common, release, &[], Progress::to_stderr(true))?;
        let plan = shop.plan(&[name.to_owned()])?;
        let image = plan
            .images
            .first()
            .ok_or_else(|| Error::Request(format!("the release {release} has no image {name}")))?;
        let layers = shop.layers(&plan, image)?.ok_or_else(|| Error::NoImage {
            reference: image.references.first().cloned().unwrap_or_default(),
            store: shop.store.root().to_owned(),
        })?;
        run::run(&shop.store, shop.recipes.get(&image.recipe)?, &layers, call)
    }

    /// Brings images into containerd (all when none is named); gives those that were not there yet.
    pub fn import(&self, socket: &Path, namespace: &str, names: &[String]) -> Result<Vec<String>, Error> {
        let store = Store::existing(&self.common.store)?;
        let imported = Containerd { socket, namespace }.import(&store, &choose(&store, names)?)?;
        Ok(imported
            .iter()
            .map(|image| image.reference().to_owned())
            .collect())
    }
}
