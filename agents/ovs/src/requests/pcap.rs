//! The file format of tcpdump and Wireshark, version 2.4, with nanoseconds.

use jiff::Timestamp;

const MAGIC: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const HEADER: usize = 24;
const OF_PACKET: usize = 16;

/// A file that never grows beyond its bound.
#[derive(Debug)]
pub(crate) struct Pcap {
    bytes: Vec<u8>,
    packets: usize,
    most: usize,
}

impl Pcap {
    /// `most` is the size of the whole file, `snap` of what is kept of a packet.
    pub(crate) fn new(most: usize, snap: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(2u16.to_le_bytes());
        bytes.extend(4u16.to_le_bytes());
        // Times are UTC, and as exact as they are.
        bytes.extend([0; 8]);
        bytes.extend(number(snap).to_le_bytes());
        bytes.extend(ETHERNET.to_le_bytes());
        Pcap {
            bytes,
            packets: 0,
            most,
        }
    }

    /// `kept` is the beginning of a packet of that length. `false`: it has no place any more.
    pub(crate) fn push(&mut self, at: Timestamp, length: usize, kept: &[u8]) -> bool {
        if self.bytes.len() + OF_PACKET + kept.len() > self.most {
            return false;
        }
        let seconds = u32::try_from(at.as_second()).unwrap_or(0);
        let nanoseconds = u32::try_from(at.subsec_nanosecond()).unwrap_or(0);
        for field in [seconds, nanoseconds, number(kept.len()), number(length)] {
            self.bytes.extend(field.to_le_bytes());
        }
        self.bytes.extend(kept);
        self.packets += 1;
        true
    }

    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn number(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the draft of the IETF (draft-ietf-opsawg-pcap) has it, byte for byte.
    #[test]
    fn the_format_is_that_of_tcpdump() {
        let mut file = Pcap::new(1024, 96);
        let at = Timestamp::new(0x6000_0001, 5).expect("a time");
        assert!(file.push(at, 1500, &[0xaa, 0xbb, 0xcc]));
        assert_eq!(file.packets(), 1);
        let expected: Vec<u8> = [
            [0x4d, 0x3c, 0xb2, 0xa1],
            [2, 0, 4, 0],
            [0; 4],
            [0; 4],
            [96, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 0, 0, 0x60],
            [5, 0, 0, 0],
            [3, 0, 0, 0],
            [0xdc, 5, 0, 0],
        ]
        .concat();
        assert_eq!(file.into_bytes(), [expected, vec![0xaa, 0xbb, 0xcc]].concat());
    }

    #[test]
    fn it_never_outgrows_its_bound() {
        let mut file = Pcap::new(24 + 2 * (16 + 96), 96);
        assert!(file.push(Timestamp::UNIX_EPOCH, 100, &[0; 96]));
        assert!(file.push(Timestamp::UNIX_EPOCH, 100, &[0; 96]));
        assert!(!file.push(Timestamp::UNIX_EPOCH, 100, &[0; 96]));
        assert_eq!((file.packets(), file.into_bytes().len()), (2, 248));
    }

    #[test]
    fn odd_times_are_no_panic() {
        let mut file = Pcap::new(1024, 96);
        assert!(file.push(Timestamp::MIN, 0, &[]) && file.push(Timestamp::MAX, 0, &[]));
    }
}
