//! OVN as it is: the OVNCluster, and the Secrets with which its clients log in.

use c5c3_api::ovn::OvnCluster;
use c5c3_kit::{Kind, ReadError, Reader, Reference};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::{Facts, data};
use crate::shape::Service;

pub(super) async fn read(service: &Service, reader: &Reader, facts: &mut Facts) -> Result<(), ReadError> {
    let Some(ovn) = &service.ovn else {
        return Ok(());
    };
    let own = service.names.namespace.as_str();
    if let Some(cluster) = ovn.cluster() {
        let namespace = cluster.namespace.as_deref().unwrap_or(own);
        facts.ovn = reader.get(namespace, &cluster.name).await?;
    }
    let named: Vec<(String, String)> = match &ovn.tls {
        Some(_) => ovn
            .secrets()
            .map(|name| (own.to_owned(), name.to_owned()))
            .collect(),
        None => facts.ovn.as_ref().map(told).unwrap_or_default(),
    };
    for (namespace, name) in named {
        if let Some(secret) = reader.get::<Secret>(&namespace, &name).await? {
            facts.ovn_secrets.insert(name, data(secret));
        }
    }
    Ok(())
}

/// Namespace and name of the Secrets that an OVNCluster tells.
fn told(cluster: &OvnCluster) -> Vec<(String, String)> {
    let namespace = cluster.namespace().unwrap_or_default();
    let status = cluster.status.as_ref();
    let secrets = status.and_then(|status| status.client_secrets.as_ref());
    let names = secrets
        .into_iter()
        .flat_map(|all| [&all.control_plane, &all.hypervisors]);
    names.map(|one| (namespace.clone(), one.name.clone())).collect()
}

/// Secrets whose names the OVNCluster tells: what becomes of them matters too.
pub(crate) fn found(facts: &Facts) -> Vec<Reference> {
    let kind = Kind::of::<Secret>();
    let told = facts.ovn.as_ref().map(told).unwrap_or_default();
    told.iter()
        .map(|(namespace, name)| kind.named(Some(namespace), name))
        .collect()
}
