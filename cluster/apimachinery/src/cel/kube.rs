//! Types and functions that Kubernetes adds: quantities, addresses, URLs, versions, formats.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::library::FORMATS;
use super::value::{Fault, Key, Result, Value};
use crate::names;
use crate::quantity::{Format as QuantityFormat, Quantity};
use crate::schema::formats::Format;

pub(super) use super::semver::Semver;
pub(super) use super::url::Url;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Result<'a> {
    match args {
        [Value::String(s)] => of_text(function, s),
        [Value::String(s), Value::Bool(normalize)] => match function {
            "semver" => Semver::parse(s, *normalize)
                .map(|v| Value::Semver(Rc::new(v)))
                .map_err(Fault::new),
            "isSemver" => Ok(Value::Bool(Semver::parse(s, *normalize).is_ok())),
            _ => Err(Fault::no_such_overload()),
        },
        [Value::Quantity(q), rest @ ..] => quantity(function, q, rest),
        [Value::Ip(ip)] => address(function, ip),
        [Value::Cidr(ip, bits), rest @ ..] => network(function, *ip, *bits, rest),
        [Value::Url(url)] => url_part(function, url),
        [Value::Semver(v), rest @ ..] => version(function, v, rest),
        [Value::Format(name), Value::String(s)] if function == "validate" => {
            let faults = validate(name, s);
            Ok(if faults.is_empty() {
                Value::Optional(None)
            } else {
                Value::some(Value::list(faults.into_iter().map(Value::string).collect()))
            })
        }
        [] => match function.strip_prefix("format.").and_then(named) {
            Some(name) => Ok(Value::Format(name)),
            None => Err(Fault::no_such_overload()),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn named(name: &str) -> Option<&'static str> {
    FORMATS.into_iter().find(|f| *f == name)
}

fn of_text<'a>(function: &str, s: &str) -> Result<'a> {
    let is = |yes: bool| Ok(Value::Bool(yes));
    match function {
        "quantity" => Quantity::parse(s)
            .map(|q| Value::Quantity(Rc::new(q)))
            .map_err(|e| Fault::new(e.to_string())),
        "isQuantity" => is(Quantity::parse(s).is_ok()),
        "ip" => parse_ip(s).map(Value::Ip).map_err(Fault::new),
        "isIP" => is(parse_ip(s).is_ok()),
        "ip.isCanonical" => {
            let ip = parse_ip(s).map_err(Fault::new)?;
            is(ip.to_string() == s)
        }
        "cidr" => parse_cidr(s)
            .map(|(ip, bits)| Value::Cidr(ip, bits))
            .map_err(|e| {
                Fault::new(format!(
                    "network address parse error during conversion from string: {e}"
                ))
            }),
        "isCIDR" => is(parse_cidr(s).is_ok()),
        "url" => Url::parse(s)
            .map(|u| Value::Url(Rc::new(u)))
            .map_err(|e| Fault::new(format!("URL parse error during conversion from string: {e}"))),
        "isURL" => is(Url::parse(s).is_ok()),
        "semver" => Semver::parse(s, false)
            .map(|v| Value::Semver(Rc::new(v)))
            .map_err(Fault::new),
        "isSemver" => is(Semver::parse(s, false).is_ok()),
        "format.named" => Ok(named(s).map_or(Value::Optional(None), |n| Value::some(Value::Format(n)))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn quantity<'a>(function: &str, q: &Quantity, rest: &[Value<'a>]) -> Result<'a> {
    let new = |q: Quantity| Ok(Value::Quantity(Rc::new(q)));
    let integer = |i: i64| Quantity::new(i, QuantityFormat::DecimalSi);
    match (function, rest) {
        ("sign", []) => Ok(Value::Int(i64::from(q.sign()))),
        ("isGreaterThan", [Value::Quantity(o)]) => Ok(Value::Bool(q.cmp(o) == Ordering::Greater)),
        ("isLessThan", [Value::Quantity(o)]) => Ok(Value::Bool(q.cmp(o) == Ordering::Less)),
        ("compareTo", [Value::Quantity(o)]) => Ok(Value::Int(q.cmp(o) as i64)),
        ("asApproximateFloat", []) => Ok(Value::Double(q.as_f64())),
        ("asInteger", []) => match q.as_i64() {
            Some(i) => Ok(Value::Int(i)),
            None => Err(Fault::new("cannot convert value to integer")),
        },
        ("isInteger", []) => Ok(Value::Bool(q.as_i64().is_some())),
        ("add", [Value::Quantity(o)]) => new(q.plus(o)),
        ("add", [Value::Int(i)]) => new(q.plus(&integer(*i))),
        ("sub", [Value::Quantity(o)]) => new(q.minus(o)),
        ("sub", [Value::Int(i)]) => new(q.minus(&integer(*i))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn parse_ip(s: &str) -> std::result::Result<IpAddr, String> {
    if let Some((_, zone)) = s.split_once('%')
        && !zone.is_empty()
    {
        return Err(format!("IP address \"{s}\" with zone value is not allowed"));
    }
    let ip: IpAddr = s.parse().map_err(|_| {
        let why = address_fault(s);
        format!("IP Address \"{s}\" parse error during conversion from string: ParseAddr(\"{s}\"): {why}")
    })?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address \"{s}\" is not allowed"))
        }
        ip => Ok(ip),
    }
}

/// Go's words for a text that is not an address.
fn address_fault(s: &str) -> String {
    let at = |why: &str, i: usize| format!("{why} (at \"{}\")", &s[i..]);
    match s.find(['.', ':', '%']).map(|i| s.as_bytes()[i]) {
        None => "unable to parse IP".to_owned(),
        Some(b'%') => "missing IPv6 address".to_owned(),
        Some(b':') => match s.find(|c: char| !c.is_ascii_hexdigit() && c != ':') {
            Some(i) if i == 0 || s[..i].ends_with(':') => {
                at("each colon-separated field must have at least one digit", i)
            }
            Some(i) => at("unexpected character, want colon", i),
            None => "address string too short".to_owned(),
        },
        Some(_) => {
            let (mut fields, mut value, mut digits) = (0, 0_u32, 0);
            for (i, c) in s.char_indices() {
                match c {
                    '0'..='9' => {
                        if digits == 1 && value == 0 {
                            return "IPv4 field has octet with leading zero".to_owned();
                        }
                        value = value * 10 + (c as u32 - '0' as u32);
                        digits += 1;
                        if value > 255 {
                            return "IPv4 field has value >255".to_owned();
                        }
                    }
                    '.' if digits == 0 || i + 1 == s.len() => {
                        return at("IPv4 field must have at least one digit", i);
                    }
                    '.' if fields == 3 => return "IPv4 address too long".to_owned(),
                    '.' => {
                        fields += 1;
                        (value, digits) = (0, 0);
                    }
                    _ => return at("unexpected character", i),
                }
            }
            "IPv4 address too short".to_owned()
        }
    }
}

fn parse_cidr(s: &str) -> std::result::Result<(IpAddr, u8), String> {
    let bad = |why: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix(\"{s}\"): {why}"
        )
    };
    let (address, length) = s.rsplit_once('/').ok_or_else(|| bad("no '/'"))?;
    let ip: IpAddr = address
        .parse()
        .map_err(|_| bad(&format!("ParseAddr(\"{address}\"): {}", address_fault(address))))?;
    if let IpAddr::V6(v6) = ip
        && v6.to_ipv4_mapped().is_some()
    {
        return Err(format!("IPv4-mapped IPv6 address \"{s}\" is not allowed"));
    }
    let canonical = !length.is_empty()
        && length.bytes().all(|b| b.is_ascii_digit())
        && (length == "0" || !length.starts_with('0'));
    if !canonical {
        return Err(bad(&format!("bad bits after slash: \"{length}\"")));
    }
    let most = if ip.is_ipv4() { 32 } else { 128 };
    match length.parse::<u8>() {
        Ok(bits) if bits <= most => Ok((ip, bits)),
        _ => Err(bad("prefix length out of range")),
    }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

fn within(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    network.is_ipv4() == ip.is_ipv4() && masked(network, bits) == masked(ip, bits)
}

fn address<'a>(function: &str, ip: &IpAddr) -> Result<'a> {
    let is = |yes: bool| Ok(Value::Bool(yes));
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    match function {
        "family" => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => is(ip.is_unspecified()),
        "isLoopback" => is(ip.is_loopback()),
        "isLinkLocalMulticast" => is(match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }),
        "isLinkLocalUnicast" => is(link_local),
        "isGlobalUnicast" => {
            let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
            is(!ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !link_local && !broadcast)
        }
        "string" => Ok(Value::string(ip.to_string())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn network<'a>(function: &str, ip: IpAddr, bits: u8, rest: &[Value<'a>]) -> Result<'a> {
    let contains =
        |other: IpAddr, other_bits: u8| Ok(Value::Bool(bits <= other_bits && within(ip, bits, other)));
    match (function, rest) {
        ("ip", []) => Ok(Value::Ip(ip)),
        ("prefixLength", []) => Ok(Value::Int(i64::from(bits))),
        ("masked", []) => Ok(Value::Cidr(masked(ip, bits), bits)),
        ("containsIP", [Value::Ip(other)]) => Ok(Value::Bool(within(ip, bits, *other))),
        ("containsIP", [Value::String(s)]) => {
            let other = parse_ip(s).map_err(Fault::new)?;
            Ok(Value::Bool(within(ip, bits, other)))
        }
        ("containsCIDR", [Value::Cidr(other, other_bits)]) => contains(*other, *other_bits),
        ("containsCIDR", [Value::String(s)]) => {
            let (other, other_bits) = parse_cidr(s).map_err(|e| {
                Fault::new(format!(
                    "network address parse error during conversion from string: {e}"
                ))
            })?;
            contains(other, other_bits)
        }
        ("string", []) => Ok(Value::string(format!("{ip}/{bits}"))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn url_part<'a>(function: &str, url: &Url) -> Result<'a> {
    let text = |s: &str| Ok(Value::string(s));
    match function {
        "getScheme" => text(&url.scheme),
        "getHost" => text(&url.host),
        "getHostname" => text(url.hostname()),
        "getPort" => text(url.port()),
        "getEscapedPath" => text(&url.escaped_path),
        "getQuery" => {
            let mut query: BTreeMap<Key, Value<'a>> = BTreeMap::new();
            let mut parts: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
            for (key, value) in url.query() {
                parts.entry(key).or_default().push(Value::string(value));
            }
            for (key, values) in parts {
                query.insert(Key::String(key.into()), Value::list(values));
            }
            Ok(Value::Map(Rc::new(query)))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn version<'a>(function: &str, v: &Semver, rest: &[Value<'a>]) -> Result<'a> {
    let number = |n: u64| Ok(Value::Int(n as i64));
    match (function, rest) {
        ("major", []) => number(v.major),
        ("minor", []) => number(v.minor),
        ("patch", []) => number(v.patch),
        ("isGreaterThan", [Value::Semver(o)]) => Ok(Value::Bool(v.compare(o) == Ordering::Greater)),
        ("isLessThan", [Value::Semver(o)]) => Ok(Value::Bool(v.compare(o) == Ordering::Less)),
        ("compareTo", [Value::Semver(o)]) => Ok(Value::Int(v.compare(o) as i64)),
        _ => Err(Fault::no_such_overload()),
    }
}

/// Faults of a text in one of the named formats.
fn validate(format: &str, s: &str) -> Vec<String> {
    let of_schema = |format: Format, fault: &str| {
        if format.accepts(s) {
            Vec::new()
        } else {
            vec![fault.to_owned()]
        }
    };
    // A prefix may end in a dash: something follows it.
    let prefix = || match s.strip_suffix('-') {
        Some(start) if !start.is_empty() => format!("{start}a"),
        _ => s.to_owned(),
    };
    match format {
        "dns1123Label" => names::dns1123_label(s),
        "dns1123Subdomain" => names::dns1123_subdomain(s),
        "dns1035Label" => names::dns1035_label(s),
        "qualifiedName" => names::qualified_name(s),
        "dns1123LabelPrefix" => names::dns1123_label(&prefix()),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&prefix()),
        "dns1035LabelPrefix" => names::dns1035_label(&prefix()),
        "labelValue" => names::label_value(s),
        "uri" if Format::Uri.accepts(s) => Vec::new(),
        "uri" => vec![format!(
            "parse {}: invalid URI for request",
            crate::field::text::quote(s)
        )],
        "uuid" => of_schema(Format::Uuid, "does not match the UUID format"),
        "byte" => of_schema(Format::Byte, "invalid base64"),
        "date" => of_schema(Format::Date, "invalid date"),
        _ => of_schema(Format::DateTime, "invalid datetime"),
    }
}
