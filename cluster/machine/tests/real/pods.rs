//! Pods from their specification, without an API server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ContainerStatus;
use serde_json::json;

use super::memory_api::{Case, MemoryApi, condition, host, pod};
use super::test_nodes::{BUSYBOX, PATIENCE, TestNodes};

fn first(list: &Option<Vec<ContainerStatus>>) -> &ContainerStatus {
    &list.as_ref().unwrap()[0]
}

fn shell(name: &str, script: &str) -> serde_json::Value {
    json!({ "name": name, "image": BUSYBOX, "command": ["sh", "-c", script] })
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_pods() {
    let test_nodes = TestNodes::new(&["a"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let (node, cri) = &nodes[0];
    let api = Arc::new(MemoryApi::default());
    let host = host(&test_nodes, node, cri, &api);

    // One container, its log and its end.
    let t = Instant::now();
    let script = "trap 'echo bye; exit 3' TERM; echo hello; echo oops >&2; while true; do sleep 0.1; done";
    let mut plain = Case::start(
        &host,
        &api,
        pod("plain", json!({ "containers": [shell("main", script)] })),
    );
    let status = plain.until_ready().await;
    eprintln!("ready in {:?}", t.elapsed());
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.pod_ip.as_deref().unwrap().starts_with("10.191.1."));
    let main = first(&status.container_statuses);
    assert!(main.ready && main.restart_count == 0 && main.image_id.contains("sha256:"));
    assert_eq!(condition(&status, "Initialized"), Some("True"));
    let deadline = Instant::now() + PATIENCE;
    // Output and errors go two ways: either may come first.
    while !["hello\noops\n", "oops\nhello\n"].contains(&plain.log("main", 0).as_str()) {
        assert!(Instant::now() < deadline, "{}", plain.log("main", 0));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let t = Instant::now();
    plain.delete(60).await;
    assert!(t.elapsed() < Duration::from_secs(60), "SIGTERM was enough");
    let ended = plain.status();
    let end = first(&ended.container_statuses)
        .state
        .as_ref()
        .unwrap()
        .terminated
        .as_ref()
        .unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (3, Some("Error")));
    assert!(cri.sandboxes(&[]).await.unwrap().is_empty());
    assert!(!node.layout.pods().join("plain-uid").exists());
    let events = api.events.lock().unwrap().clone();
    let reasons: Vec<_> = events.iter().map(|(_, e)| e.reason).collect();
    assert_eq!(reasons, ["Pulled", "Created", "Started", "Killing"]);

    // Init containers in order, a helper beside the main one, a Job's end.
    let mut job = Case::start(
        &host,
        &api,
        pod(
            "job",
            json!({
                "restartPolicy": "Never",
                "volumes": [{ "name": "w", "emptyDir": {} }],
                "initContainers": [
                    { "name": "one", "image": BUSYBOX, "command": ["sh", "-c", "echo 1 >> /w/l"],
                        "volumeMounts": [{ "name": "w", "mountPath": "/w" }] },
                    { "name": "side", "image": BUSYBOX, "restartPolicy": "Always",
                        "command": ["sh", "-c", "echo side >> /w/l; trap 'exit 0' TERM; while true; do sleep 0.1; done"],
                        "startupProbe": { "exec": { "command": ["grep", "side", "/w/l"] }, "periodSeconds": 1 },
                        "volumeMounts": [{ "name": "w", "mountPath": "/w" }] },
                    { "name": "two", "image": BUSYBOX, "command": ["sh", "-c", "echo 2 >> /w/l"],
                        "volumeMounts": [{ "name": "w", "mountPath": "/w" }] },
                ],
                "containers": [
                    { "name": "main", "image": BUSYBOX, "command": ["sh", "-c", "cat /w/l; echo done > /dev/termination-log"],
                        "volumeMounts": [{ "name": "w", "mountPath": "/w" }] },
                ],
            }),
        ),
    );
    let status = job.until_phase("Succeeded").await;
    assert_eq!(job.log("main", 0), "1\nside\n2\n");
    let end = first(&status.container_statuses)
        .state
        .as_ref()
        .unwrap()
        .terminated
        .as_ref()
        .unwrap();
    assert_eq!(
        (end.exit_code, end.reason.as_deref(), end.message.as_deref()),
        (0, Some("Completed"), Some("done\n"))
    );
    assert_eq!(condition(&status, "Ready"), Some("False"));
    job.delete(5).await;

    // Restarts with backoff.
    let mut crash = Case::start(
        &host,
        &api,
        pod("crash", json!({ "containers": [shell("main", "exit 7")] })),
    );
    let status = crash
        .until("in CrashLoopBackOff", |s| {
            s.container_statuses.iter().flatten().any(|c| {
                c.state
                    .as_ref()
                    .and_then(|s| s.waiting.as_ref())
                    .and_then(|w| w.reason.as_deref())
                    == Some("CrashLoopBackOff")
            })
        })
        .await;
    let main = first(&status.container_statuses);
    assert_eq!(main.restart_count, 1);
    assert_eq!(
        main.last_state
            .as_ref()
            .unwrap()
            .terminated
            .as_ref()
            .unwrap()
            .exit_code,
        7
    );
    crash.delete(1).await;

    // An image that is nowhere: the message names the command.
    let mut missing = Case::start(
        &host,
        &api,
        pod(
            "missing",
            json!({
        "containers": [{ "name": "main", "image": "c5c3.local/keystone:1" }] }),
        ),
    );
    let status = missing
        .until("waiting for its image", |s| {
            s.container_statuses.iter().flatten().any(|c| {
                let waiting = c.state.as_ref().and_then(|s| s.waiting.as_ref());
                waiting.is_some_and(|w| w.reason.as_deref() == Some("ImagePullBackOff"))
            })
        })
        .await;
    let waiting = first(&status.container_statuses)
        .state
        .clone()
        .unwrap()
        .waiting
        .unwrap();
    assert!(waiting.message.unwrap().contains("`c5c3 image build keystone`"));
    missing.delete(1).await;
}
