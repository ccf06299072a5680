//! What a pod's worker holds on to: reports that others change, probes over a restart, stops
//! that get less time, volumes that follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use embedded_node::cgroups;
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use serde_json::{Value, json};

use super::memory_api::{Case, MemoryApi, condition, host, pod, ready};
use super::test_nodes::{BUSYBOX, PATIENCE, TestNodes};

#[tokio::test(flavor = "multi_thread")]
async fn workers_hold_on() {
    let test_nodes = TestNodes::new(&["a"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let (node, cri) = &nodes[0];
    let api = Arc::new(MemoryApi::default());
    let host = host(&test_nodes, node, cri, &api);
    let start = |name: &str, spec: Value| Case::start(&host, &api, pod(name, spec));

    said_again(&api, start("steady", steady())).await;
    let mut waits = start("waits", steady());
    waits.until_ready().await;
    host.ready.send_replace(false);
    let unready = waits.until("not ready with its node", |s| !ready(s)).await;
    let reason = |s: &PodStatus| {
        let all = s.conditions.iter().flatten();
        all.filter(|c| c.type_ == "Ready").find_map(|c| c.reason.clone())
    };
    assert_eq!(reason(&unready).as_deref(), Some("NodeNotReady"));
    assert_eq!(condition(&unready, "ContainersReady"), Some("True"));
    host.ready.send_replace(true);
    waits.until_ready().await;
    waits.delete(0).await;

    remembered(&api, start("probed", probed())).await;
    hurried(start("stubborn", stubborn())).await;
    killed_after_grace(start("deaf", stubborn())).await;
    followed(&api, start("follows", follows())).await;
    powers(&test_nodes, start("mighty", mighty())).await;
}

fn shell(script: &str) -> Value {
    json!({ "name": "main", "image": BUSYBOX, "command": ["sh", "-c", script] })
}

fn steady() -> Value {
    json!({ "containers": [shell("trap 'exit 0' TERM; while true; do sleep 0.1; done")] })
}

/// Somebody marks the pod not ready: it is said again, at a measured pace.
async fn said_again(api: &MemoryApi, mut case: Case) {
    let good = case.until_ready().await;
    let name = case.name().to_owned();
    let mark = |case: &mut Case| {
        let mut bad = good.clone();
        for condition in bad.conditions.iter_mut().flatten().filter(|c| c.type_ == "Ready") {
            condition.status = "False".into();
            condition.reason = Some("NodeNotReady".into());
        }
        api.statuses.lock().unwrap().insert(name.clone(), bad.clone());
        case.pod.status = Some(bad);
        case.update();
    };
    mark(&mut case);
    let t = Instant::now();
    case.until_ready().await;
    eprintln!("said again after {:?}", t.elapsed());
    // One who insists is not fought with all the machine has.
    let before = api.reports(&name);
    let t = Instant::now();
    while t.elapsed() < Duration::from_secs(3) {
        if ready(&case.status()) {
            mark(&mut case);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let said = api.reports(&name) - before;
    assert!((1..=4).contains(&said), "{said} reports in three seconds");
    case.until_ready().await;
    // And nothing more once all agree.
    case.pod.status = Some(case.status());
    case.update();
    let before = api.reports(&name);
    for _ in 0..20 {
        case.worker.poke();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    assert_eq!(api.reports(&name), before, "nothing changed, nothing written");
    case.delete(1).await;
}

fn probed() -> Value {
    let mut container = shell("trap 'exit 0' TERM; while true; do sleep 0.1; done");
    container["startupProbe"] = json!({ "exec": { "command": ["true"] }, "periodSeconds": 1 });
    // The second answer would come too late for this test.
    container["readinessProbe"] =
        json!({ "exec": { "command": ["true"] }, "initialDelaySeconds": 2, "periodSeconds": 600 });
    json!({ "containers": [container] })
}

/// Over a restart of this program a pod stays what it was.
async fn remembered(api: &MemoryApi, mut case: Case) {
    case.until_ready().await;
    let before = api.reports("probed");
    case.restart();
    for _ in 0..20 {
        case.worker.poke();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(ready(&case.status()));
    assert_eq!(api.reports("probed"), before, "no report: nothing changed");
    case.delete(1).await;
}

fn stubborn() -> Value {
    json!({ "terminationGracePeriodSeconds": 3600,
        "containers": [shell("trap '' TERM; while true; do sleep 0.1; done")] })
}

/// An hour's grace becomes a second's while the stop runs.
async fn hurried(mut case: Case) {
    case.until_ready().await;
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::now());
    case.pod.metadata.deletion_timestamp = Some(now);
    case.pod.metadata.deletion_grace_period_seconds = Some(3600);
    case.update();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let t = Instant::now();
    case.delete(1).await;
    eprintln!("killed {:?} after the grace got shorter", t.elapsed());
}

/// A program that does not hear SIGTERM is killed when its time is over.
async fn killed_after_grace(mut case: Case) {
    case.until_ready().await;
    let t = Instant::now();
    case.delete(2).await;
    assert!(t.elapsed() >= Duration::from_secs(2), "it had its time");
    let status = case.status();
    let end = status.container_statuses.iter().flatten();
    let end = end
        .filter_map(|c| c.state.as_ref()?.terminated.as_ref())
        .next()
        .unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (137, Some("Error")));
}

fn follows() -> Value {
    let mut container = shell("trap 'exit 0' TERM; while true; do sleep 0.1; done");
    container["volumeMounts"] = json!([
        { "name": "all", "mountPath": "/all" }, { "name": "fields", "mountPath": "/fields" },
        { "name": "disk", "mountPath": "/disk" }, { "name": "ram", "mountPath": "/ram" } ]);
    let labels = json!([{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }]);
    json!({
        "volumes": [
            { "name": "all", "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "audience": "counted" } } ] } },
            { "name": "fields", "downwardAPI": { "items": labels } },
            { "name": "disk", "emptyDir": {} },
            { "name": "ram", "emptyDir": { "medium": "Memory" } },
        ],
        "containers": [container],
    })
}

/// Tokens and labels in volumes are those of now; what the pod made of its own stays.
async fn followed(api: &MemoryApi, mut case: Case) {
    case.until_ready().await;
    let first = case.exec("main", "cat /all/token").await;
    case.exec("main", "chmod 0700 /disk; chmod 0750 /ram").await;
    // The renewal fails twice; nobody asks for it again.
    api.refused.store(2, Ordering::SeqCst);
    case.worker.refresh();
    let t = Instant::now();
    let deadline = t + PATIENCE;
    while case.exec("main", "cat /all/token").await == first {
        assert!(Instant::now() < deadline, "{}", api.events_of("follows"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("a new token {:?} after the first try", t.elapsed());
    assert_eq!(api.events_of("follows").matches("no token now").count(), 2);
    let modes = case.exec("main", "stat -c %a /disk /ram").await;
    assert_eq!(modes, "700\n750\n", "as the pod made them");

    let labels = case.pod.metadata.labels.get_or_insert_default();
    labels.insert("more".into(), "yes".into());
    case.update();
    let deadline = Instant::now() + PATIENCE;
    while !case
        .exec("main", "cat /fields/labels")
        .await
        .contains("more=\"yes\"")
    {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    case.delete(1).await;
}

fn mighty() -> Value {
    let wait = ["sleep", "1000"];
    json!({ "terminationGracePeriodSeconds": 0, "containers": [
        { "name": "main", "image": BUSYBOX, "command": wait, "securityContext": { "privileged": true } },
        { "name": "some", "image": BUSYBOX, "command": wait, "resources": { "limits": { "cpu": "250m" } },
            "securityContext": { "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE", "SYS_TIME"] } } },
    ] })
}

/// Rights and limits as the kernel has them.
async fn powers(test_nodes: &TestNodes, mut case: Case) {
    case.until_ready().await;
    let capabilities = async |container: &str| {
        let text = case.exec(container, "grep CapEff /proc/self/status").await;
        u64::from_str_radix(text.trim().trim_start_matches("CapEff:\t"), 16).unwrap()
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|l| l.strip_prefix("CapEff:\t")).unwrap();
    let own = u64::from_str_radix(own, 16).unwrap();
    assert_eq!(capabilities("main").await, own, "all that this machine gives");
    // CAP_NET_BIND_SERVICE is 10, CAP_SYS_TIME 25.
    assert_eq!(capabilities("some").await, 1 << 10 | 1 << 25);
    case.exec("main", "mkdir /m; mount -t tmpfs none /m").await;
    let mounts = case.exec("main", "grep -c ' /m ' /proc/mounts").await;
    assert_eq!(mounts, "1\n", "a privileged container may mount");

    let spec: &PodSpec = case.pod.spec.as_ref().unwrap();
    assert_eq!(spec.containers.len(), 2);
    let pods = format!("{}/pods/mighty-uid", test_nodes.layout.node("a", 1).cgroup);
    let limits: Vec<String> = cgroups::hierarchies()
        .unwrap()
        .iter()
        .flat_map(|h| {
            std::fs::read_dir(h.mount.join(&pods))
                .into_iter()
                .flatten()
                .flatten()
        })
        .flat_map(|e| ["cpu.max", "cpu.cfs_quota_us"].map(|file| e.path().join(file)))
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .map(|text| text.split_whitespace().next().unwrap_or_default().to_owned())
        .collect();
    let known = std::fs::read_to_string("/proc/cgroups").unwrap_or_default();
    assert!(
        limits.iter().any(|l| l == "25000") || !known.contains("cpu"),
        "a quarter of 100 ms: {limits:?}"
    );
    case.delete(0).await;
}
