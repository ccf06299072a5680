//! The world outside: the machine's own network stays as it is, and nothing in a cluster
//! reaches beyond the cluster. Shown by look-ups; no packet is sent.

use std::process::Command;

use super::test_cluster::{TestCluster, both};

/// The machine's own network set-up at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine(Vec<(&'static str, String)>);

const LOOKS: [&str; 6] = [
    "ip -o -details address",
    "ip route show table all",
    "ip -6 route show table all",
    "ip rule",
    "nft -s list ruleset",
    "ip netns",
];

impl Machine {
    pub(crate) fn look() -> Self {
        let run = |line: &'static str| {
            let mut words = line.split(' ');
            let done = Command::new(words.next().unwrap()).args(words).output().unwrap();
            assert!(done.status.success(), "{line}: {}", both(&done));
            let text = both(&done);
            let kept: Vec<String> = text.lines().map(without_clocks).collect();
            (line, kept.join("\n"))
        };
        Self(LOOKS.map(run).into())
    }

    /// Interfaces, addresses, routes, rules, firewall and named namespaces are as they were.
    pub(crate) fn is_untouched(&self) {
        assert_eq!(*self, Self::look(), "the machine's own network is untouched");
    }
}

/// Lifetimes of leased addresses and announced routes count down by themselves.
fn without_clocks(line: &str) -> String {
    let line = line.split(" valid_lft").next().unwrap_or(line);
    match line.split_once(" expires ") {
        Some((head, tail)) => {
            let rest = tail.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{head} {rest}").trim_end().to_owned()
        }
        None => line.to_owned(),
    }
}

#[test]
fn clocks_are_left_out() {
    for (line, kept) in [
        (
            "default via fe80::1 proto ra expires 1798sec hoplimit 64",
            "default via fe80::1 proto ra hoplimit 64",
        ),
        ("default via fe80::1 expires 3sec", "default via fe80::1"),
        (
            "2: eth0 inet6 fd00::1/64 scope global valid_lft 86sec preferred_lft 14sec",
            "2: eth0 inet6 fd00::1/64 scope global",
        ),
        ("10.0.0.0/8 dev eth0", "10.0.0.0/8 dev eth0"),
    ] {
        assert_eq!(without_clocks(line), kept);
    }
}

/// Addresses of documentation, public resolvers, a cloud's metadata service, private ranges
/// beside the cluster's own, and the machine's own addresses.
fn outside() -> Vec<String> {
    let mut all: Vec<String> = [
        "192.0.2.1",
        "198.51.100.7",
        "203.0.113.9",
        "1.1.1.1",
        "8.8.8.8",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.0.1",
        "10.0.0.1",
        "10.189.0.1",
        "10.193.0.1",
    ]
    .map(String::from)
    .into();
    let own = Command::new("ip").args(["-4", "-o", "address"]).output().unwrap();
    let text = String::from_utf8(own.stdout).unwrap();
    all.extend(
        text.lines()
            .filter_map(|l| l.split_whitespace().nth(3)?.split('/').next())
            .filter(|ip| !ip.starts_with("127."))
            .map(String::from),
    );
    all
}

/// From nodes, and from pods by way of their node, every address outside is unreachable.
pub(crate) fn nothing_outside(cluster: &TestCluster) {
    let pods = cluster.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={range .items[*]}{.spec.nodeName} {.status.podIP} {.metadata.name}{'\\n'}{end}",
    ]);
    assert_eq!(pods.lines().count(), 2, "{pods}");
    for line in pods.lines() {
        let [node, ip, name] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let index: u8 = node.trim_start_matches("node-").parse().unwrap();
        let gateway = format!("10.191.{index}.1");
        for address in outside() {
            let from_node = cluster.inside(index, &["ip", "route", "get", &address]);
            assert!(!from_node.status.success(), "{}", both(&from_node));
            assert!(both(&from_node).contains("unreachable"), "{}", both(&from_node));
            // A pod sends everything to its node, which has no way on.
            let of_pod = cluster.kubectl(&["exec", name, "--", "ip", "route", "get", &address]);
            assert!(of_pod.contains(&format!("via {gateway} dev eth0")), "{of_pod}");
            let onwards = ["ip", "route", "get", &address, "from", ip, "iif", "cni0"];
            let onwards = cluster.inside(index, &onwards);
            assert!(!onwards.status.success(), "{}", both(&onwards));
        }
        // The look-up itself works: a pod of the other node is reachable.
        let other = format!("10.191.{}.2", 3 - index);
        let inner = cluster.inside(index, &["ip", "route", "get", &other, "from", ip, "iif", "cni0"]);
        assert!(both(&inner).contains("via 10.190.0."), "{}", both(&inner));
        let six = cluster.inside(index, &["ip", "-6", "route", "get", "2001:db8::1"]);
        assert!(!six.status.success(), "{}", both(&six));
        let defaults = cluster.inside(index, &["ip", "route", "show", "default"]);
        assert_eq!(both(&defaults), "", "no default route in a node");
    }
    let fabric = format!("--net={}", cluster.layout().fabric().display());
    let routes = Command::new("nsenter")
        .args([&fabric, "ip", "route"])
        .output()
        .unwrap();
    let routes = both(&routes);
    let data = |line: &str| line.starts_with("10.194.0.0/24 dev data0 ");
    assert!(
        routes.lines().all(data),
        "no route but to the data network: {routes}"
    );
}
