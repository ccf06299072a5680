//! The life of CustomResourceDefinitions.

use std::sync::Arc;

use crate::{
    cluster::Cluster,
    registry::{Kind, Registry, custom_kinds},
};

/// Makes the registry serve the CRDs that are stored now.
pub fn refresh(cluster: &Cluster) {
    let generation = cluster.registry().generation + 1;
    let builtin = Registry::builtin();
    let mut kinds: Vec<Arc<Kind>> = builtin.kinds().to_vec();
    for crd in cluster
        .list("apiextensions.k8s.io", "customresourcedefinitions", None)
        .objects
    {
        kinds.extend(custom_kinds(&crd.value()).into_iter().map(Arc::new));
    }
    cluster.set_registry(Registry::new(kinds, generation));
}
