//! An authority of our own, and the certificates that it gives: as the contents of two Secrets, with
//! what is due renewed.
//!
//! An authority is followed by another before it ends: first everybody trusts both, then certificates
//! come from the new one, so nobody is turned away who has not read the Secret again yet. (ARCHITECTURE.md
//! tells this rotation from the three others.)

mod pem;

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;

pub use rcgen::Error;

/// Contents of a Secret.
pub type Data = BTreeMap<String, ByteString>;

/// An authority with so much left is followed by another.
const FOLLOW: SignedDuration = SignedDuration::from_hours(24 * 400);
/// So long everybody has to read that there is another.
const TRUST: SignedDuration = SignedDuration::from_hours(48);
/// A certificate with so much left is recreated.
const RENEW: SignedDuration = SignedDuration::from_hours(24 * 120);

/// The certificate of the authority that signed the others, as it was then.
const ISSUER: &str = "issuer.crt";
/// All authorities that are to be trusted.
const TRUSTED: &str = "ca.crt";

/// Who a certificate is for. It serves and it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its files are `<file>.crt` and `<file>.key`.
    pub file: String,
    pub organization: Option<String>,
    pub common_name: String,
    /// What it is called by.
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

/// The authority's keys, which nobody mounts. All authorities of one title have the same name: they are
/// told apart by their keys. What is damaged counts as missing.
pub fn authority(title: &str, stored: Data, now: Timestamp) -> Result<Data, Error> {
    let mut kept = stored;
    if pem::left(&kept, "ca.crt", now).is_none() || pem::key(&kept, "ca").is_none() {
        kept = Data::new();
        pem::put(&mut kept, "ca", pem::make_authority(title, now)?);
    }
    if pem::left(&kept, "ca.crt", now).is_some_and(|left| left < FOLLOW) && !kept.contains_key("next.crt") {
        pem::put(&mut kept, "next", pem::make_authority(title, now)?);
    }
    let trusted = pem::age(&kept, "next.crt", now).is_some_and(|age| age >= TRUST);
    if trusted && let (Some(crt), Some(key)) = (kept.remove("next.crt"), kept.remove("next.key")) {
        if let Some(before) = kept.insert("ca.crt".to_owned(), crt) {
            kept.insert("before.crt".to_owned(), before);
        }
        kept.insert("ca.key".to_owned(), key);
    }
    Ok(kept)
}

/// A certificate for each holder, and `ca.crt`; certificates of anybody else are removed.
pub fn certificates(
    title: &str,
    authority: &Data,
    holders: &[Holder],
    stored: &Data,
    now: Timestamp,
) -> Result<Data, Error> {
    let mut kept = Data::new();
    let same_issuer = authority.get("ca.crt") == stored.get(ISSUER);
    for holder in holders {
        let file = holder.file.as_str();
        let (crt, key) = (format!("{file}.crt"), format!("{file}.key"));
        let young = pem::left(stored, &crt, now).is_some_and(|left| left >= RENEW);
        let good =
            same_issuer && young && pem::key(stored, file).is_some() && pem::is_for(stored, &crt, holder);
        match (stored.get(&crt), stored.get(&key)) {
            (Some(certificate), Some(secret)) if good => {
                kept.insert(crt, certificate.clone());
                kept.insert(key, secret.clone());
            }
            _ => pem::put(
                &mut kept,
                file,
                pem::make_certificate(title, authority, holder, now)?,
            ),
        }
    }
    let issuer = authority.get("ca.crt").cloned().unwrap_or_default();
    kept.insert(ISSUER.to_owned(), issuer);
    let trusted = ["ca.crt", "next.crt", "before.crt"].iter();
    let trusted = trusted.filter_map(|key| authority.get(*key));
    let bundle = trusted.flat_map(|certificate| certificate.0.iter().copied());
    kept.insert(TRUSTED.to_owned(), ByteString(bundle.collect()));
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &str = "authority of tests";

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * 86_400).expect("a time")
    }

    fn node(number: u8) -> Holder {
        Holder {
            file: format!("node-{number}"),
            organization: Some("tests".to_owned()),
            common_name: format!("node-{number}"),
            names: vec![format!("node-{number}")],
            addresses: vec![IpAddr::from([10, 0, 0, number])],
        }
    }

    fn tend(holders: &[Holder], (root, certs): (Data, Data), day: i64) -> (Data, Data) {
        let root = authority(TITLE, root, at(day)).expect("an authority");
        let certs = certificates(TITLE, &root, holders, &certs, at(day)).expect("certificates");
        (root, certs)
    }

    fn authorities(data: &Data) -> usize {
        let text = String::from_utf8_lossy(&data["ca.crt"].0).into_owned();
        text.matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn certificates_are_kept_until_they_are_due() {
        let nodes = [node(1), node(2)];
        let first = tend(&nodes, Default::default(), 0);
        assert!(tend(&nodes, first.clone(), 200) == first);
        let renewed = tend(&nodes, first.clone(), 260);
        assert!(renewed.0 == first.0, "the authority stays");
        assert!(renewed.1["node-1.crt"] != first.1["node-1.crt"]);
        let mut damaged = renewed.clone();
        damaged.1.insert("node-1.key".into(), ByteString(b"x".to_vec()));
        let mended = tend(&nodes, damaged, 260).1;
        assert!(mended["node-1.key"].0 != b"x" && mended["node-2.crt"] == renewed.1["node-2.crt"]);
    }

    #[test]
    fn each_holder_has_its_own_and_leaves_none_behind() {
        let first = tend(&[node(1), node(2)], Default::default(), 0);
        let mut moved = node(1);
        moved.addresses = vec![IpAddr::from([10, 0, 0, 9])];
        let later = tend(&[moved, node(3)], first.clone(), 1);
        assert!(later.1["node-1.crt"] != first.1["node-1.crt"], "another address");
        let keys: Vec<&str> = later.1.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "ca.crt",
                "issuer.crt",
                "node-1.crt",
                "node-1.key",
                "node-3.crt",
                "node-3.key"
            ]
        );
        let two = tend(&[node(1), node(2)], first.clone(), 1);
        assert!(two == first, "nothing changed, nothing written");
        // A name that is none is an error, not a panic.
        let bad = Holder {
            names: vec!["nöde".to_owned()],
            ..node(1)
        };
        assert!(certificates(TITLE, &first.0, &[bad], &first.1, at(1)).is_err());
    }

    #[test]
    fn an_authority_is_trusted_before_it_is_used() {
        let nodes = [node(1)];
        let first = tend(&nodes, Default::default(), 0);
        let both = tend(&nodes, first.clone(), 3300);
        assert_eq!((authorities(&first.1), authorities(&both.1)), (1, 2));
        assert!(both.0["ca.crt"] == first.0["ca.crt"], "not used yet");
        let later = tend(&nodes, both.clone(), 3303);
        assert!(later.0["ca.crt"] == both.0["next.crt"]);
        assert!(later.1["node-1.crt"] != both.1["node-1.crt"]);
        assert_eq!(
            authorities(&later.1),
            2,
            "certificates of the one before are still about"
        );
        assert!(tend(&nodes, later.clone(), 3304) == later);
    }
}
