//! The string and number formats that Kubernetes checks in custom resources.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use super::time;

/// A format that is checked; other formats are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Int32,
    Int64,
    Float,
    Double,
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    K8sShortName,
    K8sLongName,
}

impl Format {
    /// The format of a string by its name; dashes do not count.
    pub fn of_string(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::K8sShortName,
            "k8slongname" => Self::K8sLongName,
            _ => return None,
        })
    }

    pub(super) fn of_schema(type_: &str, int_or_string: bool, format: &str) -> Option<Self> {
        if format.is_empty() {
            return None;
        }
        match type_ {
            _ if int_or_string => Self::of_string(format),
            "" | "string" => Self::of_string(format),
            "integer" if format == "int32" => Some(Self::Int32),
            "integer" if format == "int64" => Some(Self::Int64),
            "number" if format == "float" => Some(Self::Float),
            "number" if format == "double" => Some(Self::Double),
            _ => None,
        }
    }

    /// Whether a string has this format.
    pub fn accepts(self, s: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double | Self::Password => true,
            Self::BsonObjectId => s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => super::uri::is_request_uri(s),
            Self::Email => super::email::is_address(s),
            Self::Hostname => is_hostname(s),
            Self::Ipv4 => s.contains('.') && parse_ip_sloppy(s).is_some(),
            Self::Ipv6 => s.contains(':') && s.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(s),
            Self::Mac => is_mac(s),
            Self::Uuid => UUID.is_match(s),
            Self::Uuid3 => UUID3.is_match(s),
            Self::Uuid4 => UUID4.is_match(s),
            Self::Uuid5 => UUID5.is_match(s),
            Self::Isbn => is_isbn10(s) || is_isbn13(s),
            Self::Isbn10 => is_isbn10(s),
            Self::Isbn13 => is_isbn13(s),
            Self::CreditCard => is_credit_card(s),
            Self::Ssn => s.len() == 11 && SSN.is_match(s),
            Self::HexColor => HEX_COLOR.is_match(s),
            Self::RgbColor => RGB_COLOR.is_match(s),
            Self::Byte => BASE64.is_match(s),
            Self::Date => time::parse_date(s).is_some(),
            Self::Duration => time::parse_format_duration(s).is_some(),
            Self::DateTime => time::is_date_time(s),
            Self::K8sShortName => s.len() <= 63 && SHORT_NAME.is_match(s),
            Self::K8sLongName => s.len() <= 253 && LONG_NAME.is_match(s),
        }
    }
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("a constant pattern compiles"));)*
    };
}

patterns! {
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    ISBN10 = r"^(?:[0-9]{9}X|[0-9]{10})$";
    ISBN13 = r"^(?:[0-9]{13})$";
    CREDIT_CARD = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
    SSN = r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\([\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*\)$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    SHORT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    LONG_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
}

fn is_hostname(s: &str) -> bool {
    s.len() <= 255 && s.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(s)
}

fn is_isbn10(s: &str) -> bool {
    let digits: Vec<u8> = without_separators(s);
    if !std::str::from_utf8(&digits).is_ok_and(|d| ISBN10.is_match(d)) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .zip(1..)
        .map(|(d, weight)| weight * if *d == b'X' { 10 } else { u32::from(d - b'0') })
        .sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(s: &str) -> bool {
    let digits = without_separators(s);
    if !std::str::from_utf8(&digits).is_ok_and(|d| ISBN13.is_match(d)) {
        return false;
    }
    let sum: u32 = digits[..12]
        .iter()
        .zip([1, 3].into_iter().cycle())
        .map(|(d, weight)| weight * u32::from(d - b'0'))
        .sum();
    u32::from(digits[12] - b'0') == (10 - sum % 10) % 10
}

fn without_separators(s: &str) -> Vec<u8> {
    s.bytes()
        .filter(|b| !matches!(b, b'-' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c))
        .collect()
}

fn is_credit_card(s: &str) -> bool {
    let digits: String = s.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, d)| {
            let d = u32::from(d - b'0');
            match i % 2 {
                0 => d,
                _ if d >= 5 => 2 * d - 9,
                _ => 2 * d,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// An address as old Go versions read it: octets may have leading zeros.
fn parse_ip_sloppy(s: &str) -> Option<bool> {
    if s.contains(':') {
        return s.parse::<Ipv6Addr>().ok().map(|_| false);
    }
    let octets: Vec<&str> = s.split('.').collect();
    let fine = octets.len() == 4
        && octets.iter().all(|o| {
            let significant = o.trim_start_matches('0');
            !o.is_empty()
                && o.bytes().all(|b| b.is_ascii_digit())
                && significant.len() <= 3
                && significant.parse::<u32>().unwrap_or(0) <= 255
        });
    fine.then_some(true)
}

fn is_cidr(s: &str) -> bool {
    let Some((address, length)) = s.split_once('/') else {
        return false;
    };
    let Some(v4) = parse_ip_sloppy(address) else {
        return false;
    };
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    digits
        && length
            .parse::<u32>()
            .is_ok_and(|n| n <= if v4 { 32 } else { 128 })
}

fn is_mac(s: &str) -> bool {
    let hex = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let bytes = s.as_bytes();
    match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => {
            let parts: Vec<&str> = s.split(char::from(*separator)).collect();
            [6, 8, 20].contains(&parts.len()) && parts.iter().all(|p| hex(p, 2))
        }
        (_, Some(b'.')) => {
            let parts: Vec<&str> = s.split('.').collect();
            [3, 4, 10].contains(&parts.len()) && parts.iter().all(|p| hex(p, 4))
        }
        _ => [12, 16, 40].contains(&s.len()) && hex(s, s.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let cases = [
            ("ipv4", "01.2.3.4", true),
            ("ipv4", "1.2.3.256", false),
            ("ipv6", "::1", true),
            ("ipv6", "1.2.3.4", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("byte", "", false),
            ("byte", "YQ==", true),
            ("hostname", "1.2.3.4", false),
            ("hostname", "a.example.com", true),
            ("hostname", "", false),
            ("email", "A B <a@b.co>", true),
            ("email", "a@", false),
            ("duration", "P1D", true),
            ("duration", "1 day", true),
            ("duration", "x", false),
            ("uri", "", false),
            ("uri", "http://a/b?c", true),
            ("uri", "a/b", false),
            ("date-time", "2024-01-01T00:00:00Z", true),
            ("isbn", "978-0321751041", true),
            ("isbn10", "0321751043", true),
            ("creditcard", "4111 1111 1111 1111", true),
            ("mac", "01:02:03:04:05:06", true),
            ("mac", "0102.0304.0506", true),
            ("mac", "010203040506", true),
            ("mac", "01:02:03", false),
        ];
        for (format, text, want) in cases {
            let format = Format::of_string(format).expect("known");
            assert_eq!(format.accepts(text), want, "{format:?} {text:?}");
        }
    }
}
