//! Database, message bus and caches: clusters of our own, or hosts of somebody else.

use c5c3_api::c5c3::{
    ControlPlaneSpec, DATABASE_SIZE, MESSAGING_SIZE, MessagingCluster, OVN_SIZE, ValkeyCluster,
};
use c5c3_api::conditions::control_plane::INFRASTRUCTURE_READY;
use serde_json::{Value, json};

use super::catalogue::{self, SERVICES};
use super::rollout::Rollout;
use super::{Draft, Object, Start, State, Step, projection, reference, release};

/// Names of the objects; there is one cloud in a namespace.
pub const DATABASE: &str = "mariadb";
pub const CACHE: &str = "memcached";
pub const MESSAGING: &str = "rabbitmq";
pub const VALKEY: &str = "valkey";
pub const OVN: &str = "ovn";

const REPLICAS: i32 = 3;

pub(super) fn plan(draft: &mut Draft<'_>, rollout: &Rollout) {
    let at_once = |draft: &mut Draft<'_>, step: &str, title: &str, object: Value| {
        draft.add(
            step,
            title,
            INFRASTRUCTURE_READY,
            &[],
            Start::AtOnce,
            vec![object],
        );
    };
    let skip = |draft: &mut Draft<'_>, step: &str, title: &str, text: &str| {
        draft.add_not_required(step, title, INFRASTRUCTURE_READY, text);
    };
    let infrastructure = &draft.spec.infrastructure;
    match &infrastructure.database.host {
        Some(host) => skip(
            draft,
            "database",
            "MariaDB",
            &format!("the database on {host} is used"),
        ),
        None => {
            let object = mariadb(draft);
            at_once(draft, "database", "MariaDB", object);
        }
    }
    match infrastructure.cache.servers.as_slice() {
        [] => {
            let object = memcached(draft);
            at_once(draft, "cache", "Memcached", object);
        }
        servers => skip(
            draft,
            "cache",
            "Memcached",
            &format!("the cache on {} is used", servers.join(", ")),
        ),
    }
    match infrastructure.messaging.hosts.as_slice() {
        [] if wants_messaging(draft) => {
            let object = rabbitmq(draft);
            at_once(draft, "messaging", "RabbitMQ", object);
        }
        [] => skip(
            draft,
            "messaging",
            "RabbitMQ",
            "no enabled service sends messages",
        ),
        hosts => skip(
            draft,
            "messaging",
            "RabbitMQ",
            &format!("the brokers on {} are used", hosts.join(", ")),
        ),
    }
    match infrastructure.valkey.hosts.as_slice() {
        [] if draft.spec.cortex.enabled || infrastructure.valkey != ValkeyCluster::default() => {
            let object = valkey(draft);
            at_once(draft, "valkey", "Valkey", object);
        }
        [] => skip(draft, "valkey", "Valkey", "nothing enabled uses it"),
        hosts => skip(
            draft,
            "valkey",
            "Valkey",
            &format!("the servers on {} are used", hosts.join(", ")),
        ),
    }
    plan_ovn(draft, rollout);
}

/// The network virtualization behind Neutron.
fn plan_ovn(draft: &mut Draft<'_>, rollout: &Rollout) {
    let title = "OVN";
    let infrastructure = &draft.spec.infrastructure.ovn;
    if !draft.spec.services.neutron.common.enabled {
        draft.add_not_required(OVN, title, INFRASTRUCTURE_READY, "nothing enabled uses it");
        return;
    }
    if let Some(host) = &infrastructure.northbound {
        let text = format!("the databases on {host} are used");
        draft.add_not_required(OVN, title, INFRASTRUCTURE_READY, text);
        return;
    }
    let object = ovn(draft, rollout);
    let needs: &[&str] = &["release"];
    match object {
        Some(object) => draft.add(
            OVN,
            title,
            INFRASTRUCTURE_READY,
            needs,
            Start::AtOnce,
            vec![object],
        ),
        // Its images are not known: what runs stays as it is.
        None => draft.push(Step {
            name: OVN.to_owned(),
            title: title.to_owned(),
            part: INFRASTRUCTURE_READY,
            needs: vec!["release".to_owned()],
            state: State::Waiting(vec!["release".to_owned()]),
            objects: vec![Object::Keep(reference(&ovn_object(draft, &json!({}))))],
        }),
    }
}

fn ovn_object(draft: &Draft<'_>, spec: &Value) -> Value {
    object(draft, "ovn.c5c3.io/v1alpha1", "OVNCluster", OVN, spec)
}

fn ovn(draft: &Draft<'_>, rollout: &Rollout) -> Option<Value> {
    let wanted = &draft.spec.infrastructure.ovn;
    let release = rollout.release()?;
    let image = |name: &str| release::image(release, name).ok();
    let mut storage = json!({"size": wanted.storage_size.as_deref().unwrap_or(OVN_SIZE)});
    if let Some(class) = &wanted.storage_class {
        storage["storageClass"] = json!(class);
    }
    let database = json!({"replicas": wanted.replicas.unwrap_or(REPLICAS), "storage": storage});
    let nodes = json!({"nodeSelector": {"node-role.kubernetes.io/hypervisor": ""}});
    let mut spec = json!({
        "ovnImage": image("ovn")?, "ovsImage": image("ovs")?,
        "northbound": database, "southbound": database, "controller": nodes, "ovs": nodes,
    });
    if let Some(cluster) = catalogue::hypervisors(draft.spec) {
        spec["computeRef"] = json!(cluster);
    }
    Some(ovn_object(draft, &spec))
}

/// How a service reaches the message bus, with the account of this Secret.
pub(super) fn messaging(spec: &ControlPlaneSpec, secret: &str) -> Value {
    let secret = json!({"name": secret});
    match spec.infrastructure.messaging.hosts.as_slice() {
        [] => json!({"clusterRef": {"name": MESSAGING}, "secretRef": secret}),
        hosts => json!({"hosts": hosts, "secretRef": secret}),
    }
}

fn wants_messaging(draft: &Draft<'_>) -> bool {
    draft.spec.infrastructure.messaging != MessagingCluster::default()
        || SERVICES
            .iter()
            .any(|service| service.messaging && (service.enabled)(draft.spec))
}

fn object(draft: &Draft<'_>, version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": draft.namespace, "name": name}, "spec": spec})
}

/// Servers from 11.6 on refuse to change a row that another transaction changed meanwhile (error
/// 1020). OpenStack's services do not try again: a login beside a change of password would fail it.
const MY_CNF: &str = "[mariadb]\nloose_innodb_snapshot_isolation=OFF\n";

fn mariadb(draft: &Draft<'_>) -> Value {
    let database = &draft.spec.infrastructure.database;
    let replicas = database.replicas.unwrap_or(REPLICAS);
    let size = database.storage_size.as_deref().unwrap_or(DATABASE_SIZE);
    let mut spec = json!({
        "replicas": replicas,
        "rootPasswordSecretKeyRef": {"name": "mariadb-root", "key": "password", "generate": true},
        "storage": {"size": size},
        "myCnf": MY_CNF,
    });
    if replicas > 1 {
        spec["galera"] = json!({"enabled": true});
    }
    if let Some(class) = &database.storage_class {
        spec["storage"]["storageClassName"] = json!(class);
    }
    object(draft, "k8s.mariadb.com/v1alpha1", "MariaDB", DATABASE, &spec)
}

fn memcached(draft: &Draft<'_>) -> Value {
    let cache = &draft.spec.infrastructure.cache;
    let mut spec = json!({"replicas": cache.replicas.unwrap_or(REPLICAS)});
    if let Some(memory) = cache.memory.as_deref().and_then(projection::megabytes) {
        spec["memcached"] = json!({"maxMemoryMB": memory});
    }
    object(draft, "memcached.c5c3.io/v1beta1", "Memcached", CACHE, &spec)
}

fn rabbitmq(draft: &Draft<'_>) -> Value {
    let messaging = &draft.spec.infrastructure.messaging;
    let size = messaging.storage_size.as_deref().unwrap_or(MESSAGING_SIZE);
    let mut spec = json!({
        "replicas": messaging.replicas.unwrap_or(REPLICAS),
        "persistence": {"storage": size},
    });
    if let Some(class) = &messaging.storage_class {
        spec["persistence"]["storageClassName"] = json!(class);
    }
    object(draft, "rabbitmq.com/v1beta1", "RabbitmqCluster", MESSAGING, &spec)
}

fn valkey(draft: &Draft<'_>) -> Value {
    let valkey = &draft.spec.infrastructure.valkey;
    let sentinel = valkey.sentinel.as_ref().is_some_and(|sentinel| sentinel.enabled);
    let replicas = valkey.replicas.unwrap_or(if sentinel { REPLICAS } else { 1 });
    let spec = json!({"replicas": replicas, "sentinel": {"enabled": sentinel}});
    object(draft, "cache.cs.sap.com/v1alpha1", "Valkey", VALKEY, &spec)
}
