//! Ways to a port: of a node, of the machine's loopback, by datagrams.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use embedded_node::netns::NetNs;

use super::test_cluster::{TestCluster, get};

const PORTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: { name: ported, labels: { app: ported } }
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: c5c3.local/busybox:1
    command: [httpd, -f, -p, "8080", -h, /www]
    ports: [{ containerPort: 8080, hostPort: 18080 }]
---
apiVersion: v1
kind: Pod
metadata: { name: asker }
spec:
  nodeName: node-2
  terminationGracePeriodSeconds: 0
  containers: [{ name: main, image: 'c5c3.local/busybox:1' }]
---
apiVersion: v1
kind: Service
metadata: { name: balanced }
spec: { type: LoadBalancer, selector: { app: ported }, ports: [{ port: BALANCED, targetPort: 8080 }] }
"#;

/// hostPort from another node; a LoadBalancer on loopback, with its address in the status.
pub(super) fn ports(cluster: &TestCluster) {
    // A taken port is told, and used once it is free.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let balanced = taken.local_addr().unwrap().port();
    cluster.apply(&PORTS.replace("BALANCED", &balanced.to_string()));
    cluster.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "pod/ported",
        "pod/asker",
        "--timeout=60s",
    ]);
    let ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc 10.190.0.1 18080 | tail -1";
    cluster.until("the port of the host answers", || {
        let (_, said) = cluster.try_kubectl(&["exec", "asker", "--", "sh", "-c", ask]);
        said == "hello\n"
    });
    cluster.until("told that the port is taken", || {
        cluster
            .kubectl(&["get", "events"])
            .contains(&format!("cannot listen on 127.0.0.1:{balanced}"))
    });
    let address = || {
        let path = "jsonpath={.status.loadBalancer.ingress[*].ip}";
        cluster.kubectl(&["get", "service", "balanced", "-o", path])
    };
    assert_eq!(address(), "10.195.0.1", "on the fabric only");
    let ask = ask.replace("10.190.0.1 18080", &format!("10.195.0.1 {balanced}"));
    let (_, said) = cluster.try_kubectl(&["exec", "asker", "--", "sh", "-c", &ask]);
    assert_eq!(said, "hello\n");
    drop(taken);
    cluster.until("on loopback", || address() == "10.195.0.1 127.0.0.1");
    assert!(get(balanced, "/").unwrap().ends_with("hello\n"));
    assert!(
        cluster
            .kubectl(&["get", "service", "balanced"])
            .contains("127.0.0.1")
    );
    cluster.kubectl(&[
        "patch",
        "service",
        "balanced",
        "-p",
        r#"{"spec":{"type":"ClusterIP"}}"#,
    ]);
    cluster.until("closed again", || {
        address().is_empty() && get(balanced, "/").is_err()
    });
    cluster.kubectl(&[
        "delete",
        "service/balanced",
        "pod/ported",
        "pod/asker",
        "--wait=false",
    ]);
}

/// The node's own Perl, seen through a volume: busybox has no server for datagrams.
const DATAGRAMS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: datagrams }
spec:
  replicas: 1
  selector: { matchLabels: { app: datagrams } }
  template:
    metadata: { labels: { app: datagrams } }
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command:
        - /usr/bin/perl
        - -e
        - |
          use Socket;
          socket(S, PF_INET, SOCK_DGRAM, 17) or die; bind(S, sockaddr_in(5000, INADDR_ANY)) or die;
          while (my $from = recv(S, $m, 100, 0)) { send(S, $ENV{HOSTNAME}, 0, $from) }
        volumeMounts:
        - { name: usr, mountPath: /usr, readOnly: true }
        - { name: lib, mountPath: /lib, readOnly: true }
        - { name: lib64, mountPath: /lib64, readOnly: true }
      volumes:
      - { name: usr, hostPath: { path: /usr } }
      - { name: lib, hostPath: { path: /usr/lib } }
      - { name: lib64, hostPath: { path: /usr/lib64 } }
---
apiVersion: v1
kind: Service
metadata: { name: datagrams }
spec: { selector: { app: datagrams }, ports: [{ port: 53, targetPort: 5000, protocol: UDP }] }
"#;

/// A client that keeps its port follows the Service when its endpoint is replaced.
pub(super) fn datagrams(cluster: &TestCluster) {
    cluster.apply(DATAGRAMS);
    cluster.kubectl(&["rollout", "status", "deployment/datagrams", "--timeout=60s"]);
    let ip = cluster.kubectl(&["get", "service", "datagrams", "-o", "jsonpath={.spec.clusterIP}"]);
    let pod = || {
        let path = "jsonpath={.items[*].metadata.name}";
        cluster.kubectl(&["get", "pods", "-l", "app=datagrams", "-o", path])
    };
    let first = pod();
    let to: SocketAddr = format!("{ip}:53").parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let socket = runtime.block_on(async {
        let ns = NetNs::open(Path::new(&format!("/proc/{}/ns/net", cluster.init(1)))).unwrap();
        ns.udp("10.190.0.1:4444".parse().unwrap()).await.unwrap()
    });
    // Twice a second, so that the kernel never forgets the flow by itself.
    let ask = || {
        runtime.block_on(async {
            let _ = socket.send_to(b"who", to).await;
            let mut buffer = [0; 100];
            let heard = tokio::time::timeout(Duration::from_millis(300), socket.recv(&mut buffer)).await;
            match heard {
                Ok(Ok(count)) => String::from_utf8_lossy(&buffer[..count]).into_owned(),
                _ => String::new(),
            }
        })
    };
    cluster.until("answered", || ask() == first);
    cluster.kubectl(&["delete", "pod", &first, "--wait=false"]);
    let t = Instant::now();
    let answered = |text: String| !text.is_empty() && text != first;
    cluster.until("answered by the new pod", || answered(ask()));
    eprintln!("UDP client at the new endpoint after {:?}", t.elapsed());
    cluster.kubectl(&["delete", "deployment/datagrams", "service/datagrams"]);
}
