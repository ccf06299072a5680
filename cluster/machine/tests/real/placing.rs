//! Where pods may run and who may send them away, and what they see of the cluster.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::test_cluster::{TestCluster, both};
use super::workloads::{field, pods, rolled_out};

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
      containers: [{ name: main, image: 'c5c3.local/busybox:1', command: [sleep, '1000'] }]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - { topologyKey: kubernetes.io/hostname, labelSelector: { matchLabels: { app: pair } } }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { name: pair }
spec: { minAvailable: 2, selector: { matchLabels: { app: pair } } }
"#;

/// Success and what the API said.
pub(super) fn evict(cluster: &TestCluster, pod: &str) -> (bool, String) {
    let url = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    let body = format!(
        r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{pod}","namespace":"default"}}}}"#
    );
    let mut child = cluster
        .command(&["create", "--raw", &url, "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    (done.status.success(), both(&done))
}

fn ready(cluster: &TestCluster) -> usize {
    let all = pods(
        cluster,
        "app=pair",
        "{.metadata.deletionTimestamp},{.status.conditions[?(@.type=='Ready')].status}",
    );
    all.iter().filter(|l| *l == ",True").count()
}

/// A budget refuses evictions until there is one to spare; `drain` waits for it.
pub(super) fn budgets(cluster: &TestCluster) {
    cluster.apply(PAIR);
    rolled_out(cluster, "deployment/pair");
    let allow = |count: u8| {
        let patch = format!(r#"{{"spec":{{"minAvailable":{count}}}}}"#);
        cluster.kubectl(&["patch", "pdb", "pair", "--type=merge", "-p", &patch]);
        let expected = (2 - count).to_string();
        cluster.until("counted", || {
            field(cluster, &["pdb", "pair"], "{.status.disruptionsAllowed}") == expected
                && ready(cluster) == 2
        });
    };
    allow(2);
    let victim = pods(cluster, "app=pair", "{.metadata.name}").remove(0);
    let (good, text) = evict(cluster, &victim);
    assert!(
        !good && text.contains("violate the pod's disruption budget"),
        "{text}"
    );
    assert_eq!(ready(cluster), 2);
    let (good, text) = cluster.try_kubectl(&["drain", "node-1", "--ignore-daemonsets", "--timeout=3s"]);
    assert!(
        !good && text.contains("violate the pod's disruption budget"),
        "{text}"
    );
    assert_eq!(ready(cluster), 2);
    cluster.kubectl(&["uncordon", "node-1"]);

    allow(1);
    let (good, text) = evict(cluster, &victim);
    assert!(good, "{text}");
    cluster.until("replaced", || {
        let names = pods(cluster, "app=pair", "{.metadata.name}");
        ready(cluster) == 2 && !names.contains(&victim)
    });
    allow(1);
    cluster.kubectl(&["drain", "node-1", "--ignore-daemonsets", "--timeout=60s"]);
    let left = pods(cluster, "app=pair", "{.spec.nodeName}");
    assert!(!left.contains(&"node-1".to_owned()), "{left:?}");
    assert_eq!(ready(cluster), 1, "the other was kept");
    let path = "{.spec.nodeName}{.status.conditions[?(@.type=='PodScheduled')].message}";
    cluster.until("no place for the second", || {
        let said = pods(cluster, "app=pair", path);
        said.iter().any(|l| l.starts_with("0/2 nodes are available"))
    });
    cluster.kubectl(&["uncordon", "node-1"]);
    cluster.until("apart again", || ready(cluster) == 2);
    let mut nodes = pods(cluster, "app=pair", "{.spec.nodeName}");
    nodes.sort();
    assert_eq!(nodes, ["node-1", "node-2"], "never two on one node");
    cluster.kubectl(&["delete", "deployment/pair", "pdb/pair"]);
}

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: { name: NAME, labels: { app: placed } }
spec:
  terminationGracePeriodSeconds: 0
  MORE
  containers: [{ name: main, image: 'c5c3.local/busybox:1', command: [sleep, '1000'] OPTIONS }]
"#;

fn pod(cluster: &TestCluster, name: &str, more: &str, options: &str) {
    let text = POD.replace("NAME", name).replace("MORE", more);
    cluster.apply(&text.replace("OPTIONS", options));
}

pub(super) fn scheduler(cluster: &TestCluster) {
    let node = |name: &str| field(cluster, &["pod", name], "{.spec.nodeName}");
    let placed = |name: &str| {
        cluster.until("placed", || !node(name).is_empty());
        node(name)
    };
    cluster.kubectl(&["label", "node", "node-2", "disk=fast"]);
    pod(cluster, "fast", "nodeSelector: { disk: fast }", "");
    assert_eq!(placed("fast"), "node-2");

    cluster.kubectl(&["taint", "node", "node-2", "only=some:NoSchedule"]);
    for name in ["plain-1", "plain-2"] {
        pod(cluster, name, "", "");
        assert_eq!(placed(name), "node-1", "{name}");
    }
    let tolerant = "nodeSelector: { disk: fast }\n  tolerations: [{ key: only, operator: Exists }]";
    pod(cluster, "tolerant", tolerant, "");
    assert_eq!(placed("tolerant"), "node-2");
    assert_eq!(node("fast"), "node-2", "what runs stays");

    let message = |name: &str| {
        let path = "{.status.phase} {.status.conditions[?(@.type=='PodScheduled')].message}";
        field(cluster, &["pod", name], path)
    };
    pod(cluster, "huge", "", ", resources: { requests: { cpu: '1000' } }");
    cluster.until("told why it waits", || {
        let said = message("huge");
        said.starts_with("Pending 0/2 nodes are available: ") && said.contains("Insufficient cpu")
    });
    cluster.until("an event", || {
        let events = cluster.kubectl(&["get", "events", "--field-selector=involvedObject.name=huge"]);
        events.contains("FailedScheduling") && events.contains("Insufficient cpu")
    });
    pod(cluster, "nowhere", "nodeSelector: { disk: none }", "");
    cluster.until("told why it waits", || {
        message("nowhere").contains("node affinity/selector")
    });
    // A node that fits appears: it is used.
    cluster.kubectl(&["label", "node", "node-1", "disk=none"]);
    assert_eq!(placed("nowhere"), "node-1");
    cluster.kubectl(&["taint", "node", "node-2", "only-"]);
    cluster.kubectl(&["label", "node", "node-1", "node-2", "disk-"]);
    cluster.kubectl(&["delete", "pods", "-l", "app=placed"]);
}

const CALLER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: { name: caller }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: caller }
rules: [{ apiGroups: [''], resources: [pods], verbs: [get] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: caller }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: caller }
subjects: [{ kind: ServiceAccount, name: caller, namespace: default }]
---
apiVersion: v1
kind: Pod
metadata: { name: caller }
spec:
  serviceAccountName: caller
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: c5c3.local/busybox:1
    command: [sleep, '1000']
    volumeMounts:
    - { name: usr, mountPath: /usr, readOnly: true }
    - { name: lib, mountPath: /lib, readOnly: true }
    - { name: lib64, mountPath: /lib64, readOnly: true }
  volumes:
  - { name: usr, hostPath: { path: /usr } }
  - { name: lib, hostPath: { path: /usr/lib } }
  - { name: lib64, hostPath: { path: /usr/lib64 } }
"#;

fn ready_pod(cluster: &TestCluster, name: &str) {
    let pod = format!("pod/{name}");
    cluster.kubectl(&["wait", "--for=condition=Ready", &pod, "--timeout=60s"]);
}

/// With its token and the cluster's certificate a pod may do what its role allows.
pub(super) fn api_from_inside(cluster: &TestCluster) {
    cluster.apply(CALLER);
    ready_pod(cluster, "caller");
    let call = |path: &str| {
        let script = format!(
            "d=/var/run/secrets/kubernetes.io/serviceaccount; \
             /usr/bin/curl -s --cacert $d/ca.crt -H \"Authorization: Bearer $(cat $d/token)\" \
             -w ' %{{http_code}}' https://kubernetes.default.svc/api/v1/namespaces/$(cat $d/namespace)/{path}"
        );
        cluster.kubectl(&["exec", "caller", "--", "sh", "-c", &script])
    };
    let text = call("pods/caller");
    assert!(
        text.ends_with(" 200") && text.contains("\"serviceAccountName\""),
        "{text}"
    );
    let text = call("secrets");
    assert!(text.ends_with(" 403"), "{text}");
    assert!(text.contains("system:serviceaccount:default:caller"), "{text}");
}

/// Uses the pod of the section before.
pub(super) fn pod_names(cluster: &TestCluster) {
    let ip = field(cluster, &["pod", "caller"], "{.status.podIP}");
    let name = format!("{}.default.pod.cluster.local", ip.replace('.', "-"));
    let text = cluster.kubectl(&["exec", "caller", "--", "nslookup", &name]);
    let answer = text
        .lines()
        .rev()
        .find(|l| l.contains("Address"))
        .unwrap_or_default();
    assert!(answer.ends_with(&ip), "{text}");
    cluster.kubectl(&["delete", "pod", "caller"]);
}

const READER: &str = r#"
apiVersion: v1
kind: Secret
metadata: { name: twins }
stringData: { one: '0', two: '0' }
---
apiVersion: v1
kind: Pod
metadata: { name: reader }
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: c5c3.local/busybox:1
    command:
    - sh
    - -c
    - |
      last=
      while true; do
        cd /twins/..data/ && one=$(cat one) && two=$(cat two) || continue
        test "$one" = "$two" || echo apart $one $two
        test "$one" = "$last" || echo now $one
        last=$one
        busybox usleep 2000
      done
    volumeMounts: [{ name: twins, mountPath: /twins }]
  volumes: [{ name: twins, secret: { secretName: twins } }]
"#;

/// Two keys that change together are never seen apart.
pub(super) fn secret_at_once(cluster: &TestCluster) {
    cluster.apply(READER);
    ready_pod(cluster, "reader");
    let log = || cluster.kubectl(&["logs", "reader"]);
    cluster.until("read", || log().contains("now 0"));
    let t = Instant::now();
    for n in 1..=5 {
        let patch = format!(r#"{{"stringData":{{"one":"{n}","two":"{n}"}}}}"#);
        cluster.kubectl(&["patch", "secret", "twins", "-p", &patch]);
        cluster.until("read", || log().contains(&format!("now {n}")));
    }
    eprintln!("five changes of a mounted Secret seen in {:?}", t.elapsed());
    let text = log();
    assert!(!text.contains("apart"), "{text}");
    cluster.kubectl(&["delete", "pod/reader", "secret/twins"]);
}

/// An hour to end becomes none: nothing of the pod runs seconds later.
pub(super) fn forced_away(cluster: &TestCluster) {
    let script = "trap '' TERM; while true; do sleep 0.1; done";
    cluster.kubectl(&[
        "run",
        "deaf",
        "--image=c5c3.local/busybox:1",
        "--",
        "sh",
        "-c",
        script,
    ]);
    ready_pod(cluster, "deaf");
    let node = field(cluster, &["pod", "deaf"], "{.spec.nodeName}");
    let index = node.trim_start_matches("node-").parse().unwrap();
    cluster.kubectl(&["delete", "pod", "deaf", "--grace-period=3600", "--wait=false"]);
    std::thread::sleep(Duration::from_secs(1));
    let t = Instant::now();
    cluster.kubectl(&["delete", "pod", "deaf", "--grace-period=0", "--force"]);
    cluster.until("gone from its node", || {
        let left = cluster.runtime(index, async |runtime| runtime.containers(&[]).await.unwrap());
        !left.iter().any(|c| {
            c.labels
                .get("io.kubernetes.pod.name")
                .is_some_and(|n| n == "deaf")
        })
    });
    eprintln!("forced away in {:?}", t.elapsed());
}

/// A node is taken for lost for a moment: its pods leave their Services, and both come back.
pub(super) fn node_blinks(cluster: &TestCluster) {
    let ready = "{.status.conditions[?(@.type=='Ready')].status}";
    let since = "{.status.conditions[?(@.type=='Ready')].lastTransitionTime}";
    let pod = |path: &str| pods(cluster, "app=agent", &format!("{{.spec.nodeName}} {path}"));
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let lost = serde_json::json!({"status": {"conditions": [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now},
    ]}});
    let lost = lost.to_string();
    let before = pod(since);
    let t = Instant::now();
    // The node may say at once that it is healthy: then it is said again. Its pod may be ready again
    // before anybody looks, but not since the same second.
    cluster.until("marked", || {
        cluster.kubectl(&["patch", "node", "node-2", "--subresource=status", "-p", &lost]);
        pod(since) != before
    });
    cluster.until("Ready", || field(cluster, &["node", "node-2"], ready) == "True");
    cluster.until("its pod too", || pod(ready).contains(&"node-2 True".to_owned()));
    eprintln!(
        "node and pod ready again {:?} after the node was taken for lost",
        t.elapsed()
    );
    let writes = || pods(cluster, "app=agent", "{.metadata.resourceVersion}");
    let before = writes();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(writes(), before, "nothing changed, nothing written");
}

/// A node whose process 1 is killed by anybody comes back by itself, with its pods.
pub(super) fn node_returns(cluster: &TestCluster) {
    let before = cluster.init(2);
    kill(Pid::from_raw(before), Signal::SIGKILL).unwrap();
    let t = Instant::now();
    cluster.until("another process 1", || {
        let node = embedded_node::node::Node::running(&cluster.node_layout(2));
        node.is_some_and(|p| p.pid != before)
    });
    let ready = "{.status.conditions[?(@.type=='Ready')].status}";
    cluster.until("Ready", || field(cluster, &["node", "node-2"], ready) == "True");
    eprintln!("node back by itself after {:?}", t.elapsed());
    let on = || {
        let path = format!("{{.spec.nodeName}} {ready}");
        let mut all = pods(cluster, "app=agent", &path);
        all.sort();
        all
    };
    cluster.until("its pod too", || on() == ["node-1 True", "node-2 True"]);
    let taints = field(cluster, &["node", "node-2"], "{.spec.taints[*].key}");
    assert_eq!(taints, "", "nothing keeps pods away");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(on(), ["node-1 True", "node-2 True"]);
}
