//! The objects that run Valkey.

use c5c3_api::foreign::valkey::Valkey;
use c5c3_kit::Wanted;
use c5c3_kit::pod::{env, env_field, mount, mount_read_only, scratch};
use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};
use kube::ResourceExt;

use super::{SENTINEL, SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{
    Files, Instance, POD_NAME, Set, accepts, claim, config_volume, container_port, read_only, secret_volume,
    succeeds, words,
};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

pub(crate) fn replicas(object: &Valkey) -> usize {
    usize::try_from(object.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

pub(crate) fn has_sentinel(object: &Valkey) -> bool {
    object.spec.sentinel.as_ref().is_some_and(|s| s.enabled)
}

pub(crate) fn pod_name(object: &Valkey, ordinal: usize) -> String {
    format!("{}-{ordinal}", object.name_any())
}

/// The Secret for those who use it.
pub(crate) fn binding(object: &Valkey) -> String {
    let named = object.spec.binding.as_ref().and_then(|b| b.secret_name.clone());
    named.unwrap_or_else(|| format!("valkey-{}-binding", object.name_any()))
}

/// The ConfigMap that remembers the primary.
pub(crate) fn last(object: &Valkey) -> String {
    format!("{}-primary", object.name_any())
}

fn headless(object: &Valkey) -> String {
    format!("{}-headless", object.name_any())
}

fn instance(object: &Valkey) -> Instance {
    Instance::of(SERVER, object)
}

pub(crate) fn all(object: &Valkey, password: &str, primary: &str) -> Result<Vec<Wanted>, Error> {
    let (name, instance) = (object.name_any(), instance(object));
    let files = files();
    let known = Files::from([("primary", primary.to_owned())]);
    let mut ports = vec![("valkey", PORT)];
    if has_sentinel(object) {
        ports.push(("sentinel", SENTINEL_PORT));
    }
    let mut writer = instance.labels();
    writer.insert(POD_NAME.to_owned(), primary.to_owned());
    let image = server_image(SERVER, object.spec.image.as_deref())?;
    let persistence = object.spec.persistence.clone().filter(|p| p.enabled);
    let set = instance.stateful_set(Set {
        name: name.clone(),
        replicas: replicas(object),
        headless: headless(object),
        files: &files,
        pod: pod(object, &image),
        claim: persistence.map(|p| claim("data", p.size, p.storage_class)),
    });
    Ok(vec![
        Wanted::of(&instance.secret(&binding(object), credentials(object, password))),
        Wanted::of(&instance.config_map(&format!("{name}-config"), &files)),
        Wanted::of(&instance.config_map(&last(object), &known)),
        Wanted::of(&instance.service(&name, writer, &ports)),
        Wanted::of(&instance.members(&headless(object), &ports)),
        Wanted::of(&set),
    ])
}

fn files() -> Files {
    [
        ("start.sh", include_str!("scripts/start.sh")),
        ("primary.sh", include_str!("scripts/primary.sh")),
        ("ask.sh", include_str!("scripts/ask.sh")),
        ("alive.sh", include_str!("scripts/alive.sh")),
    ]
    .map(|(name, text)| (name, text.to_owned()))
    .into()
}

fn credentials(object: &Valkey, password: &str) -> Vec<(&'static str, String)> {
    let namespace = object.namespace().unwrap_or_default();
    let mut data = vec![
        ("host", format!("{}.{namespace}.svc", object.name_any())),
        ("port", PORT.to_string()),
        ("password", password.to_owned()),
    ];
    if has_sentinel(object) {
        data.extend([
            ("sentinelEnabled", "true".to_owned()),
            ("sentinelHost", format!("{}.{namespace}.svc", headless(object))),
            ("sentinelPort", SENTINEL_PORT.to_string()),
            ("primaryName", "primary".to_owned()),
        ]);
    }
    data
}

fn container(object: &Valkey, image: &str, name: &str, role: &str, port: u16) -> Container {
    let peers: Vec<String> = (0..replicas(object))
        .map(|n| format!("{}.{}", pod_name(object, n), headless(object)))
        .collect();
    // Without sentinels there are no peers to ask for the primary.
    let peers = if has_sentinel(object) {
        peers.join(" ")
    } else {
        String::new()
    };
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        command: Some(words(&["sh", "/etc/c5c3/config/start.sh", role])),
        env: Some(vec![
            env_field("POD_NAME", "metadata.name"),
            env_field("POD_IP", "status.podIP"),
            env("PEERS", peers),
            env("HEADLESS", headless(object)),
            env("QUORUM", (replicas(object) / 2 + 1).to_string()),
        ]),
        ports: Some(vec![container_port(name, port)]),
        security_context: Some(read_only()),
        volume_mounts: Some(vec![
            mount("data", "/data"),
            mount(&format!("run-{name}"), "/run/valkey"),
            mount_read_only("config", "/etc/c5c3/config"),
            mount_read_only("last", "/etc/c5c3/last"),
            mount_read_only("secret", "/etc/c5c3/secret"),
        ]),
        startup_probe: Some(Probe {
            period_seconds: Some(1),
            failure_threshold: Some(120),
            ..accepts(port)
        }),
        readiness_probe: Some(Probe {
            period_seconds: Some(5),
            failure_threshold: Some(2),
            ..accepts(port)
        }),
        termination_message_policy: Some("File".to_owned()),
        ..Container::default()
    }
}

fn pod(object: &Valkey, image: &str) -> PodSpec {
    let mut server = Container {
        resources: object.spec.resources.clone(),
        ..container(object, image, SERVER, "server", PORT)
    };
    let mut sentinels = Vec::new();
    let mut volumes = vec![
        scratch(&format!("run-{SERVER}")),
        config_volume("config", &format!("{}-config", object.name_any()), None),
        config_volume("last", &last(object), None),
        secret_volume("secret", &binding(object), Some("password")),
    ];
    if has_sentinel(object) {
        server.liveness_probe = Some(Probe {
            period_seconds: Some(10),
            timeout_seconds: Some(8),
            failure_threshold: Some(2),
            ..succeeds(&["sh", "/etc/c5c3/config/alive.sh"])
        });
        sentinels.push(container(object, image, SENTINEL, SENTINEL, SENTINEL_PORT));
        volumes.push(scratch(&format!("run-{SENTINEL}")));
    }
    if !object.spec.persistence.as_ref().is_some_and(|p| p.enabled) {
        volumes.push(scratch("data"));
    }
    let containers = std::iter::once(server).chain(sentinels).collect();
    PodSpec {
        termination_grace_period_seconds: Some(30),
        volumes: Some(volumes),
        ..instance(object).pod(UID, containers)
    }
}
