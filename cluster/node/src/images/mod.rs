//! Images of the nodes: from an OCI layout on the machine into each node's containerd,
//! layers and blobs shared between nodes by hard links.

mod hardlink;
mod import;
mod pause;
mod reference;
pub mod store;
pub mod tiny;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;
use tonic::transport::Channel;

pub use import::Target;
pub use pause::write_pause;
pub use reference::{builder_name, normalise};

use crate::containerd::PAUSE;
use crate::error::{Error, Result};
use crate::layout::NodeLayout;

/// The image stores of a machine and the nodes that have taken from them.
#[derive(Clone)]
pub struct Images {
    /// OCI layouts, the first that has an image wins.
    stores: Arc<Vec<PathBuf>>,
    /// One import at a time: the second node finds the layers of the first.
    nodes: Arc<Mutex<BTreeMap<String, Target>>>,
}

impl Images {
    pub fn new(stores: Vec<PathBuf>) -> Self {
        Self {
            stores: Arc::new(stores),
            nodes: Arc::default(),
        }
    }

    /// A node that takes images and gives its layers to others.
    pub async fn add_node(&self, layout: &NodeLayout, channel: Channel, snapshotter: &str) {
        let target = Target::new(layout, channel, snapshotter);
        self.nodes.lock().await.insert(layout.name.clone(), target);
    }

    pub async fn remove_node(&self, name: &str) {
        self.nodes.lock().await.remove(name);
    }

    /// Brings `reference` to the node, from the first store that has it. An image that
    /// is nowhere is an error that says what builds it.
    pub async fn provide(&self, node: &str, reference: &str) -> Result<()> {
        let wanted = normalise(reference);
        let found = self.find(&wanted).await?;
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
        target.import(&image, &donors).await
    }

    async fn find(&self, wanted: &str) -> Result<Option<store::Image>> {
        let (stores, wanted) = (self.stores.clone(), wanted.to_owned());
        tokio::task::spawn_blocking(move || {
            for directory in stores.iter() {
                if let Some(image) = store::find(directory, &wanted)? {
                    return Ok(Some(image));
                }
            }
            Ok(None)
        })
        .await
        .map_err(|e| Error::said(e.to_string()))?
    }

    fn missing(&self, reference: &str) -> String {
        let places: Vec<_> = self
            .stores
            .iter()
            .filter(|s| !s.ends_with("builtin"))
            .map(|s| s.display().to_string())
            .collect();
        format!(
            "image {reference:?} is not in the local store ({}): build it with `c5c3 image build {}`",
            places.join(", "),
            builder_name(reference)
        )
    }

    /// The sandbox image, which every node needs first.
    pub async fn provide_pause(&self, node: &str) -> Result<()> {
        self.provide(node, PAUSE).await
    }
}
