//! The data network: a second link of the nodes that run guests, and the way to it from the machine.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::outside::Machine;
use super::town::{PROGRAM, Town, both};

/// An address of a guest, as a floating address would be.
const GUEST: &str = "10.194.0.77";

/// A guest's address behind the node's data link, with a server that answers with what it hears.
struct Guest(std::process::Child);

impl Guest {
    fn on(town: &Town, index: u8) -> Self {
        let address = format!("{GUEST}/24");
        let placed = town.inside(index, &["ip", "address", "replace", &address, "dev", "eth1"]);
        assert!(placed.status.success(), "{}", both(&placed));
        let child = Command::new("nsenter")
            .arg(format!("--net=/proc/{}/ns/net", town.init(index)))
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
fn connect(town: &Town, address: &str) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(["node", &town.state.to_string_lossy(), "connect", address, "2222"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"you\n").unwrap();
    child.wait_with_output().unwrap()
}

fn reached(town: &Town) {
    let _guest = Guest::on(town, 2);
    town.until("reached on the data network", || {
        connect(town, GUEST).stdout == b"you\n"
    });
}

fn linked(town: &Town, index: u8) -> bool {
    let link = both(&town.inside(index, &["ip", "-o", "link", "show", "eth1"]));
    link.contains("UP") && link.contains(&format!("02:c5:c3:00:01:{index:02x}"))
}

#[test]
fn the_data_link_lives_as_long_as_the_uplink() {
    let before = Machine::look();
    let town = Town::of("2,1");
    town.up();
    assert!(
        linked(&town, 2) && !linked(&town, 1),
        "only the hypervisor has one"
    );
    let labelled = town.kubectl(&[
        "get",
        "nodes",
        "-l",
        "node-role.kubernetes.io/hypervisor",
        "-o",
        "name",
    ]);
    assert_eq!(labelled, "node/node-2\n");
    reached(&town);
    let elsewhere = connect(&town, "10.190.0.2");
    assert!(
        both(&elsewhere).contains("is not on the data network 10.194.0.0/24"),
        "{}",
        both(&elsewhere)
    );

    town.node(&["kill", "node-2"]);
    town.node(&["start", "node-2"]);
    town.until("linked after the node's start", || linked(&town, 2));
    reached(&town);

    // The bridge and its end of the cable are lost while the cluster runs.
    let fabric = format!("--net={}", town.layout().fabric().display());
    for lost in ["data0", "d2"] {
        let done = Command::new("nsenter")
            .args([&fabric, "ip", "link", "del", lost])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", both(&done));
        town.until("linked again", || {
            let links = Command::new("nsenter")
                .args([&fabric, "ip", "-o", "link", "show", "d2"])
                .output();
            both(&links.unwrap()).contains("master data0") && linked(&town, 2)
        });
        reached(&town);
    }

    // The whole fabric is lost while nobody looks.
    let daemon = town.daemon();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(daemon),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    town.until("dead", || embedded_node::process::Process::of(daemon).is_none());
    nix::mount::umount2(&town.layout().fabric(), nix::mount::MntFlags::MNT_DETACH).unwrap();
    town.until("without its cable", || !linked(&town, 2));
    town.up();
    assert!(linked(&town, 2), "there with the node, before it is Ready");
    reached(&town);
    before.is_untouched();
    town.down(false);
    town.left_nothing();
}
