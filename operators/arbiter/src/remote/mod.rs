//! Another cluster, reached with a kubeconfig from a Secret.

mod finding;
mod kubeconfig;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_api::ceph::RemoteClusterSpec;
use c5c3_api::common::parse_duration;
use c5c3_kit::fault::plain;
use c5c3_kit::rewritten::{Rewritten, still};
use c5c3_kit::{Key, Reader, Reference, fields};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::gvk::GroupVersionKind;
use kube::{Client, Config};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) use finding::Finding;

use crate::error::Error;

/// What is done over there: group, resource and verbs. Asked for before anything is tried.
const NEEDED: &[(&str, &str, &[&str])] = &[
    ("apps", "deployments", WRITE),
    ("", "secrets", WRITE),
    ("", "configmaps", WRITE),
    ("", "services", WRITE),
    ("", "pods", &["list"]),
];
/// Server-side apply needs `create` too.
const WRITE: &[&str] = &["get", "create", "patch", "delete"];

/// Connections that are kept at most.
const MOST: usize = 256;

/// How another cluster is reached: identifies the connection, and the namespace there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Way {
    /// Of the Secret.
    pub namespace: String,
    pub secret: String,
    pub key: String,
    pub timeout: Duration,
    /// Over there.
    pub to: String,
}

impl Way {
    pub(crate) fn of(namespace: &str, spec: &RemoteClusterSpec) -> Self {
        Way {
            namespace: namespace.to_owned(),
            secret: spec.accesskey_ref.name.clone(),
            key: spec.accesskey_ref.key.clone(),
            // The kind's rules let nothing else in.
            timeout: parse_duration(&spec.timeout).unwrap_or(Duration::from_secs(10)),
            to: spec.namespace.clone(),
        }
    }
}

/// A connection, and the digest of the kubeconfig that it was made from.
type Kept = (Vec<u8>, Remote);

/// Connections that are kept.
#[derive(Clone, Default)]
pub(crate) struct Remotes(Arc<Mutex<HashMap<Way, Kept>>>);

impl fmt::Debug for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connections to other clusters")
    }
}

impl Remotes {
    /// The connection that a pass made before.
    pub(crate) fn get(&self, way: &Way) -> Result<Remote, Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(way)
            .map(|(_, remote)| remote.clone())
            .ok_or(Error::NotConnected)
    }

    /// Reads the Secret and connects, or says why not. Nobody is asked anything yet.
    pub(crate) async fn connect(&self, way: &Way, reader: &Reader) -> Result<Result<Remote, Finding>, Error> {
        let secret: Option<Secret> = reader.get(&way.namespace, &way.secret).await?;
        let text = match kubeconfig::text(secret.as_ref(), &way.secret, &way.key) {
            Ok(text) => text,
            Err(finding) => return Ok(Err(finding)),
        };
        let digest = Sha256::digest(&text).to_vec();
        {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((before, remote)) = all.get(way)
                && *before == digest
            {
                return Ok(Ok(remote.clone()));
            }
        }
        let made = match kubeconfig::config(&text, way.timeout).await {
            Ok(config) => Remote::new(config, way),
            Err(finding) => Err(finding),
        };
        if let Ok(remote) = &made {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that are still needed are made again.
            if all.len() >= MOST {
                all.clear();
            }
            all.insert(way.clone(), (digest, remote.clone()));
        }
        Ok(made)
    }
}

/// A connection to a namespace of another cluster.
#[derive(Clone)]
pub(crate) struct Remote {
    client: Client,
    namespace: String,
    timeout: Duration,
    sent: Arc<Rewritten>,
}

/// How an object over there is remembered.
pub(crate) fn reference(way: &Way, kind: Kind, name: &str) -> Reference {
    Reference {
        cluster: format!("{}/{}/{}", way.namespace, way.secret, way.key).into(),
        kind: kind.to_string(),
        key: Key::new(Some(&way.to), name),
    }
}

impl Remote {
    fn new(config: Config, way: &Way) -> Result<Self, Finding> {
        let client = Client::try_from(config).map_err(|error| Finding::BadConfig(plain(&error)))?;
        Ok(Remote {
            client,
            namespace: way.to.clone(),
            timeout: way.timeout,
            sent: Arc::default(),
        })
    }

    /// What the server over there writes its own way: sent once.
    pub(crate) fn sent(&self) -> Arc<Rewritten> {
        self.sent.clone()
    }

    async fn within<T>(&self, what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        let unwritten = |source| Error::NotWritten {
            verb: "read",
            object: what.to_owned(),
            source: Box::new(source),
        };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map_err(unwritten),
            Err(_) => Err(Error::Silent(what.to_owned())),
        }
    }

    /// Checks that the cluster answers and grants the permissions that we need.
    pub(crate) async fn check(&self) -> Finding {
        let ready = http::Request::get("/readyz").body(Vec::new());
        let ready = async {
            let request = ready.map_err(kube::Error::HttpError)?;
            self.client.request_text(request).await.map(drop)
        };
        match tokio::time::timeout(self.timeout, ready).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Finding::Unreachable(plain(&error)),
            Err(_) => return Finding::Unreachable(format!("no answer within {:?}", self.timeout)),
        }
        match tokio::time::timeout(self.timeout, self.lacking()).await {
            Ok(Ok(lacking)) if lacking.is_empty() => Finding::Fit,
            Ok(Ok(lacking)) => Finding::Lacking(lacking),
            Ok(Err(error)) => Finding::Unreachable(plain(&error)),
            Err(_) => Finding::Unreachable(format!("no answer within {:?}", self.timeout)),
        }
    }

    /// What we need and may not do there: `create secrets`.
    async fn lacking(&self) -> kube::Result<Vec<String>> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let mut lacking = Vec::new();
        for (group, resource, verbs) in NEEDED {
            for verb in *verbs {
                let review = SelfSubjectAccessReview {
                    spec: SelfSubjectAccessReviewSpec {
                        resource_attributes: Some(ResourceAttributes {
                            namespace: Some(self.namespace.clone()),
                            group: Some((*group).to_owned()),
                            resource: Some((*resource).to_owned()),
                            verb: Some((*verb).to_owned()),
                            ..ResourceAttributes::default()
                        }),
                        ..SelfSubjectAccessReviewSpec::default()
                    },
                    ..SelfSubjectAccessReview::default()
                };
                let answer = reviews.create(&PostParams::default(), &review).await?;
                if !answer.status.is_some_and(|status| status.allowed) {
                    lacking.push(format!("{verb} {resource}"));
                }
            }
        }
        Ok(lacking)
    }

    /// The live objects of these kinds and names, each by its kind.
    pub(crate) async fn read(&self, objects: &[(Kind, String)]) -> Result<BTreeMap<Kind, Value>, Error> {
        let one = async |(kind, name): &(Kind, String)| {
            let what = format!("{kind} {}/{name}", self.namespace);
            let found = self.within(&what, self.api(*kind).get_opt(name)).await?;
            let value = found.map(|object| serde_json::to_value(object).unwrap_or_default());
            Ok::<_, Error>(value.map(|value| (*kind, value)))
        };
        let found = futures::future::try_join_all(objects.iter().map(one)).await?;
        Ok(found.into_iter().flatten().collect())
    }

    pub(crate) async fn pods(&self, labels: &str) -> Result<Vec<Pod>, Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let selected = ListParams::default().labels(labels);
        let what = format!("the pods of {}", self.namespace);
        Ok(self.within(&what, pods.list(&selected)).await?.items)
    }

    /// Server-side apply: the fields of `object` are ours.
    pub(crate) async fn apply(
        &self,
        manager: &str,
        to: &Reference,
        kind: Kind,
        object: &Value,
    ) -> Result<(), Error> {
        let params = PatchParams::apply(manager).force();
        let name = &to.key.name;
        let (api, patch) = (self.api(kind), Patch::Apply(object));
        let applied = self
            .written("apply", kind, name, api.patch(name, &params, &patch))
            .await?;
        let after = serde_json::to_value(applied).unwrap_or_default();
        if fields::differs(object, &after, manager, None) {
            self.sent.remember(&to.key, to, object, &still(&after));
        }
        Ok(())
    }

    /// Deletes the object with this uid and no other of the same name.
    pub(crate) async fn delete(&self, kind: Kind, name: &str, uid: &str) -> Result<(), Error> {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let deleted = async {
            match self.api(kind).delete(name, &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                other => other.map(drop),
            }
        };
        self.written("delete", kind, name, deleted).await
    }

    async fn written<T>(
        &self,
        verb: &'static str,
        kind: Kind,
        name: &str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let object = format!("{kind} {}/{name}", self.namespace);
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(Error::NotWritten {
                verb,
                object,
                source: Box::new(source),
            }),
            Err(_) => Err(Error::Silent(object)),
        }
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }
}

/// What is made over there, in the order in which it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Secret,
    ConfigMap,
    Service,
    Deployment,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Secret, Kind::ConfigMap, Kind::Service, Kind::Deployment];

    fn resource(self) -> ApiResource {
        let (group, plural) = match self {
            Kind::Secret => ("", "secrets"),
            Kind::ConfigMap => ("", "configmaps"),
            Kind::Service => ("", "services"),
            Kind::Deployment => ("apps", "deployments"),
        };
        let kind = GroupVersionKind::gvk(group, "v1", &self.to_string());
        ApiResource::from_gvk_with_plural(&kind, plural)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
