//! The nftables rules of a node, as text. The whole table is replaced at once.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::frontends::{Frontend, Protocol};
use crate::addresses::{Addresses, Network};

/// What differs between nodes.
#[derive(Clone, Debug)]
pub struct Own {
    /// The name of the table.
    pub table: &'static str,
    pub name: String,
    pub address: Ipv4Addr,
    pub pods: Network,
    /// Bridged packets pass no rules here: connections between pods of one bridge by a
    /// service address need masquerading.
    pub masquerade: bool,
    /// Services that this program answers itself on every node: address, protocol, port
    /// and the port on the node's own address.
    pub builtin: Vec<(Ipv4Addr, Protocol, u16, u16)>,
}

/// nft refuses the whole table for a longer comment.
const COMMENT: usize = 128;

/// Packets with this mark leave with the node's address, so that answers come back.
const MARK: &str = "0x4000";

/// No stored object may break the table: one that does leaves every Service as it was. What a
/// place of a map has already is left out the second time.
pub fn render(own: &Own, addresses: &Addresses, frontends: &[Frontend]) -> String {
    let (mut fronts, mut outside) = (BTreeSet::new(), BTreeSet::new());
    let mut elements = Vec::new();
    let mut node_ports = Vec::new();
    let mut chains = String::new();
    for (i, (address, protocol, port, local)) in own.builtin.iter().enumerate() {
        fronts.insert((*address, *protocol, *port));
        elements.push(format!("{address} . {} . {port} : goto b{i}", protocol.name()));
        let to = SocketAddrV4::new(own.address, *local);
        // Infallible: writing to a String.
        let _ = write!(
            chains,
            " chain b{i} {{\n  meta l4proto {} dnat to {to}\n }}\n",
            protocol.name()
        );
    }
    for (i, frontend) in frontends.iter().enumerate() {
        let ends: Vec<SocketAddrV4> = frontend
            .backends
            .iter()
            .filter(|b| !frontend.local || b.node.as_deref() == Some(own.name.as_str()))
            .map(|b| b.to)
            .collect();
        if ends.is_empty() {
            // No element: the address is refused below.
            continue;
        }
        if !fronts.insert((frontend.address, frontend.protocol, frontend.port)) {
            continue;
        }
        let protocol = frontend.protocol.name();
        elements.push(format!(
            "{} . {protocol} . {} : goto s{i}",
            frontend.address, frontend.port
        ));
        let node_port = frontend.node_port;
        if let Some(port) = node_port.filter(|port| outside.insert((frontend.protocol, *port))) {
            node_ports.push(format!("{protocol} . {port} : goto n{i}"));
            let _ = write!(
                chains,
                " chain n{i} {{\n  meta mark set meta mark or {MARK}\n  goto s{i}\n }}\n"
            );
        }
        chain(&mut chains, i, frontend, &ends);
    }
    let [services, balancers] = addresses.virtual_networks();
    let refused = format!(
        "  ip daddr {{ {services}, {balancers} }} meta l4proto tcp reject with tcp reset
  ip daddr {{ {services}, {balancers} }} reject with icmp port-unreachable"
    );
    let masquerade = if own.masquerade {
        format!(
            "  ct status dnat ip saddr {0} ip daddr {0} masquerade\n",
            own.pods
        )
    } else {
        String::new()
    };
    format!(
        "table ip {table}
delete table ip {table}
table ip {table} {{
 map services {{
  type ipv4_addr . inet_proto . inet_service : verdict
{services_map} }}
 map nodeports {{
  type inet_proto . inet_service : verdict
{node_ports_map} }}
{chains} chain dispatch {{
  ip daddr . meta l4proto . th dport vmap @services
  ip daddr {node} meta l4proto . th dport vmap @nodeports
 }}
 chain prerouting {{
  type nat hook prerouting priority dstnat; policy accept;
  jump dispatch
 }}
 chain output {{
  type nat hook output priority -100; policy accept;
  jump dispatch
 }}
 chain postrouting {{
  type nat hook postrouting priority srcnat; policy accept;
  meta mark and {MARK} == {MARK} masquerade
{masquerade} }}
 chain forward {{
  type filter hook forward priority 0; policy accept;
{refused}
 }}
 chain out {{
  type filter hook output priority 0; policy accept;
{refused}
 }}
}}
",
        table = own.table,
        services_map = map(&elements),
        node_ports_map = map(&node_ports),
        node = own.address,
    )
}

fn map(elements: &[String]) -> String {
    if elements.is_empty() {
        String::new()
    } else {
        format!("  elements = {{\n   {}\n  }}\n", elements.join(",\n   "))
    }
}

/// nft knows no way to write a quotation mark inside of a text.
fn comment(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/:".contains(c);
    let clean = name.chars().map(|c| if plain(c) { c } else { '_' });
    clean.take(COMMENT).collect()
}

fn chain(out: &mut String, i: usize, frontend: &Frontend, ends: &[SocketAddrV4]) {
    let pick = if frontend.sticky {
        "jhash ip saddr"
    } else {
        "numgen random"
    };
    let targets: Vec<String> = (0..ends.len()).map(|e| format!("{e} : goto e{i}_{e}")).collect();
    let _ = write!(
        out,
        " chain s{i} {{\n  comment \"{}\"\n  {pick} mod {} vmap {{ {} }}\n }}\n",
        comment(&frontend.name),
        ends.len(),
        targets.join(", ")
    );
    for (e, to) in ends.iter().enumerate() {
        let _ = write!(
            out,
            " chain e{i}_{e} {{\n  ip saddr {} meta mark set meta mark or {MARK}\n  meta l4proto {} dnat to {to}\n }}\n",
            to.ip(),
            frontend.protocol.name()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::frontends::{frontends, tests::snapshot};
    use super::*;

    fn own() -> Own {
        let addresses = Addresses::default();
        Own {
            table: "example",
            name: "a".into(),
            address: addresses.node(1),
            pods: addresses.pod_network(1),
            masquerade: false,
            builtin: vec![(addresses.dns_service(), Protocol::Udp, 53, 10053)],
        }
    }

    #[test]
    fn rules_of_a_node() {
        let text = render(&own(), &Addresses::default(), &frontends(&snapshot()));
        let golden = include_str!("golden.nft");
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(
                concat!(env!("CARGO_MANIFEST_DIR"), "/src/network/golden.nft"),
                &text,
            )
            .unwrap();
            return;
        }
        assert_eq!(text, golden, "run the test with UPDATE=1 after a wanted change");
    }

    #[test]
    fn local_traffic_stays_on_the_node() {
        let mut all = frontends(&snapshot());
        all[0].local = true;
        let text = render(&own(), &Addresses::default(), &all);
        assert!(
            text.contains("10.191.1.2:8080") && !text.contains("10.191.2.2:8080"),
            "{text}"
        );
    }

    #[test]
    fn the_longest_names_are_not_too_long_for_nft() {
        let mut all = frontends(&snapshot());
        let label = "x".repeat(63);
        all[0].name = format!("{label}/{label}:{}", "p".repeat(15));
        all[1].name = "\"ü\n".repeat(100);
        all[1].backends = all[0].backends.clone();
        let text = render(&own(), &Addresses::default(), &all);
        let comments: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("comment "))
            .map(|comment| comment.trim_matches('"'))
            .collect();
        assert_eq!(comments.len(), 2);
        assert!(
            comments.iter().all(|comment| comment.len() == 128),
            "{comments:?}"
        );
        assert!(comments[0].starts_with(&format!("{label}/{label}")));
        assert_eq!(comments[1], "_".repeat(128));
    }

    #[test]
    fn a_place_of_a_map_is_given_once() {
        let mut all = frontends(&snapshot());
        let twin = all[0].clone();
        all.push(twin.clone());
        // Another port that asks for the same port of the node, and one at an address of ours.
        all.push(Frontend {
            port: 81,
            ..twin.clone()
        });
        let (address, protocol, port, _) = own().builtin[0];
        all.push(Frontend {
            address,
            protocol,
            port,
            ..twin
        });
        let text = render(&own(), &Addresses::default(), &all);
        let times = |key: &str| text.matches(key).count();
        assert_eq!(times("10.192.0.20 . tcp . 80 :"), 1, "{text}");
        assert_eq!(times("10.192.0.20 . tcp . 81 :"), 1, "{text}");
        assert_eq!(times("tcp . 30080 :"), 1, "{text}");
        assert_eq!(times(&format!("{address} . udp . 53 :")), 1, "{text}");
    }

    #[test]
    fn masquerading_where_bridges_hide_packets() {
        let own = Own {
            masquerade: true,
            ..own()
        };
        let text = render(&own, &Addresses::default(), &[]);
        assert!(text.contains("ct status dnat ip saddr 10.191.1.0/24 ip daddr 10.191.1.0/24 masquerade"));
    }
}
