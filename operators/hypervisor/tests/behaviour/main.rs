//! The operator on an API server, the embedded one or that of C5C3_TEST_KUBECONFIG; Nova is simulated.

mod agents;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::hypervisor::{Eviction, Hypervisor};
use c5c3_api::ovs::OvsNode;
use c5c3_hypervisor::Connect;
use c5c3_hypervisor::names::HYPERVISOR;
use c5c3_kit::{Clusters, Metrics, Stop};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use openstack_client::{Cloud, Fleet, SimulatedFleet, Violations};
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually, settles};

const CLOUDS: &str = "clouds: {openstack: {auth: {auth_url: 'http://keystone:5000/v3', \
    application_credential_id: a, application_credential_secret: b}, auth_type: v3applicationcredential}}";

#[derive(Clone, Debug)]
struct Simulated(SimulatedFleet);

impl Connect for Simulated {
    fn connect(&self, _: Cloud) -> openstack_client::Result<Arc<dyn Fleet>> {
        Ok(Arc::new(self.0.clone()))
    }
}

struct World {
    cluster: TestCluster,
    fleet: SimulatedFleet,
    _stopper: c5c3_kit::stop::Stopper,
}

impl World {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        for kind in c5c3_api::registry() {
            if kind.group == "hypervisor.c5c3.io" || ["ControlPlane", "OVSNode"].contains(&kind.kind.as_str())
            {
                cluster.install(kind.crd()).await;
            }
        }
        cluster.make_namespace("c5c3-system").await;
        let secret = Secret {
            metadata: named("hypervisor-clouds-yaml"),
            data: Some(BTreeMap::from([(
                "clouds.yaml".to_owned(),
                ByteString(CLOUDS.into()),
            )])),
            ..Secret::default()
        };
        let secrets: Api<Secret> = Api::namespaced(cluster.client(), "c5c3-system");
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .expect("a Secret");

        let fleet = SimulatedFleet::default();
        let clock = fleet.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                clock.advance(Duration::from_secs(1));
            }
        });
        // What the role grants has to be enough.
        let access = c5c3_hypervisor::access();
        let rules = [access.rules(), access.rules_at_home()].concat();
        let client = cluster.client_with("c5c3-hypervisor", rules).await;
        let (stopper, stop) = Stop::channel();
        let connect = Arc::new(Simulated(fleet.clone()));
        tokio::spawn(c5c3_hypervisor::run(
            Clusters::of(client),
            Metrics::default(),
            connect,
            stop,
        ));
        World {
            cluster,
            fleet,
            _stopper: stopper,
        }
    }

    async fn add_node(&self, name: &str) {
        self.fleet.add_host(name, 64, 65536);
        let mut node = Node {
            metadata: named(name),
            ..Node::default()
        };
        node.metadata.labels = Some(BTreeMap::from([(HYPERVISOR.to_owned(), String::new())]));
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let mut node = nodes.create(&PostParams::default(), &node).await.expect("a Node");
        node.status = Some(NodeStatus {
            addresses: Some(vec![NodeAddress {
                type_: "InternalIP".into(),
                address: "10.0.0.7".into(),
            }]),
            conditions: Some(vec![NodeCondition {
                type_: "Ready".into(),
                status: "True".into(),
                ..NodeCondition::default()
            }]),
            ..NodeStatus::default()
        });
        nodes
            .replace_status(name, &PostParams::default(), &node)
            .await
            .expect("a status");
    }

    fn hosts(&self) -> Api<Hypervisor> {
        Api::all(self.cluster.client())
    }

    async fn told(&self, name: &str, status: &str, reason: &str) -> Hypervisor {
        let hosts = self.hosts();
        let what = format!("{name} is Ready={status} {reason}");
        eventually(&what, async || {
            let host = hosts.get_opt(name).await.ok()??;
            let told = host.status.as_ref()?;
            let ready = told.conditions.iter().find(|one| one.type_ == "Ready")?;
            let fresh = told.observed_generation == host.metadata.generation;
            (fresh && ready.status == status && ready.reason == reason).then_some(host)
        })
        .await
    }

    async fn edit(&self, name: &str, change: Value) {
        self.hosts()
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .expect("an edit");
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_comes_is_emptied_comes_back_and_leaves() {
    let world = World::start().await;
    for name in ["node1", "node10"] {
        world.add_node(name).await;
    }
    let host = world.told("node1", "True", "Ready").await;
    world.told("node10", "True", "Ready").await;
    let status = host.status.expect("told");
    assert_eq!(status.internal_ip.as_deref(), Some("10.0.0.7"));
    let service = world.fleet.service("node1").expect("there");
    assert_eq!(status.service_id, Some(service.id), "exactly its own");
    let agent = status
        .conditions
        .iter()
        .find(|one| one.type_ == "AgentReporting")
        .expect("told");
    assert_eq!(
        (agent.status.as_str(), agent.reason.as_str()),
        ("False", "AgentMissing")
    );
    assert!(world.fleet.servers().is_empty(), "the test servers are gone");

    let silence = Duration::from_secs(4);
    settles("writes of an idle operator", silence, async || {
        let mut writes = world.cluster.writes().await;
        writes.retain(|resource, _| resource.contains("hypervisors") || resource.contains("evictions"));
        writes
    })
    .await;

    let movable = world.fleet.add_server("node1", "web", "ACTIVE", 512);
    world.fleet.add_server("node1", "db", "SHUTOFF", 512);
    world
        .edit(
            "node1",
            json!({"spec": {"maintenance": "manual", "maintenanceReason": "DIMM"}}),
        )
        .await;
    world.told("node1", "False", "Maintenance").await;
    let servers = world.fleet.servers();
    assert!(
        servers.iter().all(|server| server.host == "node10"),
        "{servers:?}"
    );
    assert!(
        servers.iter().all(|server| server.status != "VERIFY_RESIZE"),
        "{servers:?}"
    );
    let evictions: Api<Eviction> = Api::all(world.cluster.client());
    let eviction = evictions
        .get("node1")
        .await
        .expect("an Eviction")
        .status
        .expect("told");
    assert_eq!(eviction.moved, Some(2));

    world
        .edit(
            "node1",
            json!({"spec": {"maintenance": "", "maintenanceReason": null}}),
        )
        .await;
    world.told("node1", "True", "Ready").await;
    assert!(world.fleet.service("node1").expect("there").enabled());

    let nodes: Api<Node> = Api::all(world.cluster.client());
    nodes
        .delete("node1", &DeleteParams::default())
        .await
        .expect("deleted");
    let hosts = world.hosts();
    eventually("the Hypervisor went with its Node", async || {
        hosts.get_opt("node1").await.ok()?.is_none().then_some(())
    })
    .await;
    assert!(!world.fleet.knows("node1") && world.fleet.service("node10").expect("there").enabled());
    assert!(world.fleet.servers().iter().any(|server| server.id == movable));
    assert_eq!(world.fleet.violations(), Violations::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_host_is_aborted_and_retried_by_an_annotation() {
    let world = World::start().await;
    world.fleet.set_broken("node1", true);
    world.add_node("node1").await;
    let host = world.told("node1", "False", "Aborted").await;
    let told = host.status.and_then(|status| status.onboarding).expect("told");
    assert!(told.message.expect("said").contains("no such bridge br-int"));
    world.fleet.set_broken("node1", false);
    world
        .edit(
            "node1",
            json!({"metadata": {"annotations": {"hypervisor.c5c3.io/retry": "1"}}}),
        )
        .await;
    world.told("node1", "True", "Ready").await;
}

/// A host without its bridge, one whose libvirt is away and one whose key Ceph refuses: each is told, and comes
/// into service once it is repaired and somebody asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_run_servers_is_aborted_with_the_reason() {
    let world = World::start().await;
    let client = world.cluster.client();
    let long_ago = "2026-01-01T00:00:00Z";
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": "Seen", "message": message, "lastTransitionTime": long_ago});
    let agent = PatchParams::apply("c5c3-node-agent").force();

    // Open vSwitch without the bridge of OVN.
    let switches: Api<OvsNode> = Api::namespaced(client.clone(), "c5c3-system");
    let switch = async |bridges: Value| {
        let head = json!({"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode",
            "metadata": {"name": "switchless"}, "spec": {"nodeRef": {"name": "switchless"}}});
        switches
            .patch("switchless", &agent, &Patch::Apply(&head))
            .await
            .expect("an OVSNode");
        let mut told = head;
        told["status"] = json!({"bridges": bridges, "ovnController": {"connected": true},
            "conditions": [condition("OVSDBConnected", "True", "")]});
        switches
            .patch_status("switchless", &agent, &Patch::Apply(&told))
            .await
            .expect("told");
    };
    switch(json!([{"name": "br-ex", "status": "Active"}])).await;
    // libvirt that is away since long.
    let libvirt = async |status: &str| {
        let told = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": "mute"},
            "status": {"conditions": [condition("LibVirtConnection", status, "connection refused")]}});
        let hosts = world.hosts();
        eventually("the agent can tell", async || {
            hosts
                .patch_status("mute", &agent, &Patch::Apply(&told))
                .await
                .ok()
        })
        .await;
    };
    // nova-compute whose key is refused.
    let pods: Api<Pod> = Api::namespaced(client, "c5c3-system");
    let pod = json!({"metadata": {"name": "compute", "labels": {"app.kubernetes.io/name": "nova"}},
        "spec": {"nodeName": "keyless", "containers": [{"name": "c", "image": "i"}],
            "initContainers": [{"name": "ceph", "image": "i"}]}});
    let pod = serde_json::from_value(pod).expect("a Pod");
    pods.create(&PostParams::default(), &pod).await.expect("a Pod");
    let stuck = json!({"status": {"initContainerStatuses": [{"name": "ceph", "ready": false, "restartCount": 3,
        "image": "i", "imageID": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "client.nova is refused"}}}]}});
    pods.patch_status("compute", &PatchParams::default(), &Patch::Merge(stuck))
        .await
        .expect("a status");

    // As long as the host is not tested yet, so that it is not too late for a complaint.
    world.fleet.set_test_bed(true);
    world
        .fleet
        .set_times(Duration::from_secs(3600), Duration::from_secs(30));
    for name in ["switchless", "mute", "keyless"] {
        world.add_node(name).await;
    }
    agents::beat(&world, "mute");
    libvirt("False").await;
    let why = async |name: &str| {
        let told = world
            .told(name, "False", "Aborted")
            .await
            .status
            .and_then(|status| status.onboarding);
        told.and_then(|told| told.message).expect("said")
    };
    assert!(why("switchless").await.contains("no bridge br-int"));
    assert!(
        why("keyless")
            .await
            .contains("Ceph cannot be used: client.nova is refused")
    );
    assert!(
        why("mute")
            .await
            .contains("libvirt does not answer: connection refused")
    );

    switch(json!([{"name": "br-int", "status": "Active"}])).await;
    libvirt("True").await;
    pods.delete("compute", &DeleteParams::default())
        .await
        .expect("deleted");
    world
        .fleet
        .set_times(Duration::from_secs(3), Duration::from_secs(30));
    // Mended is not enough: somebody has to say so.
    let silence = Duration::from_secs(2);
    settles("phases", silence, async || {
        let host = world.hosts().get("keyless").await.ok()?;
        host.status
            .and_then(|status| status.onboarding)
            .map(|one| one.phase)
    })
    .await;
    for name in ["switchless", "mute", "keyless"] {
        world.told(name, "False", "Aborted").await;
        let retry = json!({"metadata": {"annotations": {"hypervisor.c5c3.io/retry": "1"}}});
        world.edit(name, retry).await;
        world.told(name, "True", "Ready").await;
    }
}
