//! A cluster of two nodes, used as people use it: a session with the real kubectl.

use std::io::{BufRead, BufReader, Write};
use std::time::Instant;

use super::outside::{Machine, nothing_outside};
use super::ports::{datagrams, ports};
use super::terminals::{long_log, terminals};
use super::test_cluster::{TestCluster, get, hold_port};

pub(super) const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: default }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command: [sh, -c, 'hostname > /www/name; exec httpd -f -p 8080 -h /www']
        readinessProbe: { httpGet: { path: /name, port: 8080 }, periodSeconds: 1 }
      topologySpreadConstraints:
      - { maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway,
          labelSelector: { matchLabels: { app: web } } }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default, annotations: { c5c3.io/expose: "EXPOSED" } }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: nobody, namespace: default }
spec: { selector: { app: nobody }, ports: [{ port: 80 }] }
"#;

#[test]
fn a_session() {
    let before = Machine::look();
    let cluster = TestCluster::new(2);
    let t = Instant::now();
    let said = cluster.up();
    eprintln!("up in {:?}: {}", t.elapsed(), said.replace('\n', "; "));
    before.is_untouched();

    pods(&cluster);
    terminals(&cluster);
    long_log(&cluster);
    services(&cluster);
    ports(&cluster);
    datagrams(&cluster);
    nothing_outside(&cluster);
    stateful(&cluster);
    drain(&cluster);
    before.is_untouched();

    let t = Instant::now();
    cluster.down(false);
    eprintln!("down in {:?}", t.elapsed());
    before.is_untouched();
    cluster.left_nothing();
    cluster.down(true);
    assert!(!cluster.state.exists(), "purge leaves no file");
}

fn pods(cluster: &TestCluster) {
    let t = Instant::now();
    let script = "i=0; while true; do echo line $i; i=$((i+1)); sleep 0.2; done";
    cluster.kubectl(&[
        "run",
        "talk",
        "--image",
        "c5c3.local/busybox:1",
        "--restart=Never",
        "--grace-period=1",
        "--",
        "sh",
        "-c",
        script,
    ]);
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/talk", "--timeout=60s"]);
    eprintln!("kubectl run to Ready in {:?}", t.elapsed());

    let mut follow = cluster.spawn(&["logs", "-f", "talk"]);
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    for i in 0..5 {
        assert_eq!(lines.next().unwrap().unwrap(), format!("line {i}"));
    }
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert_eq!(cluster.kubectl(&["logs", "talk", "--tail=1"]).lines().count(), 1);

    assert_eq!(
        cluster.kubectl(&["exec", "talk", "--", "sh", "-c", "echo $((6*7)); hostname"]),
        "42\ntalk\n"
    );
    let (good, text) = cluster.try_kubectl(&["exec", "talk", "--", "sh", "-c", "echo out; exit 3"]);
    assert!(
        !good && text.contains("out") && text.contains("exit code 3"),
        "{text}"
    );
    // Input that ends.
    let mut child = cluster
        .command(&["exec", "-i", "talk", "--", "wc", "-c"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&vec![b'x'; 300_000])
        .unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "300000");

    let directory = tempfile::tempdir().unwrap();
    let (there, back) = (directory.path().join("there"), directory.path().join("back"));
    std::fs::write(&there, "carried").unwrap();
    cluster.kubectl(&["cp", &there.to_string_lossy(), "talk:/tmp/file"]);
    cluster.kubectl(&["cp", "talk:/tmp/file", &back.to_string_lossy()]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), "carried");
    let t = Instant::now();
    cluster.kubectl(&["delete", "pod", "talk", "--grace-period=1"]);
    eprintln!("kubectl delete in {:?}", t.elapsed());
}

fn services(cluster: &TestCluster) {
    let (held, exposed) = hold_port();
    cluster.apply(&WEB.replace("EXPOSED", &exposed.to_string()));
    drop(held);
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let nodes = cluster.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[*].spec.nodeName}",
    ]);
    let mut spread: Vec<&str> = nodes.split(' ').collect();
    spread.sort_unstable();
    assert_eq!(spread, ["node-1", "node-2"], "one on each node");

    // By name, across nodes, from a pod; an address without endpoints is refused at once.
    let pod = cluster.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ]);
    let ask = |name: &str| format!("printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc {name} 80 | tail -1");
    let names = cluster.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    let wanted: std::collections::BTreeSet<String> = names.split(' ').map(String::from).collect();
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let ip = cluster.kubectl(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]);
    cluster.until("answered by both", || {
        let text = cluster.kubectl(&["exec", &pod, "--", "sh", "-c", &ask(&ip)]);
        seen.borrow_mut().insert(text.trim().to_owned());
        seen.borrow().is_superset(&wanted)
    });
    let found = cluster.kubectl(&["exec", &pod, "--", "nslookup", "web.default.svc.cluster.local"]);
    assert!(found.contains(&ip), "{found}");
    let nobody = cluster.kubectl(&["get", "service", "nobody", "-o", "jsonpath={.spec.clusterIP}"]);
    // Timed in the pod: starting kubectl takes what the machine has to spare.
    let clock = "cut -d' ' -f1 /proc/uptime";
    let script = format!("{clock}; nc {nobody} 80 2>&1; {clock}");
    let text = cluster.kubectl(&["exec", &pod, "--", "sh", "-c", &script]);
    assert!(text.contains("refused"), "{text}");
    let times: Vec<f64> = text.lines().filter_map(|l| l.parse().ok()).collect();
    assert!(times.len() == 2 && times[1] - times[0] < 2.0, "{text}");
    // Names outside are unknown: nobody else is asked.
    let (good, text) = cluster.try_kubectl(&["exec", &pod, "--", "nslookup", "example.com"]);
    assert!(!good && text.contains("NXDOMAIN"), "{text}");

    // On loopback of the machine, by annotation and by port-forward.
    cluster.until("exposed", || {
        get(exposed, "/name").is_ok_and(|t| t.contains("web-"))
    });
    let mut forward = cluster.spawn(&["port-forward", &pod, ":8080"]);
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let said = lines.next().unwrap().unwrap();
    let forwarded = said
        .strip_prefix("Forwarding from 127.0.0.1:")
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    cluster.until("forwarded", || {
        get(forwarded, "/name").is_ok_and(|t| t.contains(&pod))
    });
    forward.kill().unwrap();
    forward.wait().unwrap();

    cluster.kubectl(&["rollout", "restart", "deployment/web"]);
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    cluster.kubectl(&["set", "env", "deployment/web", "X=1"]);
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    cluster.kubectl(&["rollout", "undo", "deployment/web"]);
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
}

const DATABASE: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: db, namespace: default }
spec:
  serviceName: db
  replicas: 2
  selector: { matchLabels: { app: db } }
  template:
    metadata: { labels: { app: db } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command: [sh, -c, 'hostname >> /data/log; hostname > /www/name; exec httpd -f -p 80 -h /www']
        volumeMounts: [{ name: data, mountPath: /data }]
  volumeClaimTemplates:
  - metadata: { name: data }
    spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }
---
apiVersion: v1
kind: Service
metadata: { name: db, namespace: default }
spec: { clusterIP: None, selector: { app: db }, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: port, namespace: default }
spec: { type: NodePort, selector: { app: db }, ports: [{ port: 80, nodePort: 30123 }] }
"#;

/// Names of members, volumes that outlive pods, ports of nodes, the API from inside.
fn stateful(cluster: &TestCluster) {
    cluster.apply(DATABASE);
    cluster.kubectl(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
    let run = |script: &str| cluster.kubectl(&["exec", "db-0", "--", "sh", "-c", script]);
    let ip = cluster.kubectl(&["get", "pod", "db-1", "-o", "jsonpath={.status.podIP}"]);
    // Names and ports follow the pods, a moment later.
    let says = |script: &str, wanted: &str| {
        cluster.until(&format!("{script} says {wanted}"), || {
            let (_, said) = cluster.try_kubectl(&["exec", "db-0", "--", "sh", "-c", script]);
            said.contains(wanted)
        });
    };
    says("nslookup db-1.db.default.svc.cluster.local", &ip);
    for node in ["10.190.0.1", "10.190.0.2"] {
        let ask = format!("printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc {node} 30123 | tail -1");
        says(&ask, "db-");
    }
    let mounted = run("ls /var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(mounted, "ca.crt\nnamespace\ntoken\n");
    run("echo | nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT");
    cluster.kubectl(&["delete", "pod", "db-1"]);
    cluster.kubectl(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
    cluster.until("back with its data", || {
        cluster.try_kubectl(&["exec", "db-1", "--", "cat", "/data/log"]).1 == "db-1\ndb-1\n"
    });
    cluster.kubectl(&["delete", "statefulset/db", "service/db", "service/port"]);
}

/// A node is emptied by the rules of disruption budgets.
fn drain(cluster: &TestCluster) {
    cluster.kubectl(&[
        "drain",
        "node-1",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
        "--timeout=60s",
    ]);
    cluster.until("drained to the other node", || {
        let text = cluster.kubectl(&[
            "get",
            "pods",
            "-l",
            "app=web",
            "-o",
            "jsonpath={range .items[*]}{.spec.nodeName}/{.status.phase} {end}",
        ]);
        text == "node-2/Running node-2/Running "
    });
    cluster.kubectl(&["uncordon", "node-1"]);
}
