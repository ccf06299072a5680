//! A simulated API for the tests: decisions are carried out on the world itself, with the same
//! triggers that the engine uses.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::action::{Action, text};
use crate::engine::Config;
use crate::engine::task::{Task, tasks};
use crate::pods;
use crate::world::{Cached, World};

/// The beginning of simulated time: a whole hour, for the schedules.
pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a time")
}

pub(crate) const PROVISIONER: &str = "example.org/directory";

pub(crate) fn config() -> Config {
    Config {
        volumes: "/volumes".into(),
        provisioner: PROVISIONER.to_owned(),
        slices: "slices.example.org".to_owned(),
    }
}

pub(crate) struct Sim {
    pub world: World,
    pub removed_directories: Vec<PathBuf>,
    clock: Timestamp,
    version: u64,
    queue: std::collections::BTreeSet<Task>,
    timers: std::collections::BTreeMap<Task, Timestamp>,
}

impl Default for Sim {
    fn default() -> Self {
        Self {
            world: World::default(),
            removed_directories: Vec::new(),
            clock: now(),
            version: 1,
            queue: Default::default(),
            timers: Default::default(),
        }
    }
}

impl Sim {
    pub(crate) fn learn(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["creationTimestamp"].is_null() {
            object["metadata"]["creationTimestamp"] = self.clock.to_string().into();
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        if object["metadata"]["name"].is_null() {
            let prefix = object["metadata"]["generateName"]
                .as_str()
                .expect("a name or a prefix")
                .to_owned();
            object["metadata"]["name"] = format!("{prefix}{:05}", self.version).into();
        }
        let kind = object["kind"].clone();
        let changed = self
            .world
            .learn(object)
            .unwrap_or_else(|| panic!("{kind} was not taken in"));
        self.queue.extend(tasks(&self.world, &changed));
    }

    /// Somebody deletes an object, without grace.
    pub(crate) fn remove(&mut self, kind: &str, name: &str) {
        let key = ["n", ""]
            .iter()
            .map(|namespace| ((*namespace).to_owned(), name.to_owned()))
            .find(|key| self.object(kind, key).is_some());
        let key = key.unwrap_or_else(|| panic!("no {kind} {name}"));
        self.delete(kind, &key);
    }

    /// Finalizers keep a deleted object.
    fn delete(&mut self, kind: &str, key: &crate::table::Key) {
        let Some(mut object) = self.object(kind, key) else {
            return;
        };
        if object["metadata"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            if let Some(changed) = self.world.forget(kind, key) {
                self.queue.extend(tasks(&self.world, &changed));
            }
        } else if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = self.clock.to_string().into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            self.learn(object);
        }
    }

    pub(crate) fn change<K: Cached + serde::Serialize>(&mut self, name: &str, edit: impl FnOnce(&mut K)) {
        let found = ["n", ""]
            .iter()
            .find_map(|namespace| K::table(&self.world).get(&((*namespace).to_owned(), name.to_owned())));
        let mut object = found.expect("the object").as_ref().clone();
        edit(&mut object);
        self.learn(value(&object));
    }

    /// Carries out decisions until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..2_000 {
            let Some(task) = self.queue.pop_first() else {
                return;
            };
            let decision = task.decide(&self.world, &config(), self.clock);
            match decision.again_at {
                Some(at) => self.timers.insert(task, at),
                None => self.timers.remove(&task),
            };
            for action in decision.actions {
                self.carry_out(action);
            }
        }
        panic!("it does not settle: {:?}", self.queue);
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Create(object) => {
                let text = |pointer: &str| text(&object, pointer);
                let key = (text("/metadata/namespace").into(), text("/metadata/name").into());
                // As the server does: a name that is taken is refused.
                if self.object(text("/kind"), &key).is_none() {
                    self.learn(object);
                }
            }
            Action::Patch { target, body, .. } => {
                let Some(mut object) = self.object(&target.kind, &target.key) else {
                    return;
                };
                merge(&mut object, &body);
                let deleted = !object["metadata"]["deletionTimestamp"].is_null();
                self.learn(object);
                if deleted {
                    self.delete(&target.kind, &target.key);
                }
            }
            Action::Delete { target, .. } => self.delete(&target.kind, &target.key),
            Action::Bind { target, node } => {
                let Some(mut object) = self.object("Pod", &target.key) else {
                    return;
                };
                object["spec"]["nodeName"] = node.into();
                self.learn(object);
            }
            Action::RemoveDirectory { path, then } => {
                self.removed_directories.push(path);
                self.carry_out(*then);
            }
            Action::Event { .. } => {}
        }
    }

    fn object(&self, kind: &str, key: &crate::table::Key) -> Option<Value> {
        macro_rules! each {
            ($kind:ident) => {
                if kind == stringify!($kind) {
                    return <all::$kind as Cached>::table(&self.world)
                        .get(key)
                        .map(|object| value(object.as_ref()));
                }
            };
        }
        crate::world::for_each_kind!(each);
        None
    }

    /// Lets time pass, with all that falls due in it.
    pub(crate) fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.jump(1);
        }
    }

    /// Lets time pass with the controllers off.
    pub(crate) fn jump(&mut self, seconds: i64) {
        self.clock = self
            .clock
            .checked_add(SignedDuration::from_secs(seconds))
            .expect("in range");
        let due: Vec<Task> = self
            .timers
            .iter()
            .filter(|(_, at)| **at <= self.clock)
            .map(|(task, _)| task.clone())
            .collect();
        for task in due {
            self.timers.remove(&task);
            self.queue.insert(task);
        }
        self.settle();
    }

    /// The first `count` pods that are not ready become so.
    pub(crate) fn run_pods(&mut self, count: usize) {
        let waiting: Vec<String> = self
            .world
            .pods
            .iter()
            .filter(|pod| pods::is_active(pod) && !pods::is_ready(pod))
            .take(count)
            .map(|pod| kube::ResourceExt::name_any(pod.as_ref()))
            .collect();
        let since = self.clock;
        for name in waiting {
            self.change::<Pod>(&name, |pod| {
                let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since.to_string()}]});
                pod.status = serde_json::from_value(status).expect("a status");
            });
        }
    }

    /// Runs every pod that comes, until no more come.
    pub(crate) fn run_all(&mut self) {
        for _ in 0..100 {
            self.settle();
            if self
                .world
                .pods
                .iter()
                .all(|pod| !pods::is_active(pod) || pods::is_ready(pod))
            {
                return;
            }
            self.run_pods(usize::MAX);
        }
        panic!("pods keep coming");
    }

    /// One running pod ends.
    pub(crate) fn end_pod(&mut self, phase: &str) {
        let name = self
            .world
            .pods
            .iter()
            .find(|pod| pods::is_active(pod))
            .map(|pod| kube::ResourceExt::name_any(pod.as_ref()));
        let ended = self.clock;
        self.change::<Pod>(&name.expect("an active pod"), |pod| {
            let status = json!({"phase": phase, "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 1, "finishedAt": ended.to_string()}}}]});
            pod.status = serde_json::from_value(status).expect("a status");
        });
    }
}

fn value<K: Cached + serde::Serialize>(object: &K) -> Value {
    let mut value = crate::action::to_value(object);
    value["kind"] = K::kind(&()).into_owned().into();
    value["apiVersion"] = K::api_version(&()).into_owned().into();
    value
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("made one above").remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

mod all {
    pub(super) use k8s_openapi::api::apps::v1::*;
    pub(super) use k8s_openapi::api::batch::v1::*;
    pub(super) use k8s_openapi::api::coordination::v1::*;
    pub(super) use k8s_openapi::api::core::v1::{
        Endpoints, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
    };
    pub(super) use k8s_openapi::api::discovery::v1::*;
    pub(super) use k8s_openapi::api::policy::v1::*;
    pub(super) use k8s_openapi::api::storage::v1::*;
}
