//! Nodes without pods of the API: start, isolation, plug pulled, adoption.

use std::time::{Duration, Instant};

use embedded_node::cgroups;
use embedded_node::node::{self, Node};
use k8s_cri::v1 as cri;

use super::outside::Machine;
use super::test_nodes::{BUSYBOX, PATIENCE, TestNodes};

fn sandbox(name: &str, test_nodes: &TestNodes) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: name.into(),
            uid: format!("{name}-uid"),
            namespace: "default".into(),
            attempt: 0,
        }),
        hostname: name.into(),
        log_directory: test_nodes
            .layout
            .node("a", 1)
            .logs()
            .join(name)
            .to_string_lossy()
            .into(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: format!("/pods/{name}"),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_run_bare_containers() {
    let test_nodes = TestNodes::new(&["a", "b"]);
    let before = Machine::look();
    let t = Instant::now();
    let (fabric, nodes) = test_nodes.up().await;
    eprintln!("two nodes with images in {:?}", t.elapsed());
    before.is_untouched();
    assert_eq!(fabric.default_routes().await.unwrap(), 0);

    let mut addresses = Vec::new();
    for (node, runtime) in &nodes {
        let config = sandbox("web", &test_nodes);
        let t = Instant::now();
        let pod = runtime.run_sandbox(config.clone()).await.unwrap();
        let made = runtime
            .create_container(
                &pod,
                cri::ContainerConfig {
                    metadata: Some(cri::ContainerMetadata {
                        name: "main".into(),
                        attempt: 0,
                    }),
                    image: Some(cri::ImageSpec {
                        image: BUSYBOX.into(),
                        ..Default::default()
                    }),
                    command: ["httpd", "-f", "-p", "8080", "-h", "/www"]
                        .map(String::from)
                        .into(),
                    log_path: "main.log".into(),
                    ..Default::default()
                },
                config,
            )
            .await
            .unwrap();
        runtime.start_container(&made).await.unwrap();
        let ip = runtime.sandbox_status(&pod).await.unwrap().network.unwrap().ip;
        eprintln!("pod on {} in {:?}: {ip}", node.layout.name, t.elapsed());
        addresses.push(ip);
        let host = runtime.exec(&made, &["hostname".into()], PATIENCE).await.unwrap();
        assert_eq!(host.stdout, b"web\n");
    }
    // From each node to the pod of the other.
    for (i, (node, _)) in nodes.iter().enumerate() {
        let to = format!("{}:8080", addresses[1 - i]).parse().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while let Err(e) = node.ns.connect(to).await {
            assert!(Instant::now() < deadline, "{to}: {e}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // A route look-up, not traffic: no address outside is reachable.
        let out = node
            .ns
            .command("ip", &["route", "get", "192.0.2.1"], "")
            .await
            .unwrap();
        assert!(!out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    }
    // Layers of the second node are those of the first.
    let inode = |name: &str, index| {
        let out = std::process::Command::new("find")
            .arg(test_nodes.layout.node(name, index).containerd_root())
            .args(["-name", "busybox", "-size", "+100k", "-printf", "%i\\n"])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(inode("a", 1), inode("b", 2));

    // The program restarts: the nodes are found again.
    let found = Node::find(&test_nodes.layout.node("a", 1)).unwrap();
    assert_eq!(found.init, nodes[0].0.init);
    drop(found);

    // The plug of one node is pulled: everything in it is gone, the link too.
    let layout = nodes[0].0.layout.clone();
    let t = Instant::now();
    node::kill(&layout).await.unwrap();
    assert!(Node::find(&layout).is_none());
    fabric.unplug(1).await.unwrap();
    eprintln!("node dead after {:?}", t.elapsed());
    assert!(!fabric.names().await.unwrap().contains(&"n1".to_owned()));
    assert!(nodes[1].0.alive());
    let t = Instant::now();
    let (again, runtime) = test_nodes.start(&fabric, "a").await;
    eprintln!("node back after {:?}", t.elapsed());
    let left = runtime.sandboxes(&[]).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].state, cri::PodSandboxState::SandboxNotready as i32);
    runtime.stop_sandbox(&left[0].id).await.unwrap();
    runtime.remove_sandbox(&left[0].id).await.unwrap();
    assert!(again.alive());
    before.is_untouched();
}

/// What a start that broke off left is killed, whatever versions of control groups there are.
#[test]
fn leftovers_are_killed_in_every_hierarchy() {
    use std::os::unix::process::ExitStatusExt;
    super::test_nodes::require();
    let mut tried = 0;
    for hierarchy in cgroups::hierarchies().unwrap() {
        let group = hierarchy.mount.join(format!("c5c3-test-{}", std::process::id()));
        let inner = group.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        // A new cpuset takes no process.
        let joined = std::fs::write(inner.join("cgroup.procs"), child.id().to_string());
        if joined.is_ok() {
            cgroups::kill(&group);
            assert_eq!(child.wait().unwrap().signal(), Some(9), "{hierarchy:?}");
            tried += 1;
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        std::fs::remove_dir(&inner).unwrap();
        std::fs::remove_dir(&group).unwrap();
    }
    assert!(tried > 0);
}
