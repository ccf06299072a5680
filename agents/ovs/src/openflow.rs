//! As much of OpenFlow 1.3 as counting flows needs. A bridge of Open vSwitch speaks it on a socket of its own,
//! `NAME.mgmt`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const VERSION: u8 = 4;
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const MULTIPART_REQUEST: u8 = 18;
const MULTIPART_REPLY: u8 = 19;
const OF_FLOWS: u16 = 1;
const OF_TABLES: u16 = 3;
const MORE: u16 = 1;
const ANY: u32 = 0xffff_ffff;
/// Numbers from here on are no ports of a bridge.
pub(crate) const RESERVED: u32 = 0xffff_ff00;
const HEADER: usize = 8;
/// A bridge has thousands of flows in the table that is read: more than this is no answer.
const MOST: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Flows of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flows {
    /// By table; empty tables are left out.
    pub tables: BTreeMap<u8, u32>,
    /// Ports that flows of table 0 take packets from.
    pub inputs: Vec<u32>,
}

/// Asks the bridge behind this socket.
pub(crate) async fn flows(socket: &Path) -> io::Result<Flows> {
    match tokio::time::timeout(PATIENCE, asked(socket)).await {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the bridge does not answer",
        )),
    }
}

async fn asked(socket: &Path) -> io::Result<Flows> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(&message(HELLO, &[])).await?;
    let tables = multipart(&mut stream, OF_TABLES, &[]).await?;
    let inputs = multipart(&mut stream, OF_FLOWS, &flows_of_table_0()).await?;
    Ok(Flows {
        tables: read_tables(&tables),
        inputs: read_inputs(&inputs),
    })
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    let mut message = vec![VERSION, kind];
    message.extend(length.to_be_bytes());
    message.extend(1u32.to_be_bytes());
    message.extend(body);
    message
}

/// Every flow of table 0, whatever it matches.
fn flows_of_table_0() -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(ANY.to_be_bytes());
    body.extend(ANY.to_be_bytes());
    body.extend([0; 4 + 8 + 8]);
    // An empty match: type OXM, its length without the padding.
    body.extend([0, 1, 0, 4, 0, 0, 0, 0]);
    body
}

/// The bodies of all parts of an answer.
async fn multipart(stream: &mut UnixStream, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = kind.to_be_bytes().to_vec();
    request.extend([0; 6]);
    request.extend(body);
    stream.write_all(&message(MULTIPART_REQUEST, &request)).await?;
    let mut all = Vec::new();
    loop {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header).await?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let Some(rest) = length.checked_sub(HEADER) else {
            return Err(odd("a message is shorter than its header"));
        };
        let mut body = vec![0; rest];
        stream.read_exact(&mut body).await?;
        match header[1] {
            ECHO_REQUEST => stream.write_all(&message(ECHO_REPLY, &body)).await?,
            ERROR => return Err(odd(&format!("the bridge refused: {}", code(&body)))),
            MULTIPART_REPLY => {
                let (Some(head), Some(part)) = (body.get(..4), body.get(8..)) else {
                    return Err(odd("a part without a head"));
                };
                if [head[0], head[1]] != kind.to_be_bytes() {
                    continue;
                }
                all.extend_from_slice(part);
                if all.len() > MOST {
                    return Err(odd("the answer has no end"));
                }
                if u16::from_be_bytes([head[2], head[3]]) & MORE == 0 {
                    return Ok(all);
                }
            }
            // Greetings, and news of ports.
            _ => {}
        }
    }
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn code(body: &[u8]) -> String {
    match body {
        [a, b, c, d, ..] => format!(
            "type {} code {}",
            u16::from_be_bytes([*a, *b]),
            u16::from_be_bytes([*c, *d])
        ),
        _ => "without a reason".to_owned(),
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_be_bytes(four))
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    let two: [u8; 2] = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(usize::from(u16::from_be_bytes(two)))
}

/// Entries of 24 bytes: number of the table, flows, lookups, matches.
fn read_tables(body: &[u8]) -> BTreeMap<u8, u32> {
    let entries = body.chunks_exact(24);
    entries
        .filter_map(|entry| Some((*entry.first()?, number(entry, 4)?)))
        .filter(|(_, flows)| *flows > 0)
        .collect()
}

/// Entries that say their own length; the match begins after 48 bytes. What cannot be read ends the list.
fn read_inputs(mut body: &[u8]) -> Vec<u32> {
    let mut inputs = Vec::new();
    while let Some(length) = short(body, 0).filter(|length| *length >= 56) {
        let Some((entry, rest)) = body.split_at_checked(length) else {
            break;
        };
        inputs.extend(input(entry));
        body = rest;
    }
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

/// The port that a flow takes packets from: field 0 of the basic class, four bytes.
fn input(entry: &[u8]) -> Option<u32> {
    const IN_PORT: u32 = 0x8000_0004;
    let end = 48 + short(entry, 50)?;
    let mut at = 52;
    while at + 4 <= end {
        let header = number(entry, at)?;
        if header == IN_PORT {
            return number(entry, at + 4);
        }
        at += 4 + usize::try_from(header & 0xff).ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(fields: &[u8]) -> Vec<u8> {
        let match_length = 4 + fields.len();
        let padded = match_length.div_ceil(8) * 8;
        let mut entry = u16::try_from(48 + padded).unwrap().to_be_bytes().to_vec();
        entry.resize(48, 0);
        entry.extend([0, 1]);
        entry.extend(u16::try_from(match_length).unwrap().to_be_bytes());
        entry.extend(fields);
        entry.resize(48 + padded, 0);
        entry
    }

    #[test]
    fn inputs_of_flows_are_found_among_other_fields() {
        let ethernet = [0x80, 0, 0x0a, 2, 8, 0];
        let port = [0x80, 0, 0, 4, 0, 0, 0, 7];
        let both = [ethernet.as_slice(), &port].concat();
        let body = [flow(&both), flow(&ethernet), flow(&[]), flow(&port)].concat();
        assert_eq!(read_inputs(&body), [7]);
    }

    #[test]
    fn tables_without_flows_are_left_out() {
        let mut body = vec![0; 48];
        body[7] = 9;
        body[24] = 1;
        assert_eq!(read_tables(&body), BTreeMap::from([(0, 9)]));
    }

    #[test]
    fn what_is_cut_short_is_no_panic() {
        let whole = flow(&[0x80, 0, 0, 4, 0, 0, 0, 7]);
        for cut in 0..whole.len() {
            assert!(read_inputs(&whole[..cut]).is_empty());
            read_tables(&whole[..cut]);
        }
        let mut lying = whole.clone();
        lying[51] = 255;
        read_inputs(&lying);
        assert_eq!(flows_of_table_0().len(), 40);
    }
}
