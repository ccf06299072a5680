//! Pure: is a packet one of those that are asked for? Of a tunnel the outer packet counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use c5c3_api::ovs::{CaptureFilter, CaptureProtocol};

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Headers between that of IPv6 and what it carries; more than this are no honest packet.
const MOST_HEADERS: usize = 8;

/// As much of a packet has to be read to tell.
pub(crate) const NEEDED: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    protocol: Option<CaptureProtocol>,
    host: Option<IpAddr>,
    port: Option<u16>,
}

impl Filter {
    pub(crate) fn of(filter: Option<&CaptureFilter>) -> Result<Self, String> {
        let Some(filter) = filter else {
            return Ok(Filter::default());
        };
        let host = filter.host.as_deref().map(|text| {
            text.parse()
                .map_err(|_| format!("filter.host: {text} is no IPv4 or IPv6 address"))
        });
        let port = filter.port.map(|port| {
            u16::try_from(port).map_err(|_| format!("filter.port: {port} is no port; use 1 to 65535"))
        });
        Ok(Filter {
            protocol: filter.protocol,
            host: host.transpose()?,
            port: port.transpose()?,
        })
    }

    pub(crate) fn takes(&self, frame: &[u8]) -> bool {
        if *self == Filter::default() {
            return true;
        }
        let Some(seen) = dissect(frame) else {
            return false;
        };
        let host = |host: &IpAddr| seen.hosts.contains(host);
        let port = |port: &u16| seen.ports.is_some_and(|ports| ports.contains(port));
        self.protocol.is_none_or(|wanted| seen.protocol == Some(wanted))
            && self.host.as_ref().is_none_or(host)
            && self.port.as_ref().is_none_or(port)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    protocol: Option<CaptureProtocol>,
    hosts: [IpAddr; 2],
    ports: Option<[u16; 2]>,
}

fn dissect(frame: &[u8]) -> Option<Seen> {
    let mut at = 12;
    let mut kind = short(frame, at)?;
    while TAGS.contains(&kind) && at < 20 {
        at += 4;
        kind = short(frame, at)?;
    }
    let packet = frame.get(at + 2..)?;
    match kind {
        ARP => Some(Seen {
            protocol: Some(CaptureProtocol::Arp),
            hosts: [v4(packet, 14)?, v4(packet, 24)?],
            ports: None,
        }),
        IPV4 => {
            let hosts = [v4(packet, 12)?, v4(packet, 16)?];
            let length = usize::from(packet.first()? & 0x0f) * 4;
            let first = short(packet, 6)? & 0x1fff == 0;
            let inner = packet.get(length..).filter(|_| first);
            Some(carried(*packet.get(9)?, inner, hosts))
        }
        IPV6 => {
            let hosts = [v6(packet, 8)?, v6(packet, 24)?];
            let (next, inner) = behind(*packet.get(6)?, packet.get(40..));
            Some(carried(next, inner, hosts))
        }
        _ => None,
    }
}

/// Past the headers of IPv6 that stand before what it carries.
fn behind(mut next: u8, mut rest: Option<&[u8]>) -> (u8, Option<&[u8]>) {
    for _ in 0..MOST_HEADERS {
        let Some([after, length, ..]) = rest else { break };
        let size = match next {
            0 | 43 | 60 => 8 + usize::from(*length) * 8,
            44 => 8,
            _ => break,
        };
        // Only the first part of a packet in parts has ports.
        let first = next != 44
            || rest
                .and_then(|rest| short(rest, 2))
                .is_some_and(|at| at & 0xfff8 == 0);
        next = *after;
        rest = rest.and_then(|rest| rest.get(size..)).filter(|_| first);
    }
    (next, rest)
}

fn carried(number: u8, inner: Option<&[u8]>, hosts: [IpAddr; 2]) -> Seen {
    let protocol = match number {
        1 | 58 => Some(CaptureProtocol::Icmp),
        6 => Some(CaptureProtocol::Tcp),
        17 => Some(CaptureProtocol::Udp),
        _ => None,
    };
    let ports = inner.filter(|_| matches!(number, 6 | 17));
    Seen {
        protocol,
        hosts,
        ports: ports.and_then(|inner| Some([short(inner, 0)?, short(inner, 2)?])),
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let two: [u8; 2] = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(two))
}

fn v4(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(four).into())
}

fn v6(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let all: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
    Some(Ipv6Addr::from(all).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use CaptureProtocol::{Arp, Icmp, Tcp, Udp};

    fn frame(tags: &[u16], kind: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 42]);
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(packet);
        frame
    }

    fn ipv4(protocol: u8, offset: u16, inner: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0];
        packet.extend(offset.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 5, 10, 0, 0, 6]);
        packet.extend(inner);
        packet
    }

    fn ipv6(next: u8, inner: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5).octets());
        packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 6).octets());
        packet.extend(inner);
        packet
    }

    fn arp() -> Vec<u8> {
        let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1];
        packet.extend([2, 0, 0, 0, 0, 5, 10, 0, 0, 5]);
        packet.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 6]);
        packet
    }

    fn filter(protocol: Option<CaptureProtocol>, host: &str, port: i32) -> Filter {
        let wire = CaptureFilter {
            protocol,
            host: Some(host.to_owned()).filter(|host| !host.is_empty()),
            port: Some(port).filter(|port| *port != 0),
        };
        Filter::of(Some(&wire)).expect("a filter")
    }

    #[test]
    fn packets_are_told_apart() {
        let dns = [0xc0, 0, 0, 53, 0, 8, 0, 0];
        let web = [0x01, 0xbb, 0xc0, 0, 0, 0];
        let udp = frame(&[], IPV4, &ipv4(17, 0, &dns));
        let tagged = frame(&TAGS, IPV4, &ipv4(17, 0, &dns));
        let part = frame(&[], IPV4, &ipv4(17, 5, &dns));
        let tcp = frame(&[0x8100], IPV6, &ipv6(6, &web));
        let behind_options = [&[17, 0, 0, 0, 0, 0, 0, 0], dns.as_slice()].concat();
        let udp6 = frame(&[], IPV6, &ipv6(0, &behind_options));
        let later_part = [&[17, 0, 0, 8, 0, 0, 0, 1], dns.as_slice()].concat();
        let part6 = frame(&[], IPV6, &ipv6(44, &later_part));
        let ping = frame(&[], IPV4, &ipv4(1, 0, &[8, 0]));
        let who_has = frame(&[], ARP, &arp());
        let other = frame(&[], 0x88cc, &[0; 64]);
        for (what, filter, packet, expected) in [
            ("all", Filter::default(), &other, true),
            ("a protocol", filter(Some(Udp), "", 0), &udp, true),
            ("another", filter(Some(Tcp), "", 0), &udp, false),
            ("source", filter(None, "10.0.0.5", 0), &udp, true),
            ("destination", filter(None, "10.0.0.6", 0), &udp, true),
            ("neither", filter(None, "10.0.0.7", 0), &udp, false),
            ("port", filter(Some(Udp), "10.0.0.6", 53), &udp, true),
            ("a port of either protocol", filter(None, "", 443), &tcp, true),
            ("two tags", filter(Some(Udp), "", 53), &tagged, true),
            ("a later part has no port", filter(None, "", 53), &part, false),
            ("but its addresses", filter(Some(Udp), "10.0.0.5", 0), &part, true),
            ("IPv6", filter(Some(Tcp), "fd00::6", 0), &tcp, true),
            ("behind options", filter(Some(Udp), "", 53), &udp6, true),
            ("a later part of IPv6", filter(None, "", 53), &part6, false),
            ("a ping", filter(Some(Icmp), "10.0.0.5", 0), &ping, true),
            ("who has", filter(Some(Arp), "10.0.0.6", 0), &who_has, true),
            ("LLDP has no address", filter(None, "10.0.0.5", 0), &other, false),
        ] {
            assert_eq!(filter.takes(packet), expected, "{what}");
        }
    }

    #[test]
    fn what_is_cut_short_is_no_panic() {
        let options: Vec<u8> = (0..200).map(|n| if n % 8 == 0 { 0 } else { 255 }).collect();
        let narrow = filter(Some(Udp), "fd00::5", 53);
        for whole in [
            frame(&TAGS, IPV4, &ipv4(17, 0, &[1; 8])),
            frame(&[0x8100; 5], IPV6, &ipv6(0, &options)),
            frame(&[], ARP, &arp()),
            vec![0xff; 300],
        ] {
            for cut in 0..whole.len() {
                narrow.takes(&whole[..cut]);
            }
        }
    }

    #[test]
    fn a_filter_that_means_nothing_is_refused() {
        let wire = |host: Option<&str>, port| CaptureFilter {
            host: host.map(str::to_owned),
            port,
            protocol: None,
        };
        let said = Filter::of(Some(&wire(Some("10.0.0"), None))).expect_err("no address");
        assert!(said.contains("filter.host: 10.0.0"), "{said}");
        let said = Filter::of(Some(&wire(None, Some(70_000)))).expect_err("no port");
        assert!(said.contains("filter.port: 70000"), "{said}");
    }
}
