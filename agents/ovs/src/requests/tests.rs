//! The desk on an API server, with work of the test's own, and a switch that is a socket.

use std::sync::Arc;

use c5c3_api::ovs::OvsTraceSpec;
use kube::CustomResourceExt;
use test_harness::{TestCluster, eventually, settles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::*;
use crate::rights::rights_of_all;

const HERE: &str = "node-1";

struct World {
    cluster: TestCluster,
    traces: Api<OvsTrace>,
    /// Each lets one trace come to its end.
    ends: Arc<Semaphore>,
    _desk: JoinSet<()>,
}

fn spec(node: &str, flow: &str) -> OvsTraceSpec {
    OvsTraceSpec {
        node_ref: LocalRef::new(node),
        flow: flow.to_owned(),
        ..OvsTraceSpec::default()
    }
}

impl World {
    /// `left` are there before the agent is, with these statuses.
    async fn start(left: &[(&str, Value)]) -> Self {
        let cluster = TestCluster::start().await;
        cluster.install(&OvsTrace::crd()).await;
        let namespace = cluster.namespace("traces").await;
        let traces: Api<OvsTrace> = Api::namespaced(cluster.client(), &namespace);
        for (name, status) in left {
            let trace = OvsTrace::new(name, spec(HERE, "icmp"));
            traces.create(&PostParams::default(), &trace).await.expect("made");
            let patch = Patch::Merge(json!({"status": status}));
            let patched = traces.patch_status(name, &PatchParams::default(), &patch).await;
            patched.expect("a status");
        }
        // With its own rights and no others.
        let desk = Desk {
            client: cluster.client_with("ovs-agent", rights_of_all().home).await,
            namespace,
            node: HERE.to_owned(),
        };
        let ends = Arc::new(Semaphore::new(0));
        let work = {
            let ends = ends.clone();
            move |asked: OvsTrace| {
                let ends = ends.clone();
                async move {
                    ends.acquire().await.expect("open").forget();
                    match asked.spec.flow.as_str() {
                        "bad" => Err("syntax error".to_owned()),
                        flow => Ok(OvsTraceStatus {
                            result: Some(format!("Flow: {flow}")),
                            ..OvsTraceStatus::default()
                        }),
                    }
                }
            }
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(desk.serve(work));
        World {
            cluster,
            traces,
            ends,
            _desk: tasks,
        }
    }

    async fn ask(&self, name: &str, node: &str, flow: &str) {
        let trace = OvsTrace::new(name, spec(node, flow));
        let made = self.traces.create(&PostParams::default(), &trace).await;
        made.expect("made");
    }

    async fn status(&self, name: &str) -> Option<OvsTraceStatus> {
        let trace = self.traces.get_opt(name).await.expect("an answer")?;
        Some(trace.status.unwrap_or_default())
    }

    async fn until(&self, name: &str, phase: Phase) -> OvsTraceStatus {
        eventually("the phase", async || {
            let status = self.status(name).await?;
            (status.phase == Some(phase)).then_some(status)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_this_node_are_answered_one_at_a_time() {
    let world = World::start(&[]).await;
    world.ask("a", HERE, "icmp").await;
    world.until("a", Phase::Running).await;
    world.ask("b", HERE, "bad").await;
    world.ask("elsewhere", "node-2", "icmp").await;
    let waiting = async || world.status("b").await.and_then(|status| status.phase);
    let still = test_harness::steadily("it waits", Duration::from_millis(300), waiting).await;
    assert_eq!(still, None, "one at a time");

    world.ends.add_permits(1);
    let told = world.until("a", Phase::Succeeded).await;
    assert_eq!(told.result.as_deref(), Some("Flow: icmp"));
    let (start, end) = (
        told.start_time.expect("a time"),
        told.completion_time.expect("a time"),
    );
    assert!(start.0 <= end.0);
    world.ends.add_permits(1);
    let told = world.until("b", Phase::Failed).await;
    assert_eq!(
        (told.message.as_deref(), told.result),
        (Some("syntax error"), None)
    );

    // Then all is quiet: the end is written once, and what is asked of others stays theirs.
    let writes = async || world.cluster.writes().await.get("ovstraces").copied();
    settles("writes", Duration::from_secs(1), writes).await;
    assert_eq!(world.status("elsewhere").await.expect("there").phase, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_taken_back_makes_room() {
    let world = World::start(&[]).await;
    world.ask("a", HERE, "icmp").await;
    world.until("a", Phase::Running).await;
    world.ask("b", HERE, "arp").await;
    let gone = world.traces.delete("a", &DeleteParams::default()).await;
    gone.expect("deleted");
    world.until("b", Phase::Running).await;
    world.ends.add_permits(1);
    let told = world.until("b", Phase::Succeeded).await;
    assert_eq!(told.result.as_deref(), Some("Flow: arp"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_left_behind_is_told_and_what_is_over_goes() {
    let world = World::start(&[
        (
            "left",
            json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}),
        ),
        (
            "old",
            json!({"phase": "Succeeded", "completionTime": "2026-01-01T00:00:00Z"}),
        ),
        (
            "new",
            json!({"phase": "Failed", "completionTime": Time(Timestamp::now())}),
        ),
    ])
    .await;
    let told = world.until("left", Phase::Failed).await;
    assert!(told.message.expect("why").contains("restarted"));
    eventually("the old one goes", async || {
        world.status("old").await.is_none().then_some(())
    })
    .await;
    assert!(world.status("new").await.is_some());
}

/// What is asked of a switch, and its answer.
async fn asked(answer: Value, spec: OvsTraceSpec) -> (Value, Result<OvsTraceStatus, String>) {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("ovs-vswitchd.pid"), "42\n").expect("written");
    let socket = directory.path().join("ovs-vswitchd.42.ctl");
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    let switch = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut bytes = vec![0; 4096];
        let length = stream.read(&mut bytes).await.expect("a request");
        let request: Value = serde_json::from_slice(&bytes[..length]).expect("JSON");
        let mut said = answer.clone();
        said["id"] = request["id"].clone();
        stream.write_all(said.to_string().as_bytes()).await.expect("sent");
        // Open until the client has read it.
        let _ = stream.read(&mut bytes).await;
        request
    };
    let (request, result) = tokio::join!(switch, trace::trace(directory.path(), &spec));
    (request, result)
}

#[tokio::test]
async fn a_switch_is_asked_for_nothing_but_a_trace() {
    let answer = json!({"result": "Flow: icmp\nDatapath actions: 3\n", "error": null});
    let (request, told) = asked(answer, spec(HERE, "icmp,in_port=1")).await;
    assert_eq!(request["method"], "ofproto/trace");
    assert_eq!(request["params"], json!(["br-int", "icmp,in_port=1"]));
    let told = told.expect("an answer");
    assert!(told.result.expect("a text").ends_with("Datapath actions: 3\n"));

    let answer = json!({"result": null, "error": "Unknown bridge br-none"});
    let other = OvsTraceSpec {
        bridge: Some("br-none".to_owned()),
        ..spec(HERE, "icmp")
    };
    let (_, told) = asked(answer, other).await;
    let why = told.expect_err("refused");
    assert!(why.contains("Unknown bridge br-none"), "{why}");
}

#[tokio::test]
async fn a_switch_that_is_away_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let why = trace::trace(directory.path(), &spec(HERE, "icmp")).await;
    assert!(why.expect_err("no switch").contains("ovs-vswitchd.pid"));
    std::fs::write(directory.path().join("ovs-vswitchd.pid"), "../../etc").expect("written");
    let why = trace::trace(directory.path(), &spec(HERE, "icmp")).await;
    assert!(
        why.expect_err("no number")
            .contains("not the number of a process")
    );
}
