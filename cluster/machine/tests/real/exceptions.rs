//! Rules with exceptions: pods that stay where no new one may come, pods that may go though
//! their budget is used up, and who says what happened.

use super::placing::evict;
use super::test_cluster::TestCluster;
use super::workloads::{DAEMONS, pods, rolled_out};

fn cluster() -> TestCluster {
    let cluster = TestCluster::new(1);
    cluster.up();
    cluster
}

/// A taint that forbids new pods leaves those that run alone, daemons too.
#[test]
fn daemons_stay() {
    let cluster = &cluster();
    cluster.apply(DAEMONS);
    rolled_out(cluster, "daemonset/agent");
    let all = || {
        let mut all = pods(
            cluster,
            "app=agent",
            "{.metadata.name} {.metadata.deletionTimestamp}",
        );
        all.sort();
        all
    };
    let before = all();
    cluster.kubectl(&["taint", "node", "node-1", "only=some:NoSchedule"]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(all(), before, "the same pods");
}

const PAIR: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: pair }
spec:
  replicas: 2
  selector: { matchLabels: { app: pair } }
  template:
    metadata: { labels: { app: pair } }
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command: [sh, -c, 'touch /tmp/well; exec sleep 1000']
        readinessProbe: { exec: { command: [cat, /tmp/well] }, periodSeconds: 1, failureThreshold: 1 }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { name: pair }
spec: { minAvailable: 1, selector: { matchLabels: { app: pair } } }
"#;

/// While enough are ready, one that is not may be evicted, and a ready one may not.
#[test]
fn sick_ones_may_go() {
    let cluster = &cluster();
    cluster.apply(PAIR);
    rolled_out(cluster, "deployment/pair");
    let names = pods(cluster, "app=pair", "{.metadata.name}");
    let [sick, well] = names.as_slice() else {
        panic!("{names:?}");
    };
    cluster.kubectl(&["exec", sick, "--", "rm", "/tmp/well"]);
    let allowed = "jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}";
    cluster.until("nothing to spare", || {
        cluster.kubectl(&["get", "pdb", "pair", "-o", allowed]) == "1 0"
    });
    let (good, text) = evict(cluster, well);
    assert!(
        !good && text.contains("violate the pod's disruption budget"),
        "{text}"
    );
    let (good, text) = evict(cluster, sick);
    assert!(good, "{text}");
}

/// What was done to objects is said with them.
#[test]
fn events() {
    let cluster = &cluster();
    cluster.apply(DAEMONS);
    cluster.apply(PAIR);
    rolled_out(cluster, "deployment/pair");
    let said = |kind: &str, reason: &str| {
        let selector = format!("--field-selector=involvedObject.kind={kind},reason={reason}");
        let text = cluster.kubectl(&["get", "events", &selector, "-o", "name"]);
        !text.is_empty()
    };
    for (kind, reason) in [
        ("Deployment", "ScalingReplicaSet"),
        ("ReplicaSet", "SuccessfulCreate"),
        ("Pod", "Scheduled"),
        ("Pod", "Started"),
        ("DaemonSet", "SuccessfulCreate"),
    ] {
        cluster.until(&format!("{reason} of a {kind}"), || said(kind, reason));
    }
}
