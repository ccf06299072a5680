//! Database, message bus and caches: clusters of our own, or hosts of somebody else.

use c5c3_api::c5c3::{
    ControlPlaneSpec, DATABASE_SIZE, MESSAGING_SIZE, MessagingCluster, OVN_SIZE, ValkeyCluster,
};
use c5c3_api::conditions::control_plane::INFRASTRUCTURE_READY;
use c5c3_api::conditions::reason;
use c5c3_api::services::SERVICES;
use serde_json::{Value, json};

use super::catalogue;
use super::child::images;
use super::rollout::{Rollout, same_image};
use super::{Draft, Object, Start, State, Step, policies, projection, reference, release, secrets};
use c5c3_api::common::{PodSettings, ResourceRequirements};

/// Names of the objects; there is one cloud in a namespace.
pub const DATABASE: &str = "mariadb";
pub const CACHE: &str = "memcached";
pub const MESSAGING: &str = "rabbitmq";
pub const VALKEY: &str = "valkey";
pub const OVN: &str = "ovn";

const REPLICAS: i32 = 3;

pub(super) fn plan(draft: &mut Draft<'_>, rollout: &Rollout) {
    let at_once = |draft: &mut Draft<'_>, step: &str, title: &str, objects: Vec<Value>| {
        draft.changes_infrastructure |= objects.iter().any(|object| changes_image(draft, object));
        draft.add(step, title, INFRASTRUCTURE_READY, &[], Start::AtOnce, objects);
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
            let objects = vec![policies::database(draft), mariadb(draft, rollout)];
            at_once(draft, "database", "MariaDB", objects);
        }
    }
    match infrastructure.cache.servers.as_slice() {
        [] => {
            let objects = vec![policies::cache(draft), memcached(draft, rollout)];
            at_once(draft, "cache", "Memcached", objects);
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
            let objects = vec![policies::messaging(draft), rabbitmq(draft, rollout)];
            at_once(draft, "messaging", "RabbitMQ", objects);
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
    plan_valkey(draft);
    plan_ovn(draft, rollout);
}

/// A server gets another image than it has. One of which nothing is said is its operator's choice.
fn changes_image(draft: &Draft<'_>, object: &Value) -> bool {
    let wanted = object.pointer("/spec/image");
    let there = draft.child(object);
    wanted.is_some() && there.is_some_and(|there| there.image.as_ref() != wanted)
}

/// No service speaks with it yet. One that an earlier version made stays until the field is left out.
fn plan_valkey(draft: &mut Draft<'_>) {
    let title = "Valkey";
    if draft.spec.infrastructure.valkey == ValkeyCluster::default() {
        draft.add_not_required(VALKEY, title, INFRASTRUCTURE_READY, "nothing enabled uses it");
        return;
    }
    let object = object(draft, "cache.cs.sap.com/v1alpha1", "Valkey", VALKEY, &json!({}));
    let stays = draft.child(&object).map(|_| Object::Keep(reference(&object)));
    let text = "infrastructure.valkey is not supported yet, no service uses it: leave it out";
    let state = State::failed(reason::NOT_SUPPORTED, text);
    draft.push(Step {
        objects: stays.into_iter().collect(),
        ..Step::bare(VALKEY, title, INFRASTRUCTURE_READY, state)
    });
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
    if let Some(object) = &object {
        let wanted = images(object);
        draft.changes_infrastructure |= draft.child(object).is_some_and(|child| {
            let differs =
                |(field, image): (&String, &Value)| !same_image(child.images.get(field), Some(image));
            wanted.iter().any(differs)
        });
    }
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
        None => {
            let state = State::Waiting(vec!["release".to_owned()]);
            draft.push(Step {
                needs: vec!["release".to_owned()],
                objects: vec![Object::Keep(reference(&ovn_object(draft, &json!({}))))],
                ..Step::bare(OVN, title, INFRASTRUCTURE_READY, state)
            });
        }
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

/// Connections that one pod may hold: two processes, each with a pool of five that overflows.
const OF_A_POD: i32 = 20;
/// Connections for schema steps, backups and people.
const OF_OTHERS: i32 = 100;
/// Fewer are never configured.
const CONNECTIONS: i32 = 500;

/// `max_connections` for the pools of all pods. It grows by doubling: another value restarts the servers,
/// and one replica more is no reason for that.
fn max_connections(spec: &ControlPlaneSpec) -> i32 {
    let running = SERVICES.iter().filter(|service| service.runs(spec));
    let pods: i32 = running.map(|service| catalogue::pods(service, spec)).sum();
    let needed = pods.saturating_mul(OF_A_POD).saturating_add(OF_OTHERS);
    let mut connections = CONNECTIONS;
    while connections < needed {
        connections = connections.saturating_mul(2);
    }
    connections
}

/// Puts image, resources and the settings of pods where an operator reads them.
fn settle(
    spec: &mut Value,
    image: Option<&String>,
    resources: Option<&ResourceRequirements>,
    pods: Option<&PodSettings>,
) {
    if let Some(image) = image {
        spec["image"] = json!(image);
    }
    if let Some(resources) = resources {
        spec["resources"] = json!(resources);
    }
    let Some(pods) = pods else {
        return;
    };
    let mut put = |field: &str, value: Value, is_set: bool| {
        if is_set {
            spec[field] = value;
        }
    };
    put(
        "imagePullSecrets",
        json!(pods.image_pull_secrets),
        !pods.image_pull_secrets.is_empty(),
    );
    put(
        "nodeSelector",
        json!(pods.node_selector),
        !pods.node_selector.is_empty(),
    );
    put(
        "tolerations",
        json!(pods.tolerations),
        !pods.tolerations.is_empty(),
    );
    put(
        "priorityClassName",
        json!(pods.priority_class_name),
        pods.priority_class_name.is_some(),
    );
}

/// What the restricted Pod Security Standard asks for. RabbitMQ's operator does it by itself.
fn pod_security(user: i64) -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn container_security() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

/// The server's image of the release. Operators of others would take one of a registry of theirs, and that of
/// RabbitMQ takes none at all without its webhook. While no release is known the image stays as it is.
fn with_image(draft: &Draft<'_>, rollout: &Rollout, name: &str, mut object: Value) -> Value {
    // The image that the spec names wins.
    if object.pointer("/spec/image").is_some() {
        return object;
    }
    let of_release = rollout.release().and_then(|release| release.image(name));
    let there = || draft.child(&object).and_then(|child| child.image.clone());
    if let Some(image) = of_release.map(Value::String).or_else(there) {
        object["spec"]["image"] = image;
    }
    object
}

fn mariadb(draft: &Draft<'_>, rollout: &Rollout) -> Value {
    let database = &draft.spec.infrastructure.database;
    let replicas = database.replicas.unwrap_or(REPLICAS);
    let size = database.storage_size.as_deref().unwrap_or(DATABASE_SIZE);
    let mut spec = json!({
        "replicas": replicas,
        // The Secret is made by us: it has to last as long as the volumes.
        // Its operator lets nobody change this later, so it says that the operator may make it, too.
        "rootPasswordSecretKeyRef": {"name": secrets::ROOT, "key": "password", "generate": true},
        "storage": {"size": size},
        "myCnf": format!("{MY_CNF}max_connections={}\n", max_connections(draft.spec)),
        // Its operator waits 20 s before each first look: a server is up after two.
        "startupProbe": {"initialDelaySeconds": 1, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 300},
        "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 5},
        // Its operator's own user, named because what is said replaces all of the operator's defaults.
        "podSecurityContext": pod_security(999),
        "securityContext": container_security(),
    });
    if replicas > 1 {
        spec["galera"] = json!({"enabled": true});
    }
    if let Some(class) = &database.storage_class {
        spec["storage"]["storageClassName"] = json!(class);
    }
    settle(
        &mut spec,
        database.image.as_ref(),
        database.resources.as_ref(),
        draft.spec.global.pods.as_ref(),
    );
    let object = object(draft, "k8s.mariadb.com/v1alpha1", "MariaDB", DATABASE, &spec);
    with_image(draft, rollout, DATABASE, object)
}

fn memcached(draft: &Draft<'_>, rollout: &Rollout) -> Value {
    let cache = &draft.spec.infrastructure.cache;
    let mut spec = json!({
        "replicas": cache.replicas.unwrap_or(REPLICAS),
        "security": {
            "podSecurityContext": pod_security(11211),
            "containerSecurityContext": container_security(),
        },
    });
    if let Some(memory) = cache.memory.as_deref().and_then(projection::megabytes) {
        spec["memcached"] = json!({"maxMemoryMB": memory});
    }
    settle(&mut spec, cache.image.as_ref(), cache.resources.as_ref(), None);
    let object = object(draft, "memcached.c5c3.io/v1beta1", "Memcached", CACHE, &spec);
    with_image(draft, rollout, CACHE, object)
}

/// Its operator asks for a processor and 2Gi where nobody says otherwise.
fn modest() -> Value {
    json!({"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}})
}

fn rabbitmq(draft: &Draft<'_>, rollout: &Rollout) -> Value {
    let messaging = &draft.spec.infrastructure.messaging;
    let size = messaging.storage_size.as_deref().unwrap_or(MESSAGING_SIZE);
    let replicas = messaging.replicas.unwrap_or(REPLICAS);
    let mut spec = json!({
        "replicas": replicas,
        "persistence": {"storage": size},
        "resources": modest(),
    });
    if replicas == 1 {
        // The pause is for members that have to find each other.
        spec["delayStartSeconds"] = json!(0);
    }
    if let Some(class) = &messaging.storage_class {
        spec["persistence"]["storageClassName"] = json!(class);
    }
    let pods = draft.spec.global.pods.clone();
    settle(
        &mut spec,
        messaging.image.as_ref(),
        messaging.resources.as_ref(),
        pods.as_ref(),
    );
    if let Some(pods) = pods {
        on_nodes(&mut spec, &pods);
    }
    let mut object = object(draft, "rabbitmq.com/v1beta1", "RabbitmqCluster", MESSAGING, &spec);
    // The newer probe asks for something that servers before 4.2.4 do not have: ours would never be Ready.
    object["metadata"]["annotations"] = json!({"rabbitmq.com/legacy-startup-probe": "true"});
    with_image(draft, rollout, MESSAGING, object)
}

/// RabbitMQ's operator knows nodes by affinity, and a priority class only as an override.
fn on_nodes(spec: &mut Value, pods: &PodSettings) {
    let fields = spec.as_object_mut();
    let Some(fields) = fields else {
        return;
    };
    fields.remove("nodeSelector");
    if !pods.node_selector.is_empty() {
        let labels = pods.node_selector.iter();
        let labels = labels.map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}));
        let terms = json!([{"matchExpressions": labels.collect::<Vec<_>>()}]);
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        fields.insert("affinity".to_owned(), json!({"nodeAffinity": required}));
    }
    if let Some(class) = fields.remove("priorityClassName") {
        let pod = json!({"spec": {"priorityClassName": class, "containers": []}});
        let set = json!({"statefulSet": {"spec": {"template": pod}}});
        fields.insert("override".to_owned(), set);
    }
}
