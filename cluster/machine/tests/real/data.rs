//! The data network: a second link of the nodes that run guests, and the way to it from the machine.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::outside::Machine;
use super::test_cluster::{PROGRAM, TestCluster, both};

/// An address of a guest, as a floating address would be.
const GUEST: &str = "10.194.0.77";

/// A guest's address behind the node's data link, with a server that answers with what it hears.
struct Guest(std::process::Child);

impl Guest {
    fn on(cluster: &TestCluster, index: u8) -> Self {
        let address = format!("{GUEST}/24");
        let placed = cluster.inside(index, &["ip", "address", "replace", &address, "dev", "eth1"]);
        assert!(placed.status.success(), "{}", both(&placed));
        let child = Command::new("nsenter")
            .arg(format!("--net=/proc/{}/ns/net", cluster.init(index)))
            .args(["busybox", "nc", "-ll", "-p", "2222", "-e", "cat"])
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As ssh's ProxyCommand is used.
fn connect(cluster: &TestCluster, address: &str) -> Output {
    let mut child = Command::new(PROGRAM)
        .args([
            "node",
            &cluster.state.to_string_lossy(),
            "connect",
            address,
            "2222",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"you\n").unwrap();
    child.wait_with_output().unwrap()
}

fn reached(cluster: &TestCluster) {
    let _guest = Guest::on(cluster, 2);
    cluster.until("reached on the data network", || {
        connect(cluster, GUEST).stdout == b"you\n"
    });
}

fn linked(cluster: &TestCluster, index: u8) -> bool {
    let link = both(&cluster.inside(index, &["ip", "-o", "link", "show", "eth1"]));
    link.contains("UP") && link.contains(&format!("02:c5:c3:00:01:{index:02x}"))
}

#[test]
fn the_data_link_lives_as_long_as_the_uplink() {
    let before = Machine::look();
    let cluster = TestCluster::of("2,1");
    cluster.up();
    assert!(
        linked(&cluster, 2) && !linked(&cluster, 1),
        "only the hypervisor has one"
    );
    let labelled = cluster.kubectl(&[
        "get",
        "nodes",
        "-l",
        "node-role.kubernetes.io/hypervisor",
        "-o",
        "name",
    ]);
    assert_eq!(labelled, "node/node-2\n");
    reached(&cluster);
    let elsewhere = connect(&cluster, "10.190.0.2");
    assert!(
        both(&elsewhere).contains("is not on the data network 10.194.0.0/24"),
        "{}",
        both(&elsewhere)
    );

    cluster.node(&["kill", "node-2"]);
    cluster.node(&["start", "node-2"]);
    cluster.until("linked after the node's start", || linked(&cluster, 2));
    reached(&cluster);

    // The bridge and its end of the cable are lost while the cluster runs.
    let fabric = format!("--net={}", cluster.layout().fabric().display());
    for lost in ["data0", "d2"] {
        let done = Command::new("nsenter")
            .args([&fabric, "ip", "link", "del", lost])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", both(&done));
        cluster.until("linked again", || {
            let links = Command::new("nsenter")
                .args([&fabric, "ip", "-o", "link", "show", "d2"])
                .output();
            both(&links.unwrap()).contains("master data0") && linked(&cluster, 2)
        });
        reached(&cluster);
    }

    // The whole fabric is lost while nobody looks.
    let daemon = cluster.daemon();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(daemon),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    cluster.until("dead", || embedded_node::process::Process::of(daemon).is_none());
    nix::mount::umount2(&cluster.layout().fabric(), nix::mount::MntFlags::MNT_DETACH).unwrap();
    cluster.until("without its cable", || !linked(&cluster, 2));
    cluster.up();
    assert!(linked(&cluster, 2), "there with the node, before it is Ready");
    reached(&cluster);
    before.is_untouched();
    cluster.down(false);
    cluster.left_nothing();
}
