//! TLS as OVS does it: both sides show a certificate of the same authority. Names are not compared,
//! for members are known by address.

use dial::HostName;

use crate::error::Error;

/// Our certificate with its key, and the authority that everybody's comes from.
#[derive(Clone, Debug)]
pub struct Certificates(pub(crate) dial::Certificates);

impl Certificates {
    /// All three are PEM; errors name them as a Secret does.
    pub fn new(certificate: &[u8], key: &[u8], authority: &[u8]) -> Result<Self, Error> {
        let made = dial::Certificates::new(
            ("tls.crt", certificate),
            ("tls.key", key),
            ("ca.crt", authority),
            HostName::Ignored,
        );
        made.map(Certificates).map_err(|error| Error::Tls(error.0))
    }
}
