//! Plain TCP to other machines alone, for addresses that strangers name.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use async_trait::async_trait;
use nix::ifaddrs::getifaddrs;
use tokio::net::{TcpStream, lookup_host};

use crate::{Dial, Stream};

/// Reaches other machines, not this one. Whoever may name a host could otherwise use this process, which has
/// rights that they have not, to ask what listens on this machine or in its link: the metadata of a cloud, for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beyond {
    loopback: bool,
}

impl Beyond {
    /// Loopback too: for callers who know that endpoints of their own are there.
    #[must_use]
    pub fn and_loopback(self) -> Self {
        Beyond { loopback: true }
    }

    /// The addresses of a host that may be asked. They are to be used as they are: a second look-up could
    /// tell others.
    pub async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let name = bare(host);
        let found: Vec<SocketAddr> = match name.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => lookup_host((name, port)).await?.collect(),
        };
        let own = own_addresses()?;
        let mut allowed = Vec::new();
        let mut refused = None;
        for mut place in found {
            place.set_ip(place.ip().to_canonical());
            match forbidden(place.ip(), &own) {
                Some("a loopback address") if self.loopback => allowed.push(place),
                None => allowed.push(place),
                Some(why) => refused = Some((place.ip(), why)),
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some((address, why))) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{host} is not asked: {address} is {why}; name a host that is reached over the network"
                ),
            )),
            (true, None) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{host} has no address"),
            )),
        }
    }
}

#[async_trait]
impl Dial for Beyond {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let places = self.resolve(host, port).await?;
        let stream = TcpStream::connect(places.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// An IPv6 address as it stands in a URL, without its brackets.
fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host)
}

fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let all = getifaddrs()?.filter_map(|interface| interface.address);
    let ip = all.filter_map(|address| {
        let four = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    });
    Ok(ip.collect())
}

/// Why an address is not one of another machine. `own`: those of this one.
fn forbidden(address: IpAddr, own: &[IpAddr]) -> Option<&'static str> {
    let address = within(address);
    if address.is_loopback() {
        return Some("a loopback address");
    }
    if own.iter().any(|one| within(*one) == address) {
        return Some("an address of this machine");
    }
    if address.is_multicast() {
        return Some("a multicast address");
    }
    match address {
        // All of 0.0.0.0/8 is "this host on this network".
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("an unspecified address"),
        IpAddr::V4(v4) if v4.is_link_local() => Some("a link-local address"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("a broadcast address"),
        IpAddr::V6(v6) if v6.is_unspecified() => Some("an unspecified address"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("a link-local address"),
        _ => None,
    }
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, or translated by NAT64.
fn within(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else {
        return address.to_canonical();
    };
    let inner = |v6: Ipv6Addr| {
        let [.., a, b, c, d] = v6.octets();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => inner(v6),
        // `::` and `::1` stand for themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => IpAddr::V6(v6),
        [0, 0, 0, 0, 0, 0, _, _] => inner(v6),
        _ => IpAddr::V6(v6),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn only_addresses_of_other_machines_are_asked() {
        let own: Vec<IpAddr> = ["192.0.2.7", "2001:db8::7"].map(|a| a.parse().unwrap()).into();
        for (address, why) in [
            ("127.0.0.1", Some("a loopback address")),
            ("127.8.9.10", Some("a loopback address")),
            ("::1", Some("a loopback address")),
            ("::ffff:127.0.0.1", Some("a loopback address")),
            ("::127.0.0.1", Some("a loopback address")),
            ("64:ff9b::7f00:1", Some("a loopback address")),
            ("169.254.169.254", Some("a link-local address")),
            ("::ffff:169.254.169.254", Some("a link-local address")),
            ("64:ff9b::a9fe:a9fe", Some("a link-local address")),
            ("fe80::1", Some("a link-local address")),
            ("febf::1", Some("a link-local address")),
            ("0.0.0.0", Some("an unspecified address")),
            ("0.1.2.3", Some("an unspecified address")),
            ("::", Some("an unspecified address")),
            ("::ffff:0.0.0.0", Some("an unspecified address")),
            ("224.0.0.1", Some("a multicast address")),
            ("ff02::1", Some("a multicast address")),
            ("255.255.255.255", Some("a broadcast address")),
            ("192.0.2.7", Some("an address of this machine")),
            ("::ffff:192.0.2.7", Some("an address of this machine")),
            ("2001:db8::7", Some("an address of this machine")),
            ("192.0.2.8", None),
            ("2001:db8::8", None),
            ("10.0.0.1", None),
            ("fd00::1", None),
        ] {
            assert_eq!(forbidden(address.parse().unwrap(), &own), why, "{address}");
        }
    }

    #[tokio::test]
    async fn what_listens_on_this_machine_is_not_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The last three are read by the resolver, which knows more spellings than we do.
        for host in [
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "localhost",
            "127.1",
            "2130706433",
        ] {
            let error = Beyond::default().dial(host, port).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{host}: {error}");
            assert!(
                error.to_string().starts_with(&format!("{host} is not asked: ")),
                "{error}"
            );
        }
        let asked = tokio::time::timeout(Duration::from_millis(100), listener.accept());
        assert!(asked.await.is_err(), "nobody knocked");
        for host in ["127.0.0.1", "localhost"] {
            let stream = Beyond::default().and_loopback().dial(host, port).await;
            assert!(stream.is_ok(), "{host}: {:?}", stream.map(drop));
        }
        let link = Beyond::default().and_loopback().dial("169.254.169.254", 80).await;
        assert!(link.is_err(), "loopback alone is added");
    }

    #[test]
    fn the_machine_has_addresses() {
        let own = own_addresses().unwrap();
        assert!(own.contains(&IpAddr::from([127, 0, 0, 1])), "{own:?}");
    }
}
