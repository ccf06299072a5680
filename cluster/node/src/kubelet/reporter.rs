//! Reports to the API: statuses, ends and events.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event as ApiEvent, EventType, Recorder, Reporter as Source};
use kube::{Api, Client, Resource};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::error::{Error, Result};
use crate::pods::Reporter;
use crate::pods::host::Event;
use crate::pods::observe::view;

pub struct KubeReporter {
    client: Client,
    events: mpsc::Sender<(ObjectReference, ApiEvent)>,
}

/// Events wait here when the API is slow; more are dropped.
const QUEUE: usize = 1024;

impl KubeReporter {
    pub fn new(client: Client, node: &str) -> Self {
        let source = Source {
            controller: "kubelet".into(),
            instance: Some(node.into()),
        };
        let recorder = Recorder::new(client.clone(), source);
        let (events, mut queue) = mpsc::channel::<(ObjectReference, ApiEvent)>(QUEUE);
        tokio::spawn(async move {
            while let Some((about, event)) = queue.recv().await {
                if let Err(e) = recorder.publish(&event, &about).await {
                    tracing::debug!("event {}: {e}", event.reason);
                }
            }
        });
        Self { client, events }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), view::namespace(pod))
    }
}

fn gone(e: &kube::Error) -> bool {
    matches!(e, kube::Error::Api(status) if status.code == 404)
}

/// A merge patch that makes `old` into `new`: what is missing in `new` becomes null.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        _ if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => {
                        if let Some(inner) = difference(before, value) {
                            patch.insert(key.clone(), inner);
                        }
                    }
                    None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            for key in old.keys().filter(|k| !new.contains_key(*k)) {
                patch.insert(key.clone(), Value::Null);
            }
            Some(Value::Object(patch))
        }
        _ => Some(new.clone()),
    }
}

#[async_trait]
impl Reporter for KubeReporter {
    async fn status(&self, pod: &Pod, status: &PodStatus) -> Result<Option<String>> {
        let value = |status: &PodStatus| {
            serde_json::to_value(status).map_err(|e| Error::said(format!("pod status: {e}")))
        };
        let old = pod.status.as_ref().map(value).transpose()?.unwrap_or(json!({}));
        let Some(change) = difference(&old, &value(status)?) else {
            return Ok(pod.metadata.resource_version.clone());
        };
        // Bound to this pod, not to another of the same name. Lists are replaced whole: the
        // version guards the conditions that others write.
        let mut metadata = json!({ "uid": view::uid(pod) });
        if change.get("conditions").is_some() {
            metadata["resourceVersion"] = json!(pod.metadata.resource_version);
        }
        let patch = json!({ "metadata": metadata, "status": change });
        let name = view::name(pod);
        let written = self
            .api(pod)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match written {
            Ok(stored) => Ok(stored.metadata.resource_version),
            Err(e) if gone(&e) => Ok(None),
            Err(e) => Err(Error::api(format!("status of pod {name}"))(e)),
        }
    }

    async fn finish(&self, pod: &Pod) -> Result<()> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let name = view::name(pod);
        match self.api(pod).delete(name, &params).await {
            // Another pod has the name already.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(e) if !gone(&e) => Err(Error::api(format!("delete pod {name}"))(e)),
            _ => Ok(()),
        }
    }

    fn event(&self, pod: &Pod, event: Event) {
        let mut about = pod.object_ref(&());
        let init = pod.spec.as_ref().is_some_and(|spec| {
            view::init_containers(spec)
                .iter()
                .any(|c| Some(&c.name) == event.container.as_ref())
        });
        about.field_path = event.container.map(|name| {
            if init {
                format!("spec.initContainers{{{name}}}")
            } else {
                format!("spec.containers{{{name}}}")
            }
        });
        let event = ApiEvent {
            type_: if event.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: event.reason.into(),
            note: Some(event.message.chars().take(1000).collect()),
            action: event.reason.into(),
            secondary: None,
        };
        let _ = self.events.try_send((about, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn differences() {
        let old = json!({ "a": 1, "b": { "c": 2, "d": 3 }, "l": [1] });
        let new = json!({ "a": 1, "b": { "c": 4 }, "l": [2], "n": true });
        assert_eq!(
            difference(&old, &new),
            Some(json!({ "b": { "c": 4, "d": null }, "l": [2], "n": true }))
        );
        assert_eq!(difference(&old, &old), None);
    }

    fn objects() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<u8>().prop_map(Value::from)
        ];
        let inner = prop::collection::btree_map("[a-c]", leaf, 0..3)
            .prop_map(|m| Value::Object(m.into_iter().collect()));
        prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_patch_leads_from_old_to_new(old in objects(), new in objects()) {
            let mut made = old.clone();
            if let Some(patch) = difference(&old, &new) {
                let patch = patch.to_string();
                made = apimachinery::patch::merge::apply(made, patch.as_bytes()).unwrap();
            }
            prop_assert_eq!(made, new);
        }
    }
}
