//! Messages: a length, a header of six words, and a body.

use crate::error::Error;
use crate::xdr::{Decode, Encode, Reader, record};

/// Longest message of libvirt, without the length before it.
pub const LONGEST: usize = 32 << 20;
const LENGTH: usize = 4;
const HEADER: usize = 24;

/// Calls of the hypervisor.
pub const REMOTE: u32 = 0x2000_8086;
/// Is the other side alive?
pub const KEEPALIVE: u32 = 0x6b65_6570;
pub const VERSION: u32 = 1;
pub const PING: i32 = 1;
pub const PONG: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Call,
    Reply,
    /// Said unasked.
    Message,
    /// Data of a stream, and files: we ask for none.
    Other(u32),
}

impl Encode for Kind {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Kind::Call => 0,
            Kind::Reply => 1,
            Kind::Message => 2,
            Kind::Other(number) => *number,
        }
        .put(out);
    }
    fn shape() -> String {
        "int".to_owned()
    }
}
impl Decode for Kind {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match u32::take(from)? {
            0 => Kind::Call,
            1 => Kind::Reply,
            2 => Kind::Message,
            other => Kind::Other(other),
        })
    }
}

pub const DONE: u32 = 0;
pub const REFUSED: u32 = 1;

record! {
    #[derive(Copy, Eq)]
    Header {
        program: u32,
        version: u32,
        procedure: i32,
        kind: Kind,
        /// That of the call in its reply.
        serial: u32,
        status: u32,
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub header: Header,
    pub body: Vec<u8>,
}

impl Frame {
    pub fn call(procedure: i32, serial: u32, body: Vec<u8>) -> Self {
        Frame {
            header: Header {
                program: REMOTE,
                version: VERSION,
                procedure,
                kind: Kind::Call,
                serial,
                status: DONE,
            },
            body,
        }
    }

    pub fn keepalive(procedure: i32) -> Self {
        Frame {
            header: Header {
                program: KEEPALIVE,
                version: VERSION,
                procedure,
                kind: Kind::Message,
                serial: 0,
                status: DONE,
            },
            body: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        let length = LENGTH + HEADER + self.body.len();
        if length > LONGEST + LENGTH {
            return Err(Error::TooLong {
                length,
                limit: LONGEST + LENGTH,
            });
        }
        let mut out = Vec::with_capacity(length);
        // Just checked to be small.
        u32::try_from(length).unwrap_or(u32::MAX).put(&mut out);
        self.header.put(&mut out);
        out.extend_from_slice(&self.body);
        Ok(out)
    }
}

/// Cuts a stream into messages.
#[derive(Debug)]
pub struct Framer {
    buffer: Vec<u8>,
    longest: usize,
}

impl Default for Framer {
    fn default() -> Self {
        Framer::new(LONGEST)
    }
}

impl Framer {
    pub fn new(longest: usize) -> Self {
        Framer {
            buffer: Vec::new(),
            longest,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it is whole.
    pub fn frame(&mut self) -> Result<Option<Frame>, Error> {
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length < LENGTH + HEADER {
            return Err(Error::Malformed(format!("a message of {length} bytes")));
        }
        if length > self.longest + LENGTH {
            return Err(Error::TooLong {
                length,
                limit: self.longest + LENGTH,
            });
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let mut reader = Reader::new(&self.buffer[LENGTH..length]);
        let header = Header::take(&mut reader)?;
        let body = self.buffer[LENGTH + HEADER..length].to_vec();
        self.buffer.drain(..length);
        // A large answer once must not hold its memory forever.
        if self.buffer.is_empty() && self.buffer.capacity() > SPARE {
            self.buffer = Vec::new();
        }
        Ok(Some(Frame { header, body }))
    }
}

const SPARE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ping_is_what_libvirt_sends() {
        let bytes = Frame::keepalive(PING).bytes().expect("short");
        let words = [28u32, 0x6b65_6570, 1, 1, 2, 0, 0];
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn bad_lengths_end_it() {
        for length in [0u32, 4, 27, u32::MAX, (LONGEST + LENGTH + 1) as u32] {
            let mut framer = Framer::default();
            framer.push(&length.to_be_bytes());
            assert!(framer.frame().is_err(), "{length}");
        }
        let body = vec![0; LONGEST];
        assert!(Frame::call(1, 1, body).bytes().is_err());
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6),
            cut in 1usize..50,
        ) {
            let frames: Vec<Frame> = bodies.into_iter().zip(1..).map(|(body, n)| Frame::call(n, n as u32, body)).collect();
            let stream: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().expect("short")).collect();
            let mut framer = Framer::default();
            let mut found = Vec::new();
            for piece in stream.chunks(cut) {
                framer.push(piece);
                while let Some(frame) = framer.frame().expect("well formed") {
                    found.push(frame);
                }
            }
            prop_assert_eq!(found, frames);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut framer = Framer::new(1 << 10);
            framer.push(&bytes);
            while let Ok(Some(_)) = framer.frame() {}
        }
    }
}
