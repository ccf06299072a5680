//! Certificates of our own, where the spec names none. Those of hypervisors come from an authority of their
//! own, which the southbound database trusts and the northbound one does not.

use c5c3_authority::Holder;
use jiff::Timestamp;
use k8s_openapi::ByteString;

pub use c5c3_authority::Data;

/// Authorities that certificates of clients come from.
const TRUSTED: &str = "ca.crt";
/// The same for the southbound database, which hypervisors use too.
pub const SOUTHBOUND_TRUSTED: &str = "southbound-ca.crt";

/// The Secrets as they should be.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Keys of the authority: nobody mounts it.
    pub authority: Data,
    /// `tls.crt`, `tls.key` and `ca.crt` of all that runs in the control plane.
    pub certificates: Data,
    /// Keys of the authority of hypervisors: nobody mounts it.
    pub hypervisor_authority: Data,
    /// `tls.crt`, `tls.key` and `ca.crt` of hypervisors.
    pub hypervisors: Data,
}

/// As they are, with what is due renewed.
pub fn tend(name: &str, stored: Kept, now: Timestamp) -> Result<Kept, c5c3_authority::Error> {
    let titles = [
        (format!("authority of OVN {name}"), format!("OVN {name}")),
        (
            format!("authority of the hypervisors of OVN {name}"),
            format!("hypervisors of OVN {name}"),
        ),
    ];
    let made = |(title, who): &(String, String), authority: Data, certificates: &Data| {
        let holder = Holder {
            file: "tls".to_owned(),
            common_name: who.clone(),
            names: vec!["ovn".to_owned()],
            ..Holder::default()
        };
        let authority = c5c3_authority::authority(title, authority, now)?;
        let certificates = c5c3_authority::certificates(title, &authority, &[holder], certificates, now)?;
        Ok::<_, c5c3_authority::Error>((authority, certificates))
    };
    let (authority, mut certificates) = made(&titles[0], stored.authority, &stored.certificates)?;
    let (hypervisor_authority, mut hypervisors) =
        made(&titles[1], stored.hypervisor_authority, &stored.hypervisors)?;
    let trusted = |data: &Data| data.get(TRUSTED).cloned().unwrap_or_default();
    // Servers have certificates of the first authority, whoever calls.
    let callers = hypervisors.insert(TRUSTED.to_owned(), trusted(&certificates));
    let both = [trusted(&certificates).0, callers.unwrap_or_default().0].concat();
    certificates.insert(SOUTHBOUND_TRUSTED.to_owned(), ByteString(both));
    Ok(Kept {
        authority,
        certificates,
        hypervisor_authority,
        hypervisors,
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
        for data in [&made.certificates, &made.hypervisors] {
            let pem = |key: &str| data[key].0.clone();
            Certificates::new(&pem("tls.crt"), &pem("tls.key"), &pem("ca.crt")).expect("usable");
        }
        assert!(tend("ns/ovn", made.clone(), now).expect("kept") == made);
    }

    /// Who has the key of a hypervisor is let in by the southbound database alone.
    #[test]
    fn hypervisors_have_an_authority_that_the_northbound_database_does_not_trust() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let made = tend("ns/ovn", Kept::default(), now).expect("made");
        let text = |data: &Data, key: &str| String::from_utf8(data[key].0.clone()).expect("PEM");
        let (own, theirs) = (
            text(&made.authority, "ca.crt"),
            text(&made.hypervisor_authority, "ca.crt"),
        );
        assert_ne!(own, theirs);
        assert_eq!(
            text(&made.certificates, "ca.crt"),
            own,
            "of the northbound database"
        );
        assert_eq!(
            text(&made.certificates, SOUTHBOUND_TRUSTED),
            format!("{own}{theirs}")
        );
        assert_eq!(
            text(&made.hypervisors, "ca.crt"),
            own,
            "servers show certificates of the first"
        );
        assert_eq!(text(&made.hypervisors, "issuer.crt"), theirs);
        assert_ne!(
            text(&made.hypervisors, "tls.key"),
            text(&made.certificates, "tls.key")
        );
        // A year later certificates are renewed, with the same authorities.
        let later = now + jiff::SignedDuration::from_hours(24 * 300);
        let renewed = tend("ns/ovn", made.clone(), later).expect("renewed");
        assert!(renewed.hypervisor_authority == made.hypervisor_authority);
        assert_ne!(
            text(&renewed.hypervisors, "tls.key"),
            text(&made.hypervisors, "tls.key")
        );
    }
}
