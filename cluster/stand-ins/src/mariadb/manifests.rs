//! The objects that run MariaDB.

use c5c3_api::foreign::mariadb::MariaDb;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::server::{is_cluster, pod_name, replicas};
use super::{SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{container_security, encode, hash, labels, metadata, pod_security, spread};

const PORT: u16 = 3306;

fn meta(server: &MariaDb, own: &str) -> Value {
    let namespace = server.namespace().unwrap_or_default();
    metadata(&namespace, own, SERVER, &server.name_any())
}

pub(crate) fn root(server: &MariaDb, secret: &str, key: &str, password: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(server, secret),
        "data": {key: encode(password)}})
}

/// All but the root password. Writes go to the primary only.
pub(crate) fn all(server: &MariaDb, primary: Option<usize>) -> Result<Vec<Value>, Error> {
    let name = server.name_any();
    let pods = labels(SERVER, &name);
    let port = json!([{"name": "mariadb", "port": PORT, "targetPort": PORT}]);
    let files = files(server);
    let mut writer = pods.clone();
    if is_cluster(server) {
        // Nobody serves yet: the name of the first keeps the Service from pointing at all.
        writer["statefulset.kubernetes.io/pod-name"] = pod_name(server, primary.unwrap_or(0)).into();
    }
    let service = |own: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(server, own), "spec": spec});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(server, &format!("{name}-config")), "data": files}),
        service(&name, json!({"selector": pods, "ports": port})),
        service(
            &format!("{name}-primary"),
            json!({"selector": writer, "ports": port}),
        ),
        service(
            &internal(server),
            json!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": pods, "ports": port}),
        ),
    ];
    if is_cluster(server) {
        all.push(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(server, &name),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": pods}}}),
        );
    }
    let restart = hash(&files);
    let image = server_image(SERVER, server.spec.image.as_deref())?;
    all.push(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta(server, &name),
        "spec": {
            "replicas": replicas(server), "serviceName": internal(server), "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": pods},
            "template": {
                "metadata": {"labels": pods, "annotations": {"c5c3.io/config": restart}},
                "spec": pod(server, &image),
            },
            "volumeClaimTemplates": [claim(server)],
        },
    }));
    Ok(all)
}

fn internal(server: &MariaDb) -> String {
    format!("{}-internal", server.name_any())
}

fn files(server: &MariaDb) -> Value {
    json!({
        "my.cnf": configuration(server),
        "start.sh": include_str!("scripts/start.sh"),
        "order.sh": include_str!("scripts/order.sh"),
        "report.sh": include_str!("scripts/report.sh"),
        "ready.sh": include_str!("scripts/ready.sh"),
        "wsrep_sst_marked": include_str!("scripts/wsrep_sst_marked"),
    })
}

fn claim(server: &MariaDb) -> Value {
    let storage = server.spec.storage.clone().unwrap_or_default();
    let size = storage.size.map_or_else(|| "1Gi".to_owned(), |size| size.0);
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    if let Some(class) = storage.storage_class_name {
        spec["storageClassName"] = class.into();
    }
    json!({"metadata": {"name": "storage"}, "spec": spec})
}

/// The log is written at each commit and flushed each second: a crash of the server loses nothing.
const SINGLE: &str = "[mysqld]
datadir=/var/lib/mysql/data
socket=/run/mysqld/mysqld.sock
pid-file=/run/mysqld/mysqld.pid
tmpdir=/run/mysqld
bind-address=0.0.0.0
skip-name-resolve
log_warnings=1
max_connections=400
character-set-server=utf8mb3
performance_schema=OFF
innodb_buffer_pool_size=128M
loose_innodb_snapshot_isolation=OFF
innodb_log_file_size=32M
innodb_flush_log_at_trx_commit=2
";

fn configuration(server: &MariaDb) -> String {
    let mut text = SINGLE.to_owned();
    if is_cluster(server) {
        text.push_str(&cluster_configuration(server));
    }
    if let Some(extra) = &server.spec.my_cnf {
        text.push_str(&format!("\n{extra}\n"));
    }
    text
}

fn cluster_configuration(server: &MariaDb) -> String {
    let members: Vec<String> = (0..replicas(server))
        .map(|n| format!("{}.{}", pod_name(server, n), internal(server)))
        .collect();
    // A cluster begins where our decision says, not by what a member remembers of its last view.
    let options = "gcache.size=64M;pc.recovery=no;evs.suspect_timeout=PT3S;evs.inactive_timeout=PT10S";
    format!(
        "binlog_format=ROW
default_storage_engine=InnoDB
innodb_autoinc_lock_mode=2
wsrep_on=ON
wsrep_provider=/usr/lib/galera/libgalera_smm.so
wsrep_cluster_name={}
wsrep_cluster_address=gcomm://{}
wsrep_sst_method=marked
wsrep_provider_options=\"{options}\"
",
        server.name_any(),
        members.join(",")
    )
}

fn pod(server: &MariaDb, image: &str) -> Value {
    let mut command = vec!["sh", "/etc/c5c3/config/start.sh"];
    let open = json!({"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 120});
    let mut container = json!({
        "name": SERVER, "image": image,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            // The server looks there for its way of state transfer.
            {"name": "PATH", "value": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/etc/c5c3/config"},
        ],
        "ports": [{"name": "mariadb", "containerPort": PORT}],
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "storage", "mountPath": "/var/lib/mysql"},
            {"name": "run", "mountPath": "/run/mysqld"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "config", "mountPath": "/etc/c5c3/config", "readOnly": true},
        ],
        "startupProbe": open,
        "terminationMessagePolicy": "File",
    });
    if is_cluster(server) {
        command.push("cluster");
        // A member waits for its order as long as it takes.
        container["startupProbe"]["failureThreshold"] = 1_000_000.into();
        container["readinessProbe"] = json!({"exec": {"command": ["sh", "/etc/c5c3/config/ready.sh"]},
            "periodSeconds": 3, "timeoutSeconds": 3, "failureThreshold": 2});
    } else {
        container["readinessProbe"] = json!({"tcpSocket": {"port": PORT}, "periodSeconds": 5});
        container["livenessProbe"] =
            json!({"tcpSocket": {"port": PORT}, "periodSeconds": 20, "failureThreshold": 6});
    }
    container["command"] = json!(command);
    if let Some(resources) = &server.spec.resources {
        container["resources"] = json!(resources);
    }
    json!({
        "securityContext": pod_security(UID),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "topologySpreadConstraints": spread(&labels(SERVER, &server.name_any())),
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
        "volumes": [
            {"name": "run", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "config", "configMap": {"name": format!("{}-config", server.name_any()), "defaultMode": 0o555}},
        ],
    })
}
