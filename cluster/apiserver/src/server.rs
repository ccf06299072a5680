//! Start, clients, stop.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::Network,
    auth::{self, AccessControl},
    cluster::Cluster,
    controllers,
    identity::Identity,
    pods,
    serve::{ApiService, Connections, Core, Home, InProcess, Lanes, Limits, Metrics, listener},
    store::{Action, DiskError, Expect, History, ObjectKey, Redb, Store, Write, draft},
    strategy::ServiceNetwork,
};

/// How to run a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Holds the store, keys and the kubeconfig.
    pub state_dir: PathBuf,
    /// Address of the HTTPS listener, port 0 for any free one; `None`: in-process clients only.
    pub listen: Option<SocketAddr>,
    /// Names and addresses under which clients reach the server, beside localhost.
    pub names: Vec<String>,
    /// Logical clusters; the first one also answers paths without a `/clusters/<name>` prefix.
    pub clusters: Vec<String>,
    /// Addresses of Services: network and prefix length.
    pub service_network: (std::net::Ipv4Addr, u8),
    /// The same for clusters that have a network of their own, by name.
    pub service_networks: BTreeMap<String, (std::net::Ipv4Addr, u8)>,
    pub limits: Limits,
    pub history: History,
    /// How long requests under way may take to end at shutdown.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state_dir: PathBuf::new(),
            listen: None,
            names: Vec::new(),
            clusters: vec!["default".into()],
            service_network: (std::net::Ipv4Addr::new(10, 96, 0, 0), 16),
            service_networks: BTreeMap::new(),
            limits: Limits::default(),
            history: History::default(),
            grace: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("config: {0}")]
    Config(String),
    #[error("cannot use the state directory {path}: {source}")]
    StateDir { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] DiskError),
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot prepare certificates and keys: {0}")]
    Keys(String),
    #[error("cannot set up the cluster {cluster}: {reason}")]
    Cluster { cluster: String, reason: String },
}

/// A running API server. Dropping it stops it without waiting.
pub struct Server {
    core: Arc<Core>,
    access: Arc<AccessControl>,
    address: Option<SocketAddr>,
    kubeconfig: PathBuf,
    tasks: Vec<JoinHandle<()>>,
    grace: Duration,
}

impl Server {
    pub async fn start(config: Config) -> Result<Self, StartError> {
        check(&config)?;
        let directory = config.state_dir.clone();
        // Secrets lie here as they are. A directory that an earlier version left open is closed too.
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)))
            .map_err(|source| StartError::StateDir {
                path: directory.clone(),
                source,
            })?;
        let history = config.history;
        let file = directory.join("store.redb");
        let store = tokio::task::spawn_blocking(move || Store::open(Box::new(Redb::open(&file)?), history))
            .await
            .map_err(|error| StartError::Config(error.to_string()))??;
        let clusters: BTreeMap<Arc<str>, Arc<Cluster>> = config
            .clusters
            .iter()
            .map(|name| {
                let own = config.service_networks.get(name);
                let (address, prefix) = *own.unwrap_or(&config.service_network);
                let network = ServiceNetwork::new(address, prefix);
                (
                    name.as_str().into(),
                    Arc::new(Cluster::new(name, store.clone(), network)),
                )
            })
            .collect();
        let keys = |error: auth::KeyError| StartError::Keys(error.to_string());
        let access = AccessControl::open(&directory.join("pki"), &config.names).map_err(keys)?;
        let access = Arc::new(access);
        let core = Arc::new(Core {
            store,
            clusters,
            default_cluster: config.clusters[0].as_str().into(),
            lanes: Lanes::new(config.limits.requests),
            connections: Connections::new(config.limits.connections),
            watches: Lanes::new(config.limits.watches),
            streams: Lanes::new(config.limits.streams),
            limits: config.limits,
            metrics: Arc::new(Metrics::default()),
            access: access.clone(),
            stopping: CancellationToken::new(),
        });
        let service = ApiService(core.clone());
        // What can fail comes first: nothing runs yet that would have to be stopped.
        let kubeconfig = directory.join("kubeconfig");
        let mut socket = None;
        if let Some(wanted) = config.listen {
            let failed = |source| StartError::Listen {
                address: wanted,
                source,
            };
            let listener = tokio::net::TcpListener::bind(wanted).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let authority = access.authority();
            auth::write_kubeconfig(&kubeconfig, authority, address, &config.clusters).map_err(keys)?;
            socket = Some((listener, address, authority.server_config().map_err(keys)?));
        }
        // Clusters together: their first objects share the writes to disk.
        let clusters = core.clusters.values();
        futures::future::try_join_all(clusters.clone().map(|cluster| bootstrap(&core, cluster))).await?;
        let authority = access.authority().certificate();
        let controllers = clusters.map(|cluster| controllers::start(&service, cluster, authority));
        let mut tasks: Vec<_> = futures::future::join_all(controllers)
            .await
            .into_iter()
            .flatten()
            .collect();
        let mut address = None;
        if let Some((listener, bound, tls)) = socket {
            let stopping = core.stopping.clone();
            tasks.push(tokio::spawn(listener::serve(
                listener,
                tls,
                service,
                None,
                stopping,
                config.grace,
            )));
            address = Some(bound);
        }
        Ok(Self {
            core,
            access,
            address,
            kubeconfig,
            tasks,
            grace: config.grace,
        })
    }

    /// An administrator's client of one logical cluster, in process.
    ///
    /// # Panics
    /// If the server has no such cluster: that is a mistake in the calling program.
    pub fn client(&self, cluster: &str) -> kube::Client {
        self.client_of(cluster, Identity::admin())
    }

    /// A client that acts as someone else.
    ///
    /// # Panics
    /// If the server has no such cluster.
    pub fn client_as(&self, cluster: &str, user: &str, groups: &[&str]) -> kube::Client {
        self.client_of(cluster, Identity::new(user, groups))
    }

    fn client_of(&self, cluster: &str, identity: Identity) -> kube::Client {
        assert!(
            self.core.cluster(cluster).is_some(),
            "the server has no cluster {cluster:?}"
        );
        let service = InProcess {
            service: ApiService(self.core.clone()),
            cluster: cluster.to_owned(),
            identity,
        };
        kube::Client::new(service, "default")
    }

    /// The API as a tower service, for other transports.
    pub fn service(&self) -> ApiService {
        ApiService(self.core.clone())
    }

    /// A way in for the pods of one cluster: paths without a prefix are those of that cluster.
    ///
    /// # Panics
    /// If the server has no such cluster.
    pub fn entrance(&self, cluster: &str) -> Result<Entrance, StartError> {
        let known = self.core.clusters.get_key_value(cluster);
        let (home, _) = known.unwrap_or_else(|| panic!("the server has no cluster {cluster:?}"));
        let keys = |error: auth::KeyError| StartError::Keys(error.to_string());
        Ok(Entrance {
            service: ApiService(self.core.clone()),
            tls: self.access.authority().server_config().map_err(keys)?,
            home: Home(home.clone()),
            stopping: self.core.stopping.clone(),
            grace: self.grace,
        })
    }

    /// Shows the figures of what else lives in this process on `/metrics` too.
    pub fn join_metrics(&self, others: impl Fn() -> String + Send + Sync + 'static) {
        self.core.metrics.join(Box::new(others));
    }

    /// Where the HTTPS listener is.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The administrator's kubeconfig, with a context for each cluster.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// Certificates and tokens of this server.
    pub fn access(&self) -> &AccessControl {
        &self.access
    }

    /// Registers the node that runs a cluster's pods; without one, logs and exec answer 503.
    pub fn set_pods(&self, cluster: &str, provider: Arc<dyn pods::Provider>) {
        if let Some(cluster) = self.core.cluster(cluster) {
            cluster.set_pods(provider);
        }
    }

    /// Registers the way into a cluster's network; without one, only webhooks on this machine are reached.
    pub fn set_network(&self, cluster: &str, network: Arc<dyn Network>) {
        if let Some(cluster) = self.core.cluster(cluster) {
            cluster.admission.set_network(network);
        }
    }

    /// Ends watches, lets requests finish, then closes the store.
    pub async fn shutdown(mut self) {
        self.core.stopping.cancel();
        let tasks = std::mem::take(&mut self.tasks);
        let all = futures::future::join_all(tasks);
        if tokio::time::timeout(self.grace, all).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
        let store = self.core.store.clone();
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }
}

/// Serves one cluster on listeners of others.
#[derive(Clone)]
pub struct Entrance {
    service: ApiService,
    tls: Arc<rustls::ServerConfig>,
    home: Home,
    stopping: CancellationToken,
    grace: Duration,
}

impl Entrance {
    /// Serves until the server stops. Connections end when this is dropped.
    pub async fn serve(self, listener: tokio::net::TcpListener) {
        let home = Some(self.home);
        listener::serve(listener, self.tls, self.service, home, self.stopping, self.grace).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.core.stopping.cancel();
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Namespaces and roles that every cluster has.
async fn bootstrap(core: &Core, cluster: &Cluster) -> Result<(), StartError> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .filter(|name| cluster.get("", "namespaces", "", name).is_none())
        .map(|name| {
            let namespace = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            ("", "namespaces", namespace, Expect::Absent)
        });
    let roles = auth::bootstrap(cluster)
        .into_iter()
        .map(|(resource, role, expect)| (auth::RBAC_GROUP, resource, role, expect));
    let writes = namespaces
        .chain(roles)
        .map(|(group, resource, mut object, expect)| {
            if expect == Expect::Absent {
                object["metadata"]["uid"] = json!(uuid::Uuid::new_v4().to_string());
                object["metadata"]["creationTimestamp"] = json!(crate::resource::now());
            }
            core.store.write(Write {
                collection: cluster.collection(group, resource),
                key: ObjectKey::new("", object["metadata"]["name"].as_str().unwrap_or_default()),
                expect,
                action: Action::Put(draft(&object)),
            })
        });
    for written in futures::future::join_all(writes).await {
        written.map_err(|error| StartError::Cluster {
            cluster: cluster.name.to_string(),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

fn check(config: &Config) -> Result<(), StartError> {
    let refuse = |message: String| Err(StartError::Config(message));
    if config.state_dir.as_os_str().is_empty() {
        return refuse("state_dir is empty; name the directory that keeps the store".into());
    }
    if config.clusters.is_empty() {
        return refuse("clusters is empty; name at least one logical cluster".into());
    }
    for (i, name) in config.clusters.iter().enumerate() {
        let fits = !name.is_empty()
            && name.len() <= 63
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !fits {
            return refuse(format!(
                "clusters[{i}]: {name:?} is not a name: use lower-case letters, digits and '-', at most 63"
            ));
        }
        if config.clusters[..i].contains(name) {
            return refuse(format!("clusters[{i}]: {name:?} is listed twice"));
        }
    }
    let own = config.service_networks.iter();
    let own = own.map(|(cluster, (_, prefix))| (format!("service_networks[{cluster:?}]"), *prefix));
    let shared = ("service_network".to_owned(), config.service_network.1);
    for (field, prefix) in std::iter::once(shared).chain(own) {
        if !(8..=28).contains(&prefix) {
            return refuse(format!("{field}: /{prefix} is not between /8 and /28"));
        }
    }
    Ok(())
}
