//! Objects that every cluster has: the API and DNS as Services, and a storage class.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use embedded_node::addresses::Addresses;
use embedded_node::error::{Error, Result};

/// `node` is the number of a node of the cluster.
pub(crate) async fn objects(
    client: &Client,
    addresses: &Addresses,
    node: u8,
    provisioner: &str,
) -> Result<()> {
    let default: Api<Service> = Api::namespaced(client.clone(), "default");
    let system: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    create(
        &default,
        json!({
            "metadata": { "name": "kubernetes", "namespace": "default",
                "labels": { "component": "apiserver", "provider": "kubernetes" } },
            "spec": { "clusterIP": addresses.api_service(),
                "ports": [{ "name": "https", "port": 443, "targetPort": 6443 }] },
        }),
    )
    .await?;
    create(
        &system,
        json!({
            "metadata": { "name": "kube-dns", "namespace": "kube-system",
                "labels": { "k8s-app": "kube-dns" } },
            "spec": { "clusterIP": addresses.dns_service(), "ports": [
                { "name": "dns", "port": 53, "protocol": "UDP" },
                { "name": "dns-tcp", "port": 53, "protocol": "TCP" }] },
        }),
    )
    .await?;
    // Every node answers for the API on its own address.
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    create(
        &slices,
        json!({
            "metadata": { "name": "kubernetes", "namespace": "default",
                "labels": { "kubernetes.io/service-name": "kubernetes" } },
            "addressType": "IPv4",
            "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }],
            "endpoints": [{ "addresses": [addresses.node(node)], "conditions": { "ready": true } }],
        }),
    )
    .await?;
    // The older form of the same.
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "default");
    create(
        &endpoints,
        json!({
            "metadata": { "name": "kubernetes", "namespace": "default",
                "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } },
            "subsets": [{ "addresses": [{ "ip": addresses.node(node) }],
                "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }] }],
        }),
    )
    .await?;
    let classes: Api<StorageClass> = Api::all(client.clone());
    create(
        &classes,
        json!({
            "metadata": { "name": "directory", "annotations": {
                "storageclass.kubernetes.io/is-default-class": "true" } },
            "provisioner": provisioner,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        }),
    )
    .await
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug + kube::Resource<DynamicType = ()>,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let what = format!("{} {name}", K::kind(&()));
    if api
        .get_opt(&name)
        .await
        .map_err(Error::api(what.clone()))?
        .is_some()
    {
        return Ok(());
    }
    let typed: K = serde_json::from_value(object).map_err(|e| Error::said(format!("{what}: {e}")))?;
    match api.create(&PostParams::default(), &typed).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop).map_err(Error::api(what)),
    }
}
