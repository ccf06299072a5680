//! Cortex on an API server, the embedded one or that of C5C3_TEST_KUBECONFIG, with the rights that its
//! role grants and no more.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::cortex::{Datasource, Decision, Knowledge, Kpi, Pipeline, Reservation, ReservationPhase};
use c5c3_api::hypervisor::Hypervisor;
use c5c3_cortex::controllers::{self, Shared};
use c5c3_cortex::service::http::Server;
use c5c3_cortex::service::{Scheduler, World};
use c5c3_kit::stop::Stopper;
use c5c3_kit::{Clusters, Metrics, Stop};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually, settles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const SERIES: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"compute_host":"a"},"values":[[1,"5"],[2,"15"]]}]}}"#;

struct Running {
    cluster: TestCluster,
    scheduler: Arc<Scheduler>,
    address: SocketAddr,
    _stopper: Stopper,
}

/// Answers every question with the same series, as Prometheus would.
async fn prometheus() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                return;
            };
            let mut asked = vec![0; 8192];
            let _ = stream.read(&mut asked).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                SERIES.len()
            );
            let _ = stream.write_all(format!("{head}{SERIES}").as_bytes()).await;
        }
    });
    address
}

impl Running {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        for kind in c5c3_api::registry() {
            if ["cortex.c5c3.io", "hypervisor.c5c3.io"].contains(&kind.group.as_str()) {
                cluster.install(kind.crd()).await;
            }
        }
        cluster.make_namespace("c5c3-system").await;
        let access = controllers::access();
        let rules = [access.rules(), access.rules_at_home()].concat();
        let client = cluster.client_with("c5c3-cortex", rules).await;
        let (stopper, stop) = Stop::channel();
        let (metrics, scheduler) = (
            Metrics::default(),
            Scheduler {
                world: World::usual(),
                ..Scheduler::default()
            },
        );
        let scheduler = Arc::new(scheduler);
        let (sender, receiver) = mpsc::channel(64);
        let local = "127.0.0.1:0".parse().expect("an address");
        let server = Server::bind(local, scheduler.clone(), metrics.clone(), Some(sender))
            .await
            .expect("binds");
        let address = server.address().expect("bound");
        tokio::spawn(server.serve(stop.clone()));
        tokio::spawn(controllers::keep_decisions(client.clone(), receiver));
        let dial = Arc::new(openstack_client::Tcp);
        let shared = Shared::new(scheduler.clone(), "c5c3-system".to_owned(), dial, false);
        tokio::spawn(controllers::run(Clusters::of(client), metrics, shared, stop));
        Running {
            cluster,
            scheduler,
            address,
            _stopper: stopper,
        }
    }

    async fn make<K>(&self, name: &str, spec: Value)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + serde::Serialize
            + std::fmt::Debug,
    {
        let object = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name}, "spec": spec});
        let object: K = serde_json::from_value(object).expect("an object");
        let api: Api<K> = Api::all(self.cluster.client());
        api.create(&PostParams::default(), &object)
            .await
            .expect("created");
    }

    async fn add_host(&self, name: &str, cpus: &str) {
        self.make::<Hypervisor>(name, json!({})).await;
        let api: Api<Hypervisor> = Api::all(self.cluster.client());
        let status = json!({"status": {"capacity": {"cpu": cpus, "memory": "64Gi"}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .expect("a status");
    }

    async fn ask(&self, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(self.address).await.expect("connects");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("writes");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("reads");
        let (_, body) = text.split_once("\r\n\r\n").expect("an answer");
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"))
    }

    async fn ready<K>(&self, name: &str, expected: &str) -> K
    where
        K: Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + serde::Serialize
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.cluster.client());
        eventually(
            &format!("{} {name} is Ready={expected}", K::kind(&())),
            async || {
                let object = api.get(name).await.ok()?;
                let value = serde_json::to_value(&object).ok()?;
                let conditions = value["status"]["conditions"].as_array()?.clone();
                let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
                (ready["status"] == expected).then_some(object)
            },
        )
        .await
    }
}

fn question(instance: &str, hosts: &[&str]) -> Value {
    let entries: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
    let weights: BTreeMap<&str, f64> = hosts.iter().map(|host| (*host, 1.0)).collect();
    let flavor =
        json!({"vcpus": 4, "memory_mb": 1024, "extra_specs": {"capabilities:hypervisor_type": "QEMU"}});
    json!({"spec": {"nova_object.data": {"instance_uuid": instance, "project_id": "p",
        "flavor": {"nova_object.data": flavor}}}, "hosts": entries, "weights": weights})
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_tell_what_to_do_and_what_came_of_it() {
    let running = Running::start().await;
    running.add_host("a", "16").await;
    running.add_host("b", "16").await;
    eventually("both hosts are known", async || {
        (running.scheduler.world.fleet().len() == 2).then_some(())
    })
    .await;

    // A pipeline of the usual name takes the place of the usual one, and keeps decisions.
    let capacity = json!({"name": "has_enough_capacity"});
    let pipeline = json!({"schedulingDomain": "nova", "type": "filter-weigher", "createDecisions": true,
        "filters": [{"name": "status_conditions"}, capacity],
        "weighers": [{"name": "kvm_binpack", "multiplier": -1.0}, {"name": "of_mars"}]});
    running
        .make::<Pipeline>("kvm-general-purpose-load-balancing", pipeline)
        .await;
    let pipeline: Pipeline = running.ready("kvm-general-purpose-load-balancing", "True").await;
    let conditions = pipeline.status.expect("a status").conditions;
    let indexed = conditions
        .iter()
        .find(|one| one.type_ == "AllStepsIndexed")
        .expect("told");
    assert_eq!(
        (indexed.status.as_str(), indexed.message.as_str()),
        ("False", "unknown: of_mars")
    );
    let broken = json!({"schedulingDomain": "nova", "type": "filter-weigher", "filters": [{"name": "external_customer"}]});
    running.make::<Pipeline>("broken", broken).await;
    running.ready::<Pipeline>("broken", "False").await;

    // Room for an outage keeps ordinary servers out.
    let failover = json!({"type": "Failover", "resources": {"cpu": "14", "memory": "1Gi"},
        "failover": {"servers": ["vm-ha"]}});
    running.make::<Reservation>("failover", failover).await;
    let kept: Reservation = running.ready("failover", "True").await;
    let status = kept.status.expect("a status");
    assert_eq!(
        (status.phase, status.host.as_deref()),
        (Some(ReservationPhase::Active), Some("a"))
    );
    let nova = "/scheduler/nova/external";
    let hosts = eventually("the room is kept", async || {
        let answer = running.ask(nova, &question("vm-1", &["a", "b"])).await;
        (answer["hosts"] == json!(["b"])).then_some(answer)
    })
    .await;
    assert_eq!(hosts, json!({"hosts": ["b"]}));
    let mut evacuation = question("vm-ha", &["a", "b"]);
    evacuation["spec"]["nova_object.data"]["scheduler_hints"] = json!({"_nova_check_type": "evacuate"});
    let answer = running.ask(nova, &evacuation).await;
    assert_eq!(answer["hosts"].as_array().map(Vec::len), Some(2), "{answer}");

    // What was decided is an object that explains itself.
    let decisions: Api<Decision> = Api::all(running.cluster.client());
    let decision = eventually("the decision is kept", async || {
        let found = decisions.get_opt("nova-vm-1").await.ok()??;
        found.status.filter(|status| status.target_host.is_some())
    })
    .await;
    assert_eq!(decision.target_host.as_deref(), Some("b"));
    let text = decision.explanation.expect("words");
    assert!(
        text.starts_with("b is the best of 2 hosts; has_enough_capacity dropped 1"),
        "{text}"
    );

    // Metrics become features that weighers use.
    let secrets: Api<Secret> = Api::namespaced(running.cluster.client(), "c5c3-system");
    let url = format!("http://{}", prometheus().await);
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some("cortex-prometheus".into()),
            ..ObjectMeta::default()
        },
        data: Some([("url".to_owned(), ByteString(url.into_bytes()))].into()),
        ..Secret::default()
    };
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .expect("a Secret");
    let source = json!({"schedulingDomain": "nova", "type": "prometheus", "prometheus": {
        "query": "contention", "alias": "contention"}});
    running.make::<Datasource>("contention", source).await;
    let source: Datasource = running.ready("contention", "True").await;
    assert_eq!(source.status.expect("a status").number_of_objects, Some(2));
    let knowledge = json!({"extractor": {"name": "host_contention_long_term"},
        "dependencies": {"datasources": [{"name": "contention"}]}});
    running.make::<Knowledge>("long-term", knowledge).await;
    let knowledge: Knowledge = running.ready("long-term", "True").await;
    assert_eq!(
        knowledge.status.and_then(|status| status.raw).expect("features")["a"]["avg"],
        10.0
    );
    assert!(running.scheduler.world.features().long_term.is_some());
    running
        .make::<Kpi>("hosts", json!({"impl": "kvm_host_capacity"}))
        .await;
    running.ready::<Kpi>("hosts", "True").await;

    // Nothing changes, nothing is written.
    settles("the count of writes", Duration::from_secs(3), async || {
        running.cluster.writes().await
    })
    .await;

    // What is deleted is gone from the next answer.
    let reservations: Api<Reservation> = Api::all(running.cluster.client());
    reservations
        .delete("failover", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("the room is free again", async || {
        let answer = running.ask(nova, &question("vm-2", &["a", "b"])).await;
        (answer["hosts"].as_array().map(Vec::len) == Some(2)).then_some(())
    })
    .await;
}
