//! Certificates of our own, where the spec names none. All parts of one OVNCluster share one.

use c5c3_authority::Holder;
use jiff::Timestamp;

pub use c5c3_authority::Data;

/// The two Secrets as they should be.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Keys of the authority: nobody mounts it.
    pub authority: Data,
    /// `tls.crt`, `tls.key` and `ca.crt`.
    pub certificates: Data,
}

/// As they are, with what is due renewed.
pub fn tend(name: &str, stored: Kept, now: Timestamp) -> Result<Kept, c5c3_authority::Error> {
    let title = format!("authority of OVN {name}");
    let all = Holder {
        file: "tls".to_owned(),
        common_name: format!("OVN {name}"),
        names: vec!["ovn".to_owned()],
        ..Holder::default()
    };
    let authority = c5c3_authority::authority(&title, stored.authority, now)?;
    let certificates = c5c3_authority::certificates(&title, &authority, &[all], &stored.certificates, now)?;
    Ok(Kept {
        authority,
        certificates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovsdb_client::Certificates;

    #[test]
    fn what_is_made_is_good_for_the_databases() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let made = tend("ns/ovn", Kept::default(), now).expect("made");
        let pem = |key: &str| made.certificates[key].0.clone();
        Certificates::new(&pem("tls.crt"), &pem("tls.key"), &pem("ca.crt")).expect("usable");
        assert!(tend("ns/ovn", made.clone(), now).expect("kept") == made);
    }
}
