//! Images of the nodes: from an OCI layout on the machine into each node's containerd,
//! layers and blobs shared between nodes by hard links.

mod hardlink;
mod import;
mod pause;
mod reference;
mod registries;
mod registry;
#[cfg(test)]
mod seeds_tests;
pub mod store;
mod tags;
pub mod tiny;
mod turns;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;
use tonic::transport::Channel;

pub use import::Target;
pub use pause::write_pause;
pub use reference::{builder_name, normalise};
pub use registries::Registries;

use self::turns::Turns;
use crate::error::{Error, Result};
use crate::layout::NodeLayout;

/// The image stores of a machine and the nodes that have taken from them.
#[derive(Clone)]
pub struct Images {
    /// OCI layouts, the first that has an image wins.
    stores: Arc<Vec<PathBuf>>,
    tags: Arc<tags::Tags>,
    pulled: Arc<Pulled>,
    /// One import at a time: the second node finds the layers of the first.
    nodes: Arc<Mutex<BTreeMap<String, Target>>>,
}

/// What came from registries.
struct Pulled {
    layout: PathBuf,
    registries: Registries,
    /// Each image once: the second pod that wants it finds it. A slow one holds up no other.
    turns: Turns,
    /// The list of names is changed by one at a time.
    names: Mutex<()>,
}

impl Images {
    /// `pulled` is a layout of this cluster's own, for what comes from registries.
    pub fn new(stores: Vec<PathBuf>, pulled: PathBuf, registries: Registries) -> Self {
        Self {
            stores: Arc::new(stores),
            tags: Arc::default(),
            pulled: Arc::new(Pulled {
                layout: pulled,
                registries,
                turns: Turns::default(),
                names: Mutex::default(),
            }),
            nodes: Arc::default(),
        }
    }

    /// Forgets what was pulled; what nodes have taken of it stays theirs.
    pub fn drop_pulled(&self) {
        let _ = std::fs::remove_dir_all(&self.pulled.layout);
    }

    /// A node that takes images and gives its layers to others.
    pub async fn add_node(&self, layout: &NodeLayout, channel: Channel, snapshotter: &str) {
        let target = Target::new(layout, channel, snapshotter);
        self.nodes.lock().await.insert(layout.name.clone(), target);
    }

    pub async fn remove_node(&self, name: &str) {
        self.nodes.lock().await.remove(name);
    }

    /// Brings `reference` to the node: from the first store that has it, else from its
    /// registry; with `again`, a registry is asked even for what was pulled before. An image
    /// that is nowhere is an error that says what builds it. Gives the image's id.
    pub async fn provide(&self, node: &str, reference: &str, anew: bool) -> Result<String> {
        let wanted = normalise(reference);
        let found = match self.find(&self.stores, &wanted).await? {
            Some(image) => Some(image),
            None => self.pulled(reference, &wanted, anew).await?,
        };
        let Some(image) = found else {
            return Err(Error::said(self.missing(reference)));
        };
        let nodes = self.nodes.lock().await;
        let Some(target) = nodes.get(node) else {
            return Err(Error::said(format!("node {node} takes no images now")));
        };
        let donors: Vec<&Target> = nodes
            .iter()
            .filter(|(name, _)| *name != node)
            .map(|(_, target)| target)
            .collect();
        target.import(&image, &donors).await?;
        Ok(image.config.digest)
    }

    /// The id of the image that a local store has under this name now: for those the store is the
    /// truth, whatever a node has.
    pub async fn stored(&self, reference: &str) -> Result<Option<String>> {
        let (stores, tags, wanted) = (self.stores.clone(), self.tags.clone(), normalise(reference));
        blocking(move || first(&stores, |directory| tags.id(directory, &wanted))).await
    }

    async fn pulled(&self, reference: &str, wanted: &str, anew: bool) -> Result<Option<store::Image>> {
        let place = Arc::new(vec![self.pulled.layout.clone()]);
        let _turn = self.pulled.turns.of(wanted).await;
        // A layout that was cut short is no reason to fail: the image is fetched again, all of it.
        let found = self.find(&place, wanted).await;
        let damaged = found.is_err();
        let had = found.unwrap_or_default();
        let Pulled {
            layout,
            registries,
            names,
            ..
        } = &*self.pulled;
        let host = reference::parts(reference).map(|p| p.host).unwrap_or_default();
        if (had.is_some() && !anew) || !registries.allow(&host) {
            return Ok(had);
        }
        let entered = match registry::pull(wanted, layout, registries, damaged).await {
            Ok(fetched) => {
                let _one = names.lock().await;
                if damaged {
                    store::mend(layout);
                }
                fetched.enter(layout)
            }
            Err(e) => Err(e),
        };
        match entered {
            Ok(()) => self.find(&place, wanted).await,
            Err(e) if had.is_some() => {
                tracing::warn!("{e}; an earlier copy is used");
                Ok(had)
            }
            Err(e) => Err(e),
        }
    }

    async fn find(&self, stores: &Arc<Vec<PathBuf>>, wanted: &str) -> Result<Option<store::Image>> {
        let (stores, wanted) = (stores.clone(), wanted.to_owned());
        blocking(move || first(&stores, |directory| store::find(directory, &wanted))).await
    }

    fn missing(&self, reference: &str) -> String {
        let places: Vec<_> = self
            .stores
            .iter()
            .filter(|s| !s.ends_with("builtin"))
            .map(|s| s.display().to_string())
            .collect();
        let host = reference::parts(reference).map(|p| p.host).unwrap_or_default();
        let names = self.pulled.registries.names();
        // Names below `.local` are never a registry's.
        let registry = if host.is_empty() || host.ends_with(".local") {
            String::new()
        } else {
            format!(
                ", or let it come from its registry: {}",
                names.allow_registry(&host)
            )
        };
        format!(
            "image {reference:?} is not in the local store ({}): build it with `{} image build {}`{registry}",
            places.join(", "),
            names.program,
            builder_name(reference)
        )
    }

    /// The sandbox image, which every node needs first.
    pub async fn provide_pause(&self, node: &str) -> Result<()> {
        let pause = self.pulled.registries.names().pause();
        self.provide(node, &pause, false).await.map(drop)
    }
}

/// The answer of the first store that has one.
fn first<T>(stores: &[PathBuf], ask: impl Fn(&Path) -> Result<Option<T>>) -> Result<Option<T>> {
    for directory in stores {
        if let Some(found) = ask(directory)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::said(e.to_string()))?
}
