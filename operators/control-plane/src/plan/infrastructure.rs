//! Database, message bus and caches: clusters of our own, or hosts of somebody else.

use c5c3_api::c5c3::{ControlPlaneSpec, DATABASE_SIZE, MESSAGING_SIZE, MessagingCluster, ValkeyCluster};
use c5c3_api::common::{LocalRef, Messaging, PodSettings};
use c5c3_api::conditions::control_plane::INFRASTRUCTURE_READY;
use c5c3_api::conditions::reason;
use c5c3_api::foreign::{NameRef, mariadb, memcached, rabbitmq, valkey::Valkey};
use c5c3_api::services::SERVICES;
use c5c3_kit::pod;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    PodTemplateSpec, Probe, ResourceRequirements, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use serde_json::Value;

use super::catalogue;
use super::rollout::Rollout;
use super::{Draft, Object, Start, State, Step, ovn, policies, projection, secrets, whole};

/// Names of the objects; there is one cloud in a namespace.
pub(crate) const DATABASE: &str = "mariadb";
pub(crate) const CACHE: &str = "memcached";
pub const MESSAGING: &str = "rabbitmq";
pub(crate) const VALKEY: &str = "valkey";

pub(super) const REPLICAS: i32 = 3;

pub(super) fn plan(draft: &mut Draft<'_>, rollout: &Rollout) {
    let at_once =
        |draft: &mut Draft<'_>, step: &str, title: &str, objects: Vec<Value>, newer: Option<String>| {
            draft.changes_infrastructure |= objects.iter().any(|object| changes_image(draft, object));
            draft.add(step, title, INFRASTRUCTURE_READY, &[], Start::AtOnce, objects);
            note_held(draft, newer);
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
            &format!("using the external database on {host}"),
        ),
        None => {
            let server = mariadb(draft, rollout);
            let newer = held(rollout, DATABASE, infrastructure.database.image.as_ref(), &server);
            let objects = vec![policies::database(draft), server];
            at_once(draft, "database", "MariaDB", objects, newer);
        }
    }
    match infrastructure.cache.servers.as_slice() {
        [] => {
            let server = memcached(draft, rollout);
            let newer = held(rollout, CACHE, infrastructure.cache.image.as_ref(), &server);
            let objects = vec![policies::cache(draft), server];
            at_once(draft, "cache", "Memcached", objects, newer);
        }
        servers => skip(
            draft,
            "cache",
            "Memcached",
            &format!("using the external cache on {}", servers.join(", ")),
        ),
    }
    match infrastructure.messaging.hosts.as_slice() {
        [] if wants_messaging(draft) => {
            let server = rabbitmq(draft, rollout);
            let newer = held(
                rollout,
                MESSAGING,
                infrastructure.messaging.image.as_ref(),
                &server,
            );
            let objects = vec![policies::messaging(draft), server];
            at_once(draft, "messaging", "RabbitMQ", objects, newer);
        }
        [] => skip(
            draft,
            "messaging",
            "RabbitMQ",
            "no enabled service needs a message bus",
        ),
        hosts => skip(
            draft,
            "messaging",
            "RabbitMQ",
            &format!("using the external brokers on {}", hosts.join(", ")),
        ),
    }
    plan_valkey(draft);
    ovn::plan(draft, rollout);
}

/// A server gets another image than it has. One of which nothing is said is its operator's choice.
fn changes_image(draft: &Draft<'_>, object: &Value) -> bool {
    let wanted = object.pointer("/spec/image");
    let there = draft.child(object);
    wanted.is_some() && there.is_some_and(|there| there.image.as_ref() != wanted)
}

/// The image of the release that updatePolicy keeps from a server.
fn held(rollout: &Rollout, name: &str, own: Option<&String>, object: &Value) -> Option<String> {
    let newest = rollout.release()?.image(name)?;
    let stays = object.pointer("/spec/image").and_then(Value::as_str);
    (rollout.holds() && own.is_none() && stays != Some(newest.as_str())).then_some(newest)
}

/// At the step that was added last.
pub(super) fn note_held(draft: &mut Draft<'_>, newer: Option<String>) {
    if let Some(step) = draft.steps.last_mut() {
        step.note = newer.map(|newer| format!("updatePolicy holds back {newer}"));
    }
}

/// No service speaks with it yet. One that an earlier version made stays until the field is left out.
fn plan_valkey(draft: &mut Draft<'_>) {
    let title = "Valkey";
    if draft.spec.infrastructure.valkey == ValkeyCluster::default() {
        draft.add_not_required(VALKEY, title, INFRASTRUCTURE_READY, "no enabled service needs it");
        return;
    }
    let own = draft.named::<Valkey>(VALKEY);
    let stays = draft
        .seen
        .children
        .contains_key(&own)
        .then_some(Object::Keep(own));
    let text = "infrastructure.valkey is not supported yet: remove it; no service uses it";
    let state = State::failed(reason::NOT_SUPPORTED, text);
    draft.push(Step {
        objects: stays.into_iter().collect(),
        ..Step::bare(VALKEY, title, INFRASTRUCTURE_READY, state)
    });
}

/// How a service reaches the message bus, with the account of this Secret.
pub(super) fn messaging(spec: &ControlPlaneSpec, secret: &str) -> Messaging {
    let hosts = &spec.infrastructure.messaging.hosts;
    Messaging {
        cluster_ref: hosts.is_empty().then(|| LocalRef::new(MESSAGING)),
        hosts: hosts.clone(),
        secret_ref: LocalRef::new(secret),
    }
}

fn wants_messaging(draft: &Draft<'_>) -> bool {
    draft.spec.infrastructure.messaging != MessagingCluster::default()
        || SERVICES
            .iter()
            .any(|service| service.messaging && (service.enabled)(draft.spec))
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

fn pull_secrets(pods: &PodSettings) -> Vec<NameRef> {
    let secrets = pods.image_pull_secrets.iter();
    secrets.map(|secret| NameRef::new(&secret.name)).collect()
}

/// The image that the spec names, or that of the release. Operators of others would take one of a registry of
/// theirs, and that of RabbitMQ takes none at all without its webhook. While no release is known the image stays
/// as it is, and so it does where updatePolicy holds newer builds back.
fn image<K: Resource<DynamicType = ()>>(
    draft: &Draft<'_>,
    rollout: &Rollout,
    name: &str,
    own: Option<&String>,
) -> Option<String> {
    let of_release = || rollout.release().and_then(|release| release.image(name));
    let there = || {
        let child = draft.seen.children.get(&draft.named::<K>(name))?;
        child.image.as_ref()?.as_str().map(str::to_owned)
    };
    let image = own.cloned();
    if rollout.holds() {
        return image.or_else(there).or_else(of_release);
    }
    image.or_else(of_release).or_else(there)
}

fn mariadb(draft: &Draft<'_>, rollout: &Rollout) -> Value {
    let database = &draft.spec.infrastructure.database;
    let replicas = database.replicas.unwrap_or(REPLICAS);
    let size = database.storage_size.as_deref().unwrap_or(DATABASE_SIZE);
    let pods = draft.spec.global.pods.clone().unwrap_or_default();
    // Its operator waits 20 s before each first look: a server is up after two.
    let look = |period: i32, failures: Option<i32>| Probe {
        initial_delay_seconds: Some(1),
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: failures,
        ..Probe::default()
    };
    let spec = mariadb::MariaDbSpec {
        replicas: Some(replicas),
        // The Secret is made by us: it has to last as long as the volumes.
        // Its operator lets nobody change this later, so it says that the operator may make it, too.
        root_password_secret_key_ref: Some(mariadb::GeneratedSecretKey {
            name: secrets::ROOT.to_owned(),
            key: "password".to_owned(),
            generate: Some(true),
        }),
        storage: Some(mariadb::MariaDbStorage {
            size: Some(Quantity(size.to_owned())),
            storage_class_name: database.storage_class.clone(),
        }),
        my_cnf: Some(format!(
            "{MY_CNF}max_connections={}\n",
            max_connections(draft.spec)
        )),
        startup_probe: Some(look(1, Some(300))),
        readiness_probe: Some(look(2, None)),
        // Its operator's own user, named because what is said replaces all of the operator's defaults.
        pod_security_context: Some(pod::run_as(999)),
        security_context: Some(pod::unprivileged()),
        galera: (replicas > 1).then_some(mariadb::Galera {
            enabled: true,
            recovery: None,
        }),
        image: image::<mariadb::MariaDb>(draft, rollout, DATABASE, database.image.as_ref()),
        resources: database.resources.clone(),
        image_pull_secrets: pull_secrets(&pods),
        node_selector: pods.node_selector,
        tolerations: pods.tolerations,
        priority_class_name: pods.priority_class_name,
        max_scale: None,
        metrics: None,
    };
    whole(&mariadb::MariaDb {
        metadata: draft.metadata(DATABASE),
        spec,
        status: None,
    })
}

fn memcached(draft: &Draft<'_>, rollout: &Rollout) -> Value {
    let cache = &draft.spec.infrastructure.cache;
    let memory = cache.memory.as_deref().and_then(projection::megabytes);
    let spec = memcached::MemcachedSpec {
        replicas: Some(cache.replicas.unwrap_or(REPLICAS)),
        security: Some(memcached::Security {
            pod_security_context: Some(pod::run_as(11211)),
            container_security_context: Some(pod::unprivileged()),
        }),
        memcached: memory.map(|memory| memcached::MemcachedConfig {
            max_memory_mb: Some(memory),
            ..memcached::MemcachedConfig::default()
        }),
        image: image::<memcached::Memcached>(draft, rollout, CACHE, cache.image.as_ref()),
        resources: cache.resources.clone(),
        ..memcached::MemcachedSpec::default()
    };
    whole(&memcached::Memcached {
        metadata: draft.metadata(CACHE),
        spec,
        status: None,
    })
}

/// Its operator asks for a processor and 2Gi where nobody says otherwise.
fn modest() -> ResourceRequirements {
    let of = |name: &str, amount: &str| (name.to_owned(), Quantity(amount.to_owned()));
    ResourceRequirements {
        requests: Some([of("cpu", "100m"), of("memory", "512Mi")].into()),
        limits: Some([of("memory", "2Gi")].into()),
        ..ResourceRequirements::default()
    }
}

fn rabbitmq(draft: &Draft<'_>, rollout: &Rollout) -> Value {
    let messaging = &draft.spec.infrastructure.messaging;
    let size = messaging.storage_size.as_deref().unwrap_or(MESSAGING_SIZE);
    let replicas = messaging.replicas.unwrap_or(REPLICAS);
    let pods = draft.spec.global.pods.clone().unwrap_or_default();
    let spec = rabbitmq::RabbitmqClusterSpec {
        replicas: Some(replicas),
        persistence: Some(rabbitmq::Persistence {
            storage: Some(Quantity(size.to_owned())),
            storage_class_name: messaging.storage_class.clone(),
        }),
        resources: Some(messaging.resources.clone().unwrap_or_else(modest)),
        // The pause is for members that have to find each other.
        delay_start_seconds: (replicas == 1).then_some(0),
        image: image::<rabbitmq::RabbitmqCluster>(draft, rollout, MESSAGING, messaging.image.as_ref()),
        image_pull_secrets: pull_secrets(&pods),
        affinity: on_nodes(&pods),
        override_: overridden(&pods),
        tolerations: pods.tolerations,
        rabbitmq: None,
    };
    let mut metadata = draft.metadata(MESSAGING);
    // The newer probe asks for something that servers before 4.2.4 do not have: ours would never be Ready.
    let probe = "rabbitmq.com/legacy-startup-probe";
    metadata.annotations = Some([(probe.to_owned(), "true".to_owned())].into());
    whole(&rabbitmq::RabbitmqCluster {
        metadata,
        spec,
        status: None,
    })
}

/// RabbitMQ's operator knows nodes by affinity.
fn on_nodes(pods: &PodSettings) -> Option<Affinity> {
    let labels = pods.node_selector.iter();
    let expressions: Vec<_> = labels
        .map(|(label, value)| NodeSelectorRequirement {
            key: label.clone(),
            operator: "In".to_owned(),
            values: Some(vec![value.clone()]),
        })
        .collect();
    let terms = NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: Some(expressions),
            ..NodeSelectorTerm::default()
        }],
    };
    (!pods.node_selector.is_empty()).then(|| Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(terms),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    })
}

/// RabbitMQ's operator knows a priority class and the way to spread pods only as an override.
fn overridden(pods: &PodSettings) -> Option<rabbitmq::Override> {
    let spread = pods.topology_key.as_ref().map(|key| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.clone(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some([("app.kubernetes.io/name".to_owned(), MESSAGING.to_owned())].into()),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    });
    if spread.is_none() && pods.priority_class_name.is_none() {
        return None;
    }
    let pod = PodSpec {
        priority_class_name: pods.priority_class_name.clone(),
        topology_spread_constraints: spread.map(|spread| vec![spread]),
        ..PodSpec::default()
    };
    Some(rabbitmq::Override {
        stateful_set: Some(rabbitmq::StatefulSetOverride {
            spec: Some(rabbitmq::StatefulSetOverrideSpec {
                template: Some(PodTemplateSpec {
                    metadata: None,
                    spec: Some(pod),
                }),
            }),
        }),
    })
}
