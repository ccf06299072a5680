//! Units of work, and which of them a change calls for.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

use crate::action::Decision;
use crate::apps::{daemonset, deployment, disruption, replicaset, statefulset};
use crate::batch::{cronjob, job, tracking};
use crate::engine::Config;
use crate::services::endpoints;
use crate::table::{Change, Key, key_of};
use crate::world::{Changed, World};
use crate::{node_health, pods, scheduler, volume};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Task {
    Claim(Key),
    Volume(String),
    CronJob(Key),
    Job(Key),
    Deployment(Key),
    ReplicaSet(Key),
    StatefulSet(Key),
    DaemonSet(Key),
    Node(String),
    Schedule,
    Endpoints(Key),
    Disruption(Key),
}

impl Task {
    pub(crate) fn decide(&self, world: &World, config: &Config, now: Timestamp) -> Decision {
        match self {
            Task::Claim(key) => volume::decide_claim(world, key, config),
            Task::Volume(name) => volume::decide_volume(world, name, config),
            Task::CronJob(key) => cronjob::decide(world, key, now),
            Task::Job(key) => job::decide(world, key, now),
            Task::Deployment(key) => deployment::decide(world, key, now),
            Task::ReplicaSet(key) => replicaset::decide(world, key, now),
            Task::StatefulSet(key) => statefulset::decide(world, key, now),
            Task::DaemonSet(key) => daemonset::decide(world, key, now),
            Task::Node(name) => node_health::decide(world, name, now),
            Task::Schedule => scheduler::decide(world, now),
            Task::Endpoints(key) => endpoints::decide(world, key, &config.slices),
            Task::Disruption(key) => disruption::decide(world, key, now),
        }
    }
}

fn key<K: ResourceExt>(change: &Change<K>) -> Key {
    // A change has one side at least.
    change
        .after
        .as_deref()
        .or(change.before.as_deref())
        .map(key_of)
        .unwrap_or_default()
}

/// The task of the workload that controls an object.
fn owner_task<K: ResourceExt>(object: &K) -> Option<Task> {
    let owner = pods::controller_of(object)?;
    let key = (object.namespace().unwrap_or_default(), owner.name.clone());
    match owner.kind.as_str() {
        "ReplicaSet" => Some(Task::ReplicaSet(key)),
        "Deployment" => Some(Task::Deployment(key)),
        "StatefulSet" => Some(Task::StatefulSet(key)),
        "DaemonSet" => Some(Task::DaemonSet(key)),
        "Job" => Some(Task::Job(key)),
        "CronJob" => Some(Task::CronJob(key)),
        _ => None,
    }
}

fn owner_tasks<K: ResourceExt>(change: &Change<K>) -> impl Iterator<Item = Task> {
    change
        .before
        .as_deref()
        .into_iter()
        .chain(change.after.as_deref())
        .filter_map(owner_task)
        .collect::<Vec<_>>()
        .into_iter()
}

pub(crate) fn tasks(world: &World, changed: &Changed) -> BTreeSet<Task> {
    let mut tasks = BTreeSet::new();
    match changed {
        Changed::Pod(change) => pod_tasks(world, change, &mut tasks),
        Changed::Node(change) => {
            tasks.insert(Task::Node(key(change).1));
            // A heartbeat or a list of images moves no pod.
            if node_moved(change) {
                tasks.insert(Task::Schedule);
                tasks.extend(world.daemon_sets.keys().cloned().map(Task::DaemonSet));
            }
        }
        Changed::Lease(change) => {
            let (namespace, name) = key(change);
            if namespace == "kube-node-lease" {
                tasks.insert(Task::Node(name));
            }
        }
        Changed::Service(change) => {
            tasks.insert(Task::Endpoints(key(change)));
        }
        Changed::Endpoints(change) => {
            tasks.insert(Task::Endpoints(key(change)));
        }
        Changed::EndpointSlice(change) => {
            tasks.extend(service_of(change).map(Task::Endpoints));
        }
        Changed::PersistentVolumeClaim(change) => claim_tasks(world, change, &mut tasks),
        Changed::PersistentVolume(change) => volume_tasks(world, change, &mut tasks),
        Changed::StorageClass(_) => tasks.extend(world.claims.keys().cloned().map(Task::Claim)),
        Changed::Deployment(change) => {
            tasks.insert(Task::Deployment(key(change)));
        }
        Changed::ReplicaSet(change) => {
            tasks.insert(Task::ReplicaSet(key(change)));
            tasks.extend(owner_tasks(change));
            lone_tasks(change, world.deployments.keys(), Task::Deployment, &mut tasks);
        }
        Changed::StatefulSet(change) => {
            tasks.insert(Task::StatefulSet(key(change)));
        }
        Changed::DaemonSet(change) => {
            tasks.insert(Task::DaemonSet(key(change)));
        }
        Changed::ControllerRevision(change) => {
            tasks.extend(owner_tasks(change));
            lone_tasks(change, world.stateful_sets.keys(), Task::StatefulSet, &mut tasks);
            lone_tasks(change, world.daemon_sets.keys(), Task::DaemonSet, &mut tasks);
        }
        Changed::Job(change) => {
            tasks.insert(Task::Job(key(change)));
            tasks.extend(owner_tasks(change));
        }
        Changed::CronJob(change) => {
            tasks.insert(Task::CronJob(key(change)));
        }
        Changed::PodDisruptionBudget(change) => {
            tasks.insert(Task::Disruption(key(change)));
        }
    }
    tasks
}

/// The Service that a slice is of.
fn service_of(change: &Change<EndpointSlice>) -> Option<Key> {
    let slice = change.after.as_deref().or(change.before.as_deref())?;
    let service = slice.labels().get("kubernetes.io/service-name")?;
    Some((slice.namespace().unwrap_or_default(), service.clone()))
}

fn claim_tasks(world: &World, change: &Change<PersistentVolumeClaim>, tasks: &mut BTreeSet<Task>) {
    tasks.insert(Task::Claim(key(change)));
    tasks.insert(Task::Schedule);
    let volume = change
        .before
        .as_deref()
        .or(change.after.as_deref())
        .and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
    tasks.extend(volume.map(Task::Volume));
    // A set may wait for the claim to go, or have a pod that needs another.
    if change.after.is_none() {
        let namespace = key(change).0;
        let sets = world.stateful_sets.keys().filter(|key| key.0 == namespace);
        tasks.extend(sets.cloned().map(Task::StatefulSet));
    }
}

fn volume_tasks(world: &World, change: &Change<PersistentVolume>, tasks: &mut BTreeSet<Task>) {
    tasks.insert(Task::Volume(key(change).1));
    let volume = change.after.as_deref().or(change.before.as_deref());
    let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.clone());
    match claim {
        Some(claim) => {
            tasks.insert(Task::Claim((
                claim.namespace.unwrap_or_default(),
                claim.name.unwrap_or_default(),
            )));
        }
        // A free volume may be what a claim waits for.
        None => {
            let waiting = world.claims.keys().filter(|key| !volume::is_bound(world, key));
            tasks.extend(waiting.cloned().map(Task::Claim));
        }
    }
}

/// An object that nobody controls may be adopted by a workload of its namespace.
fn lone_tasks<'a, K: ResourceExt>(
    change: &Change<K>,
    candidates: impl Iterator<Item = &'a Key>,
    task: fn(Key) -> Task,
    tasks: &mut BTreeSet<Task>,
) {
    let Some(object) = change
        .after
        .as_deref()
        .filter(|object| pods::controller_of(*object).is_none())
    else {
        return;
    };
    let namespace = object.namespace().unwrap_or_default();
    tasks.extend(candidates.filter(|key| key.0 == namespace).cloned().map(task));
}

fn node_moved(change: &Change<k8s_openapi::api::core::v1::Node>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return true;
    };
    let room = |node: &k8s_openapi::api::core::v1::Node| {
        node.status.as_ref().and_then(|status| status.allocatable.clone())
    };
    before.spec != after.spec || before.labels() != after.labels() || room(before) != room(after)
}

fn pod_tasks(world: &World, change: &Change<Pod>, tasks: &mut BTreeSet<Task>) {
    tasks.extend(owner_tasks(change));
    tasks.extend(change.after.as_deref().and_then(tracking::job_of).map(Task::Job));
    lone_tasks(change, world.replica_sets.keys(), Task::ReplicaSet, tasks);
    lone_tasks(change, world.stateful_sets.keys(), Task::StatefulSet, tasks);
    lone_tasks(change, world.daemon_sets.keys(), Task::DaemonSet, tasks);
    let (namespace, _) = key(change);
    let sides = || {
        change
            .before
            .as_deref()
            .into_iter()
            .chain(change.after.as_deref())
    };
    for service in world.services.in_namespace(&namespace) {
        let selector = service
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.clone())
            .unwrap_or_default();
        let chosen = |pod: &Pod| {
            selector
                .iter()
                .all(|(name, value)| pod.labels().get(name) == Some(value))
        };
        if !selector.is_empty() && sides().any(chosen) {
            tasks.insert(Task::Endpoints(key_of(service.as_ref())));
        }
    }
    for budget in world.budgets.in_namespace(&namespace) {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        if selector.is_some_and(|selector| sides().any(|pod| pods::selects(selector, pod.labels()))) {
            tasks.insert(Task::Disruption(key_of(budget.as_ref())));
        }
    }
    // A claim may go when the last pod that used it has ended.
    let ended = change.after.as_deref().is_none_or(pods::is_finished);
    if let Some(pod) = change
        .before
        .as_deref()
        .or(change.after.as_deref())
        .filter(|_| ended)
    {
        tasks.extend(pods::claims_of(pod).map(|claim| Task::Claim((namespace.clone(), claim))));
        // A Deployment may wait for its last old pod; the ReplicaSet stopped counting it when it was told
        // to end, and says nothing now.
        if let Some(Task::ReplicaSet(set)) = owner_task(pod) {
            let set = world.replica_sets.get(&set);
            tasks.extend(set.and_then(|set| owner_task(set.as_ref())));
        }
    }
    // A pod that ended makes room; one without a node needs some; and where one was put, another may
    // want to be.
    let placed = || {
        let has_node = |pod: &Pod| scheduler::node_of(pod).is_some();
        change.after.as_deref().is_some_and(has_node)
            && !change.before.as_deref().is_some_and(has_node)
            && world.pods.iter().any(|pod| scheduler::waits(pod))
    };
    if ended || change.after.as_deref().is_some_and(scheduler::waits) || placed() {
        tasks.insert(Task::Schedule);
    }
    // On a node that evicts, or is gone, every pod counts.
    let node = change
        .after
        .as_deref()
        .and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    if let Some(node) = node {
        let known = world.nodes.get(&(String::new(), node.clone()));
        if known.is_none_or(|node| node_health::evicts(node)) {
            tasks.insert(Task::Node(node));
        }
    }
}
