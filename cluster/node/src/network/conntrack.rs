//! Flows that the kernel remembers. A UDP client that keeps its port stays with the endpoint
//! of its first packet as long as the kernel remembers the flow; when that endpoint leaves,
//! the flow must be forgotten.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use netlink_sys::{Socket, SocketAddr};

use crate::netns::NetNs;

const NETFILTER: isize = 12;
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const HEADER: usize = 16;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const UDP: u8 = 17;

/// A UDP flow as the kernel tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Where the client sent its packets.
    pub to: SocketAddrV4,
    /// Who answers.
    pub from: SocketAddrV4,
    /// The attribute that names the flow, as it came.
    name: Vec<u8>,
}

/// Forgets the UDP flows for which `stale` holds; says how many.
pub(super) async fn forget(ns: &NetNs, stale: impl Fn(&Flow) -> bool + Send + 'static) -> io::Result<usize> {
    let socket = ns.run(|| Socket::new(NETFILTER)).await?;
    tokio::task::spawn_blocking(move || {
        socket.connect(&SocketAddr::new(0, 0))?;
        let gone: Vec<Flow> = flows(&socket)?.into_iter().filter(|f| stale(f)).collect();
        for flow in &gone {
            ask(&socket, DELETE, REQUEST | ACK, &flow.name)?;
            // One that ended by itself meanwhile is no error.
            socket.recv_from_full()?;
        }
        Ok(gone.len())
    })
    .await
    .map_err(io::Error::other)?
}

fn ask(socket: &Socket, kind: u16, flags: u16, attributes: &[u8]) -> io::Result<()> {
    const INET: u8 = 2;
    let length = HEADER + 4 + attributes.len();
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([INET, 0, 0, 0]);
    message.extend(attributes);
    socket.send(&message, 0).map(drop)
}

fn flows(socket: &Socket) -> io::Result<Vec<Flow>> {
    ask(socket, GET, REQUEST | DUMP, &[])?;
    let mut found = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        for (kind, body) in messages(&bytes) {
            match kind {
                DONE => return Ok(found),
                ERROR => return Err(io::Error::other("the kernel does not list its flows")),
                _ => found.extend(body.get(4..).and_then(flow)),
            }
        }
    }
}

/// Kind and body of each message of a datagram.
fn messages(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let (Some(length), Some(kind)) = (bytes.first_chunk::<4>(), bytes.get(4..6)) {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(body) = bytes.get(HEADER..length) else {
            break;
        };
        all.push((u16::from_ne_bytes([kind[0], kind[1]]), body));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// Attributes as number, content and the bytes of the whole.
fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8], &[u8])> {
    const NUMBER: u16 = 0x3fff;
    let mut all = Vec::new();
    while let Some([a, b, c, d]) = bytes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        let Some(content) = bytes.get(4..length) else {
            break;
        };
        let padded = length.next_multiple_of(4).min(bytes.len());
        all.push((u16::from_ne_bytes([*c, *d]) & NUMBER, content, &bytes[..padded]));
        bytes = &bytes[padded..];
    }
    all
}

fn find(bytes: &[u8], number: u16) -> Option<&[u8]> {
    attributes(bytes)
        .into_iter()
        .find(|(n, ..)| *n == number)
        .map(|(_, content, _)| content)
}

/// Source and destination of a direction, when it is UDP.
fn ends(tuple: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4)> {
    let (ip, protocol) = (find(tuple, 1)?, find(tuple, 2)?);
    if find(protocol, 1)?.first() != Some(&UDP) {
        return None;
    }
    let end = |address: u16, port: u16| {
        let ip: [u8; 4] = find(ip, address)?.try_into().ok()?;
        let port: [u8; 2] = find(protocol, port)?.try_into().ok()?;
        Some(SocketAddrV4::new(Ipv4Addr::from(ip), u16::from_be_bytes(port)))
    };
    Some((end(1, 2)?, end(2, 3)?))
}

fn flow(bytes: &[u8]) -> Option<Flow> {
    let all = attributes(bytes);
    let one = |number: u16| all.iter().find(|(n, ..)| *n == number);
    let (_, original, name) = one(ORIGINAL)?;
    let (_, reply, _) = one(REPLY)?;
    Some(Flow {
        to: ends(original)?.1,
        from: ends(reply)?.0,
        name: name.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(number: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(content.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(number.to_ne_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn tuple(number: u16, protocol: u8, from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
        let ip = [attribute(1, &from.ip().octets()), attribute(2, &to.ip().octets())].concat();
        let ports = [
            attribute(1, &[protocol]),
            attribute(2, &from.port().to_be_bytes()),
            attribute(3, &to.port().to_be_bytes()),
        ]
        .concat();
        attribute(
            number,
            &[attribute(1 | 0x8000, &ip), attribute(2 | 0x8000, &ports)].concat(),
        )
    }

    #[test]
    fn flows_are_read() {
        let at = |text: &str| text.parse::<SocketAddrV4>().unwrap();
        let (client, service, pod) = (at("10.191.1.5:4000"), at("10.192.0.20:53"), at("10.191.2.2:5353"));
        let seen = |protocol| {
            [
                tuple(1, protocol, client, service),
                tuple(2, protocol, pod, client),
            ]
            .concat()
        };
        let found = flow(&seen(UDP)).unwrap();
        assert_eq!((found.to, found.from), (service, pod));
        assert_eq!(found.name, tuple(1, UDP, client, service));
        assert_eq!(flow(&seen(6)), None);
    }

    proptest! {
        #[test]
        fn no_message_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for (_, body) in messages(&bytes) {
                let _ = flow(body);
            }
            let _ = flow(&bytes);
        }
    }
}
