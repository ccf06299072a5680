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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn the_api_is_a_service_with_endpoints_in_both_forms() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = apiserver::Config {
            state_dir: directory.path().to_owned(),
            service_network: (Ipv4Addr::new(10, 192, 0, 0), 16),
            ..apiserver::Config::default()
        };
        let server = apiserver::Server::start(config).await.expect("a server");
        let client = server.client("default");
        let addresses = Addresses::default();
        objects(&client, &addresses, 7, "local").await.expect("created");

        let services: Api<Service> = Api::namespaced(client.clone(), "default");
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
        let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "default");
        let found = (
            services.get("kubernetes").await.expect("the Service"),
            slices.get("kubernetes").await.expect("the EndpointSlice"),
            endpoints.get("kubernetes").await.expect("the Endpoints"),
        );
        let (service, slice, old) = &found;
        let spec = service.spec.as_ref().expect("a spec");
        let api = addresses.api_service().to_string();
        assert_eq!(spec.cluster_ip, Some(api));
        let ports = spec.ports.as_deref().unwrap_or_default();
        let port = ports.first().expect("a port");
        assert_eq!((port.name.as_deref(), port.port), (Some("https"), 443));
        assert!(
            spec.selector.is_none(),
            "no controller makes other endpoints of it"
        );

        let node = addresses.node(7).to_string();
        let labels = slice.metadata.labels.clone().unwrap_or_default();
        assert_eq!(labels["kubernetes.io/service-name"], "kubernetes");
        assert_eq!(slice.address_type, "IPv4");
        let [endpoint] = slice.endpoints.as_deref().unwrap_or_default() else {
            panic!("{:?}", slice.endpoints);
        };
        assert_eq!(endpoint.addresses, std::slice::from_ref(&node));
        let ready = endpoint
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.ready);
        assert_eq!(ready, Some(true));
        let ports = slice.ports.as_deref().unwrap_or_default();
        let port = ports.first().expect("a port");
        assert_eq!((port.name.as_deref(), port.port), (Some("https"), Some(6443)));

        let [subset] = old.subsets.as_deref().unwrap_or_default() else {
            panic!("{old:?}");
        };
        let ips: Vec<&str> = subset.addresses.iter().flatten().map(|a| a.ip.as_str()).collect();
        assert_eq!(ips, [node]);
        let ports: Vec<i32> = subset.ports.iter().flatten().map(|port| port.port).collect();
        assert_eq!(ports, [6443]);
        let labels = old.metadata.labels.clone().unwrap_or_default();
        assert_eq!(labels["endpointslice.kubernetes.io/skip-mirror"], "true");

        // The next start finds them and leaves them as they are.
        objects(&client, &addresses, 7, "local")
            .await
            .expect("there already");
        let version = |metadata: &kube::api::ObjectMeta| metadata.resource_version.clone();
        let again = services.get("kubernetes").await.expect("the Service");
        assert_eq!(version(&again.metadata), version(&service.metadata));
        server.shutdown().await;
    }
}
