//! What containers see: environment, volumes, users, limits and probes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::memory_api::{Case, MemoryApi, host, pod};
use super::test_nodes::{BUSYBOX, PATIENCE, TestNodes};

#[tokio::test(flavor = "multi_thread")]
async fn what_containers_see() {
    let test_nodes = TestNodes::new(&["a"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let (node, cri) = &nodes[0];
    let api = Arc::new(MemoryApi::default());
    let host = host(&test_nodes, node, cri, &api);
    let map =
        |value: &str| serde_json::from_value(json!({ "data": { "key": value, "other": "o" } })).unwrap();
    api.config_maps.lock().unwrap().insert("cm".into(), map("one"));
    api.secrets.lock().unwrap().insert(
        "pw".into(),
        serde_json::from_value(json!({ "data": { "word": "aHVudGVy" } })).unwrap(),
    );
    api.claims
        .lock()
        .unwrap()
        .insert("data".into(), test_nodes.layout.volumes().join("pv-1"));

    let mut case = Case::start(
        &host,
        &api,
        pod(
            "see",
            json!({
                "hostname": "named",
                "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "runAsNonRoot": true,
                    "seccompProfile": { "type": "RuntimeDefault" } },
                "volumes": [
                    { "name": "cm", "configMap": { "name": "cm" } },
                    { "name": "pw", "secret": { "secretName": "pw", "defaultMode": 0o400 } },
                    { "name": "all", "projected": { "sources": [
                        { "serviceAccountToken": { "path": "token", "audience": "x" } },
                        { "downwardAPI": { "items": [{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } } ] } },
                    { "name": "disk", "emptyDir": {} },
                    { "name": "ram", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
                    { "name": "node", "hostPath": { "path": "/var/lib/shared", "type": "DirectoryOrCreate" } },
                    { "name": "pvc", "persistentVolumeClaim": { "claimName": "data" } },
                ],
                "containers": [{
                    "name": "main", "image": BUSYBOX, "command": ["sleep", "1000"],
                    "env": [
                        { "name": "PW", "valueFrom": { "secretKeyRef": { "name": "pw", "key": "word" } } },
                        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
                        { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
                        { "name": "BOTH", "value": "$(PW)-$(IP)" },
                    ],
                    "envFrom": [{ "configMapRef": { "name": "cm" }, "prefix": "CM_" }],
                    "resources": { "limits": { "cpu": "500m", "memory": "64Mi" } },
                    "securityContext": { "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                        "capabilities": { "drop": ["ALL"] } },
                    "volumeMounts": [
                        { "name": "cm", "mountPath": "/cm" }, { "name": "pw", "mountPath": "/pw" },
                        { "name": "all", "mountPath": "/all" }, { "name": "disk", "mountPath": "/disk" },
                        { "name": "ram", "mountPath": "/ram" }, { "name": "node", "mountPath": "/node" },
                        { "name": "pvc", "mountPath": "/pvc" },
                        { "name": "pvc", "mountPath": "/sub", "subPath": "inner" },
                    ],
                    "startupProbe": { "exec": { "command": ["true"] }, "periodSeconds": 1 },
                    "readinessProbe": { "exec": { "command": ["test", "-e", "/disk/ready"] }, "periodSeconds": 1 },
                }],
            }),
        ),
    );
    case.until("started but not ready", |s| {
        s.container_statuses
            .iter()
            .flatten()
            .any(|c| c.started == Some(true) && !c.ready)
    })
    .await;
    case.exec("main", "touch /disk/ready").await;
    let status = case.until_ready().await;
    let ip = status.pod_ip.clone().unwrap();

    for (script, expected) in [
        (
            "echo $BOTH $CM_key $CPU $KUBERNETES_SERVICE_HOST",
            format!("hunter-{ip} one 1 10.192.0.1"),
        ),
        (
            "cat /cm/key /pw/word; echo; readlink /cm/key",
            "onehunter\n..data/key".into(),
        ),
        (
            "cat /all/token; echo; cat /all/labels",
            "token for x\napp=\"see\"".into(),
        ),
        (
            "id",
            "uid=1000(user) gid=1000(user) groups=1000(user),2000".into(),
        ),
        ("hostname; grep -c named /etc/hosts", "named\n1".into()),
        (
            "grep search /etc/resolv.conf",
            "search default.svc.cluster.local svc.cluster.local cluster.local".into(),
        ),
        (
            "touch /new 2>&1 | grep -o 'Read-only file system'",
            "Read-only file system".into(),
        ),
        (
            "touch /cm/new 2>&1 | grep -o 'Read-only file system'",
            "Read-only file system".into(),
        ),
        (
            "echo x > /pvc/file; echo y > /sub/file; cat /pvc/inner/file",
            "y".into(),
        ),
        ("stat -c %g /pvc/file /disk", "2000\n2000".into()),
        (
            "dd if=/dev/zero of=/ram/x bs=1024 count=2048 2>&1 | grep -o 'No space left'",
            "No space left".into(),
        ),
        (
            "grep CapBnd /proc/self/status",
            "CapBnd:\t0000000000000000".into(),
        ),
        ("grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1".into()),
        ("grep -w Seccomp: /proc/self/status", "Seccomp:\t2".into()),
        // Processes of its own only, and no way out of the machine.
        (
            "cat /proc/1/comm; cat /proc/[0-9]*/comm 2>/dev/null | grep -c containerd",
            "sleep\n0".into(),
        ),
        (
            "nc -w 5 192.0.2.1 80 2>&1 < /dev/null | grep -o 'Network is unreachable'",
            "Network is unreachable".into(),
        ),
    ] {
        let said = case.exec("main", script).await;
        assert_eq!(said.trim_end(), expected, "{script}");
    }
    assert_eq!(
        std::fs::read_to_string(test_nodes.layout.volumes().join("pv-1/file")).unwrap(),
        "x\n"
    );
    // Secrets live in the node's memory: nothing of them on the machine's disk.
    assert!(!node.layout.pods().join("see-uid/volumes/pw/word").exists());
    let limit = "memory/pods/see-uid".to_owned();
    let file = std::path::Path::new("/sys/fs/cgroup/memory")
        .join(&node.layout.cgroup)
        .join("pods/see-uid");
    assert!(
        file.exists() || std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists(),
        "{limit}"
    );

    // A changed ConfigMap arrives in the running container, all at once.
    api.config_maps.lock().unwrap().insert("cm".into(), map("two"));
    case.worker.refresh();
    let deadline = Instant::now() + PATIENCE;
    while case.exec("main", "cat /cm/key").await != "two" {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Readiness follows its probe.
    case.exec("main", "rm /disk/ready").await;
    case.until("unready again", |s| !super::memory_api::ready(s))
        .await;
    case.delete(0).await;

    // Liveness: the container is restarted, its hook runs at the end.
    let mut live = Case::start(
        &host,
        &api,
        pod(
            "live",
            json!({
                "hostNetwork": true, "hostPID": true, "terminationGracePeriodSeconds": 1,
                "volumes": [{ "name": "s", "emptyDir": {} }],
                "containers": [{ "name": "main", "image": BUSYBOX,
                    "command": ["sh", "-c", "echo $$; hostname; httpd -f -p 7070 -h /www"],
                    "volumeMounts": [{ "name": "s", "mountPath": "/s" }],
                    "lifecycle": { "preStop": { "exec": { "command": ["sh", "-c", "echo bye > /s/bye"] } } },
                    "livenessProbe": { "httpGet": { "path": "/index.html", "port": 7070 }, "periodSeconds": 1, "failureThreshold": 2 },
                }],
            }),
        ),
    );
    let status = live.until_ready().await;
    assert_eq!(status.pod_ip.as_deref(), Some("10.190.0.1"));
    assert!(
        live.exec("main", "ps").await.contains("containerd"),
        "the node's processes"
    );
    assert_eq!(live.exec("main", "hostname").await, "a\n");
    live.exec("main", "rm /www/index.html").await;
    live.until("restarted", |s| {
        s.container_statuses
            .iter()
            .flatten()
            .any(|c| c.restart_count == 1 && c.state.as_ref().is_some_and(|s| s.running.is_some()))
    })
    .await;
    assert_eq!(live.exec("main", "cat /s/bye").await, "bye\n");
    let events = api.events.lock().unwrap().clone();
    assert!(
        events
            .iter()
            .any(|(_, e)| e.message.contains("failed liveness probe, will be restarted"))
    );
    assert!(events.iter().any(|(_, e)| {
        e.message
            .starts_with("Liveness probe failed: HTTP probe failed with statuscode: 404")
    }));
    live.delete(1).await;

    // Too much memory.
    let mut hungry = Case::start(
        &host,
        &api,
        pod(
            "hungry",
            json!({
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "image": BUSYBOX, "resources": { "limits": { "memory": "16Mi" } },
                    "command": ["sh", "-c", "x=a; while true; do x=$x$x; done"] }],
            }),
        ),
    );
    let status = hungry.until_phase("Failed").await;
    let end = status.container_statuses.unwrap()[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (137, Some("OOMKilled")));
    hungry.delete(0).await;
}
