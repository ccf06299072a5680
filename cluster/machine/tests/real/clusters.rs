//! Several logical clusters with nodes of their own on one fabric.

use super::outside::Machine;
use super::test_cluster::{TestCluster, both, get, hold_port};

const CLIENT: &str = r#"
apiVersion: v1
kind: Pod
metadata: { name: client }
spec:
  terminationGracePeriodSeconds: 0
  containers: [{ name: main, image: 'c5c3.local/busybox:1', command: [sleep, '100000'] }]
"#;

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command: [sh, -c, 'echo from-CLUSTER > /www/name; exec httpd -f -p 8080 -h /www']
        readinessProbe: { httpGet: { path: /name, port: 8080 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { type: LoadBalancer, selector: { app: web }, ports: [{ port: PORT, targetPort: 8080 }] }
"#;

const A: &str = "control-plane";
const B: &str = "hypervisor";

struct Pair {
    machine: TestCluster,
    port: u16,
}

impl Pair {
    fn kubectl(&self, cluster: &str, args: &[&str]) -> String {
        self.machine.kubectl(&[&["--context", cluster], args].concat())
    }

    fn client(&self, cluster: &str, script: &str) -> String {
        let exec = ["--context", cluster, "exec", "client", "--", "sh", "-c", script];
        self.machine.try_kubectl(&exec).1
    }

    fn balancer(&self, cluster: &str) -> String {
        let path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
        self.kubectl(cluster, &["get", "service", "web", "-o", path])
    }

    fn ask(&self, address: &str) -> String {
        format!(
            "printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 2 {address} {} 2>&1 | tail -1",
            self.port
        )
    }

    /// Pods and nodes of both clusters reach the balancers of both.
    fn all_reach_all(&self) {
        for (of, address) in [(A, "10.195.0.1"), (B, "10.195.1.1")] {
            for from in [A, B] {
                self.machine.until(&format!("{of} reached from {from}"), || {
                    self.client(from, &self.ask(address)) == format!("from-{of}\n")
                });
            }
            for index in [1, 2] {
                let said = self.machine.inside(index, &["sh", "-c", &self.ask(address)]);
                assert_eq!(both(&said), format!("from-{of}\n"), "from node {index}");
            }
        }
    }
}

#[test]
fn clusters_with_nodes_of_their_own() {
    let before = Machine::look();
    let machine = TestCluster::of(&format!("{A}=1,{B}=1"));
    machine.up();
    let (held, port) = hold_port();
    let pair = Pair { machine, port };
    let machine = &pair.machine;
    assert_eq!(
        machine.kubectl(&["config", "get-contexts", "-o", "name"]),
        format!("{A}\n{B}\n")
    );
    for cluster in [A, B] {
        let nodes = pair.kubectl(cluster, &["get", "nodes", "-o", "name"]);
        assert_eq!(nodes, format!("node/{cluster}-1\n"));
        machine.apply_to(cluster, CLIENT);
        let web = WEB.replace("CLUSTER", cluster).replace("PORT", &port.to_string());
        machine.apply_to(cluster, &web);
    }
    drop(held);
    for cluster in [A, B] {
        pair.kubectl(
            cluster,
            &["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"],
        );
    }
    addresses(&pair);
    pair.all_reach_all();
    // One of the two has the port of the machine, the other says why it has not.
    machine.until("on the machine", || {
        get(port, "/name").is_ok_and(|text| text.contains("from-"))
    });
    names(&pair);
    api(&pair);
    before.is_untouched();
    node_lost(&pair);

    // Everything is found again as it was.
    machine.down(false);
    machine.left_nothing();
    machine.up();
    assert_eq!(
        (pair.balancer(A), pair.balancer(B)),
        ("10.195.0.1".into(), "10.195.1.1".into())
    );
    pair.all_reach_all();
    machine.down(false);
    machine.left_nothing();
    before.is_untouched();
}

/// Ranges of pods and Services do not overlap.
fn addresses(pair: &Pair) {
    for (cluster, pods, services) in [(A, "10.191.1.", "10.192."), (B, "10.201.2.", "10.202.")] {
        let ip = pair.kubectl(
            cluster,
            &["get", "pods", "-o", "jsonpath={.items[*].status.podIP}"],
        );
        assert!(ip.split(' ').all(|ip| ip.starts_with(pods)), "{cluster}: {ip}");
        let all = pair.kubectl(
            cluster,
            &[
                "get",
                "services",
                "-A",
                "-o",
                "jsonpath={.items[*].spec.clusterIP}",
            ],
        );
        assert!(
            all.split(' ').all(|ip| ip.starts_with(services)),
            "{cluster}: {all}"
        );
        pair.machine
            .until("a balancer's address", || !pair.balancer(cluster).is_empty());
    }
    assert_eq!(
        (pair.balancer(A), pair.balancer(B)),
        ("10.195.0.1".into(), "10.195.1.1".into())
    );
}

/// Each cluster has names of its own.
fn names(pair: &Pair) {
    let only = "apiVersion: v1\nkind: Service\nmetadata: {name: only}\nspec: {ports: [{port: 1}]}\n";
    pair.machine.apply_to(A, only);
    let look = |cluster: &str, name: &str| {
        pair.client(cluster, &format!("nslookup {name}.default.svc.cluster.local"))
    };
    pair.machine.until("known in its own cluster", || {
        look(A, "only").contains("Address: 10.192.")
    });
    let elsewhere = look(B, "only");
    assert!(elsewhere.contains("NXDOMAIN"), "{elsewhere}");
    for (cluster, address) in [(A, "10.192.0.1"), (B, "10.202.0.1")] {
        let said = look(cluster, "kubernetes");
        assert!(said.contains(&format!("Address: {address}\n")), "{said}");
    }
}

/// What pods call the API is that of their own cluster.
fn api(pair: &Pair) {
    let tokens = [A, B].map(|cluster| pair.kubectl(cluster, &["create", "token", "default"]));
    for (index, address, own, other) in [(1, "10.192.0.1", 0, 1), (2, "10.202.0.1", 1, 0)] {
        let url = format!("https://{address}/api/v1/namespaces/default/pods");
        let ask = |token: &str| {
            let bearer = format!("Authorization: Bearer {}", token.trim());
            let done = pair
                .machine
                .inside(index, &["curl", "-sk", "-m", "10", "-H", &bearer, &url]);
            both(&done)
        };
        let said = ask(&tokens[own]);
        assert!(
            said.contains("system:serviceaccount:default:default") && said.contains("403"),
            "{said}"
        );
        let said = ask(&tokens[other]);
        assert!(said.contains("401"), "a token of the other cluster: {said}");
    }
}

/// Balancers of a node that is down refuse at once, in every cluster.
fn node_lost(pair: &Pair) {
    let machine = &pair.machine;
    machine.node(&["kill", "control-plane-1"]);
    machine.until("refused", || {
        let started = std::time::Instant::now();
        let said = pair.client(B, &pair.ask("10.195.0.1"));
        said.contains("refused") && started.elapsed() < std::time::Duration::from_secs(5)
    });
    assert_eq!(pair.client(B, &pair.ask("10.195.1.1")), format!("from-{B}\n"));
    machine.node(&["start", "control-plane-1"]);
    machine.until("pods are back", || {
        let path = "jsonpath={.items[*].status.phase}";
        pair.kubectl(A, &["get", "pods", "-o", path])
            .split(' ')
            .all(|phase| phase == "Running")
    });
    // A plain pod is lost with its node.
    machine.apply_to(A, CLIENT);
    pair.kubectl(
        A,
        &["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"],
    );
    pair.all_reach_all();
}
