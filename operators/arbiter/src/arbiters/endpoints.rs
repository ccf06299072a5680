//! Addresses of monitors, as Rook tells them and as Ceph reads them. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

pub(super) const V2: u16 = 3300;
pub(super) const V1: u16 = 6789;

/// `a=10.0.0.1:6789,b=…` as Rook writes it. What cannot be read is passed over.
pub(super) fn read(data: &str) -> BTreeMap<String, SocketAddr> {
    let entries = data.split(',').filter_map(|entry| {
        let (id, address) = entry.trim().split_once('=')?;
        Some((id.to_owned(), address.parse().ok()?))
    });
    entries.collect()
}

/// What a monitor is told about the others: an order that stays, without itself.
pub(super) fn mon_host(mons: &BTreeMap<String, SocketAddr>, own: &str) -> String {
    let others = mons.iter().filter(|(id, _)| id.as_str() != own);
    let hosts: Vec<String> = others.map(|(_, address)| host(*address)).collect();
    hosts.join(",")
}

/// Rook tells one port; the other protocol is beside it when that is the usual one.
fn host(address: SocketAddr) -> String {
    let (v2, v1) = (
        SocketAddr::new(address.ip(), V2),
        SocketAddr::new(address.ip(), V1),
    );
    match address.port() {
        V1 => format!("[v2:{v2},v1:{v1}]"),
        V2 => format!("[v2:{v2}]"),
        _ => format!("[v1:{address}]"),
    }
}

/// Where other monitors reach this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub ip: IpAddr,
    pub v2: u16,
    pub v1: u16,
}

impl Address {
    /// As an argument of `ceph-mon`.
    pub(super) fn argument(&self) -> String {
        match (self.v2, self.v1) {
            (V2, V1) => format!("--public-addr={}", self.ip),
            _ => format!("--public-addrv={self}"),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |port| SocketAddr::new(self.ip, port);
        write!(f, "[v2:{},v1:{}]", at(self.v2), at(self.v1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_become_hosts() {
        let mons = read("b=10.0.0.2:3300, a=10.0.0.1:6789,ext-a=10.0.0.3:30001,broken,c=nowhere");
        assert_eq!(mons.len(), 3);
        assert_eq!(
            mon_host(&mons, "ext-a"),
            "[v2:10.0.0.1:3300,v1:10.0.0.1:6789],[v2:10.0.0.2:3300]"
        );
        assert!(mon_host(&mons, "").ends_with(",[v1:10.0.0.3:30001]"));
        assert_eq!(
            mon_host(&read("a=[::1]:6789"), ""),
            "[v2:[::1]:3300,v1:[::1]:6789]"
        );
        assert!(read("").is_empty());
    }

    #[test]
    fn other_ports_need_the_long_form() {
        let ip = IpAddr::from([10, 0, 0, 1]);
        let usual = Address { ip, v2: V2, v1: V1 };
        assert_eq!(usual.argument(), "--public-addr=10.0.0.1");
        let other = Address {
            v2: 31_000,
            v1: 31_001,
            ip,
        };
        assert_eq!(
            other.argument(),
            "--public-addrv=[v2:10.0.0.1:31000,v1:10.0.0.1:31001]"
        );
    }
}
