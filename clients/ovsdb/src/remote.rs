//! Where a server listens, in the notation of OVS.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Remote {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

impl FromStr for Remote {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadRemote(text.to_owned());
        let (scheme, rest) = text.trim().split_once(':').ok_or_else(bad)?;
        if scheme == "unix" {
            return if rest.is_empty() {
                Err(bad())
            } else {
                Ok(Remote::Unix(rest.into()))
            };
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(bad)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host).to_owned();
        let port = port.parse().map_err(|_| bad())?;
        match scheme {
            _ if host.is_empty() || port == 0 => Err(bad()),
            "tcp" => Ok(Remote::Tcp { host, port }),
            "ssl" => Ok(Remote::Tls { host, port }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Remote::Unix(path) => return write!(f, "unix:{}", path.display()),
            Remote::Tcp { host, port } => ("tcp", host, port),
            Remote::Tls { host, port } => ("ssl", host, port),
        };
        if host.contains(':') {
            write!(f, "{scheme}:[{host}]:{port}")
        } else {
            write!(f, "{scheme}:{host}:{port}")
        }
    }
}

/// Several, separated by commas.
pub fn remotes(text: &str) -> Result<Vec<Remote>, Error> {
    text.split(',').map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_and_written_alike() {
        for text in [
            "tcp:10.0.0.1:6641",
            "ssl:[fd00::1]:6642",
            "unix:/run/ovn/db.sock",
            "tcp:ovn-nb.svc:1",
        ] {
            assert_eq!(text.parse::<Remote>().expect("a remote").to_string(), text);
        }
        for text in [
            "",
            "tcp:",
            "tcp:host",
            "tcp::1",
            "tcp:a:0",
            "tcp:a:70000",
            "http:a:1",
            "unix:",
        ] {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
        assert_eq!(remotes("tcp:a:1,tcp:b:2").expect("two").len(), 2);
    }
}
