//! Two clusters, the operator between them, and whoever plays the pods.

use std::collections::BTreeMap;

use c5c3_api::ceph::{RemoteArbiter, RemoteCluster};
use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::{Clusters, Metrics, Stop};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually};

pub(crate) const CEPH: &str = "rook-ceph";
pub(crate) const THERE: &str = "arbiters";
pub(crate) const KEYRING: &str =
    "[mon.]\n\tkey = FIRST\n\tcaps mon = \"allow *\"\n[client.admin]\n\tkey = ADMIN\n";

pub(crate) struct World {
    pub home: TestCluster,
    pub away: TestCluster,
    _stopper: c5c3_kit::stop::Stopper,
}

pub(crate) fn params() -> PatchParams {
    PatchParams::apply("test").force()
}

impl World {
    pub(crate) async fn start() -> Self {
        let home = TestCluster::start().await;
        for kind in c5c3_api::registry() {
            if kind.group == "ceph.c5c3.io" || kind.kind == "CephCluster" {
                home.install(kind.crd()).await;
            }
        }
        let away = TestCluster::start_listening().await;
        home.make_namespace(CEPH).await;
        away.make_namespace(THERE).await;
        // What the role grants has to be enough.
        let client = home
            .client_with("c5c3-arbiter", c5c3_arbiter::access().rules())
            .await;
        let (stopper, stop) = Stop::channel();
        tokio::spawn(c5c3_arbiter::run(
            Clusters::of(client),
            Metrics::default(),
            None,
            stop,
        ));
        World {
            home,
            away,
            _stopper: stopper,
        }
    }

    pub(crate) fn home<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.home.client(), CEPH)
    }

    pub(crate) fn away<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.away.client(), THERE)
    }

    /// The other cluster's kubeconfig, as another user or with another address.
    pub(crate) fn kubeconfig(&self, user: Option<&str>, server: Option<&str>) -> String {
        let text = std::fs::read_to_string(self.away.kubeconfig()).expect("a kubeconfig");
        let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
        if let Some(user) = user {
            config["users"][0]["user"]["as"] = json!(user);
        }
        if let Some(server) = server {
            for cluster in config["clusters"].as_array_mut().expect("clusters") {
                cluster["cluster"]["server"] = json!(server);
            }
        }
        config.to_string()
    }

    pub(crate) async fn access_key(&self, kubeconfig: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
            "stringData": {"kubeconfig.yaml": kubeconfig}});
        put(&self.home::<Secret>(), "key", &secret).await;
    }

    pub(crate) async fn keyring(&self, keyring: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rook-ceph-mons-keyring"},
            "stringData": {"keyring": keyring}});
        put(&self.home::<Secret>(), "rook-ceph-mons-keyring", &secret).await;
    }

    pub(crate) async fn endpoints(&self, data: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rook-ceph-mon-endpoints"},
            "data": {"data": data, "outOfQuorum": ""}});
        put(&self.home::<ConfigMap>(), "rook-ceph-mon-endpoints", &map).await;
    }

    /// All that Rook brings.
    pub(crate) async fn ceph(&self) {
        let ceph = json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "metadata": {"name": "ceph"},
            "spec": {"mon": {"count": 3}}});
        let api = self.home::<CephCluster>();
        put(&api, "ceph", &ceph).await;
        let status = json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "status": {"state": "Created",
            "phase": "Ready", "ceph": {"fsid": "f5"}, "version": {"image": "ceph:18"}}});
        api.patch_status("ceph", &params(), &Patch::Apply(status))
            .await
            .expect("a status");
        self.keyring(KEYRING).await;
        self.endpoints("a=10.0.0.1:6789,b=10.0.0.2:6789").await;
    }

    pub(crate) async fn remote_cluster(&self) {
        let cluster = json!({"apiVersion": "ceph.c5c3.io/v1alpha1", "kind": "RemoteCluster",
            "metadata": {"name": "site"},
            "spec": {"namespace": THERE, "accesskeyRef": {"name": "key"}, "checkInterval": "5s", "timeout": "2s"}});
        put(&self.home::<RemoteCluster>(), "site", &cluster).await;
    }

    pub(crate) async fn arbiter(&self, name: &str) {
        self.arbiter_with(name, "ext-").await;
    }

    pub(crate) async fn arbiter_with(&self, name: &str, prefix: &str) {
        let arbiter = json!({"apiVersion": "ceph.c5c3.io/v1alpha1", "kind": "RemoteArbiter", "metadata": {"name": name},
            "spec": {"remoteCluster": {"name": "site"}, "cephCluster": {"name": "ceph"}, "checkInterval": "5s",
                "monIdPrefix": prefix}});
        put(&self.home::<RemoteArbiter>(), name, &arbiter).await;
    }

    pub(crate) async fn ready<K>(&self, name: &str, status: &str, said: &str) -> Value
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
        K: DeserializeOwned + Serialize,
    {
        let api = self.home::<K>();
        // Shown when the test fails.
        let mut last = Value::Null;
        eventually(
            &format!("{name} is Ready={status} and says {said:?}"),
            async || {
                let object = serde_json::to_value(api.get(name).await.ok()?).ok()?;
                let ready = condition(&object, "Ready")?;
                if last != *ready {
                    println!("{name}: {} {}", ready["status"], ready["message"]);
                    last = ready.clone();
                }
                let fits = ready["status"] == status && ready["message"].as_str()?.contains(said);
                fits.then_some(object)
            },
        )
        .await
    }

    /// Plays the kubelet: a pod of the Deployment, in the quorum or not.
    pub(crate) async fn pod(&self, ready: bool) {
        self.pod_of("third", ready).await;
    }

    pub(crate) async fn pod_of(&self, arbiter: &str, ready: bool) {
        let (deployment, name) = (format!("{arbiter}-mon"), format!("{arbiter}-mon-x"));
        let deployments = self.away::<Deployment>();
        let live = eventually("the Deployment", async || {
            deployments.get_opt(&deployment).await.ok()?
        })
        .await;
        let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1,
            "updatedReplicas": 1, "observedGeneration": live.metadata.generation}});
        let patch = Patch::Apply(status);
        deployments
            .patch_status(&deployment, &params(), &patch)
            .await
            .expect("a status");
        let template = live.spec.template;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name,
            "labels": template.metadata.expect("labels").labels},
            "spec": {"containers": [{"name": "mon", "image": "ceph:18"}]}});
        let pods = self.away::<Pod>();
        put(&pods, &name, &pod).await;
        let truth = if ready { "True" } else { "False" };
        let status = json!({"apiVersion": "v1", "kind": "Pod", "status": {
            "conditions": [{"type": "Ready", "status": truth}],
            "containerStatuses": [{"name": "mon", "image": "ceph:18", "imageID": "", "ready": ready,
                "restartCount": 0, "state": {"running": {}}}]}});
        pods.patch_status(&name, &params(), &Patch::Apply(status))
            .await
            .expect("a status");
    }

    /// What was written by the operator, in both clusters.
    pub(crate) async fn writes(&self) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let mut away = self.away.writes().await;
        away.retain(|resource, _| !resource.starts_with("selfsubject"));
        (self.home.writes().await, away)
    }
}

pub(crate) async fn put<K>(api: &Api<K>, name: &str, object: &Value)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    api.patch(name, &params(), &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)
}

pub(crate) fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    String::from_utf8(data.map(|bytes| bytes.0.clone()).unwrap_or_default()).expect("text")
}
