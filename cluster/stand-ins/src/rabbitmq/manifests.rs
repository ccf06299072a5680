//! The objects that run RabbitMQ, under the names that the cluster operator gives them.

use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use c5c3_kit::Wanted;
use c5c3_kit::pod::{env, env_field, mount, mount_read_only, scratch};
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, PodSpec, Probe};
use kube::ResourceExt;

use super::{SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{
    Files, Instance, Set, accepts, claim, config_volume, container_port, read_only, secret_volume, words,
};

const PORT: u16 = 5672;
const DISTRIBUTION: u16 = 25672;
const EPMD: u16 = 4369;

pub(crate) fn replicas(cluster: &RabbitmqCluster) -> usize {
    usize::try_from(cluster.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

pub(crate) fn pod_name(cluster: &RabbitmqCluster, ordinal: usize) -> String {
    format!("{}-server-{ordinal}", cluster.name_any())
}

pub(crate) fn default_user_secret(cluster: &str) -> String {
    format!("{cluster}-default-user")
}

pub(crate) fn cookie_secret(cluster: &str) -> String {
    format!("{cluster}-erlang-cookie")
}

fn namespace(cluster: &RabbitmqCluster) -> String {
    cluster.namespace().unwrap_or_default()
}

fn instance(cluster: &RabbitmqCluster) -> Instance {
    Instance::of(SERVER, cluster)
}

/// Credentials that the cluster is born with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultUser {
    pub username: String,
    pub password: String,
}

pub(crate) fn secrets(cluster: &RabbitmqCluster, user: &DefaultUser, cookie: &str) -> [Wanted; 2] {
    let (name, instance) = (cluster.name_any(), instance(cluster));
    let host = format!("{name}.{}.svc", namespace(cluster));
    let DefaultUser { username, password } = user;
    let address = format!("amqp://{username}:{password}@{host}:{PORT}/");
    let configuration = format!("default_user = {username}\ndefault_pass = {password}\n");
    let user = [
        ("username", username.clone()),
        ("password", password.clone()),
        ("host", host),
        ("port", PORT.to_string()),
        ("provider", SERVER.to_owned()),
        ("type", SERVER.to_owned()),
        ("connection_string", address),
        ("default_user.conf", configuration),
    ];
    let cookie = [(".erlang.cookie", cookie.to_owned())];
    [
        Wanted::of(&instance.secret(&default_user_secret(&name), user)),
        Wanted::of(&instance.secret(&cookie_secret(&name), cookie)),
    ]
}

pub(crate) fn all(cluster: &RabbitmqCluster) -> Result<Vec<Wanted>, Error> {
    let (name, instance) = (cluster.name_any(), instance(cluster));
    let files = files(cluster);
    let nodes = [("epmd", EPMD), ("cluster-rpc", DISTRIBUTION)];
    let mut all = vec![
        Wanted::of(&instance.config_map(&format!("{name}-server-conf"), &files)),
        Wanted::of(&instance.service(&name, instance.labels(), &[("amqp", PORT)])),
        Wanted::of(&instance.members(&format!("{name}-nodes"), &nodes)),
    ];
    if replicas(cluster) > 1 {
        all.push(Wanted::of(&instance.budget(&format!("{name}-server"))));
    }
    let image = server_image(SERVER, cluster.spec.image.as_deref())?;
    // They start together: after a full stop a node waits for the one that stopped last.
    all.push(Wanted::of(&instance.stateful_set(Set {
        name: format!("{name}-server"),
        replicas: replicas(cluster),
        headless: format!("{name}-nodes"),
        files: &files,
        pod: pod(cluster, &image),
        claim: Some(volume(cluster)),
    })));
    Ok(all)
}

fn files(cluster: &RabbitmqCluster) -> Files {
    [
        ("rabbitmq.conf", configuration(cluster)),
        ("enabled_plugins", plugins(cluster)),
        ("start.sh", include_str!("scripts/start.sh").to_owned()),
        ("tell.sh", include_str!("scripts/tell.sh").to_owned()),
        ("members.sh", include_str!("scripts/members.sh").to_owned()),
    ]
    .into()
}

fn volume(cluster: &RabbitmqCluster) -> PersistentVolumeClaim {
    let persistence = cluster.spec.persistence.clone().unwrap_or_default();
    claim("persistence", persistence.storage, persistence.storage_class_name)
}

fn node_name(cluster: &RabbitmqCluster, pod: &str) -> String {
    format!("rabbit@{pod}.{}-nodes.{}", cluster.name_any(), namespace(cluster))
}

/// All nodes of a cluster of several. A node that asks itself gets no answer before it runs.
fn peers(cluster: &RabbitmqCluster) -> String {
    let count = replicas(cluster);
    let nodes = (0..count).map(|n| node_name(cluster, &pod_name(cluster, n)));
    let nodes: Vec<String> = nodes.filter(|_| count > 1).collect();
    nodes.join(" ")
}

fn configuration(cluster: &RabbitmqCluster) -> String {
    let mut text = "\
listeners.tcp.default = 5672
loopback_users = none
log.console = true
log.console.level = info
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
queue_master_locator = min-masters
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = classic_config
"
    .to_owned();
    for n in 0..replicas(cluster) {
        let node = node_name(cluster, &pod_name(cluster, n));
        text.push_str(&format!(
            "cluster_formation.classic_config.nodes.{} = {node}\n",
            n + 1
        ));
    }
    let extra = cluster
        .spec
        .rabbitmq
        .as_ref()
        .and_then(|r| r.additional_config.as_deref());
    if let Some(extra) = extra {
        text.push_str(extra);
        text.push('\n');
    }
    text
}

fn plugins(cluster: &RabbitmqCluster) -> String {
    let wished = cluster
        .spec
        .rabbitmq
        .as_ref()
        .map(|r| r.additional_plugins.join(","));
    format!("[{}].\n", wished.unwrap_or_default())
}

fn container(cluster: &RabbitmqCluster, image: &str) -> Container {
    Container {
        name: SERVER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(words(&["sh", "/etc/c5c3/config/start.sh"])),
        env: Some(vec![
            env_field("POD_NAME", "metadata.name"),
            env("RABBITMQ_NODENAME", node_name(cluster, "$(POD_NAME)")),
            env("PEERS", peers(cluster)),
            env("RABBITMQ_USE_LONGNAME", "true"),
            env("RABBITMQ_DIST_PORT", DISTRIBUTION.to_string()),
            env("RABBITMQ_CONFIG_FILES", "/run/rabbitmq/conf/*.conf"),
            env("RABBITMQ_CONF_ENV_FILE", "/dev/null"),
            env(
                "RABBITMQ_ENABLED_PLUGINS_FILE",
                "/etc/c5c3/config/enabled_plugins",
            ),
            env("RABBITMQ_MNESIA_BASE", "/var/lib/rabbitmq/mnesia"),
            env("RABBITMQ_PID_FILE", "/run/rabbitmq/pid"),
            env("RABBITMQ_LOG_BASE", "/run/rabbitmq/log"),
            env("RABBITMQ_LOGS", "-"),
            // Idle schedulers sleep at once: a small machine has others to serve.
            env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
            ),
        ]),
        ports: Some(vec![
            container_port("amqp", PORT),
            container_port("epmd", EPMD),
            container_port("cluster-rpc", DISTRIBUTION),
        ]),
        security_context: Some(read_only()),
        volume_mounts: Some(vec![
            mount("persistence", "/var/lib/rabbitmq"),
            mount("run", "/run/rabbitmq"),
            mount("tmp", "/tmp"),
            mount_read_only("config", "/etc/c5c3/config"),
            mount_read_only("user", "/etc/c5c3/user"),
            mount_read_only("cookie", "/etc/c5c3/cookie"),
        ]),
        startup_probe: Some(Probe {
            period_seconds: Some(1),
            failure_threshold: Some(600),
            ..accepts(PORT)
        }),
        readiness_probe: Some(Probe {
            period_seconds: Some(5),
            failure_threshold: Some(2),
            ..accepts(PORT)
        }),
        resources: cluster.spec.resources.clone(),
        termination_message_policy: Some("File".to_owned()),
        ..Container::default()
    }
}

fn pod(cluster: &RabbitmqCluster, image: &str) -> PodSpec {
    let name = cluster.name_any();
    PodSpec {
        termination_grace_period_seconds: Some(60),
        volumes: Some(vec![
            scratch("run"),
            scratch("tmp"),
            config_volume("config", &format!("{name}-server-conf"), None),
            secret_volume("user", &default_user_secret(&name), Some("default_user.conf")),
            secret_volume("cookie", &cookie_secret(&name), None),
        ]),
        ..instance(cluster).pod(UID, vec![container(cluster, image)])
    }
}
