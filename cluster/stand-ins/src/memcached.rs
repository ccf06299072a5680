//! `memcached.c5c3.io`: servers behind a headless Service.

use std::convert::Infallible;

use c5c3_api::foreign::memcached::Memcached;
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Report, States, Wanted};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec, Probe, Service};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::json;

use crate::error::Error;
use crate::image::server_image;
use crate::objects::{Instance, accepts, container_port, read_only, words};

const SERVER: &str = "memcached";
const UID: i64 = 42457;
const PORT: u16 = 11211;
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
        Ok(Decision::want(objects(&observed.object)?))
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

pub(crate) fn objects(object: &Memcached) -> Result<Vec<Wanted>, Error> {
    let (name, instance) = (object.name_any(), Instance::of(SERVER, object));
    let image = server_image(SERVER, object.spec.image.as_deref())?;
    let deployment = Deployment {
        metadata: instance.meta(&name),
        spec: DeploymentSpec {
            replicas: Some(object.spec.replicas.unwrap_or(1)),
            selector: instance.pods(),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(instance.labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(instance.pod(UID, vec![container(object, image)])),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    };
    Ok(vec![
        Wanted::of(&instance.headless(&name, &[(SERVER, PORT)])),
        Wanted::of(&deployment),
    ])
}

fn container(object: &Memcached, image: String) -> Container {
    let config = object.spec.memcached.clone().unwrap_or_default();
    let memory = config.max_memory_mb.unwrap_or(64).to_string();
    let connections = config.max_connections.unwrap_or(1024).to_string();
    let command = [
        "memcached",
        "-l",
        "0.0.0.0",
        "-m",
        &memory,
        "-c",
        &connections,
        "-U",
        "0",
    ];
    Container {
        name: SERVER.to_owned(),
        image: Some(image),
        command: Some(words(&command)),
        ports: Some(vec![container_port(SERVER, PORT)]),
        security_context: Some(read_only()),
        readiness_probe: Some(Probe {
            period_seconds: Some(5),
            ..accepts(PORT)
        }),
        ..Container::default()
    }
}
