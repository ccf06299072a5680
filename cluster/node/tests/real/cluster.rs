//! A cluster of two nodes, used as people use it: a session with kubectl, then accidents.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::bed::machine_network;
use super::town::Town;

const WEB: &str = r#"
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
metadata: { name: web, namespace: default, annotations: { c5c3.io/expose: "25080" } }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: nobody, namespace: default }
spec: { selector: { app: nobody }, ports: [{ port: 80 }] }
"#;

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_session_and_its_accidents() {
    let before = machine_network();
    let town = Town::new(2);
    let t = Instant::now();
    let said = town.up();
    eprintln!("up in {:?}: {}", t.elapsed(), said.replace('\n', "; "));
    assert_eq!(
        machine_network(),
        before,
        "the machine's own network is untouched"
    );

    session(&town);
    services(&town);
    stateful(&town);
    killed_daemon(&town);
    killed_runtime_and_cable(&town);
    killed_node(&town);
    assert_eq!(machine_network(), before);

    let t = Instant::now();
    town.down(false);
    eprintln!("down in {:?}", t.elapsed());
    assert_eq!(machine_network(), before);
    left_nothing(&town);
    town.down(true);
    assert!(!town.state.exists(), "purge leaves no file");
}

fn session(town: &Town) {
    let t = Instant::now();
    let script = "i=0; while true; do echo line $i; i=$((i+1)); sleep 0.2; done";
    town.kubectl(&[
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
    town.kubectl(&["wait", "--for=condition=Ready", "pod/talk", "--timeout=60s"]);
    eprintln!("kubectl run to Ready in {:?}", t.elapsed());

    let mut follow = town.spawn(&["logs", "-f", "talk"]);
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    for i in 0..5 {
        assert_eq!(lines.next().unwrap().unwrap(), format!("line {i}"));
    }
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert_eq!(town.kubectl(&["logs", "talk", "--tail=1"]).lines().count(), 1);

    assert_eq!(
        town.kubectl(&["exec", "talk", "--", "sh", "-c", "echo $((6*7)); hostname"]),
        "42\ntalk\n"
    );
    let (good, text) = town.try_kubectl(&["exec", "talk", "--", "sh", "-c", "echo out; exit 3"]);
    assert!(
        !good && text.contains("out") && text.contains("exit code 3"),
        "{text}"
    );
    // Input that ends.
    let mut child = town
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
    town.kubectl(&["cp", &there.to_string_lossy(), "talk:/tmp/file"]);
    town.kubectl(&["cp", "talk:/tmp/file", &back.to_string_lossy()]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), "carried");
    let t = Instant::now();
    town.kubectl(&["delete", "pod", "talk", "--grace-period=1"]);
    eprintln!("kubectl delete in {:?}", t.elapsed());
}

fn services(town: &Town) {
    town.apply(WEB);
    town.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let nodes = town.kubectl(&[
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
    let pod = town.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ]);
    let ask = |name: &str| format!("printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc {name} 80 | tail -1");
    let names = town.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    let wanted: std::collections::BTreeSet<String> = names.split(' ').map(String::from).collect();
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let ip = town.kubectl(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]);
    town.until("answered by both", 20, || {
        let text = town.kubectl(&["exec", &pod, "--", "sh", "-c", &ask(&ip)]);
        seen.borrow_mut().insert(text.trim().to_owned());
        *seen.borrow() == wanted
    });
    let found = town.kubectl(&["exec", &pod, "--", "nslookup", "web.default.svc.cluster.local"]);
    assert!(found.contains(&ip), "{found}");
    let nobody = town.kubectl(&["get", "service", "nobody", "-o", "jsonpath={.spec.clusterIP}"]);
    let t = Instant::now();
    let (good, text) = town.try_kubectl(&["exec", &pod, "--", "nc", &nobody, "80"]);
    assert!(!good && text.contains("refused"), "{text}");
    assert!(t.elapsed() < Duration::from_secs(2));
    // Route look-ups only: nothing outside is reachable from a pod's node.
    let (good, text) = town.try_kubectl(&["exec", &pod, "--", "sh", "-c", "ip route; nslookup example.com"]);
    assert!(!good && text.contains("NXDOMAIN"), "{text}");

    // On loopback of the machine, by annotation and by port-forward.
    assert!(get(25080, "/name").unwrap().contains("web-"));
    let mut forward = town.spawn(&["port-forward", &pod, "25081:8080"]);
    town.until("forwarded", 10, || {
        get(25081, "/name").is_ok_and(|t| t.contains(&pod))
    });
    forward.kill().unwrap();
    forward.wait().unwrap();

    town.kubectl(&["rollout", "restart", "deployment/web"]);
    town.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    town.kubectl(&["set", "env", "deployment/web", "X=1"]);
    town.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    town.kubectl(&["rollout", "undo", "deployment/web"]);
    town.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
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
fn stateful(town: &Town) {
    town.apply(DATABASE);
    town.kubectl(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
    let run = |script: &str| town.kubectl(&["exec", "db-0", "--", "sh", "-c", script]);
    let ip = town.kubectl(&["get", "pod", "db-1", "-o", "jsonpath={.status.podIP}"]);
    let said = run("nslookup db-1.db.default.svc.cluster.local");
    assert!(said.contains(&ip), "{said}");
    for node in ["10.190.0.1", "10.190.0.2"] {
        let ask = format!("printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc {node} 30123 | tail -1");
        assert!(run(&ask).starts_with("db-"), "{node}");
    }
    let mounted = run("ls /var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(mounted, "ca.crt\nnamespace\ntoken\n");
    run("echo | nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT");
    town.kubectl(&["delete", "pod", "db-1"]);
    town.kubectl(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
    town.until("back with its data", 20, || {
        town.try_kubectl(&["exec", "db-1", "--", "cat", "/data/log"]).1 == "db-1\ndb-1\n"
    });
    town.kubectl(&["delete", "statefulset/db", "service/db", "service/port"]);
}

fn containers(town: &Town) -> String {
    town.kubectl(&["get", "pods", "-l", "app=web", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}{'\\n'}{end}"])
}

fn killed_daemon(town: &Town) {
    // Pods of earlier rollouts are still on their way out.
    town.until("down to two pods", 30, || containers(town).lines().count() == 2);
    let before = containers(town);
    let pid = nix::unistd::Pid::from_raw(town.daemon());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let t = Instant::now();
    town.up();
    eprintln!("up after kill -9 in {:?}", t.elapsed());
    town.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(containers(town), before, "the same containers, no restart");
    town.until("exposed again", 10, || {
        get(25080, "/name").is_ok_and(|t| t.contains("web-"))
    });
}

/// containerd of a node dies, then its cable is cut: pods run on and are reached again.
fn killed_runtime_and_cable(town: &Town) {
    let before = containers(town);
    let layout = embedded_node::Layout::new(&town.state).unwrap();
    let node = layout.node("node-2", 2);
    let init = embedded_node::node::Node::running(&node).unwrap().pid;
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let runtime = children
        .split_whitespace()
        .filter_map(|pid| pid.parse::<i32>().ok())
        .find(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "containerd\n")
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(runtime);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let net = format!("--net={}", layout.fabric().display());
    let cut = std::process::Command::new("nsenter")
        .args([&net, "ip", "link", "del", "n2"])
        .status()
        .unwrap();
    assert!(cut.success());
    let t = Instant::now();
    let pods = town.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    for pod in pods.split(' ') {
        town.until("able to run commands again", 20, || {
            town.try_kubectl(&["exec", pod, "--", "hostname"]).1.contains(pod)
        });
    }
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    town.until("answered by both again", 20, || {
        if let Ok(text) = get(25080, "/name") {
            seen.borrow_mut().extend(text.lines().last().map(str::to_owned));
        }
        pods.split(' ').all(|p| seen.borrow().contains(p))
    });
    eprintln!("runtime and cable back after {:?}", t.elapsed());
    assert_eq!(containers(town), before, "the same containers, no restart");
}

fn killed_node(town: &Town) {
    let t = Instant::now();
    town.node(&["kill", "node-2"]);
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    town.until("lost", 10, || {
        town.kubectl(&["get", "node", "node-2", "-o", ready]) == "False"
    });
    eprintln!("node lost after {:?}", t.elapsed());
    town.until("moved to the other node", 30, || {
        let text = town.kubectl(&[
            "get",
            "pods",
            "-l",
            "app=web",
            "--field-selector=spec.nodeName=node-1",
            "-o",
            "jsonpath={.items[*].status.phase}",
        ]);
        text == "Running Running"
    });
    eprintln!("two replicas on the other node after {:?}", t.elapsed());
    for _ in 0..10 {
        assert!(
            get(25080, "/name").unwrap().contains("web-"),
            "only living endpoints"
        );
    }
    assert!(town.node(&["list"]).contains("node-2\t10.190.0.2\tOff"));
    town.node(&["start", "node-2"]);
    town.until("back", 30, || {
        town.kubectl(&["get", "node", "node-2", "-o", ready]) == "True"
    });
    town.kubectl(&["uncordon", "node-2"]);
    town.kubectl(&[
        "drain",
        "node-1",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
        "--timeout=60s",
    ]);
    town.until("drained to the other node", 30, || {
        let text = town.kubectl(&[
            "get",
            "pods",
            "-l",
            "app=web",
            "-o",
            "jsonpath={range .items[*]}{.spec.nodeName}/{.status.phase} {end}",
        ]);
        text == "node-2/Running node-2/Running "
    });
    town.kubectl(&["uncordon", "node-1"]);
}

/// No process, mount, namespace or cgroup of the cluster.
fn left_nothing(town: &Town) {
    let state = town.state.to_string_lossy().into_owned();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        assert!(!line.contains(&state), "still runs: {line}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let layout = embedded_node::Layout::new(&town.state).unwrap();
    for text in [state.as_str(), &layout.run().to_string_lossy()] {
        assert!(!mounts.contains(text), "still mounted: {text}");
    }
    assert!(!layout.run().exists());
    for hierarchy in embedded_node::cgroups::hierarchies().unwrap() {
        let nodes = hierarchy.mount.join("c5c3-nodes");
        let left: Vec<_> = std::fs::read_dir(nodes)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with(layout.id()))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
