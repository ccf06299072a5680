//! The cluster to which pools, users and object stores of a namespace belong.

use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::{Kind, Reader, Reference};
use kube::{Client, ResourceExt};

use super::commands::{self, Answer, Command};
use crate::error::Error;
use crate::exec::ExecTarget;

/// How things are with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Home {
    /// Its name; Rook knows one in a namespace.
    pub name: Option<String>,
    pub image: Option<String>,
    pub fsid: Option<String>,
    pub ready: bool,
    /// Monitors that can be told something.
    pub places: Vec<ExecTarget>,
}

impl Home {
    pub(crate) async fn find(reader: &Reader, namespace: &str) -> Result<Self, Error> {
        let mut found: Vec<CephCluster> = reader.list(namespace, "").await?;
        found.sort_by_key(ResourceExt::name_any);
        let Some(cluster) = found.into_iter().next() else {
            return Ok(Self::default());
        };
        let status = cluster.status.clone().unwrap_or_default();
        Ok(Self {
            name: Some(cluster.name_any()),
            image: status.version.and_then(|version| version.image),
            fsid: status.ceph.and_then(|ceph| ceph.fsid),
            ready: status.state.as_deref() == Some("Created"),
            places: commands::places(reader, namespace).await?,
        })
    }

    /// Why nothing can be done yet.
    pub(crate) fn waits(&self) -> Option<String> {
        match &self.name {
            None => Some("there is no CephCluster in this namespace".to_owned()),
            Some(name) if !self.ready => Some(format!("CephCluster {name} is not ready")),
            Some(_) if self.places.is_empty() => Some("no monitor is up".to_owned()),
            Some(_) => None,
        }
    }

    /// A change of it brings a new pass.
    pub(crate) fn reference(&self, namespace: &str) -> Option<Reference> {
        let name = self.name.as_deref()?;
        Some(Kind::of::<CephCluster>().named(Some(namespace), name))
    }

    /// `None` while the cluster is not ready.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        commands: Vec<Command>,
    ) -> Result<Option<(ExecTarget, Vec<Answer>)>, Error> {
        match self.waits() {
            Some(_) => Ok(None),
            None => commands::ask(client, &self.places, commands).await,
        }
    }
}
