//! Objects that pods name: read when needed, watched as long as a pod uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest as ApiToken, TokenRequestSpec,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::claims;
use crate::error::{Error, Result};
use crate::pods::observe::view;
use crate::pods::volumes::{Needs, TokenRequest};
use crate::pods::{Claimed, Objects, Token};

/// The Services of the cluster, for the variables of containers.
#[derive(Default)]
pub struct Catalogue {
    services: RwLock<Vec<Arc<Service>>>,
}

impl Catalogue {
    pub fn set(&self, services: Vec<Arc<Service>>) {
        *self.services.write().unwrap_or_else(PoisonError::into_inner) = services;
    }

    /// `NAME_SERVICE_HOST` and friends of the namespace, and of the API itself.
    pub fn variables(&self, namespace: &str) -> Vec<(String, String)> {
        let all = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let mut variables = Vec::new();
        for service in all.iter() {
            let (own, name) = (service.namespace().unwrap_or_default(), service.name_any());
            if own == namespace || (own == "default" && name == "kubernetes") {
                variables.extend(describe(&name, service));
            }
        }
        variables
    }
}

fn bracketed(ip: &str) -> String {
    if ip.contains(':') {
        format!("[{ip}]")
    } else {
        ip.to_owned()
    }
}

fn describe(name: &str, service: &Service) -> Vec<(String, String)> {
    let Some(spec) = &service.spec else {
        return Vec::new();
    };
    let Some(ip) = spec
        .cluster_ip
        .as_deref()
        .filter(|ip| !matches!(*ip, "" | "None"))
    else {
        return Vec::new();
    };
    let upper = |text: &str| text.to_uppercase().replace('-', "_");
    let prefix = upper(name);
    let mut out = vec![(format!("{prefix}_SERVICE_HOST"), ip.to_owned())];
    for (i, port) in spec.ports.iter().flatten().enumerate() {
        let number = port.port.to_string();
        if i == 0 {
            out.push((format!("{prefix}_SERVICE_PORT"), number.clone()));
        }
        if let Some(name) = &port.name {
            out.push((format!("{prefix}_SERVICE_PORT_{}", upper(name)), number));
        }
    }
    // The older ones, after those that Docker made for linked containers.
    for (i, port) in spec.ports.iter().flatten().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let lower = protocol.to_lowercase();
        let address = format!("{lower}://{}:{}", bracketed(ip), port.port);
        let one = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        if i == 0 {
            out.push((format!("{prefix}_PORT"), address.clone()));
        }
        out.push((one.clone(), address));
        out.push((format!("{one}_PROTO"), lower));
        out.push((format!("{one}_PORT"), port.port.to_string()));
        out.push((format!("{one}_ADDR"), ip.to_owned()));
    }
    out
}

type Key = (&'static str, String, String);

struct Watched {
    /// By pod the version that it read last: whose announcement is no news for it.
    users: BTreeMap<String, Option<String>>,
    task: JoinHandle<()>,
}

impl Watched {
    /// Pods that have not read this version.
    fn behind(&self, version: Option<&String>) -> Vec<String> {
        let users = self.users.iter();
        users
            .filter(|(_, read)| read.as_ref() != version)
            .map(|(user, _)| user.clone())
            .collect()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watching tasks hold the table, so dropping it here would not free it: it is emptied explicitly.
impl Drop for KubeObjects {
    fn drop(&mut self) {
        lock(&self.watched).clear();
    }
}

type Table = Arc<Mutex<BTreeMap<Key, Watched>>>;

pub struct KubeObjects {
    client: Client,
    services: Arc<Catalogue>,
    changed: mpsc::UnboundedSender<String>,
    watched: Table,
    tokens: Mutex<BTreeMap<(String, TokenRequest), Token>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KubeObjects {
    pub fn new(client: Client, services: Arc<Catalogue>, changed: mpsc::UnboundedSender<String>) -> Self {
        Self {
            client,
            services,
            changed,
            watched: Table::default(),
            tokens: Mutex::default(),
        }
    }

    async fn get<K>(&self, kind: &'static str, pod: &Pod, name: &str) -> Result<Option<K>>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let namespace = view::namespace(pod);
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = api
            .get_opt(name)
            .await
            .map_err(Error::api(format!("{kind} {namespace}/{name}")))?;
        let key = (kind, namespace.to_owned(), name.to_owned());
        if let Some(watched) = lock(&self.watched).get_mut(&key)
            && let Some(read) = watched.users.get_mut(view::uid(pod))
        {
            *read = found.as_ref().and_then(ResourceExt::resource_version);
        }
        Ok(found)
    }

    fn watch<K>(&self, kind: &'static str, namespace: &str, name: &str, user: &str)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
    {
        let key: Key = (kind, namespace.into(), name.into());
        let mut table = lock(&self.watched);
        if let Some(watched) = table.get_mut(&key) {
            watched.users.entry(user.into()).or_default();
            return;
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let (at, all, tell) = (key.clone(), self.watched.clone(), self.changed.clone());
        let selector = format!("metadata.name={name}");
        let task = tokio::spawn(async move {
            let config = watcher::Config::default().fields(&selector);
            let mut events = watcher(api, config).boxed();
            while let Some(event) = events.next().await {
                let version = match event {
                    Ok(watcher::Event::Apply(o) | watcher::Event::InitApply(o)) => o.resource_version(),
                    Ok(watcher::Event::Delete(_)) => None,
                    Ok(_) => continue,
                    Err(_) => {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                };
                let behind = lock(&all)
                    .get(&at)
                    .map(|watched| watched.behind(version.as_ref()));
                for user in behind.unwrap_or_default() {
                    let _ = tell.send(user);
                }
            }
        });
        let users = BTreeMap::from([(user.to_owned(), None)]);
        table.insert(key, Watched { users, task });
    }

    /// Tokens are replaced before they expire.
    pub async fn renew_tokens(&self, period: Duration) {
        loop {
            tokio::time::sleep(period).await;
            let now = Timestamp::now();
            let due: BTreeSet<String> = {
                let mut tokens = lock(&self.tokens);
                let due = tokens
                    .iter()
                    .filter(|(_, t)| t.renew_at <= now)
                    .map(|((uid, _), _)| uid.clone())
                    .collect();
                tokens.retain(|_, t| t.renew_at > now);
                due
            };
            for uid in due {
                let _ = self.changed.send(uid);
            }
        }
    }
}

#[async_trait]
impl Objects for KubeObjects {
    async fn config_map(&self, pod: &Pod, name: &str) -> Result<Option<ConfigMap>> {
        self.get("ConfigMap", pod, name).await
    }

    async fn secret(&self, pod: &Pod, name: &str) -> Result<Option<Secret>> {
        self.get("Secret", pod, name).await
    }

    async fn claim(&self, pod: &Pod, name: &str) -> Result<Claimed> {
        let claim: Option<PersistentVolumeClaim> = self.get("PersistentVolumeClaim", pod, name).await?;
        let volume = match claims::volume_of(claim.as_ref(), name) {
            Ok(volume) => volume,
            Err(why) => return Ok(Err(why)),
        };
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume = api
            .get_opt(&volume)
            .await
            .map_err(Error::api(format!("persistent volume {volume}")))?;
        Ok(claims::directory(&claim.unwrap_or_default(), volume))
    }

    async fn token(&self, pod: &Pod, request: &TokenRequest) -> Result<Token> {
        let key = (view::uid(pod).to_owned(), request.clone());
        if let Some(token) = lock(&self.tokens).get(&key) {
            return Ok(token.clone());
        }
        let spec = pod.spec.as_ref();
        let account = spec
            .and_then(|s| s.service_account_name.clone())
            .unwrap_or_else(|| "default".into());
        let wanted = ApiToken {
            spec: Some(TokenRequestSpec {
                audiences: if request.audience.is_empty() {
                    None
                } else {
                    Some(vec![request.audience.clone()])
                },
                expiration_seconds: Some(request.seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: pod.metadata.name.clone(),
                    uid: pod.metadata.uid.clone(),
                }),
                ..TokenRequestSpec::default()
            }),
            ..ApiToken::default()
        };
        let what = format!("token of service account {}/{account}", view::namespace(pod));
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), view::namespace(pod));
        let made: ApiToken = api
            .create_subresource("token", &account, &PostParams::default(), &wanted)
            .await
            .map_err(Error::api(what.clone()))?;
        let status = made.status.unwrap_or_default();
        let (Some(value), Some(expiry)) = (status.token, status.expiration_timestamp) else {
            return Err(Error::said(format!("{what}: empty answer")));
        };
        // Renewed when four fifths of its life are over.
        let now = Timestamp::now();
        let life = expiry.0.duration_since(now).as_secs();
        let token = Token {
            value,
            renew_at: now
                .checked_add(SignedDuration::from_secs(life / 5 * 4))
                .unwrap_or(now),
        };
        lock(&self.tokens).insert(key, token.clone());
        Ok(token)
    }

    fn services(&self, namespace: &str) -> Vec<(String, String)> {
        self.services.variables(namespace)
    }

    fn used(&self, pod: &Pod, needs: &Needs) {
        let (namespace, uid) = (view::namespace(pod), view::uid(pod));
        for name in &needs.config_maps {
            self.watch::<ConfigMap>("ConfigMap", namespace, name, uid);
        }
        for name in &needs.secrets {
            self.watch::<Secret>("Secret", namespace, name, uid);
        }
        for name in &needs.claims {
            self.watch::<PersistentVolumeClaim>("PersistentVolumeClaim", namespace, name, uid);
        }
    }

    fn unused(&self, pod: &Pod) {
        let uid = view::uid(pod);
        lock(&self.watched).retain(|_, watched| {
            watched.users.remove(uid);
            !watched.users.is_empty()
        });
        lock(&self.tokens).retain(|(user, _), _| user != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn service_variables() {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": "my-db", "namespace": "n" },
            "spec": { "clusterIP": "10.192.0.9", "ports": [
                { "name": "sql", "port": 3306 }, { "port": 1 }] } }))
        .unwrap();
        let catalogue = Catalogue::default();
        catalogue.set(vec![Arc::new(service)]);
        let text: Vec<String> = catalogue
            .variables("n")
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        assert_eq!(
            text,
            [
                "MY_DB_SERVICE_HOST=10.192.0.9",
                "MY_DB_SERVICE_PORT=3306",
                "MY_DB_SERVICE_PORT_SQL=3306",
                "MY_DB_PORT=tcp://10.192.0.9:3306",
                "MY_DB_PORT_3306_TCP=tcp://10.192.0.9:3306",
                "MY_DB_PORT_3306_TCP_PROTO=tcp",
                "MY_DB_PORT_3306_TCP_PORT=3306",
                "MY_DB_PORT_3306_TCP_ADDR=10.192.0.9",
                "MY_DB_PORT_1_TCP=tcp://10.192.0.9:1",
                "MY_DB_PORT_1_TCP_PROTO=tcp",
                "MY_DB_PORT_1_TCP_PORT=1",
                "MY_DB_PORT_1_TCP_ADDR=10.192.0.9",
            ]
        );
        assert!(catalogue.variables("other").is_empty());
    }

    #[tokio::test]
    async fn what_one_pod_has_read_is_news_for_another() {
        let server = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "resourceVersion": "2" } });
            let body = kube::client::Body::from(map.to_string().into_bytes());
            Ok::<_, std::io::Error>(http::Response::new(body))
        });
        let (tell, _told) = mpsc::unbounded_channel();
        let objects = KubeObjects::new(Client::new(server, "default"), Arc::default(), tell);
        let old = Some("1".to_owned());
        let watched = Watched {
            users: BTreeMap::from([("a".into(), old.clone()), ("b".into(), old)]),
            task: tokio::spawn(async {}),
        };
        let key: Key = ("ConfigMap", "n".into(), "m".into());
        lock(&objects.watched).insert(key.clone(), watched);
        let pod = Pod {
            metadata: serde_json::from_value(json!({ "name": "p", "namespace": "n", "uid": "a" })).unwrap(),
            ..Pod::default()
        };
        assert!(objects.config_map(&pod, "m").await.unwrap().is_some());
        let table = lock(&objects.watched);
        assert_eq!(table[&key].behind(Some(&"2".into())), ["b"]);
        assert_eq!(table[&key].behind(None), ["a", "b"], "it is gone");
    }

    #[tokio::test]
    async fn a_claim_that_names_the_volume_of_another_gets_no_directory() {
        let server = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let name = request
                .uri()
                .path()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            let object = match name.as_str() {
                "pv" => json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
                    "spec": { "hostPath": { "path": "/volumes/pv" },
                        "claimRef": { "namespace": "n", "name": "owner", "uid": "owner-uid" } } }),
                // Both say that they are bound.
                _ => json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": { "namespace": "n", "name": name, "uid": format!("{name}-uid") },
                    "spec": { "volumeName": "pv" }, "status": { "phase": "Bound" } }),
            };
            let body = kube::client::Body::from(object.to_string().into_bytes());
            Ok::<_, std::io::Error>(http::Response::new(body))
        });
        let (tell, _told) = mpsc::unbounded_channel();
        let objects = KubeObjects::new(Client::new(server, "default"), Arc::default(), tell);
        let pod = Pod {
            metadata: serde_json::from_value(json!({ "name": "p", "namespace": "n", "uid": "a" })).unwrap(),
            ..Pod::default()
        };
        let owner = objects.claim(&pod, "owner").await.unwrap();
        assert_eq!(owner, Ok("/volumes/pv".into()));
        let thief = objects.claim(&pod, "thief").await.unwrap().unwrap_err();
        assert!(thief.contains("that of n/owner (uid owner-uid)"), "{thief}");
    }

    #[tokio::test]
    async fn a_due_token_is_forgotten_and_its_pod_told() {
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody answers"))
        });
        let (tell, mut told) = mpsc::unbounded_channel();
        let objects = KubeObjects::new(Client::new(nobody, "default"), Arc::default(), tell);
        let request = TokenRequest {
            audience: String::new(),
            seconds: 600,
        };
        for (uid, renew_at) in [("due", Timestamp::UNIX_EPOCH), ("fresh", Timestamp::MAX)] {
            let value = uid.to_owned();
            let token = Token { value, renew_at };
            lock(&objects.tokens).insert((uid.to_owned(), request.clone()), token);
        }
        let renewal = objects.renew_tokens(Duration::from_millis(10));
        let _ = tokio::time::timeout(Duration::from_millis(200), renewal).await;
        assert_eq!(told.try_recv().unwrap(), "due");
        assert!(told.try_recv().is_err(), "once, and nobody else");
        let left: Vec<String> = lock(&objects.tokens).keys().map(|(uid, _)| uid.clone()).collect();
        assert_eq!(left, ["fresh"]);
        // A new one cannot be had now: the pod's worker hears of it and tries again.
        let pod = Pod {
            metadata: serde_json::from_value(json!({ "name": "p", "uid": "due" })).unwrap(),
            ..Pod::default()
        };
        assert!(objects.token(&pod, &request).await.is_err());
    }
}
