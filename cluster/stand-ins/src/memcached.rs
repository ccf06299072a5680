//! `memcached.c5c3.io`: servers behind a headless Service.

use std::convert::Infallible;

use c5c3_api::foreign::memcached::Memcached;
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Report, States, Wanted};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::error::Error;
use crate::image::server_image;
use crate::objects::{container_security, labels, metadata, pod_security, spread};

const SERVER: &str = "memcached";
const UID: i64 = 42457;
const AVAILABLE: &str = "Available";

/// The controller.
#[derive(Debug, Default, Clone, Copy)]
pub struct Memcacheds;

impl Controller for Memcacheds {
    type Kind = Memcached;
    /// Ready replicas.
    type Facts = i32;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "stand-in-memcached";
    const PARTS: &'static [Part] = &[Part::required(AVAILABLE)];

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Service>(), Kind::of::<Deployment>()]
    }

    async fn observe(&self, object: &Memcached, reader: &Reader) -> Result<i32, Error> {
        let found: Option<Deployment> = reader
            .get(&object.namespace().unwrap_or_default(), &object.name_any())
            .await?;
        Ok(found
            .and_then(|deployment| deployment.status?.ready_replicas)
            .unwrap_or(0))
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        Ok(Decision::want(
            objects(&observed.object)?.into_iter().map(Wanted::untyped),
        ))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _applied: &Applied<Self>) -> Report {
        let (ready, wanted) = (observed.facts, observed.object.spec.replicas.unwrap_or(1));
        let text = format!("{ready} of {wanted} servers are up");
        let states = if ready >= wanted {
            States::default().met(AVAILABLE, "Available", text)
        } else {
            States::default().unmet(AVAILABLE, "Progressing", text)
        };
        Report::new(states).status(&json!({"readyReplicas": ready}))
    }
}

pub(crate) fn objects(object: &Memcached) -> Result<Vec<Value>, Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let meta = metadata(&namespace, &name, SERVER, &name);
    let pods = labels(SERVER, &name);
    let config = object.spec.memcached.clone().unwrap_or_default();
    let memory = config.max_memory_mb.unwrap_or(64).to_string();
    let connections = config.max_connections.unwrap_or(1024).to_string();
    let image = server_image(SERVER, object.spec.image.as_deref())?;
    Ok(vec![
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta,
            "spec": {"clusterIP": "None", "selector": pods, "ports": [{"name": "memcached", "port": 11211, "targetPort": 11211}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
        "spec": {"replicas": object.spec.replicas.unwrap_or(1), "selector": {"matchLabels": pods},
            "template": {"metadata": {"labels": pods}, "spec": {
                "automountServiceAccountToken": false, "enableServiceLinks": false, "securityContext": pod_security(UID),
                "topologySpreadConstraints": spread(&pods),
                "containers": [{
                    "name": "memcached", "image": image,
                    "command": ["memcached", "-l", "0.0.0.0", "-m", memory, "-c", connections, "-U", "0"],
                    "ports": [{"name": "memcached", "containerPort": 11211}],
                    "securityContext": container_security(),
                    "readinessProbe": {"tcpSocket": {"port": 11211}, "periodSeconds": 5},
                }],
            }}}}),
    ])
}
