//! The clusters that a cloud is in: its own, and those of its hypervisors.

use std::collections::BTreeSet;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::openstack::Nova;
use kube::{Api, Client};

use crate::failure::Failure;

/// A cluster under the name that people know.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub name: String,
    pub client: Client,
}

#[derive(Clone)]
pub(crate) struct Sight {
    /// Where the cloud's objects are.
    pub home: Cluster,
    pub others: Vec<Cluster>,
    /// Clusters that the cloud names and that are not reached, with the reason.
    pub blind: Vec<(String, String)>,
}

impl Sight {
    /// The cloud's own cluster alone.
    pub(crate) fn at_home(client: Client) -> Self {
        Sight {
            home: Cluster {
                name: c5c3_kit::HOME.into_owned(),
                client,
            },
            others: Vec::new(),
            blind: Vec::new(),
        }
    }

    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.home).chain(&self.others)
    }
}

/// Pure. Other clusters that the objects of a cloud name.
pub(crate) fn named(planes: &[ControlPlane], novas: &[Nova]) -> BTreeSet<String> {
    let planes = planes.iter().filter_map(|plane| {
        let compute = plane.spec.services.nova.compute.as_ref()?;
        compute.cluster_ref.as_ref()
    });
    let cells = novas.iter().flat_map(|nova| &nova.spec.cells);
    let cells = cells.filter_map(|cell| cell.compute_ref.as_ref());
    planes.chain(cells).map(|cluster| cluster.name.clone()).collect()
}

/// What the clouds of a namespace name.
pub(crate) async fn others(client: &Client, namespace: &str) -> Result<BTreeSet<String>, Failure> {
    let planes: Vec<ControlPlane> = list(client, namespace).await?;
    let novas: Vec<Nova> = list(client, namespace).await?;
    Ok(named(&planes, &novas))
}

/// Of a kind that the cluster does not have there are none.
async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<K>, Failure>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    match Api::<K>::namespaced(client.clone(), namespace)
        .list(&Default::default())
        .await
    {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cloud_names_the_clusters_of_its_hypervisors() {
        let plane = |compute| -> ControlPlane {
            serde_json::from_value(json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
                "metadata": {"name": "cloud"},
                "spec": {"openStackRelease": "2025.2", "services": {"nova": {"compute": compute}}}}))
            .expect("a ControlPlane")
        };
        let alone = plane(json!({}));
        assert!(named(&[alone], &[]).is_empty());
        let apart = plane(json!({"clusterRef": {"name": "hypervisor"}}));
        assert_eq!(
            named(&[apart.clone(), apart], &[]),
            ["hypervisor".to_owned()].into()
        );
    }
}
