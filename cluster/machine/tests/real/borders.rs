//! Nothing that a pod names or plants leads out of its volumes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};

use super::memory_api::{Case, MemoryApi, host, pod};
use super::test_nodes::{BUSYBOX, TestNodes};

/// A pod with the claim at `/whole`, and the part of it that `sub` names at `/part`.
fn with_part(sub: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "securityContext": { "fsGroup": 2000 },
        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
        "containers": [{ "name": "main", "image": BUSYBOX,
            "command": ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.1; done"],
            "volumeMounts": [{ "name": "v", "mountPath": "/whole" },
                { "name": "v", "mountPath": "/part", "subPath": sub }] }],
    })
}

fn says(status: &PodStatus, text: &str) -> bool {
    let containers = status.container_statuses.iter().flatten();
    containers
        .filter_map(|c| c.state.as_ref()?.waiting.as_ref()?.message.as_deref())
        .any(|said| said.contains(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leads_out_of_a_volume() {
    let test_nodes = TestNodes::new(&["a"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let (node, cri) = &nodes[0];
    let api = Arc::new(MemoryApi::default());
    let host = host(&test_nodes, node, cri, &api);
    let data = test_nodes.layout.volumes().join("pv-1");
    api.claims.lock().unwrap().insert("data".into(), data.clone());

    let mut first = Case::start(&host, &api, pod("first", with_part("real")));
    first.until_ready().await;
    let planted = "echo kept > /part/file && ln -s /etc /whole/absolute && ln -s ../.. /whole/relative && \
        ln -s real /whole/inside && stat -c %a /part && cat /whole/real/file";
    assert_eq!(first.exec("main", planted).await, "2777\nkept\n");
    for name in ["absolute", "relative", "absolute/ssl"] {
        let mut case = Case::start(&host, &api, pod("out", with_part(name)));
        case.until("refused", |s| says(s, "leads out of its volume"))
            .await;
        case.delete(0).await;
        api.statuses.lock().unwrap().remove("out");
        api.finished.lock().unwrap().clear();
    }
    let mut inside = Case::start(&host, &api, pod("inside", with_part("inside")));
    inside.until_ready().await;
    assert_eq!(inside.exec("main", "cat /part/file").await, "kept\n");
    inside.delete(0).await;

    // Replaced while it runs: what was mounted stays, and the next start sees the new.
    let swap = "mv /whole/real /whole/aside && ln -s /etc /whole/real && cat /part/file";
    assert_eq!(first.exec("main", swap).await, "kept\n");
    first.exec("main", "kill 1").await;
    first
        .until("refused", |s| says(s, "leads out of its volume"))
        .await;
    // Its mounts go with the pod, what they showed does not.
    first.delete(0).await;
    assert!(!node.layout.pods().join("first-uid").exists());
    assert_eq!(
        std::fs::read_to_string(data.join("aside/file")).unwrap(),
        "kept\n"
    );

    // Keys that are ways, as no API should let through.
    let outside = data.with_file_name("escaped");
    for key in ["../../../../escaped", outside.to_str().unwrap()] {
        let map = serde_json::from_value(json!({ "data": { key: "x" } })).unwrap();
        api.config_maps.lock().unwrap().insert("ways".into(), map);
        let spec = json!({
            "volumes": [{ "name": "v", "configMap": { "name": "ways" } }],
            "containers": [{ "name": "main", "image": BUSYBOX, "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
        });
        let mut case = Case::start(&host, &api, pod("ways", spec));
        case.until("refused", |s| says(s, "has the key")).await;
        case.delete(0).await;
        api.statuses.lock().unwrap().remove("ways");
        api.finished.lock().unwrap().clear();
    }
    assert!(api.events_of("ways").contains("FailedMount"));
    assert!(!outside.exists());
}

/// Devices of the node as a privileged pod sees them that has the node's /dev.
async fn devices(case: &Case) -> Vec<String> {
    let said = case.exec("main", "cd /devices && find . ! -type d | sort").await;
    said.lines()
        .map(|line| line.trim_start_matches("./").to_owned())
        .filter(|name| !name.starts_with("pts/") && !name.starts_with("shm/"))
        .collect()
}

fn with_devices() -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "volumes": [{ "name": "dev", "hostPath": { "path": "/dev" } }],
        "containers": [{ "name": "main", "image": BUSYBOX, "command": ["sleep", "1000"],
            "securityContext": { "privileged": true },
            "volumeMounts": [{ "name": "dev", "mountPath": "/devices" }] }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_devices_of_its_own() {
    for hypervisors in [false, true] {
        let mut test_nodes = TestNodes::new(&["a"]);
        test_nodes.hypervisors = hypervisors;
        let (_fabric, nodes) = test_nodes.up().await;
        let (node, cri) = &nodes[0];
        let api = Arc::new(MemoryApi::default());
        let host = host(&test_nodes, node, cri, &api);
        let mut case = Case::start(&host, &api, pod("looks", with_devices()));
        case.until_ready().await;
        let seen = devices(&case).await;
        let has = |name: &str| seen.iter().any(|n| n == name);
        for name in [
            "null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin",
        ] {
            assert!(has(name), "{name}: {seen:?}");
        }
        let here = |name: &str| std::path::Path::new("/dev").join(name).exists();
        assert_eq!(has("net/tun"), here("net/tun"));
        for name in ["kvm", "vhost-net", "vhost-vsock", "loop-control", "loop0"] {
            assert_eq!(has(name), hypervisors && here(name), "{name}: {seen:?}");
        }
        for name in ["vda", "sda", "nvme0n1", "mem", "kmsg", "console", "tty0", "ttyS0"] {
            assert!(!has(name), "{name}: {seen:?}");
        }
        // Terminals can be had, and they are the node's own.
        let work = "exec 3<>/devices/ptmx && ls /devices/pts && echo x > /devices/null && head -c 4 /devices/zero | wc -c";
        assert_eq!(case.exec("main", work).await, "0\nptmx\n4\n");
        case.delete(0).await;

        // Who says nothing about it has filtered calls.
        let filtered = json!({ "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": BUSYBOX, "command": ["sleep", "1000"] }] });
        let mut case = Case::start(&host, &api, pod("plain", filtered));
        case.until_ready().await;
        assert_eq!(
            case.exec("main", "grep -w Seccomp: /proc/self/status").await,
            "Seccomp:\t2\n"
        );
        case.delete(0).await;
    }
}
