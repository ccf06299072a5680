//! The program on the embedded API server, which asks it by HTTPS as a real one does.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use c5c3_kit::stop::Stopper;
use c5c3_kit::{Metrics, Stop};
use c5c3_labels::change::{Labels, MARK};
use c5c3_labels::{Injector, KEYS, NAME, Settings, rights};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually, settles};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const PLACE: &str = "labels";

struct World {
    cluster: TestCluster,
    /// Who may do what the program may do, and no more.
    client: Client,
}

/// A running program; dropped, it is down.
struct Running {
    address: SocketAddr,
    _stoppers: Vec<Stopper>,
}

impl World {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        cluster.make_namespace(PLACE).await;
        let rights = rights();
        let client = cluster
            .client_with(NAME, [rights.cluster, rights.home].concat())
            .await;
        let world = World { cluster, client };
        world.node("one", json!({ZONE: "a", REGION: "r"})).await;
        world.node("two", json!({ZONE: "", "rack": "7"})).await;
        world
    }

    async fn run(&self, listen: SocketAddr, follows: bool) -> Running {
        let settings = Settings {
            keys: KEYS.map(str::to_owned).to_vec(),
            namespace: PLACE.to_owned(),
            names: vec![format!("{NAME}.{PLACE}.svc")],
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
        };
        let injector = Injector::bind(self.client.clone(), settings, listen)
            .await
            .expect("a port");
        let address = injector.address();
        let mut stoppers = Vec::new();
        if follows {
            let (stopper, stop) = Stop::channel();
            let follow = injector.follower(Metrics::default());
            tokio::spawn(async move { follow(stop).await });
            stoppers.push(stopper);
        }
        let (stopper, stop) = Stop::channel();
        tokio::spawn(injector.serve(stop));
        stoppers.push(stopper);
        Running {
            address,
            _stoppers: stoppers,
        }
    }

    async fn node(&self, name: &str, labels: Value) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        let node = serde_json::from_value(node).expect("a Node");
        let nodes: Api<Node> = Api::all(self.cluster.client());
        nodes.create(&PostParams::default(), &node).await.expect("a Node");
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), PLACE)
    }

    async fn pod(&self, name: &str, labels: Value, node: Option<&str>) {
        let pod = json!({"metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        let pod = serde_json::from_value(pod).expect("a Pod");
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .expect("a Pod");
    }

    async fn bind(&self, pod: &str, node: &str) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node}});
        let path = format!("/api/v1/namespaces/{PLACE}/pods/{pod}/binding");
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(binding.to_string().into_bytes()).expect("a request");
        self.cluster.client().request_text(request).await.expect("bound");
    }

    /// Labels beside `app`, and the annotation.
    async fn labels(&self, pod: &str) -> (Labels, Option<String>) {
        let pod = self.pods().get(pod).await.expect("a Pod");
        let mut labels = pod.metadata.labels.unwrap_or_default();
        labels.remove("app");
        let mark = pod.metadata.annotations.and_then(|all| all.get(MARK).cloned());
        (labels, mark)
    }

    async fn configure(&self, address: SocketAddr) {
        let hook = |name: &str, resource: &str| {
            json!({"name": format!("{name}.labels-injector.c5c3.io"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "timeoutSeconds": 2,
                "clientConfig": {"url": format!("https://{address}/mutate")},
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}]})
        };
        let configuration = json!({"metadata": {"name": NAME},
            "webhooks": [hook("bindings", "pods/binding"), hook("pods", "pods")]});
        let configuration = serde_json::from_value(configuration).expect("a configuration");
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.cluster.client());
        api.create(&PostParams::default(), &configuration)
            .await
            .expect("a configuration");
    }

    /// What the API server trusts, once it is told.
    async fn trusted(&self) -> Vec<u8> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.cluster.client());
        eventually("the API server is told whom to trust", async || {
            let hooks = api.get(NAME).await.ok()?.webhooks?;
            let bundles: Option<Vec<_>> = hooks
                .into_iter()
                .map(|hook| hook.client_config.ca_bundle)
                .collect();
            let bundles = bundles?;
            bundles
                .windows(2)
                .all(|two| two[0] == two[1])
                .then(|| bundles[0].0.clone())
        })
        .await
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn anywhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_asks_and_pods_have_their_labels_at_once() {
    let world = World::start().await;
    let running = world.run(anywhere(), false).await;
    world.configure(running.address).await;
    let bundle = world.trusted().await;
    let both = labels(&[(REGION, "r"), (ZONE, "a")]);
    let mark = Some(format!("{REGION},{ZONE}"));

    world.pod("web", json!({"app": "web"}), None).await;
    assert_eq!(
        world.labels("web").await,
        (labels(&[]), None),
        "it has no node yet"
    );
    world.bind("web", "one").await;
    assert_eq!(world.labels("web").await, (both.clone(), mark.clone()));

    world.pod("placed", json!({}), Some("one")).await;
    assert_eq!(world.labels("placed").await, (both.clone(), mark));

    world.pod("own", json!({ZONE: "b"}), None).await;
    world.bind("own", "one").await;
    let kept = labels(&[(REGION, "r"), (ZONE, "b")]);
    assert_eq!(world.labels("own").await, (kept, Some(REGION.to_owned())));

    world.pod("bare", json!({}), None).await;
    world.bind("bare", "two").await;
    assert_eq!(
        world.labels("bare").await,
        (labels(&[]), None),
        "never an empty label"
    );

    // A second replica has the same certificate.
    let second = world.run(anywhere(), false).await;
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), PLACE);
    let version = async || {
        let names = [
            "c5c3-labels-injector-authority",
            "c5c3-labels-injector-certificate",
        ];
        let mut versions = Vec::new();
        for name in names {
            versions.push(
                secrets
                    .get(name)
                    .await
                    .expect("a Secret")
                    .metadata
                    .resource_version,
            );
        }
        versions
    };
    settles("its Secrets", Duration::from_secs(2), version).await;
    assert_eq!(world.trusted().await, bundle);
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_asked_about_is_mended() {
    let world = World::start().await;
    let down = world.run(anywhere(), false).await;
    world.configure(down.address).await;
    world.trusted().await;
    let address = down.address;
    drop(down);

    world.pod("web", json!({}), None).await;
    world.pod("idle", json!({}), None).await;
    let began = Instant::now();
    // The port may take a moment to close; a pod that is asked about then has its labels already.
    eventually("nobody listens", async || {
        std::net::TcpStream::connect(address).is_err().then_some(())
    })
    .await;
    world.bind("web", "one").await;
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "never in the way: {:?}",
        began.elapsed()
    );
    assert_eq!(world.labels("web").await, (labels(&[]), None));

    let _running = world.run(address, true).await;
    let has = async |pod: &str, wanted: &[(&str, &str)]| {
        let wanted = labels(wanted);
        eventually(&format!("{pod} has {wanted:?}"), async || {
            (world.labels(pod).await.0 == wanted).then_some(())
        })
        .await;
    };
    has("web", &[(REGION, "r"), (ZONE, "a")]).await;
    let nodes: Api<Node> = Api::all(world.cluster.client());
    let relabel = async |node: &str, labels: Value| {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        nodes
            .patch(node, &PatchParams::default(), &patch)
            .await
            .expect("a Node");
    };
    let began = Instant::now();
    relabel("one", json!({ZONE: "c", REGION: null})).await;
    has("web", &[(ZONE, "c")]).await;
    let took = began.elapsed();
    relabel("one", json!({ZONE: null})).await;
    has("web", &[]).await;
    assert_eq!(world.labels("web").await.1, None, "nothing of ours is left");
    relabel("one", json!({ZONE: "d"})).await;
    has("web", &[(ZONE, "d")]).await;
    assert_eq!(world.labels("idle").await, (labels(&[]), None), "it has no node");
    eprintln!("a changed label of a node was on its pod after {took:?}");

    settles("writes", Duration::from_secs(3), async || {
        let mut writes = world.cluster.writes().await;
        writes.retain(|resource, _| resource != "leases");
        writes
    })
    .await;
}
