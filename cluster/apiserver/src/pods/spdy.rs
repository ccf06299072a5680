//! The part of SPDY/3.1 that forwarded ports need: streams with headers, data, pings.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// Frames beyond this are refused; clients send 32 kilobytes at a time.
const FRAME: usize = 1 << 20;
/// Headers after decompression.
const HEADERS: usize = 64 << 10;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Open {
        stream: u32,
        headers: Vec<(String, String)>,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    Data {
        stream: u32,
        data: Bytes,
        fin: bool,
    },
    Ping(u32),
    GoAway,
    /// Settings, windows and the like, which change nothing here.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed SPDY: {}", self.0)
    }
}

/// Reads frames out of a byte stream.
pub(crate) struct Decoder {
    buffer: BytesMut,
    inflate: Decompress,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            buffer: BytesMut::new(),
            inflate: Decompress::new(true),
        }
    }
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        let Some(head) = self.buffer.first_chunk::<8>() else {
            return Ok(None);
        };
        let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let flags = head[4];
        let length = usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7]);
        if length > FRAME {
            return Err(Malformed("a frame is too long"));
        }
        if self.buffer.len() < 8 + length {
            return Ok(None);
        }
        self.buffer.advance(8);
        let mut body = self.buffer.split_to(length).freeze();
        let fin = flags & FIN != 0;
        if first >> 31 == 0 {
            return Ok(Some(Frame::Data {
                stream: first,
                data: body,
                fin,
            }));
        }
        let kind = (first & 0xffff) as u16;
        let number = |body: &mut Bytes| {
            if body.len() < 4 {
                Err(Malformed("a frame is too short"))
            } else {
                Ok(body.get_u32() & 0x7fff_ffff)
            }
        };
        Ok(Some(match kind {
            SYN_STREAM => {
                let stream = number(&mut body)?;
                if body.len() < 6 {
                    return Err(Malformed("a frame is too short"));
                }
                body.advance(6);
                Frame::Open {
                    stream,
                    headers: self.headers(&body)?,
                    fin,
                }
            }
            RST_STREAM => Frame::Reset {
                stream: number(&mut body)?,
            },
            PING => {
                if body.len() < 4 {
                    return Err(Malformed("a ping without a number"));
                }
                Frame::Ping(body.get_u32())
            }
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        }))
    }

    /// All headers of a connection are one compressed stream.
    fn headers(&mut self, block: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
        let mut plain = Vec::with_capacity(4096);
        let mut rest = block;
        loop {
            let before = self.inflate.total_in();
            if plain.len() == plain.capacity() {
                if plain.len() >= HEADERS {
                    return Err(Malformed("the headers are too long"));
                }
                plain.reserve(4096);
            }
            let result = self
                .inflate
                .decompress_vec(rest, &mut plain, FlushDecompress::Sync);
            let used = (self.inflate.total_in() - before) as usize;
            rest = rest.get(used..).unwrap_or_default();
            match result {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.inflate
                        .set_dictionary(&dictionary())
                        .map_err(|_| Malformed("another dictionary"))?;
                }
                Err(_) => return Err(Malformed("the headers cannot be decompressed")),
                Ok(_) if rest.is_empty() && plain.len() < plain.capacity() => break,
                Ok(_) if used == 0 && plain.len() < plain.capacity() => break,
                Ok(_) => {}
            }
        }
        let mut plain = Bytes::from(plain);
        let text = |plain: &mut Bytes| -> Result<String, Malformed> {
            if plain.len() < 4 {
                return Err(Malformed("the headers are cut"));
            }
            let length = plain.get_u32() as usize;
            if plain.len() < length {
                return Err(Malformed("the headers are cut"));
            }
            Ok(String::from_utf8_lossy(&plain.split_to(length)).into_owned())
        };
        if plain.len() < 4 {
            return Err(Malformed("the headers are cut"));
        }
        let count = plain.get_u32();
        (0..count)
            .map(|_| Ok((text(&mut plain)?.to_ascii_lowercase(), text(&mut plain)?)))
            .collect()
    }
}

/// Writes frames.
pub(crate) struct Encoder {
    deflate: Compress,
    started: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            deflate: Compress::new(Compression::fast(), true),
            started: false,
        }
    }
}

impl Encoder {
    /// The answer to a stream that was opened, without headers.
    pub(crate) fn reply(&mut self, stream: u32) -> Bytes {
        if !self.started {
            self.started = true;
            // A fresh stream takes a dictionary; it cannot fail.
            let _ = self.deflate.set_dictionary(&dictionary());
        }
        let mut block = Vec::with_capacity(64);
        let _ = self
            .deflate
            .compress_vec(&0u32.to_be_bytes(), &mut block, FlushCompress::Sync);
        let mut out = control(SYN_REPLY, 4 + block.len());
        out.put_u32(stream);
        out.put_slice(&block);
        out.freeze()
    }
}

fn control(kind: u16, length: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(8 + length);
    out.put_u16(0x8003);
    out.put_u16(kind);
    out.put_u32(length as u32);
    out
}

pub(crate) fn data(stream: u32, bytes: &[u8], fin: bool) -> Bytes {
    let mut out = BytesMut::with_capacity(8 + bytes.len());
    out.put_u32(stream);
    out.put_u32(u32::from(if fin { FIN } else { 0 }) << 24 | bytes.len() as u32);
    out.put_slice(bytes);
    out.freeze()
}

pub(crate) fn ping(number: u32) -> Bytes {
    let mut out = control(PING, 4);
    out.put_u32(number);
    out.freeze()
}

/// Texts that SPDY/3 headers are compressed with: these, each after its length, then [`COMMON`].
const NAMES: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host \
    if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
const COMMON: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug \
    Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch\
    charset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> Vec<u8> {
    let mut out = Vec::with_capacity(1423);
    for name in NAMES.split_whitespace() {
        out.extend_from_slice(&(name.len() as u32).to_be_bytes());
        out.extend(name.bytes().map(|b| if b == b'_' { b' ' } else { b }));
    }
    out.extend_from_slice(COMMON.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adler32(bytes: &[u8]) -> u32 {
        let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), &byte| {
            let a = (a + u32::from(byte)) % 65521;
            (a, (b + a) % 65521)
        });
        b << 16 | a
    }

    #[test]
    fn the_dictionary_is_that_of_the_specification() {
        assert_eq!((dictionary().len(), adler32(&dictionary())), (1423, 0xe3c6_a7c2));
    }

    fn open(deflate: &mut Compress, stream: u32, headers: &[(&str, &str)]) -> Bytes {
        let mut plain = BytesMut::new();
        plain.put_u32(headers.len() as u32);
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(text.len() as u32);
            plain.put_slice(text.as_bytes());
        }
        let mut block = Vec::with_capacity(1024);
        deflate
            .compress_vec(&plain, &mut block, FlushCompress::Sync)
            .unwrap();
        let mut out = control(SYN_STREAM, 10 + block.len());
        out.put_u32(stream);
        out.put_u32(0);
        out.put_u16(0);
        out.put_slice(&block);
        out.freeze()
    }

    #[test]
    fn frames_come_out_as_they_went_in_whatever_the_pieces() {
        let mut deflate = Compress::new(Compression::default(), true);
        deflate.set_dictionary(&dictionary()).unwrap();
        let headers = [("streamtype", "data"), ("port", "80"), ("requestid", "7")];
        let long = "x".repeat(9000);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&open(&mut deflate, 1, &headers));
        bytes.extend_from_slice(&open(&mut deflate, 3, &[("a", &long)]));
        bytes.extend_from_slice(&data(1, b"hello", true));
        bytes.extend_from_slice(&ping(5));
        for size in [1, 7, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut frames = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    frames.push(frame);
                }
            }
            let owned = |pairs: &[(&str, &str)]| {
                pairs
                    .iter()
                    .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                    .collect()
            };
            assert_eq!(
                frames,
                [
                    Frame::Open {
                        stream: 1,
                        headers: owned(&headers),
                        fin: false
                    },
                    Frame::Open {
                        stream: 3,
                        headers: owned(&[("a", &long)]),
                        fin: false
                    },
                    Frame::Data {
                        stream: 1,
                        data: Bytes::from_static(b"hello"),
                        fin: true
                    },
                    Frame::Ping(5),
                ]
            );
        }
    }

    #[test]
    fn rubbish_is_refused() {
        for bytes in [
            &[0xff; 64][..],
            &[0x80, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2],
        ] {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            assert!(decoder.next().is_err());
        }
        let mut encoder = Encoder::default();
        assert!(encoder.reply(1).len() > 12);
    }
}
