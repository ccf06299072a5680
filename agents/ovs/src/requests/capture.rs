//! Records packets of a port of the switch, within the bounds that are asked for and those that hold always.

use std::time::Duration;

use c5c3_api::ovs::OvsCaptureSpec;
use ovsdb_client::Tables;
use serde_json::Value;

use super::filter::{Filter, NEEDED};
use super::pcap::Pcap;
use super::socket::Tap;

/// Size of the file.
const MOST_BYTES: usize = 256 << 10;
/// The rows of the switch that are devices of the kernel.
const DEVICES: [&str; 4] = ["", "system", "internal", "tap"];

/// What ends a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    packets: usize,
    time: Duration,
    /// Kept of each packet.
    each: usize,
}

impl Bounds {
    /// Those of the definition hold even where the API server has an older one.
    pub(crate) fn of(spec: &OvsCaptureSpec) -> Self {
        let within = |value: Option<i32>, usual: u16, least: u16, most: u16| {
            let value = value.map_or(usual, |value| u16::try_from(value.max(0)).unwrap_or(most));
            usize::from(value.clamp(least, most))
        };
        Bounds {
            packets: within(spec.packets, 100, 1, 2000),
            time: Duration::from_secs(within(spec.seconds, 30, 1, 300) as u64),
            each: within(spec.bytes_per_packet, 96, 64, 9216),
        }
    }
}

/// A file with packets, and what ended it.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub packets: usize,
    pub file: Vec<u8>,
    pub end: String,
}

pub(crate) async fn record(spec: &OvsCaptureSpec, tables: &Tables) -> Result<Recorded, String> {
    is_port(tables, &spec.port)?;
    let filter = Filter::of(spec.filter.as_ref())?;
    let bounds = Bounds::of(spec);
    listen(&Tap::open(&spec.port)?, &filter, bounds).await
}

/// The host has devices that are no business of the switch.
fn is_port(tables: &Tables, name: &str) -> Result<(), String> {
    let rows = tables.get("Interface").into_iter().flatten();
    let text = |row: &ovsdb_client::Row, column: &str| {
        let value = row.get(column).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let mut named = rows.filter(|(_, row)| text(row, "name") == name);
    let Some((_, row)) = named.next() else {
        return Err(format!("port {name} is not one of the switch's"));
    };
    let kind = text(row, "type");
    if DEVICES.contains(&kind.as_str()) {
        return Ok(());
    }
    Err(format!(
        "port {name} is of the type {kind}, which is no device that can be listened to"
    ))
}

async fn listen(tap: &Tap, filter: &Filter, bounds: Bounds) -> Result<Recorded, String> {
    let Bounds { packets, time, each } = bounds;
    let mut file = Pcap::new(MOST_BYTES, each);
    let mut buffer = vec![0; each.max(NEEDED)];
    let until = tokio::time::Instant::now() + time;
    let over = || format!("{} seconds are over", time.as_secs());
    let end = loop {
        if file.packets() == packets {
            break format!("{packets} packets are there");
        }
        // Where packets never end the timeout below is not reached.
        if tokio::time::Instant::now() >= until {
            break over();
        }
        let received = tokio::time::timeout_at(until, tap.receive(&mut buffer));
        let packet = match received.await {
            Ok(Ok(packet)) => packet,
            Ok(Err(error)) => break format!("the port ended it: {error}"),
            Err(_) => break over(),
        };
        let read = &buffer[..packet.length.min(buffer.len())];
        if !filter.takes(read) {
            continue;
        }
        if !file.push(packet.at, packet.length, &read[..read.len().min(each)]) {
            break format!("{} KiB are full", MOST_BYTES >> 10);
        }
    };
    Ok(Recorded {
        packets: file.packets(),
        file: file.into_bytes(),
        end,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;
    use serde_json::json;

    fn spec(packets: Option<i32>, seconds: Option<i32>, each: Option<i32>) -> OvsCaptureSpec {
        OvsCaptureSpec {
            packets,
            seconds,
            bytes_per_packet: each,
            ..OvsCaptureSpec::default()
        }
    }

    #[test]
    fn every_field_of_a_capture_acts_or_is_refused() {
        let digest = |spec: &serde_json::Value| {
            let spec: OvsCaptureSpec = serde_json::from_value(spec.clone()).expect("a spec");
            let (bounds, filter) = (Bounds::of(&spec), Filter::of(spec.filter.as_ref()));
            let port = is_port(&Tables::default(), &spec.port);
            let object = c5c3_api::ovs::OvsCapture::new("c", spec);
            let (node, ttl) = (Request::node(&object), Request::ttl(&object));
            format!("{bounds:?} {filter:?} {port:?} {node} {ttl:?}")
        };
        let spec = json!({"nodeRef": {"name": "node-1"}, "port": "tap1", "packets": 5, "seconds": 5,
            "bytesPerPacket": 100});
        let ignored = c5c3_api::fields::ignored("OVSCapture", &[spec], digest);
        assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
    }

    #[test]
    fn every_capture_has_bounds() {
        for (given, packets, seconds, each) in [
            (spec(None, None, None), 100, 30, 96),
            (spec(Some(5), Some(7), Some(1500)), 5, 7, 1500),
            (
                spec(Some(i32::MAX), Some(i32::MAX), Some(i32::MAX)),
                2000,
                300,
                9216,
            ),
            (spec(Some(-1), Some(0), Some(i32::MIN)), 1, 1, 64),
        ] {
            let time = Duration::from_secs(seconds);
            assert_eq!(Bounds::of(&given), Bounds { packets, time, each });
        }
    }

    fn tables(rows: &[(&str, &str)]) -> Tables {
        let row = |(name, kind): &(&str, &str)| {
            let row = json!({"name": name, "type": kind});
            let id = format!("id of {name}");
            (id, row.as_object().cloned().unwrap_or_default())
        };
        let mut tables = Tables::default();
        tables.insert("Interface".to_owned(), rows.iter().map(row).collect());
        tables
    }

    #[test]
    fn only_ports_of_the_switch_are_listened_to() {
        let switch = tables(&[
            ("tap1", ""),
            ("br-int", "internal"),
            ("ovn-1", "geneve"),
            ("vhu1", "dpdkvhostuserclient"),
        ]);
        for (port, why) in [
            ("tap1", None),
            ("br-int", None),
            ("lo", Some("port lo is not one of the switch's")),
            ("eth0", Some("port eth0 is not one of the switch's")),
            ("ovn-1", Some("is of the type geneve")),
            ("vhu1", Some("is of the type dpdkvhostuserclient")),
        ] {
            match (is_port(&switch, port), why) {
                (Ok(()), None) => {}
                (Err(said), Some(why)) => assert!(said.contains(why), "{said}"),
                (other, _) => panic!("{port}: {other:?}"),
            }
        }
        assert!(
            is_port(&Tables::default(), "tap1").is_err(),
            "nothing is known yet"
        );
    }

    /// On the loopback of whoever may: packets of its own, cut at the bound, and no others.
    #[tokio::test]
    async fn packets_of_a_device_are_recorded() {
        let tap = match Tap::open("lo") {
            Ok(tap) => tap,
            Err(why) => {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "skipped: {why}");
                return;
            }
        };
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0")
            .await
            .expect("a socket");
        let there = socket.local_addr().expect("an address");
        let filter = c5c3_api::ovs::CaptureFilter {
            protocol: Some(c5c3_api::ovs::CaptureProtocol::Udp),
            host: Some("127.0.0.1".to_owned()),
            port: Some(i32::from(there.port())),
        };
        let filter = Filter::of(Some(&filter)).expect("a filter");
        let bounds = Bounds::of(&spec(Some(2), Some(10), Some(64)));
        let talks = async {
            loop {
                let _ = socket.send_to(&[0x55; 400], there).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let recorded = tokio::select! {
            recorded = listen(&tap, &filter, bounds) => recorded.expect("packets"),
            () = talks => unreachable!("it talks for ever"),
        };
        assert_eq!((recorded.packets, recorded.file.len()), (2, 24 + 2 * (16 + 64)));
        let length = u32::from_le_bytes(recorded.file[36..40].try_into().expect("four bytes"));
        assert_eq!(length, 14 + 20 + 8 + 400, "the length is that of the packet");
        assert_eq!(&recorded.file[40 + 12..40 + 14], [8, 0], "IPv4 on Ethernet");
        assert_eq!(recorded.end, "2 packets are there");

        let none = Bounds::of(&spec(Some(2), Some(1), None));
        let other = Filter::of(Some(&c5c3_api::ovs::CaptureFilter {
            host: Some("192.0.2.77".to_owned()),
            ..Default::default()
        }));
        let recorded = listen(&tap, &other.expect("a filter"), none).await.expect("none");
        assert_eq!(
            (recorded.packets, recorded.end.as_str()),
            (0, "1 seconds are over")
        );
    }

    #[tokio::test]
    async fn a_device_that_is_not_there_is_told() {
        let why = Tap::open("no-such-device").err().expect("nothing");
        assert!(why.contains("ovsAgent.capture"), "{why}");
    }
}
