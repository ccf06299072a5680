//! The objects of an object store: its gateways, their key, their pools.

use c5c3_api::foreign::rook::CephObjectStore;
use c5c3_kit::pod::env;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod as CorePod, Secret, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;

use c5c3_kit::{ReadError, Reader};

use super::commands::Command;
use super::keyring::{Caps, caps, entry};
use super::names::{self, Daemon, RGW};
use super::pods::{self, KEYRING, Pod, Ready};
use super::pool;
use super::view::OsdMap;
use crate::error::Error;
use crate::exec::{self, ExecError, ExecTarget};
use crate::objects::is_pod_ready;

/// Where gateways listen in their pods.
const PORT: u16 = 8080;

pub(crate) fn daemon<'a>(namespace: &'a str, store: &'a str) -> Daemon<'a> {
    Daemon {
        namespace,
        app: RGW,
        kind: "rgw",
        id: store,
        parent: store,
    }
}

pub(crate) fn entity(store: &str) -> String {
    format!("client.rgw.{store}.a")
}

pub(crate) fn rgw_caps() -> Caps {
    caps(&[("mon", "allow rw"), ("osd", "allow rwx")])
}

pub(crate) fn keyring_name(store: &str) -> String {
    format!("{RGW}-{store}-a-keyring")
}

pub(crate) fn keyring(namespace: &str, store: &str, key: &str) -> Secret {
    let text = entry(&entity(store), key, &rgw_caps());
    let meta = names::meta(namespace, &keyring_name(store), names::Labels::new());
    names::secret(meta, &[("keyring", &text)])
}

fn port(store: &CephObjectStore) -> u16 {
    store.spec.gateway.port.unwrap_or(80)
}

pub(crate) fn endpoint(store: &CephObjectStore) -> String {
    let (namespace, name) = (store.namespace().unwrap_or_default(), store.name_any());
    format!("http://{RGW}-{name}.{namespace}.svc:{}", port(store))
}

pub(crate) fn service(store: &CephObjectStore) -> Service {
    let (namespace, name) = (store.namespace().unwrap_or_default(), store.name_any());
    let daemon = daemon(&namespace, &name);
    Service {
        metadata: daemon.meta(),
        spec: Some(ServiceSpec {
            selector: Some(daemon.selector()),
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: port(store).into(),
                target_port: Some(IntOrString::Int(PORT.into())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub(crate) fn deployment(store: &CephObjectStore, image: &str, fsid: &str, replicas: i32) -> Deployment {
    let (namespace, name) = (store.namespace().unwrap_or_default(), store.name_any());
    let who = format!(
        "--name={} --keyring={KEYRING} --mon-host=$(ROOK_CEPH_MON_HOST) --rgw-realm={name} --rgw-zonegroup={name} --rgw-zone={name}",
        entity(&name)
    );
    let own = store.spec.gateway.rgw_config.iter();
    let mut arguments = vec![
        format!("--rgw-frontends=beast port={PORT}"),
        // Threads of a large site, each with a stack of its own.
        "--rgw-thread-pool-size=64".to_owned(),
    ];
    arguments.extend(own.map(|(option, value)| format!("--{}={value}", option.replace([' ', '_'], "-"))));
    let mut built = pods::deployment(Pod {
        daemon: daemon(&namespace, &name),
        image,
        fsid,
        script: include_str!("rgw.sh"),
        arguments,
        // For the daemon and for the commands that are run beside it.
        env: vec![env("CEPH_ARGS", &who)],
        keys: (keyring_name(&name), "keyring"),
        data: None,
        ports: &[("http", PORT)],
        ready: Ready::Port(PORT),
        resources: store.spec.gateway.resources.clone(),
        replicas,
        host: false,
        node: None,
        placement: None,
        sites: None,
    });
    built.metadata.name = Some(format!("{RGW}-{name}-a"));
    // What a person asks for never takes the place of what daemons are found by.
    let gateway = &store.spec.gateway;
    let own = names::map(&[("rook_object_store", &name)]);
    let pod = built.spec.template.metadata.get_or_insert_default();
    for meta in [&mut built.metadata, pod] {
        let labels = meta.labels.get_or_insert_default();
        let there = std::mem::replace(labels, gateway.labels.clone());
        labels.extend(there);
        labels.extend(own.clone());
        if !gateway.annotations.is_empty() {
            let annotations = meta.annotations.get_or_insert_default();
            let there = std::mem::replace(annotations, gateway.annotations.clone());
            annotations.extend(there);
        }
    }
    built
}

/// Names of a store's pools; the last one holds the data.
pub(crate) fn pools(store: &str) -> Vec<String> {
    let kinds = [
        "control",
        "meta",
        "log",
        "otp",
        "buckets.index",
        "buckets.non-ec",
        "buckets.data",
    ];
    kinds.iter().map(|kind| format!("{store}.rgw.{kind}")).collect()
}

/// Pools as their specs want them, and the one that all stores share.
pub(crate) fn pool_commands(store: &CephObjectStore, world: &OsdMap) -> Vec<Command> {
    let name = store.name_any();
    let meta = store.spec.metadata_pool.clone().unwrap_or_default();
    let data = store.spec.data_pool.clone().unwrap_or_default();
    let mut commands = Vec::new();
    if pool::find(world, ".rgw.root").is_none() {
        commands.extend(pool::commands(".rgw.root", &meta, "rgw", world));
    }
    for pool_name in pools(&name) {
        let spec = if pool_name.ends_with(".data") {
            &data
        } else {
            &meta
        };
        commands.extend(pool::commands(&pool_name, spec, "rgw", world));
    }
    commands
}

/// A gateway that can be asked.
pub(crate) async fn place(
    reader: &Reader,
    namespace: &str,
    store: &str,
) -> Result<Option<ExecTarget>, ReadError> {
    let selector = format!("app={RGW},rook_object_store={store},rook_cluster={namespace}");
    let mut pods: Vec<CorePod> = reader.list(namespace, &selector).await?;
    pods.retain(is_pod_ready);
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods.first().map(|pod| ExecTarget {
        namespace: namespace.to_owned(),
        pod: pod.name_any(),
        container: "rgw",
    }))
}

/// Runs `radosgw-admin` beside a gateway. Nothing secret is ever an argument.
pub(crate) async fn admin(client: &Client, place: &ExecTarget, words: &[&str]) -> Result<String, ExecError> {
    let command = [&["radosgw-admin", "--log-to-stderr=false"], words].concat();
    exec::run(client, place, &command, "").await
}

/// The same for an answer; `None` when there is no such thing.
pub(crate) async fn ask<T: DeserializeOwned>(
    client: &Client,
    place: &ExecTarget,
    words: &[&str],
) -> Result<Option<T>, Error> {
    match admin(client, place, words).await {
        Ok(said) => {
            let read = serde_json::from_str(&said);
            read.map(Some)
                .map_err(|error| Error::Ceph(format!("an answer cannot be read: {error}")))
        }
        Err(ExecError::Failed { said, .. })
            if said.contains("no user info saved") || said.contains("No such file") =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
