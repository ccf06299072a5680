//! The screen of a guest, as a browser gets it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use http::Uri;

/// The address that a person is given leads to the guest's own screen.
pub(crate) fn a_screen_is_shown(cloud: &Cloud) -> anyhow::Result<()> {
    let url = cloud.c5c3_here("console", &["--vnc", "demo"])?;
    let uri: Uri = url.trim().parse()?;
    let (host, port) = (uri.host().context("a host")?, uri.port_u16().context("a port")?);
    let page = end_to_end::cloud::ask(url.trim(), &[], None)?;
    ensure!(page.contains("200 OK") && page.contains("noVNC"), "{page}");
    let query = uri.query().context("a token")?;
    let token = query.rsplit("token%3D").next().context("a token")?;
    let mut screen = Screen::open(host, port, token)?;
    let name = screen.name()?;
    ensure!(name.starts_with("QEMU (instance-"), "{name}");
    // Somebody without a token sees nothing.
    let refused = Screen::open(host, port, "00000000-0000-4000-8000-000000000000")
        .and_then(|mut screen| screen.take(12));
    ensure!(refused.is_err(), "it was let in");
    Ok(())
}

/// RFB in frames of a WebSocket.
struct Screen {
    stream: TcpStream,
    /// Bytes that came and were not asked for yet.
    ahead: Vec<u8>,
}

impl Screen {
    fn open(host: &str, port: u16, token: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect((host, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let request = format!(
            "GET /?token={token} HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: binary\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).context("the end of the headers")?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        Ok(Screen {
            stream,
            ahead: Vec::new(),
        })
    }

    /// So many bytes of the server.
    fn take(&mut self, number: usize) -> anyhow::Result<Vec<u8>> {
        while self.ahead.len() < number {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).context("a frame")?;
            let mut length = usize::from(head[1] & 0x7f);
            if length == 126 {
                let mut long = [0; 2];
                self.stream.read_exact(&mut long)?;
                length = usize::from(u16::from_be_bytes(long));
            }
            ensure!(head[0] == 0x82 && length < 127 << 9, "no data: {head:?}");
            let mut frame = vec![0; length];
            self.stream.read_exact(&mut frame)?;
            self.ahead.extend(frame);
        }
        Ok(self.ahead.drain(..number).collect())
    }

    /// A short frame, masked with zeros.
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let length = u8::try_from(bytes.len()).context("a short frame")?;
        ensure!(length < 126, "a short frame");
        let frame = [&[0x82, 0x80 | length, 0, 0, 0, 0], bytes].concat();
        Ok(self.stream.write_all(&frame)?)
    }

    /// Greets, and reads what the screen is called.
    fn name(&mut self) -> anyhow::Result<String> {
        let version = self.take(12)?;
        ensure!(version.starts_with(b"RFB 003."), "{version:?}");
        self.send(b"RFB 003.008\n")?;
        let number = usize::from(self.take(1)?[0]);
        let offered = self.take(number)?;
        ensure!(offered.contains(&1), "{offered:?}");
        self.send(&[1])?;
        ensure!(self.take(4)? == [0; 4], "refused");
        self.send(&[1])?;
        // Size and pixel format come before the name.
        let start = self.take(24)?;
        let length = u32::from_be_bytes(start[20..].try_into()?);
        Ok(String::from_utf8(self.take(length.try_into()?)?)?)
    }
}
