//! The engine against the embedded API server: what the pure tests cannot show.

use std::time::Duration;

use apiserver::{Config, Server};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const NAMESPACE: &str = "default";
const PROVISIONER: &str = "example.org/directory";

struct Cluster {
    client: Client,
    directory: tempfile::TempDir,
    server: Server,
    engine: tokio::task::JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Cluster {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = Config {
            state_dir: directory.path().into(),
            ..Config::default()
        };
        let server = Server::start(config).await.expect("a server");
        let client = server.client("default");
        let (stop, stopped) = oneshot::channel::<()>();
        let config = workloads::Config {
            volumes: directory.path().join("volumes"),
            provisioner: PROVISIONER.to_owned(),
            slices: "slices.example.org".to_owned(),
        };
        // Under the role that they have in a cluster: what it lacks would be missed here.
        let clients = workloads::Clients {
            controllers: server.client_as("default", "system:kube-controller-manager", &[]),
            scheduler: server.client_as("default", "system:kube-scheduler", &[]),
        };
        let engine = tokio::spawn(workloads::run(clients, config, async {
            let _ = stopped.await;
        }));
        Self {
            client,
            directory,
            server,
            engine,
            stop,
        }
    }

    async fn end(self) {
        let _ = self.stop.send(());
        self.engine.await.expect("the engine ends well");
        self.server.shutdown().await;
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn make<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("made");
    }

    async fn pods(&self) -> Vec<Pod> {
        let all = self.api::<Pod>().list(&ListParams::default()).await;
        all.expect("pods").items
    }

    /// What the kubelet would say.
    async fn report(&self, pod: &Pod, phase: &str) {
        let body = json!({"status": {"phase": phase}});
        let api = self.api::<Pod>();
        let patch = Patch::Merge(&body);
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch)
            .await
            .expect("reported");
    }

    async fn events(&self, kind: &str, reason: &str) -> Vec<Event> {
        let all = self.api::<Event>().list(&ListParams::default()).await;
        let about = |event: &Event| {
            event.involved_object.kind.as_deref() == Some(kind) && event.reason.as_deref() == Some(reason)
        };
        all.expect("events").items.into_iter().filter(about).collect()
    }
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    for _ in 0..3000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("did not happen in time: {what}");
}

fn node() -> Value {
    json!({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

#[tokio::test]
async fn a_refused_pod_is_seen_by_its_user() {
    let cluster = Cluster::start().await;
    let deployments: Api<Deployment> = cluster.api();
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"serviceAccountName": "late", "containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    cluster.make(deployments.clone(), deployment).await;
    let refused = || async {
        let found = deployments.get("web").await.expect("the Deployment");
        let conditions = found
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .into_iter()
            .any(|condition| condition.type_.as_deref() == Some("ReplicaFailure"))
    };
    eventually("the condition", &refused).await;
    eventually("a count instead of many events", || async {
        let events = cluster.events("ReplicaSet", "FailedCreate").await;
        events.len() == 1
            && events[0].count > Some(1)
            && events[0]
                .message
                .as_deref()
                .is_some_and(|text| text.contains("late"))
    })
    .await;
    let account = json!({"metadata": {"name": "late"}});
    cluster.make(cluster.api::<ServiceAccount>(), account).await;
    eventually("a pod", || async { cluster.pods().await.len() == 1 }).await;
    eventually("no condition", || async { !refused().await }).await;
    assert_eq!(cluster.events("Deployment", "ScalingReplicaSet").await.len(), 1);
    eventually("what was done", || async {
        cluster.events("ReplicaSet", "SuccessfulCreate").await.len() == 1
    })
    .await;
    cluster
        .make(Api::<Node>::all(cluster.client.clone()), node())
        .await;
    eventually("where it went", || async {
        cluster.events("Pod", "Scheduled").await.len() == 1
    })
    .await;
    cluster.end().await;
}

#[tokio::test]
async fn a_job_counts_pods_that_are_removed_as_they_end() {
    let cluster = Cluster::start().await;
    let jobs: Api<Job> = cluster.api();
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "sync"}, "spec": {"completions": 3, "parallelism": 1, "template": template}});
    cluster.make(jobs.clone(), job).await;
    for _ in 0..3 {
        eventually("a pod", || async { cluster.pods().await.len() == 1 }).await;
        let pod = cluster.pods().await.remove(0);
        cluster.report(&pod, "Succeeded").await;
        let now = DeleteParams::default().grace_period(0);
        let _ = cluster.api::<Pod>().delete(&pod.name_any(), &now).await;
        eventually("it is gone", || async {
            let pods = cluster.pods().await;
            pods.iter().all(|other| other.uid() != pod.uid())
        })
        .await;
    }
    eventually("the end", || async {
        let status = jobs
            .get("sync")
            .await
            .expect("the Job")
            .status
            .unwrap_or_default();
        status.succeeded == Some(3) && status.completion_time.is_some()
    })
    .await;
    cluster.end().await;
}

#[tokio::test]
async fn a_claim_and_its_directory_outlive_the_delete_until_the_pod_ends() {
    let cluster = Cluster::start().await;
    let claims: Api<PersistentVolumeClaim> = cluster.api();
    let class = json!({"metadata": {"name": "directory"}, "provisioner": PROVISIONER});
    cluster
        .make(Api::<StorageClass>::all(cluster.client.clone()), class)
        .await;
    cluster
        .make(Api::<Node>::all(cluster.client.clone()), node())
        .await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "directory", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.make(claims.clone(), claim).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}});
    cluster.make(cluster.api::<Pod>(), pod).await;
    eventually("the pod has a node", || async {
        let pods = cluster.pods().await;
        pods.iter()
            .any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
    })
    .await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let volume = volumes
        .list(&ListParams::default())
        .await
        .expect("volumes")
        .items
        .remove(0);
    let directory = cluster.directory.path().join("volumes").join(volume.name_any());
    std::fs::create_dir_all(&directory).expect("a directory");

    claims
        .delete("data", &DeleteParams::default())
        .await
        .expect("deleted");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let kept = claims.get("data").await.expect("still there");
    assert!(kept.metadata.deletion_timestamp.is_some() && directory.exists());
    let pod = cluster.pods().await.remove(0);
    cluster.report(&pod, "Succeeded").await;
    eventually("claim, volume and directory go", || async {
        let left = volumes.list(&ListParams::default()).await.expect("volumes").items;
        claims.get_opt("data").await.expect("an answer").is_none() && left.is_empty() && !directory.exists()
    })
    .await;
    cluster.end().await;
}

#[tokio::test]
async fn pods_refused_for_ever_hold_nobody_else_up() {
    let cluster = Cluster::start().await;
    let deployments: Api<Deployment> = cluster.api();
    let deployment = |name: &str, spec: Value| {
        json!({"metadata": {"name": name}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}})
    };
    let containers = json!([{"name": "c", "image": "i"}]);
    let first = json!({"priorityClassName": "unknown", "containers": containers});
    cluster
        .make(deployments.clone(), deployment("first", first))
        .await;
    let sets: Api<ReplicaSet> = cluster.api();
    let told = || async {
        let all = sets.list(&ListParams::default()).await.expect("sets").items;
        let conditions = |set: &ReplicaSet| set.status.clone().and_then(|status| status.conditions);
        let said = all.iter().filter_map(conditions).flatten();
        let said: Vec<_> = said.filter_map(|condition| condition.message).collect();
        let versions: Vec<_> = all.iter().map(ResourceExt::resource_version).collect();
        (said, versions)
    };
    eventually("it is told", || async { told().await.0.len() == 1 }).await;
    let (said, versions) = told().await;
    let prefixed = |text: &String| {
        text.starts_with("pods \"first-")
            && text.ends_with("-\" is forbidden: no PriorityClass with name unknown was found")
    };
    assert!(said.iter().any(prefixed), "{said:?}");
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(told().await.1, versions, "told once, not with each try");

    let good = json!({"containers": containers});
    cluster
        .make(deployments.clone(), deployment("second", good))
        .await;
    eventually("a pod of another", || async { cluster.pods().await.len() == 1 }).await;
    cluster.end().await;
}

#[tokio::test]
async fn sets_that_come_again_take_over_what_was_left() {
    let cluster = Cluster::start().await;
    cluster
        .make(Api::<Node>::all(cluster.client.clone()), node())
        .await;
    let template = |name: &str| json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = |name: &str| json!({"selector": {"matchLabels": {"app": name}}, "template": template(name)});
    let daemons: Api<DaemonSet> = cluster.api();
    let members: Api<StatefulSet> = cluster.api();
    for round in 0..2 {
        let daemon = json!({"metadata": {"name": "agent"}, "spec": spec("agent")});
        let member = json!({"metadata": {"name": "db"}, "spec": spec("db")});
        cluster.make(daemons.clone(), daemon).await;
        cluster.make(members.clone(), member).await;
        let uids = [
            daemons.get("agent").await.expect("the set").uid(),
            members.get("db").await.expect("the set").uid(),
        ];
        eventually("a pod of each, of this round's sets", || async {
            let pods = cluster.pods().await;
            let owners = pods.iter().flat_map(ResourceExt::owner_references);
            let owners: Vec<_> = owners.map(|owner| Some(owner.uid.clone())).collect();
            owners.len() == 2 && uids.iter().all(|uid| owners.contains(uid))
        })
        .await;
        if round == 0 {
            daemons
                .delete("agent", &DeleteParams::orphan())
                .await
                .expect("deleted");
            members
                .delete("db", &DeleteParams::orphan())
                .await
                .expect("deleted");
            eventually("both sets are gone", || async {
                let agent = daemons.get_opt("agent").await.expect("an answer");
                agent.is_none() && members.get_opt("db").await.expect("an answer").is_none()
            })
            .await;
        }
    }
    cluster.end().await;
}

#[tokio::test]
async fn a_member_whose_claim_was_deleted_comes_back_with_a_new_one() {
    let cluster = Cluster::start().await;
    let (claims, pods) = (cluster.api::<PersistentVolumeClaim>(), cluster.api::<Pod>());
    let set = json!({"metadata": {"name": "db"}, "spec": {"replicas": 1, "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    cluster.make(cluster.api::<StatefulSet>(), set).await;
    let claim = || async { claims.get_opt("data-db-0").await.expect("an answer") };
    let pod = || async { pods.get_opt("db-0").await.expect("an answer") };
    eventually("a pod and a claim that is held", || async {
        let held = claim().await.is_some_and(|claim| !claim.finalizers().is_empty());
        held && pod().await.is_some()
    })
    .await;
    let uids = || async {
        let (claim, pod) = (claim().await, pod().await);
        (claim.and_then(|claim| claim.uid()), pod.and_then(|pod| pod.uid()))
    };
    let before = uids().await;
    let now = DeleteParams::default().grace_period(0);
    claims
        .delete("data-db-0", &DeleteParams::default())
        .await
        .expect("deleted");
    pods.delete("db-0", &now).await.expect("deleted");
    eventually("both anew", || async {
        let (claim, pod) = uids().await;
        claim.is_some() && pod.is_some() && claim != before.0 && pod != before.1
    })
    .await;
    cluster.end().await;
}
