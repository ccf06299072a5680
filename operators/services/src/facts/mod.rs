//! What the reconciler reads before it decides.

mod account;
mod backends;
mod certificates;
pub(crate) mod dependencies;
mod elsewhere;
mod live;
pub(crate) mod ovn;
mod pods;
mod strays;

pub(crate) use account::{Account, value};
pub(crate) use backends::BROKERS_READY;
pub(crate) use certificates::NodeCertificates;
pub(crate) use live::Live;
pub(crate) use pods::has_ended;
pub(crate) use strays::Stray;

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::common::ObjectRef;
use c5c3_api::foreign::ConditionsStatus;
use c5c3_api::foreign::mariadb::MariaDb;
use c5c3_api::foreign::memcached::Memcached;
use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use c5c3_api::foreign::rook::CephClient;
use c5c3_api::ovn::OvnCluster;
use c5c3_kit::controller::Object;
use c5c3_kit::owned::Owned;
use c5c3_kit::{Kind, Reader, Reference};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::ResourceExt;

use crate::error::Error;
use crate::names::{NAMING, ROTATED, STAGED};
use crate::shape::{Service, VolumeSource};

/// Why something cannot be used yet, and the object on which that depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub text: String,
    pub blocker: Option<Reference>,
}

impl Trouble {
    /// About an object of the same namespace.
    pub fn with<K: Object>(name: &str, text: String) -> Self {
        Trouble {
            text,
            blocker: Some(Kind::of::<K>().named(None, name)),
        }
    }
}

/// The data of a Secret.
pub(crate) type SecretData = BTreeMap<String, Vec<u8>>;

/// A key set of ours as it is stored.
#[derive(Default, Clone)]
pub struct KeySecret {
    pub data: SecretData,
    /// When it was last rotated, as annotated.
    pub rotated: Option<String>,
    /// Since when its staged key is there, as annotated.
    pub staged: Option<String>,
}

/// It holds values of Secrets, so there is no Debug.
#[derive(Default, Clone)]
pub struct Facts {
    /// Secrets that the spec names; absent ones have no entry.
    pub secrets: BTreeMap<String, SecretData>,
    /// Names that follow from secrets are made with this key: who sees a name cannot try passwords on it.
    pub naming: String,
    /// Key sets of ours.
    pub key_secrets: BTreeMap<&'static str, KeySecret>,
    /// policy.yaml of the ConfigMap that policyOverrides names.
    pub policy: Option<String>,
    pub policy_found: bool,
    /// The first of `dependsOn` that is not met.
    pub unmet: Option<Trouble>,
    pub databases: BTreeMap<String, MariaDb>,
    pub brokers: BTreeMap<String, RabbitmqCluster>,
    /// Readiness of the objects in a database or broker, by kind and name; the message says why not.
    pub backend_objects: BTreeMap<(&'static str, String), Result<(), String>>,
    pub caches: BTreeMap<String, Memcached>,
    pub ceph_clients: BTreeMap<ObjectRef, CephClient>,
    /// The OVNCluster that the spec names.
    pub ovn: Option<OvnCluster>,
    /// Certificates for OVN, by name of their Secrets: those that the spec names, or else the OVNCluster.
    pub ovn_secrets: BTreeMap<String, SecretData>,
    pub jobs: BTreeMap<String, Job>,
    pub pods: Vec<Pod>,
    pub deployments: BTreeMap<String, Deployment>,
    pub stateful_sets: BTreeMap<String, StatefulSet>,
    pub daemon_sets: BTreeMap<String, DaemonSet>,
    /// Other clusters that processes run in, and why one cannot be worked with now.
    pub elsewhere: BTreeMap<String, Result<(), String>>,
    pub claims: BTreeMap<String, PersistentVolumeClaim>,
    pub owned: Vec<(Reference, Owned)>,
    /// Nodes whose label names a group that there is not.
    pub strays: Vec<Stray>,
    /// Certificates of the nodes, where a process mounts some.
    pub certificates: Option<NodeCertificates>,
    /// For keys that may have to be made: fresh in every pass, so that deciding stays pure.
    pub random: [[u8; 32]; 4],
}

/// Secrets that the spec names.
pub(crate) fn secret_names(service: &Service) -> BTreeSet<String> {
    let databases = service
        .databases
        .iter()
        .map(|named| &named.database.secret_ref.name);
    let buses = service.buses.iter().map(|named| &named.bus.secret_ref.name);
    let keystone = service.keystone.iter();
    let authority = keystone.filter_map(|keystone| Some(&keystone.ca_secret_ref.as_ref()?.name));
    let task = service.schema.task.iter();
    let tasks = task.flat_map(|task| task.secrets.iter().map(|(_, secret, _)| secret));
    let settings = service.settings.iter();
    let logins = settings.clone().flat_map(|settings| &settings.logins);
    let options = settings.flat_map(|settings| &settings.secret_options);
    let volumes = service.volumes();
    let volumes = volumes.iter().flat_map(|volume| match &volume.source {
        VolumeSource::Keyring { login, also, .. } => {
            let logins = [login].into_iter().chain(also);
            logins.map(|login| &login.secret).collect()
        }
        _ => Vec::new(),
    });
    databases
        .chain(buses)
        .chain(authority)
        .chain(tasks)
        .chain(logins.map(|login| &login.secret))
        .chain(options.map(|option| &option.secret))
        .chain(volumes)
        .cloned()
        .collect()
}

pub(crate) async fn observe(service: &Service, on_nodes: bool, reader: &Reader) -> Result<Facts, Error> {
    let names = &service.names;
    let namespace = names.namespace.as_str();
    let mut facts = Facts {
        owned: reader.owned(),
        random: std::array::from_fn(|_| rand::random()),
        ..Facts::default()
    };

    let naming = reader.get::<Secret>(namespace, &names.suffixed(NAMING)).await?;
    facts.naming = match naming.map(data) {
        Some(mut stored) => String::from_utf8(stored.remove("key").unwrap_or_default()).unwrap_or_default(),
        None => crate::keys::key(rand::random()),
    };
    let wanted: Vec<String> = secret_names(service).into_iter().collect();
    let secrets = try_join_all(wanted.iter().map(|name| reader.get::<Secret>(namespace, name))).await?;
    facts.secrets = wanted
        .into_iter()
        .zip(secrets)
        .filter_map(|(name, secret)| Some((name, data(secret?))))
        .collect();
    for set in &service.key_sets {
        if let Some(secret) = reader.get::<Secret>(namespace, &names.suffixed(set.name)).await? {
            let mark = |name: &str| secret.annotations().get(name).cloned();
            let (rotated, staged) = (mark(ROTATED), mark(STAGED));
            let stored = KeySecret {
                data: data(secret),
                rotated,
                staged,
            };
            facts.key_secrets.insert(set.name, stored);
        }
    }
    let policy = service.common.policy_overrides.as_ref();
    if let Some(reference) = policy.and_then(|policy| policy.config_map_ref.as_ref()) {
        let found = reader.get::<ConfigMap>(namespace, &reference.name).await?;
        facts.policy_found = found.is_some();
        facts.policy = found.and_then(|map| map.data.and_then(|mut data| data.remove("policy.yaml")));
    }
    facts.unmet = dependencies::unmet(reader, namespace, &service.common.depends_on).await?;
    backends::read(service, reader, &mut facts).await?;
    for client in service.ceph_clients() {
        let namespace = client.namespace.as_deref().unwrap_or(namespace);
        if let Some(found) = reader.get(namespace, &client.name).await? {
            facts.ceph_clients.insert(client.clone(), found);
        }
    }
    ovn::read(service, reader, &mut facts).await?;

    let labels = names.selector();
    facts.jobs = named(reader.list(namespace, &labels).await?);
    facts.pods = reader.list(namespace, &labels).await?;
    facts.deployments = named(reader.list(namespace, &labels).await?);
    facts.stateful_sets = named(reader.list(namespace, &labels).await?);
    if on_nodes {
        facts.daemon_sets = named(reader.list(namespace, &labels).await?);
    }
    for cluster in service.elsewhere() {
        let found = elsewhere::look(reader, cluster, namespace, &labels).await;
        let found = found.map(|(sets, pods)| {
            facts.daemon_sets.extend(named(sets));
            facts.pods.extend(pods);
        });
        facts.elsewhere.insert(cluster.to_owned(), found);
    }
    facts.claims = named(reader.list(namespace, &labels).await?);
    certificates::tend(service, reader, &mut facts).await?;
    strays::read(service, reader, &mut facts).await?;
    Ok(facts)
}

fn named<K: ResourceExt>(objects: Vec<K>) -> BTreeMap<String, K> {
    objects
        .into_iter()
        .map(|object| (object.name_any(), object))
        .collect()
}

/// The condition is True, or why not.
pub(crate) fn readiness(status: Option<ConditionsStatus>, condition: &str) -> Result<(), String> {
    let conditions = status.map(|status| status.conditions).unwrap_or_default();
    match conditions.into_iter().find(|found| found.type_ == condition) {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => Err(ready.message.unwrap_or_else(|| "not ready".to_owned())),
        None => Err("not ready yet".to_owned()),
    }
}

fn data(secret: Secret) -> SecretData {
    secret
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}
