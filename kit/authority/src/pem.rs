//! Keys and certificates as PEM: made, and read back.

use std::net::IpAddr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

use crate::{Data, Holder};

const AUTHORITY_DAYS: i64 = 3650;
const CERTIFICATE_DAYS: i64 = 365;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Certificate and key.
type Pair = (String, String);

pub(crate) fn put(data: &mut Data, name: &str, (certificate, key): Pair) {
    data.insert(format!("{name}.crt"), ByteString(certificate.into_bytes()));
    data.insert(format!("{name}.key"), ByteString(key.into_bytes()));
}

pub(crate) fn key(data: &Data, name: &str) -> Option<KeyPair> {
    let pem = String::from_utf8(data.get(&format!("{name}.key"))?.0.clone()).ok()?;
    KeyPair::from_pem(&pem).ok()
}

fn read<T>(data: &Data, key: &str, of: impl FnOnce(&X509Certificate<'_>) -> Option<T>) -> Option<T> {
    let (_, pem) = parse_x509_pem(&data.get(key)?.0).ok()?;
    of(&pem.parse_x509().ok()?)
}

fn validity(data: &Data, key: &str) -> Option<(Timestamp, Timestamp)> {
    read(data, key, |certificate| {
        let validity = certificate.validity();
        let time = |seconds| Timestamp::from_second(seconds).ok();
        let (from, to) = (&validity.not_before, &validity.not_after);
        Some((time(from.timestamp())?, time(to.timestamp())?))
    })
}

pub(crate) fn left(data: &Data, key: &str, now: Timestamp) -> Option<SignedDuration> {
    validity(data, key).map(|(_, to)| to.duration_since(now))
}

pub(crate) fn age(data: &Data, key: &str, now: Timestamp) -> Option<SignedDuration> {
    // Certificates are made a day old: clocks differ.
    validity(data, key).map(|(from, _)| now.duration_since(from) - DAY)
}

/// Whether it is called what the holder is called now.
pub(crate) fn is_for(data: &Data, key: &str, holder: &Holder) -> bool {
    let called = read(data, key, |certificate| {
        let names = certificate.subject_alternative_name().ok()??;
        let (mut dns, mut addresses) = (Vec::new(), Vec::new());
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.push(address(bytes)?),
                _ => return None,
            }
        }
        Some((dns, addresses))
    });
    called.is_some_and(|(dns, addresses)| dns == holder.names && addresses == holder.addresses)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
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

fn authority_params(title: &str, now: Timestamp) -> CertificateParams {
    let mut params = params(title, AUTHORITY_DAYS, now);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

pub(crate) fn make_authority(title: &str, now: Timestamp) -> Result<Pair, Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(title, now).self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

pub(crate) fn make_certificate(
    title: &str,
    authority: &Data,
    holder: &Holder,
    now: Timestamp,
) -> Result<Pair, Error> {
    let issuer_key = key(authority, "ca").ok_or(Error::CouldNotParseKeyPair)?;
    let issuer = Issuer::new(authority_params(title, now), issuer_key);
    let key = KeyPair::generate()?;
    let mut params = params(&holder.common_name, CERTIFICATE_DAYS, now);
    if let Some(organization) = &holder.organization {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization.as_str());
    }
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    for name in &holder.names {
        params
            .subject_alt_names
            .push(SanType::DnsName(name.as_str().try_into()?));
    }
    let addresses = holder.addresses.iter().copied().map(SanType::IpAddress);
    params.subject_alt_names.extend(addresses);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
