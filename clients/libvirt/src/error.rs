use std::io;
use std::time::Duration;

/// Why libvirt cannot be asked, or did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{uri:?} is not a libvirt URI: {why}; write it like qemu:///system, qemu+tcp://HOST/system, qemu+tls://HOST/system or qemu+unix:///system?socket=PATH"
    )]
    BadUri { uri: String, why: &'static str },
    #[error("cannot reach {uri}: {source}")]
    Unreachable { uri: String, source: io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    #[error(
        "the server wants authentication by {0}; let it trust this client: auth_unix_rw, auth_tcp or auth_tls = \"none\" in libvirtd.conf"
    )]
    NeedsAuthentication(String),
    #[error("the connection is closed")]
    Closed,
    #[error("a message of {length} bytes exceeds the limit of {limit}")]
    TooLong { length: usize, limit: usize },
    #[error("the server sent something that is not a libvirt message: {0}")]
    Malformed(String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server understood the call and did not carry it out.
    #[error("{message} (error {code})")]
    Refused { code: i32, domain: i32, message: String },
}

impl Error {
    /// libvirt's code of a refusal.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The domain is gone.
    pub fn is_no_domain(&self) -> bool {
        self.code() == Some(NO_DOMAIN)
    }

    /// The driver does not have this call.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.code(),
            Some(NO_SUPPORT | ARGUMENT_UNSUPPORTED | CONFIG_UNSUPPORTED)
        )
    }
}

// Of libvirt's virterror.h.
const NO_SUPPORT: i32 = 3;
const NO_DOMAIN: i32 = 42;
const CONFIG_UNSUPPORTED: i32 = 67;
const ARGUMENT_UNSUPPORTED: i32 = 74;
