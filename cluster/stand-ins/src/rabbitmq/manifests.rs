//! The objects that run RabbitMQ, under the names that the cluster operator gives them.

use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{container_security, encode, hash, labels, metadata, pod_security, spread};

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

fn meta(cluster: &RabbitmqCluster, own: &str) -> Value {
    metadata(&namespace(cluster), own, SERVER, &cluster.name_any())
}

/// Credentials that the cluster is born with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultUser {
    pub username: String,
    pub password: String,
}

pub(crate) fn secrets(cluster: &RabbitmqCluster, user: &DefaultUser, cookie: &str) -> [Value; 2] {
    let name = cluster.name_any();
    let host = format!("{name}.{}.svc", namespace(cluster));
    let DefaultUser { username, password } = user;
    let fields = [
        ("username", username.clone()),
        ("password", password.clone()),
        ("host", host.clone()),
        ("port", PORT.to_string()),
        ("provider", SERVER.to_owned()),
        ("type", SERVER.to_owned()),
        (
            "connection_string",
            format!("amqp://{username}:{password}@{host}:{PORT}/"),
        ),
        (
            "default_user.conf",
            format!("default_user = {username}\ndefault_pass = {password}\n"),
        ),
    ];
    let data: serde_json::Map<String, Value> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), encode(value).into()))
        .collect();
    let secret = |own: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(cluster, own), "data": data});
    [
        secret(&default_user_secret(&name), data.into()),
        secret(&cookie_secret(&name), json!({".erlang.cookie": encode(cookie)})),
    ]
}

pub(crate) fn all(cluster: &RabbitmqCluster) -> Result<Vec<Value>, Error> {
    let name = cluster.name_any();
    let pods = labels(SERVER, &name);
    let files = json!({
        "rabbitmq.conf": configuration(cluster),
        "enabled_plugins": plugins(cluster),
        "start.sh": include_str!("scripts/start.sh"),
        "tell.sh": include_str!("scripts/tell.sh"),
        "members.sh": include_str!("scripts/members.sh"),
    });
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "targetPort": port});
    let service = |own: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(cluster, own), "spec": spec});
    let nodes = json!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": pods,
        "ports": [port("epmd", EPMD), port("cluster-rpc", DISTRIBUTION)]});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(cluster, &format!("{name}-server-conf")), "data": files}),
        service(&name, json!({"selector": pods, "ports": [port("amqp", PORT)]})),
        service(&format!("{name}-nodes"), nodes),
    ];
    if replicas(cluster) > 1 {
        all.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(cluster, &format!("{name}-server")),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": pods}}}));
    }
    let image = server_image(SERVER, cluster.spec.image.as_deref())?;
    all.push(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta(cluster, &format!("{name}-server")),
        "spec": {
            // Together: after a full stop a node waits for the one that stopped last.
            "replicas": replicas(cluster), "serviceName": format!("{name}-nodes"), "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": pods},
            "template": {
                "metadata": {"labels": pods, "annotations": {"c5c3.io/config": hash(&files)}},
                "spec": pod(cluster, &image),
            },
            "volumeClaimTemplates": [claim(cluster)],
        },
    }));
    Ok(all)
}

fn claim(cluster: &RabbitmqCluster) -> Value {
    let persistence = cluster.spec.persistence.clone().unwrap_or_default();
    let size = persistence
        .storage
        .map_or_else(|| "1Gi".to_owned(), |size| size.0);
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    if let Some(class) = persistence.storage_class_name {
        spec["storageClassName"] = class.into();
    }
    json!({"metadata": {"name": "persistence"}, "spec": spec})
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

fn pod(cluster: &RabbitmqCluster, image: &str) -> Value {
    let name = cluster.name_any();
    let text = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut container = json!({
        "name": SERVER, "image": image, "command": ["sh", "/etc/c5c3/config/start.sh"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            text("RABBITMQ_NODENAME", &node_name(cluster, "$(POD_NAME)")),
            text("PEERS", &peers(cluster)),
            text("RABBITMQ_USE_LONGNAME", "true"),
            text("RABBITMQ_DIST_PORT", &DISTRIBUTION.to_string()),
            text("RABBITMQ_CONFIG_FILES", "/run/rabbitmq/conf/*.conf"),
            text("RABBITMQ_CONF_ENV_FILE", "/dev/null"),
            text("RABBITMQ_ENABLED_PLUGINS_FILE", "/etc/c5c3/config/enabled_plugins"),
            text("RABBITMQ_MNESIA_BASE", "/var/lib/rabbitmq/mnesia"),
            text("RABBITMQ_PID_FILE", "/run/rabbitmq/pid"),
            text("RABBITMQ_LOG_BASE", "/run/rabbitmq/log"),
            text("RABBITMQ_LOGS", "-"),
            // Idle schedulers sleep at once: a small machine has others to serve.
            text("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"),
        ],
        "ports": [{"name": "amqp", "containerPort": PORT}, {"name": "epmd", "containerPort": EPMD},
            {"name": "cluster-rpc", "containerPort": DISTRIBUTION}],
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "persistence", "mountPath": "/var/lib/rabbitmq"},
            {"name": "run", "mountPath": "/run/rabbitmq"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "config", "mountPath": "/etc/c5c3/config", "readOnly": true},
            {"name": "user", "mountPath": "/etc/c5c3/user", "readOnly": true},
            {"name": "cookie", "mountPath": "/etc/c5c3/cookie", "readOnly": true},
        ],
        "startupProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 600},
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 5, "failureThreshold": 2},
        "terminationMessagePolicy": "File",
    });
    if let Some(resources) = &cluster.spec.resources {
        container["resources"] = json!(resources);
    }
    json!({
        "securityContext": pod_security(UID),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "topologySpreadConstraints": spread(&labels(SERVER, &name)),
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
        "volumes": [
            {"name": "run", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "config", "configMap": {"name": format!("{name}-server-conf")}},
            {"name": "user", "secret": {"secretName": default_user_secret(&name), "items": [{"key": "default_user.conf", "path": "default_user.conf"}]}},
            {"name": "cookie", "secret": {"secretName": cookie_secret(&name)}},
        ],
    })
}
