//! Certificates of our own, where the spec names none.
//!
//! All parts of one OVNCluster share a certificate. Its authority is followed by another before it
//! ends: first everybody trusts both, then the certificate comes from the new one, so nobody is
//! turned away who has not read the Secret anew yet.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use x509_parser::pem::parse_x509_pem;

/// Contents of a Secret.
pub type Data = BTreeMap<String, ByteString>;

const AUTHORITY_DAYS: i64 = 3650;
const CERTIFICATE_DAYS: i64 = 365;
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// An authority with so much left is followed by another.
const FOLLOW: SignedDuration = SignedDuration::from_hours(24 * 400);
/// So long everybody has to read that there is another.
const TRUST: SignedDuration = SignedDuration::from_hours(48);
/// A certificate with so much left is made anew.
const RENEW: SignedDuration = SignedDuration::from_hours(24 * 120);

/// The two Secrets as they should be.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Keys of the authority: nobody mounts it.
    pub authority: Data,
    /// `tls.crt`, `tls.key` and `ca.crt`.
    pub certificates: Data,
}

/// As they are, with what is due made anew. What is damaged counts as missing.
pub fn tend(name: &str, stored: Kept, now: Timestamp) -> Result<Kept, rcgen::Error> {
    let Kept {
        mut authority,
        mut certificates,
    } = stored;
    if left(&authority, "ca.crt", now).is_none() || pair(&authority, "ca").is_none() {
        authority = Data::new();
        put(&mut authority, "ca", make_authority(name, now)?);
    }
    if left(&authority, "ca.crt", now).is_some_and(|left| left < FOLLOW)
        && !authority.contains_key("next.crt")
    {
        put(&mut authority, "next", make_authority(name, now)?);
    }
    let trusted = age(&authority, "next.crt", now).is_some_and(|age| age >= TRUST);
    if trusted && let (Some(crt), Some(key)) = (authority.remove("next.crt"), authority.remove("next.key")) {
        if let Some(before) = authority.insert("ca.crt".to_owned(), crt) {
            authority.insert("before.crt".to_owned(), before);
        }
        authority.insert("ca.key".to_owned(), key);
    }
    let ours = authority.get("ca.crt") == certificates.get("issuer.crt");
    let young = left(&certificates, "tls.crt", now).is_some_and(|left| left >= RENEW);
    if !(ours && young && pair(&certificates, "tls").is_some()) {
        put(&mut certificates, "tls", make_certificate(name, &authority, now)?);
        let issuer = authority.get("ca.crt").cloned().unwrap_or_default();
        certificates.insert("issuer.crt".to_owned(), issuer);
    }
    let mut bundle = Vec::new();
    for authority in ["ca.crt", "next.crt", "before.crt"]
        .iter()
        .filter_map(|key| authority.get(*key))
    {
        bundle.extend_from_slice(&authority.0);
    }
    certificates.insert("ca.crt".to_owned(), ByteString(bundle));
    Ok(Kept {
        authority,
        certificates,
    })
}

/// Certificate and key as PEM.
type Pair = (String, String);

fn put(data: &mut Data, name: &str, (certificate, key): Pair) {
    data.insert(format!("{name}.crt"), ByteString(certificate.into_bytes()));
    data.insert(format!("{name}.key"), ByteString(key.into_bytes()));
}

fn pair(data: &Data, name: &str) -> Option<KeyPair> {
    let pem = String::from_utf8(data.get(&format!("{name}.key"))?.0.clone()).ok()?;
    KeyPair::from_pem(&pem).ok()
}

fn validity(data: &Data, key: &str) -> Option<(Timestamp, Timestamp)> {
    let (_, pem) = parse_x509_pem(&data.get(key)?.0).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let (from, to) = (
        &certificate.validity().not_before,
        &certificate.validity().not_after,
    );
    let time = |seconds| Timestamp::from_second(seconds).ok();
    Some((time(from.timestamp())?, time(to.timestamp())?))
}

fn left(data: &Data, key: &str, now: Timestamp) -> Option<SignedDuration> {
    validity(data, key).map(|(_, to)| to.duration_since(now))
}

fn age(data: &Data, key: &str, now: Timestamp) -> Option<SignedDuration> {
    // Certificates are made a day old: clocks differ.
    validity(data, key).map(|(from, _)| now.duration_since(from) - DAY)
}

fn params(common_name: &str, days: i64, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let day = |offset: i64| {
        let zoned = now.to_zoned(TimeZone::UTC);
        let date = zoned
            .checked_add(offset.days())
            .map_or(zoned.date(), |zoned| zoned.date());
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(i32::from(date.year()), month, day)
    };
    params.not_before = day(-1);
    params.not_after = day(days);
    params
}

/// All authorities of one OVNCluster have the same name: they are told apart by their keys.
fn authority_params(name: &str, now: Timestamp) -> CertificateParams {
    let mut params = params(&format!("authority of OVN {name}"), AUTHORITY_DAYS, now);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn make_authority(name: &str, now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(name, now).self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn make_certificate(name: &str, authority: &Data, now: Timestamp) -> Result<Pair, rcgen::Error> {
    let issuer_key = pair(authority, "ca").ok_or(rcgen::Error::CouldNotParseKeyPair)?;
    let issuer = Issuer::new(authority_params(name, now), issuer_key);
    let key = KeyPair::generate()?;
    let mut params = params(&format!("OVN {name}"), CERTIFICATE_DAYS, now);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.subject_alt_names = vec![rcgen::SanType::DnsName("ovn".try_into()?)];
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovsdb_client::Certificates;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * 86_400).expect("a time")
    }

    fn authorities(kept: &Kept) -> usize {
        let text = String::from_utf8_lossy(&kept.certificates["ca.crt"].0).into_owned();
        text.matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn certificates_are_kept_until_they_are_due() {
        let first = tend("ns/ovn", Kept::default(), at(0)).expect("made");
        let pem = |key: &str| first.certificates[key].0.clone();
        Certificates::new(&pem("tls.crt"), &pem("tls.key"), &pem("ca.crt")).expect("usable");
        assert!(tend("ns/ovn", first.clone(), at(200)).expect("kept") == first);
        let renewed = tend("ns/ovn", first.clone(), at(260)).expect("renewed");
        assert!(renewed.authority == first.authority, "the authority stays");
        assert!(renewed.certificates["tls.crt"] != first.certificates["tls.crt"]);
        let mut damaged = renewed.clone();
        damaged
            .certificates
            .insert("tls.key".into(), ByteString(b"x".to_vec()));
        assert!(tend("ns/ovn", damaged, at(260)).expect("mended").certificates["tls.key"].0 != b"x");
    }

    #[test]
    fn an_authority_is_trusted_before_it_is_used() {
        let first = tend("ns/ovn", Kept::default(), at(0)).expect("made");
        let both = tend("ns/ovn", first.clone(), at(3300)).expect("followed");
        assert_eq!((authorities(&first), authorities(&both)), (1, 2));
        assert!(
            both.authority["ca.crt"] == first.authority["ca.crt"],
            "not used yet"
        );
        let later = tend("ns/ovn", both.clone(), at(3303)).expect("used");
        assert!(later.authority["ca.crt"] == both.authority["next.crt"]);
        assert!(later.certificates["tls.crt"] != both.certificates["tls.crt"]);
        assert_eq!(
            authorities(&later),
            2,
            "certificates of the one before are still about"
        );
        assert!(tend("ns/ovn", later.clone(), at(3304)).expect("kept") == later);
    }
}
