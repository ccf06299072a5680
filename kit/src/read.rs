//! Reading for the observe step: a client that cannot write.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};

use crate::clusters::{ClusterError, ClusterName, Clusters};
use crate::fault::plain;
use crate::kinds::Reference;
use crate::reconcile::controller::Object;
use crate::write::owned::{Owned, OwnedObjects};

/// A read that failed, in plain words.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {}", plain(.source))]
pub struct ReadError {
    what: String,
    source: Box<kube::Error>,
}

/// Reads from one cluster. Every read asks the API server: there is no cache to be stale.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    clusters: Clusters,
    owned: Arc<OwnedObjects>,
    uid: String,
}

impl Reader {
    pub(crate) fn new(clusters: Clusters, owned: Arc<OwnedObjects>, uid: &str) -> Self {
        Reader {
            client: clusters.home().clone(),
            clusters,
            owned,
            uid: uid.to_owned(),
        }
    }

    pub fn in_cluster(&self, name: &str) -> Result<Self, ClusterError> {
        Ok(Reader {
            client: self.clusters.get(name)?.clone(),
            ..self.clone()
        })
    }

    /// Names of all clusters that are known, the home first.
    pub fn clusters(&self) -> Vec<ClusterName> {
        self.clusters.names()
    }

    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, ReadError>
    where
        K: Object + Resource<Scope = NamespaceResourceScope>,
    {
        let api = Api::namespaced(self.client.clone(), namespace);
        one(&api, || format!("{} {namespace}/{name}", K::kind(&())), name).await
    }

    /// An object of a kind without namespaces.
    pub async fn get_global<K: Object>(&self, name: &str) -> Result<Option<K>, ReadError> {
        let api = Api::all(self.client.clone());
        one(&api, || format!("{} {name}", K::kind(&())), name).await
    }

    pub async fn list<K>(&self, namespace: &str, labels: &str) -> Result<Vec<K>, ReadError>
    where
        K: Object + Resource<Scope = NamespaceResourceScope>,
    {
        many(&Api::namespaced(self.client.clone(), namespace), labels).await
    }

    /// Objects of all namespaces, or of a kind without.
    pub async fn list_all<K: Object>(&self, labels: &str) -> Result<Vec<K>, ReadError> {
        many(&Api::all(self.client.clone()), labels).await
    }

    /// The same, by their fields too: `spec.nodeName=NAME`.
    pub async fn list_where<K: Object>(&self, labels: &str, fields: &str) -> Result<Vec<K>, ReadError> {
        let selected = ListParams::default().labels(labels).fields(fields);
        listed(&Api::all(self.client.clone()), &selected).await
    }

    /// What this object owns now, of all kinds that the controller declares.
    pub fn owned(&self) -> Vec<(Reference, Owned)> {
        self.owned.of(&self.uid)
    }

    /// Kinds that the controller creates and the home cluster lacks, as [`Reference::kind`] names them.
    /// When one is installed, all objects get a new pass.
    pub fn absent_kinds(&self) -> BTreeSet<String> {
        self.owned.absent()
    }
}

async fn one<K: Object>(api: &Api<K>, what: impl Fn() -> String, name: &str) -> Result<Option<K>, ReadError> {
    api.get_opt(name).await.map_err(|source| ReadError {
        what: what(),
        source: Box::new(source),
    })
}

async fn many<K: Object>(api: &Api<K>, labels: &str) -> Result<Vec<K>, ReadError> {
    listed(api, &ListParams::default().labels(labels)).await
}

/// Of a kind that the cluster does not have there are no objects.
async fn listed<K: Object>(api: &Api<K>, selected: &ListParams) -> Result<Vec<K>, ReadError> {
    match api.list(selected).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(source) => Err(ReadError {
            what: format!("the list of {}", K::plural(&())),
            source: Box::new(source),
        }),
    }
}
