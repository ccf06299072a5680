//! A Keystone with a database and a cache, and ways to look at it and to change it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use end_to_end::process;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "openstack";
pub(crate) const PASSWORD: &str = "try-me-admin";
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct World {
    pub cloud: Cloud,
    pub url: String,
}

impl World {
    /// The quickstart, on a port of its own and with so many replicas.
    pub(crate) fn start(replicas: u32) -> anyhow::Result<Self> {
        let cloud = Cloud::up(&["keystone", "mariadb", "memcached", "openstackclient"])?;
        let port = process::free_port()?;
        let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/quickstart/identity.yaml");
        let objects = std::fs::read_to_string(quickstart)?
            .replace("c5c3.io/expose: \"5000\"", &format!("c5c3.io/expose: \"{port}\""))
            .replace("127.0.0.1:5000", &format!("127.0.0.1:{port}"))
            .replace("admin-password", "keystone-admin-credentials");
        cloud.kubectl(&["apply", "-f", "-"], &objects)?;
        let world = Self {
            cloud,
            url: format!("http://127.0.0.1:{port}/v3"),
        };
        world.change(&json!({"replicas": replicas}))?;
        world.until_ready()?;
        Ok(world)
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.cloud.kubectl(&[&["-n", NAMESPACE], arguments].concat(), "")
    }

    pub(crate) fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.cloud
            .kubectl(&["apply", "-f", "-"], &object.to_string())
            .map(drop)
    }

    pub(crate) fn get(&self, what: &str) -> anyhow::Result<Value> {
        let text = self.kubectl(&["get", what, "-o", "json"])?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Merges this into the spec of the Keystone.
    pub(crate) fn change(&self, spec: &Value) -> anyhow::Result<()> {
        self.patch("keystone/keystone", &json!({"spec": spec}))
    }

    pub(crate) fn patch(&self, what: &str, patch: &Value) -> anyhow::Result<()> {
        self.kubectl(&["patch", what, "--type=merge", "-p", &patch.to_string()])
            .map(drop)
    }

    /// Waits until the look has an answer.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        mut look: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        until(what, PATIENCE, || Ok(look()?.ok_or_else(String::new))).with_context(|| {
            let shown = |words: &[&str]| self.kubectl(words).unwrap_or_default();
            let state = shown(&["get", "keystones,pods,jobs", "-o", "wide"]);
            let conditions = "jsonpath={.items[*].status.conditions}";
            format!("{state}\n{}", shown(&["get", "keystones", "-o", conditions]))
        })
    }

    /// This generation is Ready.
    pub(crate) fn until_ready(&self) -> anyhow::Result<()> {
        self.until("Keystone is Ready", || {
            let object = self.get("keystone/keystone")?;
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let ready = condition(&object, "Ready").is_some_and(|ready| ready["status"] == "True");
            Ok((current && ready).then_some(()))
        })
    }

    /// What a condition says, as soon as the message has this part.
    pub(crate) fn until_said(&self, name: &str, part: &str, words: &str) -> anyhow::Result<String> {
        self.until(&format!("{part} of {name} says {words:?}"), || {
            let object = self.get(&format!("keystone/{name}"))?;
            let message = condition(&object, part).and_then(|found| found["message"].as_str());
            Ok(message.filter(|text| text.contains(words)).map(str::to_owned))
        })
    }

    /// Names of the API's pods that are not on their way out.
    pub(crate) fn pods(&self) -> anyhow::Result<BTreeSet<String>> {
        let labels = "app.kubernetes.io/instance=keystone,app.kubernetes.io/component=api";
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "pods", "-l", labels, "-o", "json"])?)?;
        let pods = list["items"].as_array().context("pods")?;
        let staying = pods
            .iter()
            .filter(|pod| pod["metadata"].get("deletionTimestamp").is_none());
        Ok(staying
            .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
            .collect())
    }
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == kind)
}
