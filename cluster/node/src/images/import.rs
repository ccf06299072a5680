//! An image into a node's containerd: blobs, unpacked layers, then its name. A lease
//! keeps the parts from being collected until the name refers to them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::diff_client::DiffClient;
use containerd_client::services::v1::images_client::ImagesClient;
use containerd_client::services::v1::leases_client::LeasesClient;
use containerd_client::services::v1::snapshots::snapshots_client::SnapshotsClient;
use containerd_client::services::v1::snapshots::{
    CommitSnapshotRequest, PrepareSnapshotRequest, RemoveSnapshotRequest, StatSnapshotRequest,
    ViewSnapshotRequest,
};
use containerd_client::services::v1::{
    ApplyRequest, CreateImageRequest, CreateRequest, DeleteRequest, Image as ImageRecord, UpdateImageRequest,
    WriteAction, WriteContentRequest,
};
use containerd_client::types::{Descriptor as WireDescriptor, Mount};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::hardlink;
use super::store::{self, Descriptor, Image};
use crate::error::{Error, Result};
use crate::layout::NodeLayout;

const NAMESPACE: &str = "k8s.io";
const CHUNK: usize = 1 << 20;

/// A node's containerd as a receiver and giver of layers.
#[derive(Clone)]
pub struct Target {
    channel: Channel,
    root: PathBuf,
    snapshotter: String,
}

/// The parts of an import that share a lease.
struct Session<'a> {
    target: &'a Target,
    lease: String,
}

fn failed(call: &'static str) -> impl FnOnce(Status) -> Error {
    move |status| Error::Runtime {
        call,
        status: Box::new(status),
    }
}

fn wire(descriptor: &Descriptor) -> WireDescriptor {
    WireDescriptor {
        media_type: descriptor.media_type.clone(),
        digest: descriptor.digest.clone(),
        size: descriptor.size.cast_signed(),
        annotations: HashMap::new(),
    }
}

fn ask<T>(message: T, lease: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    let mut header = |name: &'static str, value: &str| {
        // Ours are plain ASCII words; one that is not is left out and refused by containerd.
        if let Ok(value) = value.parse() {
            request.metadata_mut().insert(name, value);
        }
    };
    header("containerd-namespace", NAMESPACE);
    if let Some(lease) = lease {
        header("containerd-lease", lease);
    }
    request
}

impl Target {
    pub fn new(layout: &NodeLayout, channel: Channel, snapshotter: &str) -> Self {
        Self {
            channel,
            root: layout.containerd_root(),
            snapshotter: snapshotter.into(),
        }
    }

    pub(super) async fn import(&self, image: &Image, donors: &[&Target]) -> Result<()> {
        let mut leases = LeasesClient::new(self.channel.clone());
        // Ends by itself should this process die in the middle.
        let expiry = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        let labels = [("containerd.io/gc.expire".to_owned(), expiry.to_string())];
        let lease = format!("import-{}", image.manifest.digest);
        let created = leases
            .create(ask(
                CreateRequest {
                    id: lease.clone(),
                    labels: labels.into(),
                },
                None,
            ))
            .await;
        match created {
            Err(status) if status.code() != Code::AlreadyExists => {
                return Err(failed("create lease")(status));
            }
            _ => {}
        }
        let session = Session {
            target: self,
            lease: lease.clone(),
        };
        let done = session.import(image, donors).await;
        let _ = leases
            .delete(ask(
                DeleteRequest {
                    id: lease,
                    sync: false,
                },
                None,
            ))
            .await;
        done
    }

    fn snapshots(&self) -> SnapshotsClient<Channel> {
        SnapshotsClient::new(self.channel.clone())
    }

    async fn has_snapshot(&self, name: &str) -> bool {
        let request = StatSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key: name.into(),
        };
        self.snapshots().stat(ask(request, None)).await.is_ok()
    }

    /// Directory of a committed layer's own files.
    async fn layer_directory(&self, chain: &str) -> Option<PathBuf> {
        if !self.has_snapshot(chain).await {
            return None;
        }
        let key = format!("share-{chain}");
        let request = ViewSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key: key.clone(),
            parent: chain.into(),
            labels: HashMap::new(),
        };
        let view = self.snapshots().view(ask(request, None)).await;
        let request = RemoveSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key,
        };
        let _ = self.snapshots().remove(ask(request, None)).await;
        top_directory(&view.ok()?.into_inner().mounts)
    }
}

/// The directory of the topmost layer: what a view shows first, or what a new snapshot
/// writes to.
fn top_directory(mounts: &[Mount]) -> Option<PathBuf> {
    let [mount] = mounts else { return None };
    if mount.r#type == "bind" {
        return Some(mount.source.clone().into());
    }
    let option = |name: &str| mount.options.iter().find_map(|o| o.strip_prefix(name));
    option("upperdir=")
        .or_else(|| option("lowerdir=")?.split(':').next())
        .map(PathBuf::from)
}

impl Session<'_> {
    fn ask<T>(&self, message: T) -> Request<T> {
        ask(message, Some(&self.lease))
    }

    async fn import(&self, image: &Image, donors: &[&Target]) -> Result<()> {
        for layer in &image.layers {
            self.blob(&image.directory, layer, HashMap::new()).await?;
        }
        let chain = store::chain_ids(&image.diff_ids);
        let mut parent = String::new();
        for (layer, id) in image.layers.iter().zip(&chain) {
            self.layer(layer, id, &parent, donors).await?;
            parent.clone_from(id);
        }
        // Labels are what keeps the parts alive once the image has its name.
        let snapshot = format!("containerd.io/gc.ref.snapshot.{}", self.target.snapshotter);
        let config = HashMap::from([(snapshot, parent)]);
        self.blob(&image.directory, &image.config, config).await?;
        let manifest = std::iter::once(("config".to_owned(), &image.config))
            .chain(
                image
                    .layers
                    .iter()
                    .enumerate()
                    .map(|(i, l)| (format!("l.{i}"), l)),
            )
            .map(|(key, part)| (format!("containerd.io/gc.ref.content.{key}"), part.digest.clone()))
            .collect();
        self.blob(&image.directory, &image.manifest, manifest).await?;
        self.name(image).await
    }

    /// A blob into the content store: linked into place when possible, streamed otherwise.
    async fn blob(&self, directory: &Path, blob: &Descriptor, labels: HashMap<String, String>) -> Result<()> {
        let from = store::blob(directory, &blob.digest)?;
        let to = store::blob(
            &self.target.root.join("io.containerd.content.v1.content"),
            &blob.digest,
        )?;
        let linked = hardlink::file(&from, &to).map_err(Error::file("link", &from))?;
        let offset = if linked { blob.size.cast_signed() } else { 0 };
        let first = WriteContentRequest {
            action: WriteAction::Commit.into(),
            r#ref: format!("import-{}", blob.digest),
            total: blob.size.cast_signed(),
            expected: blob.digest.clone(),
            offset,
            data: Vec::new(),
            labels,
        };
        let messages = if linked {
            vec![first]
        } else {
            let data = tokio::fs::read(&from).await.map_err(Error::file("read", &from))?;
            chunks(first, &data)
        };
        let mut content = ContentClient::new(self.target.channel.clone());
        let request = self.ask(futures::stream::iter(messages));
        let answered = async {
            let mut answers = content.write(request).await?.into_inner();
            while answers.message().await?.is_some() {}
            Ok::<_, Status>(())
        };
        match answered.await {
            Err(status) if status.code() != Code::AlreadyExists => Err(failed("write content")(status)),
            _ => Ok(()),
        }
    }

    /// A layer unpacked: linked from a node that has it, else from its blob.
    async fn layer(&self, layer: &Descriptor, chain: &str, parent: &str, donors: &[&Target]) -> Result<()> {
        let target = self.target;
        if target.has_snapshot(chain).await {
            return Ok(());
        }
        let key = format!("import-{chain}");
        let drop_half = RemoveSnapshotRequest {
            snapshotter: target.snapshotter.clone(),
            key: key.clone(),
        };
        // From an import that was cut short.
        let _ = target.snapshots().remove(self.ask(drop_half)).await;
        let prepare = PrepareSnapshotRequest {
            snapshotter: target.snapshotter.clone(),
            key: key.clone(),
            parent: parent.into(),
            labels: HashMap::new(),
        };
        let mounts = target
            .snapshots()
            .prepare(self.ask(prepare))
            .await
            .map_err(failed("prepare snapshot"))?
            .into_inner()
            .mounts;
        if !self.link_layer(chain, &mounts, donors).await? {
            let apply = ApplyRequest {
                diff: Some(wire(layer)),
                mounts,
                ..Default::default()
            };
            DiffClient::new(target.channel.clone())
                .apply(self.ask(apply))
                .await
                .map_err(failed("unpack layer"))?;
        }
        let commit = CommitSnapshotRequest {
            snapshotter: target.snapshotter.clone(),
            name: chain.into(),
            key,
            ..Default::default()
        };
        match target.snapshots().commit(self.ask(commit)).await {
            Err(status) if status.code() != Code::AlreadyExists => Err(failed("commit snapshot")(status)),
            _ => Ok(()),
        }
    }

    async fn link_layer(&self, chain: &str, mounts: &[Mount], donors: &[&Target]) -> Result<bool> {
        let Some(to) = top_directory(mounts) else {
            return Ok(false);
        };
        for donor in donors {
            let Some(from) = donor.layer_directory(chain).await else {
                continue;
            };
            let (source, to) = (from.clone(), to.clone());
            let linked = tokio::task::spawn_blocking(move || hardlink::tree(&source, &to))
                .await
                .map_err(|e| Error::said(e.to_string()))?;
            return match linked {
                Ok(()) => Ok(true),
                Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices => Ok(false),
                Err(e) => Err(Error::file("link layer", from)(e)),
            };
        }
        Ok(false)
    }

    async fn name(&self, image: &Image) -> Result<()> {
        let record = ImageRecord {
            name: image.reference.clone(),
            labels: HashMap::from([("io.cri-containerd.image".into(), "managed".into())]),
            target: Some(wire(&image.manifest)),
            ..Default::default()
        };
        let mut images = ImagesClient::new(self.target.channel.clone());
        let create = CreateImageRequest {
            image: Some(record.clone()),
            ..Default::default()
        };
        match images.create(self.ask(create)).await {
            Err(status) if status.code() == Code::AlreadyExists => {
                let update = UpdateImageRequest {
                    image: Some(record),
                    ..Default::default()
                };
                let updated = images.update(self.ask(update)).await;
                updated.map(drop).map_err(failed("update image"))
            }
            created => created.map(drop).map_err(failed("create image")),
        }
    }
}

/// Splits a blob into writes; the last one commits.
fn chunks(commit: WriteContentRequest, data: &[u8]) -> Vec<WriteContentRequest> {
    let mut offset = 0i64;
    let mut messages: Vec<_> = data
        .chunks(CHUNK)
        .map(|chunk| {
            let message = WriteContentRequest {
                action: WriteAction::Write.into(),
                offset,
                data: chunk.to_vec(),
                labels: HashMap::new(),
                ..commit.clone()
            };
            offset += chunk.len() as i64;
            message
        })
        .collect();
    messages.push(WriteContentRequest { offset, ..commit });
    messages
}
