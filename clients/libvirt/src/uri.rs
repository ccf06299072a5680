//! Where a libvirt listens, in libvirt's notation.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::error::Error;

/// Where Debian and Fedora put the socket.
const SOCKET: &str = "/run/libvirt/libvirt-sock";
const TCP: u16 = 16509;
const TLS: u16 = 16514;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
}

/// The way to a server, and what it shall open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri {
    pub way: Way,
    /// Such as `qemu:///system`: the URI as the server itself would write it.
    pub name: String,
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why| Error::BadUri {
            uri: text.to_owned(),
            why,
        };
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| bad("it has no driver before ://"))?;
        let (driver, transport) = match scheme.split_once('+') {
            Some((driver, transport)) => (driver, Some(transport)),
            None => (scheme, None),
        };
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if !plain(driver) {
            return Err(bad("the driver is a word such as qemu, ch or test"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let mut socket = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("socket", path)) => {
                    let path = percent_decode_str(path).decode_utf8();
                    socket = Some(path.map_err(|_| bad("the socket is no text"))?.into_owned());
                }
                _ => return Err(bad("of parameters only socket is known")),
            }
        }
        let host = |default: u16| -> Result<(String, u16), Error> {
            let (host, port) = match authority.rsplit_once(':') {
                // The colons of an IPv6 address are inside brackets.
                Some((host, port)) if !port.contains(']') => {
                    (host, port.parse().map_err(|_| bad("the port is not a number"))?)
                }
                _ => (authority, default),
            };
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            match (bare.unwrap_or(host), port) {
                ("", _) => Err(bad("the host is missing")),
                (_, 0) => Err(bad("the port is 0")),
                (host, _) if host.contains('@') => Err(bad("there are no users")),
                (host, port) => Ok((host.to_owned(), port)),
            }
        };
        let way = match transport {
            None | Some("unix") if authority.is_empty() => {
                Way::Unix(socket.unwrap_or_else(|| SOCKET.to_owned()).into())
            }
            Some("unix") => return Err(bad("a socket is on no host")),
            Some("tcp") => host(TCP).map(|(host, port)| Way::Tcp { host, port })?,
            // As libvirt does: a host without a transport is reached by TLS.
            None | Some("tls") => host(TLS).map(|(host, port)| Way::Tls { host, port })?,
            Some(_) => return Err(bad("the transport is one of unix, tcp, tls")),
        };
        Ok(Uri {
            way,
            name: format!("{driver}://{path}"),
        })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (driver, path) = self.name.split_once("://").unwrap_or((&self.name, "/"));
        let (transport, host, port) = match &self.way {
            Way::Unix(socket) => {
                return write!(f, "{driver}+unix://{path}?socket={}", socket.display());
            }
            Way::Tcp { host, port } => ("tcp", host, port),
            Way::Tls { host, port } => ("tls", host, port),
        };
        if host.contains(':') {
            write!(f, "{driver}+{transport}://[{host}]:{port}{path}")
        } else {
            write!(f, "{driver}+{transport}://{host}:{port}{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_as_libvirt_reads_them() {
        let tcp = |host: &str, port| Way::Tcp {
            host: host.into(),
            port,
        };
        for (text, way, name) in [
            ("qemu:///system", Way::Unix(SOCKET.into()), "qemu:///system"),
            (
                "test+unix:///default?socket=/a%20b",
                Way::Unix("/a b".into()),
                "test:///default",
            ),
            ("qemu+tcp://node-1/system", tcp("node-1", TCP), "qemu:///system"),
            ("ch+tcp://[fd00::1]:5/system", tcp("fd00::1", 5), "ch:///system"),
            (
                "qemu+tcp://[fd00::1]/system",
                tcp("fd00::1", TCP),
                "qemu:///system",
            ),
            (
                "qemu://node-1/system",
                Way::Tls {
                    host: "node-1".into(),
                    port: TLS,
                },
                "qemu:///system",
            ),
        ] {
            let uri: Uri = text.parse().expect(text);
            assert_eq!((&uri.way, uri.name.as_str()), (&way, name), "{text}");
        }
        for text in [
            "",
            "qemu",
            "://x",
            "qemu+ssh://a/system",
            "qemu+tcp:///system",
            "qemu+tcp://a:0/system",
            "qemu+tcp://a:b/system",
            "qemu+unix://a/system",
            "qemu+tcp://root@a/system",
            "qemu:///system?no_verify=1",
        ] {
            assert!(text.parse::<Uri>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_alike(text in "(qemu|test)(\\+(tcp|tls))?://(a|\\[::1\\])(:[1-9][0-9]{0,3})?/[a-z]{0,5}") {
            let uri: Uri = text.parse().expect("well formed");
            prop_assert_eq!(uri.to_string().parse::<Uri>().expect("again"), uri);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            let _ = text.parse::<Uri>();
        }
    }
}
