//! The API in memory: objects that pods name and reports about them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use embedded_node::Result;
use embedded_node::cri::Cri;
use embedded_node::node::Node;
use embedded_node::pods::host::Event;
use embedded_node::pods::start::sandbox::Dns;
use embedded_node::pods::volumes::{Needs, TokenRequest};
use embedded_node::pods::{Claimed, Host, Objects, Reporter, Token, Worker};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use serde_json::{Value, json};

use super::test_nodes::{PATIENCE, TestNodes};

#[derive(Default)]
pub(crate) struct MemoryApi {
    pub config_maps: Mutex<BTreeMap<String, ConfigMap>>,
    pub secrets: Mutex<BTreeMap<String, Secret>>,
    pub claims: Mutex<BTreeMap<String, PathBuf>>,
    pub statuses: Mutex<BTreeMap<String, PodStatus>>,
    pub history: Mutex<Vec<(String, PodStatus)>>,
    pub events: Mutex<Vec<(String, Event)>>,
    pub finished: Mutex<Vec<String>>,
    version: AtomicU64,
    /// So many requests for a token fail.
    pub refused: AtomicU64,
    /// Tokens that were given out.
    pub tokens: AtomicU64,
}

#[async_trait]
impl Objects for MemoryApi {
    async fn config_map(&self, _: &Pod, name: &str) -> Result<Option<ConfigMap>> {
        Ok(self.config_maps.lock().unwrap().get(name).cloned())
    }

    async fn secret(&self, _: &Pod, name: &str) -> Result<Option<Secret>> {
        Ok(self.secrets.lock().unwrap().get(name).cloned())
    }

    async fn claim(&self, _: &Pod, name: &str) -> Result<Claimed> {
        let known = self.claims.lock().unwrap().get(name).cloned();
        Ok(known.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found")))
    }

    async fn token(&self, _: &Pod, request: &TokenRequest) -> Result<Token> {
        let left = |n: u64| n.checked_sub(1);
        let refused = self
            .refused
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if refused.is_ok() {
            return Err(embedded_node::Error::said("no token now"));
        }
        let number = match self.tokens.fetch_add(1, Ordering::SeqCst) {
            0 => String::new(),
            _ if request.audience != "counted" => String::new(),
            n => format!(" {n}"),
        };
        Ok(Token {
            value: format!("token for {}{number}", request.audience),
            renew_at: jiff::Timestamp::MAX,
        })
    }

    fn services(&self, _: &str) -> Vec<(String, String)> {
        vec![("KUBERNETES_SERVICE_HOST".into(), "10.192.0.1".into())]
    }

    fn used(&self, _: &Pod, _: &Needs) {}

    fn unused(&self, _: &Pod) {}
}

#[async_trait]
impl Reporter for MemoryApi {
    async fn status(&self, pod: &Pod, status: &PodStatus) -> Result<Option<String>> {
        let name = pod.metadata.name.clone().unwrap();
        self.history.lock().unwrap().push((name.clone(), status.clone()));
        self.statuses.lock().unwrap().insert(name, status.clone());
        Ok(Some(self.next_version()))
    }

    async fn finish(&self, pod: &Pod) -> Result<()> {
        self.finished
            .lock()
            .unwrap()
            .push(pod.metadata.name.clone().unwrap());
        Ok(())
    }

    fn event(&self, pod: &Pod, event: Event) {
        self.events
            .lock()
            .unwrap()
            .push((pod.metadata.name.clone().unwrap(), event));
    }
}

impl MemoryApi {
    /// The number of the next change.
    pub(crate) fn next_version(&self) -> String {
        (self.version.fetch_add(1, Ordering::SeqCst) + 1).to_string()
    }

    /// How many reports about a pod were written.
    pub(crate) fn reports(&self, name: &str) -> usize {
        let all = self.history.lock().unwrap();
        all.iter().filter(|(pod, _)| pod == name).count()
    }

    /// Everything that was said about a pod.
    pub(crate) fn events_of(&self, name: &str) -> String {
        let all = self.events.lock().unwrap();
        let own = all.iter().filter(|(pod, _)| pod == name);
        own.map(|(_, e)| format!("{}: {}\n", e.reason, e.message))
            .collect()
    }
}

/// A pod of the test: its worker, its object and what is reported of it.
pub(crate) struct Case {
    pub pod: Pod,
    pub worker: Worker,
    api: Arc<MemoryApi>,
    host: Arc<Host>,
}

pub(crate) fn host(test_nodes: &TestNodes, node: &Node, cri: &Cri, api: &Arc<MemoryApi>) -> Arc<Host> {
    Arc::new(Host {
        address: embedded_node::Addresses::default()
            .node(node.layout.index)
            .to_string(),
        node: node.clone(),
        cri: cri.clone(),
        images: test_nodes.images.clone(),
        dns: Dns {
            server: "10.192.0.10".into(),
            domain: "cluster.local".into(),
        },
        objects: api.clone(),
        reporter: api.clone(),
        cpus: 2,
        memory: 1 << 30,
        ready: tokio::sync::watch::Sender::new(true),
    })
}

pub(crate) fn pod(name: &str, spec: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("{name}-uid"),
            "labels": { "app": name } },
        "spec": spec,
    }))
    .unwrap()
}

impl Case {
    pub(crate) fn start(host: &Arc<Host>, api: &Arc<MemoryApi>, pod: Pod) -> Self {
        Self {
            worker: Worker::start(host.clone(), pod.clone()),
            pod,
            api: api.clone(),
            host: host.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap()
    }

    pub(crate) fn status(&self) -> PodStatus {
        let all = self.api.statuses.lock().unwrap();
        all.get(self.name()).cloned().unwrap_or_default()
    }

    /// Waits until the report satisfies `test`. The worker hears of its own reports, as
    /// a watch would, and of changes in the runtime, as events would.
    pub(crate) async fn until(&mut self, what: &str, test: impl Fn(&PodStatus) -> bool) -> PodStatus {
        let deadline = Instant::now() + PATIENCE;
        let mut polls = 0;
        loop {
            let status = self.status();
            if test(&status) {
                return status;
            }
            if Instant::now() > deadline {
                let events = self.api.events.lock().unwrap();
                panic!("{}: not {what}: {status:#?}\n{events:#?}", self.name());
            }
            if self.pod.status.as_ref() != Some(&status) && status != PodStatus::default() {
                self.pod.status = Some(status);
                self.update();
            }
            polls += 1;
            if polls % 5 == 0 {
                self.worker.poke();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The object as it is now, with a version of its own, as a watch would bring it.
    pub(crate) fn update(&mut self) {
        self.pod.metadata.resource_version = Some(self.api.next_version());
        self.worker.update(self.pod.clone());
    }

    /// This program restarts: another worker takes over.
    pub(crate) fn restart(&mut self) {
        self.pod.status = Some(self.status());
        self.pod.metadata.resource_version = Some(self.api.next_version());
        self.worker = Worker::start(self.host.clone(), self.pod.clone());
    }

    pub(crate) async fn until_phase(&mut self, phase: &str) -> PodStatus {
        self.until(phase, |s| s.phase.as_deref() == Some(phase)).await
    }

    pub(crate) async fn until_ready(&mut self) -> PodStatus {
        self.until("ready", ready).await
    }

    fn log_file(&self, container: &str, attempt: u32) -> String {
        let directory =
            embedded_node::pods::start::sandbox::log_directory(&self.host.node.layout.logs(), &self.pod);
        format!("{directory}/{container}/{attempt}.log")
    }

    pub(crate) fn log(&self, container: &str, attempt: u32) -> String {
        let text = std::fs::read_to_string(self.log_file(container, attempt)).unwrap_or_default();
        said(&text)
    }

    /// The whole log, though its file goes with the pod: an open file stays.
    pub(crate) fn follow_log(&self, container: &str, attempt: u32) -> std::thread::JoinHandle<String> {
        use std::io::Read;
        let path = self.log_file(container, attempt);
        let mut file = std::fs::File::open(&path).unwrap();
        std::thread::spawn(move || {
            let deadline = Instant::now() + PATIENCE;
            while std::path::Path::new(&path).exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            said(&text)
        })
    }

    pub(crate) async fn exec(&self, container: &str, script: &str) -> String {
        let status = self.status();
        let id = status
            .container_statuses
            .iter()
            .flatten()
            .find(|c| c.name == container)
            .unwrap();
        let id = id
            .container_id
            .as_deref()
            .unwrap()
            .trim_start_matches("containerd://")
            .to_owned();
        let command = ["sh", "-c", script].map(String::from);
        let done = self.host.cri.exec(&id, &command, PATIENCE).await.unwrap();
        String::from_utf8([done.stdout, done.stderr].concat()).unwrap()
    }

    pub(crate) async fn delete(&mut self, grace: i64) {
        // As the API server writes it: when the time is over.
        let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(grace);
        self.pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(end));
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.update();
        let deadline = Instant::now() + PATIENCE;
        while !self.api.finished.lock().unwrap().iter().any(|n| n == self.name()) {
            assert!(Instant::now() < deadline, "{} is not gone", self.name());
            self.worker.poke();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(crate) fn ready(status: &PodStatus) -> bool {
    condition(status, "Ready") == Some("True")
}

pub(crate) fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a str> {
    let all = status.conditions.iter().flatten();
    all.filter(|c| c.type_ == kind).map(|c| c.status.as_str()).next()
}

/// The lines of a log without what the runtime adds.
fn said(text: &str) -> String {
    text.lines()
        .filter_map(|l| l.splitn(4, ' ').nth(3))
        .map(|l| format!("{l}\n"))
        .collect()
}
