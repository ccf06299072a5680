//! A cluster for behaviour tests, and patience.
//!
//! By default each [`TestCluster`] is an embedded API server of its own. With `C5C3_TEST_KUBECONFIG`
//! set, all use that server instead: a suite written against a client runs on both.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde_json::json;

/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(20);

pub struct TestCluster {
    client: Client,
    kubeconfig: PathBuf,
    // Dropped last, after the server that writes to it.
    _embedded: Option<(apiserver::Server, tempfile::TempDir)>,
}

impl TestCluster {
    pub async fn start() -> Self {
        Self::start_on(None).await
    }

    /// One that other processes can reach, by [`kubeconfig`](Self::kubeconfig).
    pub async fn start_listening() -> Self {
        Self::start_on(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).await
    }

    async fn start_on(listen: Option<SocketAddr>) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        if let Some(path) = std::env::var_os("C5C3_TEST_KUBECONFIG") {
            let path = PathBuf::from(path);
            let kubeconfig = Kubeconfig::read_from(&path).expect("C5C3_TEST_KUBECONFIG is a kubeconfig");
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .expect("the kubeconfig has a context");
            let client = Client::try_from(config).expect("a client");
            return TestCluster {
                client,
                kubeconfig: path,
                _embedded: None,
            };
        }
        Self::embedded(listen).await
    }

    /// A second cluster, whatever the first is.
    pub async fn another() -> Self {
        Self::embedded(None).await
    }

    async fn embedded(listen: Option<SocketAddr>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = apiserver::Config {
            state_dir: directory.path().to_owned(),
            listen,
            clusters: vec!["test".to_owned()],
            ..apiserver::Config::default()
        };
        let server = apiserver::Server::start(config)
            .await
            .expect("the embedded API server starts");
        TestCluster {
            client: server.client("test"),
            kubeconfig: server.kubeconfig_path().to_owned(),
            _embedded: Some((server, directory)),
        }
    }

    /// `true` when this is our own server and not one from outside.
    pub fn is_embedded(&self) -> bool {
        self._embedded.is_some()
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client of someone who may do what the rules say, everywhere, and no more.
    pub async fn client_with(&self, user: &str, rules: Vec<PolicyRule>) -> Client {
        let group = "rbac.authorization.k8s.io";
        let params = PatchParams::apply("test").force();
        let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": user},
            "rules": rules});
        Api::<ClusterRole>::all(self.client())
            .patch(user, &params, &Patch::Apply(role))
            .await
            .expect("a role");
        let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": user}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
        Api::<ClusterRoleBinding>::all(self.client())
            .patch(user, &params, &Patch::Apply(binding))
            .await
            .expect("a binding");
        if let Some((server, _)) = &self._embedded {
            return server.client_as("test", user, &[]);
        }
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig");
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("the kubeconfig has a context");
        config.auth_info.impersonate = Some(user.to_owned());
        Client::try_from(config).expect("a client")
    }

    /// For other processes; of an embedded server only when it listens.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A fresh namespace.
    pub async fn namespace(&self, prefix: &str) -> String {
        let name = format!("{prefix}-{:08x}", rand::random::<u32>());
        self.make_namespace(&name).await;
        name
    }

    pub async fn make_namespace(&self, name: &str) {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.client());
        api.create(&PostParams::default(), &namespace)
            .await
            .expect("a namespace");
    }

    /// Installs a kind and waits until it is served.
    pub async fn install(&self, crd: &CustomResourceDefinition) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let params = PatchParams::apply("test-harness").force();
        api.patch(&crd.name_any(), &params, &Patch::Apply(crd))
            .await
            .expect("the definition is accepted");
        eventually("the kind is established", async || {
            let live = api.get(&crd.name_any()).await.ok()?;
            let conditions = live.status?.conditions?;
            conditions
                .iter()
                .any(|c| c.type_ == "Established" && c.status == "True")
                .then_some(())
        })
        .await;
        let resource = kube::core::ApiResource {
            group: crd.spec.group.clone(),
            version: crd.spec.versions[0].name.clone(),
            api_version: format!("{}/{}", crd.spec.group, crd.spec.versions[0].name),
            kind: crd.spec.names.kind.clone(),
            plural: crd.spec.names.plural.clone(),
        };
        let objects: Api<kube::core::DynamicObject> = Api::all_with(self.client(), &resource);
        eventually("the kind is served", async || {
            objects.list(&ListParams::default()).await.ok()
        })
        .await;
    }

    /// Write requests so far, by resource, as the server itself counts them.
    pub async fn writes(&self) -> BTreeMap<String, u64> {
        requests(&self.metrics().await, WRITES)
    }

    /// The same of reads: who is idle follows watches, and asks nothing.
    pub async fn reads(&self) -> BTreeMap<String, u64> {
        requests(&self.metrics().await, READS)
    }

    async fn metrics(&self) -> String {
        let request = http::Request::get("/metrics")
            .body(Vec::new())
            .expect("a request");
        let text = self.client.request_text(request).await;
        text.expect("the server has metrics")
    }
}

const READS: &[&str] = &["get", "list"];
const WRITES: &[&str] = &[
    "apply",
    "create",
    "delete",
    "deletecollection",
    "patch",
    "post",
    "put",
    "update",
];

/// Requests with one of these verbs, by resource.
fn requests(metrics: &str, verbs: &[&str]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
    {
        let label = |name: &str| {
            let start = line.find(&format!("{name}=\""))? + name.len() + 2;
            line[start..].split('"').next()
        };
        let (Some(verb), Some(resource)) = (label("verb"), label(",resource").or_else(|| label("resource")))
        else {
            continue;
        };
        // Paths such as that of the metrics.
        if resource.is_empty() {
            continue;
        }
        let count = line
            .rsplit(' ')
            .next()
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0);
        if verbs.contains(&verb.to_ascii_lowercase().as_str()) {
            *counts.entry(resource.to_owned()).or_default() += count as u64;
        }
    }
    counts
}

/// Looks until there is an answer. Panics, saying what was waited for, when patience ends.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, LOOK, what, look).await
}

/// The same with another patience, for what takes longer or costs more to look at.
pub async fn within<T>(
    patience: Duration,
    every: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < patience, "not in {patience:?}: {what}");
        tokio::time::sleep(every).await;
    }
}

/// Looks for a while: the answer must stay the same all the time.
pub async fn steadily<T: PartialEq + Debug>(
    what: &str,
    time: Duration,
    mut look: impl AsyncFnMut() -> T,
) -> T {
    let first = look().await;
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::time::sleep(LOOK).await;
        assert_eq!(look().await, first, "{what} changed");
    }
    first
}

/// Waits until it stays the same for so long: what comes of the last change (events come after the
/// status) is over at some time, and who writes again and again never is.
pub async fn settles<T: PartialEq + Debug>(
    what: &str,
    silence: Duration,
    mut look: impl AsyncFnMut() -> T,
) -> T {
    let deadline = Instant::now() + PATIENCE + silence;
    let (mut last, mut since) = (look().await, Instant::now());
    while since.elapsed() < silence {
        tokio::time::sleep(LOOK).await;
        let now = look().await;
        if now != last {
            assert!(
                Instant::now() < deadline,
                "{what} still changes: {last:?}, {now:?}"
            );
            (last, since) = (now, Instant::now());
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_requests_in_the_metrics_of_either_server() {
        let text = "\
# TYPE apiserver_request_total counter
apiserver_request_total{code=\"200\",group=\"\",resource=\"secrets\",subresource=\"\",verb=\"APPLY\"} 3
apiserver_request_total{cluster=\"a\",verb=\"create\",group=\"\",resource=\"secrets\",subresource=\"\",code=\"201\"} 2
apiserver_request_total{code=\"200\",resource=\"secrets\",verb=\"GET\"} 9
apiserver_request_total{code=\"200\",resource=\"leases\",verb=\"PUT\"} 1
apiserver_request_duration_seconds_count{verb=\"PUT\"} 7
";
        assert_eq!(
            requests(text, WRITES),
            BTreeMap::from([("leases".to_owned(), 1), ("secrets".to_owned(), 5)])
        );
        assert_eq!(requests(text, READS), BTreeMap::from([("secrets".to_owned(), 9)]));
    }
}
