//! One logical cluster: its name, what it serves and its objects.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{
    admission::Admission,
    pods,
    registry::{Kind, Registry},
    store::{Collection, Listing, ObjectKey, Store, Stored},
    strategy::ServiceNetwork,
};

pub struct Cluster {
    pub name: Arc<str>,
    pub store: Store,
    registry: RwLock<Arc<Registry>>,
    /// Held while a CRD is written, so that names are accepted one CRD at a time.
    pub crd_writes: tokio::sync::Mutex<()>,
    pub services: ServiceNetwork,
    pub admission: Admission,
    pods: RwLock<Option<Arc<dyn pods::Provider>>>,
}

impl Cluster {
    pub fn new(name: &str, store: Store, services: ServiceNetwork) -> Self {
        let cluster = Self {
            name: name.into(),
            store,
            registry: RwLock::new(Arc::new(Registry::builtin())),
            crd_writes: tokio::sync::Mutex::new(()),
            services,
            admission: Admission::default(),
            pods: RwLock::new(None),
        };
        crate::crds::refresh(&cluster);
        cluster
    }

    /// What is served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn set_registry(&self, registry: Registry) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
    }

    /// The node that runs this cluster's pods, if one has been registered.
    pub fn pods(&self) -> Option<Arc<dyn pods::Provider>> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_pods(&self, provider: Arc<dyn pods::Provider>) {
        *self.pods.write().unwrap_or_else(PoisonError::into_inner) = Some(provider);
    }

    pub fn collection(&self, group: &str, resource: &str) -> Collection {
        Collection {
            cluster: self.name.clone(),
            group: group.into(),
            resource: resource.into(),
        }
    }

    pub fn collection_of(&self, kind: &Kind) -> Collection {
        kind.collection(&self.name)
    }

    /// One object as stored (in the storage version).
    pub fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.store.get(
            &self.collection(group, resource),
            &ObjectKey::new(namespace, name),
        )
    }

    /// Objects as stored; `namespace` `None` means all.
    pub fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Listing {
        self.store.list(&self.collection(group, resource), namespace)
    }
}
