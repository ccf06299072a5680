//! What agents of nodes tell, and what follows from it.

use std::time::Duration;

use c5c3_api::hypervisor::{HypervisorStatus, NODE_LABEL};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use test_harness::{eventually, settles};

use super::World;

/// As the agent of a node that lives, until the test ends.
pub(crate) fn beat(world: &World, node: &str) {
    let leases: Api<Lease> = Api::namespaced(world.cluster.client(), "c5c3-system");
    let node = node.to_owned();
    tokio::spawn(async move {
        let name = format!("c5c3-node-agent-{node}");
        loop {
            let now = jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
                .to_string();
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "labels": {NODE_LABEL: node}},
                "spec": {"holderIdentity": node, "renewTime": now}});
            let params = PatchParams::apply("c5c3-node-agent").force();
            if leases.patch(&name, &params, &Patch::Apply(lease)).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
}

/// As the agent of a node tells it.
async fn tell_of(world: &World, node: &str, server: &str, trouble: Option<&str>) {
    let now = jiff::Timestamp::now().to_string();
    let since = format!("{}Z", now.split('.').next().unwrap_or(&now).trim_end_matches('Z'));
    let mut instance = json!({"id": server, "name": "instance-1", "active": trouble.is_none()});
    if let Some(kind) = trouble {
        instance["trouble"] = json!({"kind": kind, "since": since});
    }
    let status = json!({
        "apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": node},
        "status": {"instances": [instance], "conditions": [{"type": "LibVirtConnection", "status": "True",
            "reason": "Connected", "message": "", "lastTransitionTime": since}]}});
    world
        .hosts()
        .patch_status(
            node,
            &PatchParams::apply("c5c3-node-agent").force(),
            &Patch::Apply(status),
        )
        .await
        .expect("told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_is_restarted_on_its_host() {
    let world = World::start().await;
    for name in ["node1", "node2"] {
        world.add_node(name).await;
        world.told(name, "True", "Ready").await;
    }
    let server = world.fleet.add_server("node1", "web", "ACTIVE", 512);
    beat(&world, "node1");
    tell_of(&world, "node1", &server, None).await;
    let hosts = world.hosts();
    let reaction = async |state: &str| {
        let what = format!("the server is {state}");
        eventually(&what, async || {
            let status = hosts.get("node1").await.ok()?.status?;
            let told = status.reactions.iter().find(|one| one.server == server)?.clone();
            (format!("{:?}", told.state) == state).then_some((told, status))
        })
        .await
    };
    let began = std::time::Instant::now();
    world.fleet.set_status(&server, "SHUTOFF");
    tell_of(&world, "node1", &server, Some("Crashed")).await;
    let (told, status) = reaction("Restarting").await;
    eprintln!(
        "restarted {:?} after the agent told of the crash",
        began.elapsed()
    );
    assert_eq!((told.attempts, world.fleet.restarts(&server)), (1, 1));
    let well = |status: &HypervisorStatus| {
        let told = status
            .conditions
            .iter()
            .find(|one| one.type_ == "InstancesWell")
            .cloned();
        told.map(|one| (one.status, one.reason)).expect("told")
    };
    assert_eq!(well(&status), ("False".to_owned(), "Recovering".to_owned()));

    eventually("Nova has started it", async || {
        let servers = world.fleet.servers();
        let one = servers.iter().find(|one| one.id == server)?;
        (one.status == "ACTIVE" && one.task.is_none()).then_some(())
    })
    .await;
    tell_of(&world, "node1", &server, None).await;
    let (told, status) = reaction("Recovered").await;
    assert_eq!(told.message.as_deref(), Some("it is running again"));
    assert_eq!(well(&status), ("True".to_owned(), "Ready".to_owned()));
    assert_eq!(world.fleet.restarts(&server), 1, "once is enough");

    // One whose owner stopped it is none of ours.
    world.fleet.set_status(&server, "SHUTOFF");
    tell_of(&world, "node1", &server, None).await;
    let silence = Duration::from_secs(3);
    settles("restarts", silence, async || world.fleet.restarts(&server)).await;
    assert_eq!(world.fleet.restarts(&server), 1);
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(world.cluster.client());
    for reason in ["InstanceTrouble", "InstanceRecovered"] {
        eventually(reason, async || {
            let told = events.list(&ListParams::default()).await.ok()?;
            let named = told
                .items
                .iter()
                .filter(|one| one.reason.as_deref() == Some(reason));
            (named.count() == 1).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reports_as_long_as_its_heart_beats() {
    let world = World::start().await;
    world.add_node("node1").await;
    world.told("node1", "True", "Ready").await;
    let server = world.fleet.add_server("node1", "web", "ACTIVE", 512);
    tell_of(&world, "node1", &server, None).await;
    let reporting = async |status: &str, reason: &str| {
        let hosts = world.hosts();
        eventually(&format!("AgentReporting is {status} {reason}"), async || {
            let told = hosts.get("node1").await.ok()?.status?.conditions;
            let told = told.into_iter().find(|one| one.type_ == "AgentReporting")?;
            (told.status == status && told.reason == reason).then_some(())
        })
        .await;
    };
    reporting("False", "AgentMissing").await;
    let leases: Api<Lease> = Api::namespaced(world.cluster.client(), "c5c3-system");
    let lease = json!({"metadata": {"name": "c5c3-node-agent-node1", "labels": {NODE_LABEL: "node1"}}});
    let lease = serde_json::from_value(lease).expect("a Lease");
    leases
        .create(&PostParams::default(), &lease)
        .await
        .expect("a Lease");
    reporting("True", "Ready").await;
    // What it told is still there, and counts for nothing.
    leases
        .delete("c5c3-node-agent-node1", &DeleteParams::default())
        .await
        .expect("deleted");
    reporting("False", "AgentMissing").await;
    world.fleet.set_status(&server, "SHUTOFF");
    tell_of(&world, "node1", &server, Some("Crashed")).await;
    let silence = Duration::from_secs(3);
    settles("restarts", silence, async || world.fleet.restarts(&server)).await;
    assert_eq!(world.fleet.restarts(&server), 0, "nobody says so any more");
}
