//! Names: which texts may be what, in Kubernetes' own words.
//!
//! Every validator answers with the reasons against a text; none means that it is valid.

mod object_meta;

pub use object_meta::{
    NameRule, validate_create, validate_field_manager, validate_managed_fields, validate_update,
};

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const NAME_PART: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_PART_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A lowercase DNS label: `my-name`.
pub fn dns1123_label(text: &str) -> Vec<String> {
    label_faults(text.as_bytes())
}

fn label_faults(text: &[u8]) -> Vec<String> {
    let mut faults = too_long(text, LABEL_MAX, "characters");
    if !is_dns_label(text) {
        faults.push(if is_subdomain(text) {
            "must not contain dots".to_string()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    faults
}

/// Lowercase DNS labels with dots between: `my.example.com`.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    subdomain_faults(text.as_bytes(), "characters")
}

fn subdomain_faults(text: &[u8], unit: &str) -> Vec<String> {
    let mut faults = too_long(text, SUBDOMAIN_MAX, unit);
    if !is_subdomain(text) {
        faults.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    faults
}

/// A DNS label that starts with a letter, as Services have it.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut faults = too_long(bytes, LABEL_MAX, "characters");
    if !(is_dns_label(bytes) && bytes[0].is_ascii_lowercase()) {
        faults.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// `*.example.com`
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut faults = too_long(text.as_bytes(), SUBDOMAIN_MAX, "characters");
    if !text
        .strip_prefix("*.")
        .is_some_and(|rest| is_subdomain(rest.as_bytes()))
    {
        faults.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    faults
}

/// The key of a label, and what follows its rule: `example.com/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_string());
            } else {
                let of_prefix = subdomain_faults(prefix.as_bytes(), "bytes");
                faults.extend(of_prefix.into_iter().map(|f| format!("prefix part {f}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern(NAME_PART_RULE, NAME_PART, &["MyName", "my.name", "123-abc"])
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_string());
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_name_part(name.as_bytes()) {
        faults.push(format!(
            "name part {}",
            pattern(NAME_PART_RULE, NAME_PART, &["MyName", "my.name", "123-abc"])
        ));
    }
    faults
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = too_long(text.as_bytes(), LABEL_MAX, "bytes");
    if !text.is_empty() && !is_name_part(text.as_bytes()) {
        faults.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({NAME_PART})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut faults = too_long(text.as_bytes(), SUBDOMAIN_MAX, "characters");
    if text.is_empty() || !text.bytes().all(is_name_byte) {
        faults.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    faults.extend(leads_upwards(text));
    faults
}

/// The name of an environment variable, in the strict form.
pub fn env_var_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let starts_well = text
        .bytes()
        .next()
        .is_some_and(|b| is_name_byte(b) && !b.is_ascii_digit());
    if !starts_well || !text.bytes().all(is_name_byte) {
        faults.push(pattern(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    faults.extend(leads_upwards(text));
    faults
}

/// The name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut faults = too_long(text.as_bytes(), PORT_NAME_MAX, "characters");
    if text.is_empty() || !text.bytes().all(is_label_byte) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_string());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_string());
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens".to_string());
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_string());
    }
    faults
}

/// `50%`
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![pattern(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A name that can stand in a URL path.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// The start of a name to which something will be added.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"]
        .into_iter()
        .filter(|c| text.contains(c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// A `generateName` for objects whose names are DNS labels.
pub fn dns1123_label_prefix(text: &str) -> Vec<String> {
    label_faults(&without_trailing_dash(text))
}

/// A `generateName` for objects whose names are DNS subdomains.
pub fn dns1123_subdomain_prefix(text: &str) -> Vec<String> {
    subdomain_faults(&without_trailing_dash(text), "characters")
}

/// A dash at the end is fine where a suffix follows. As in Kubernetes, the character before the
/// dash goes too.
fn without_trailing_dash(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.len() > 1 && bytes.ends_with(b"-") {
        bytes.truncate(bytes.len() - 2);
        bytes.push(b'a');
    }
    bytes
}

fn leads_upwards(text: &str) -> Option<String> {
    match text {
        "." => Some("must not be '.'".to_string()),
        ".." => Some("must not be '..'".to_string()),
        _ if text.starts_with("..") => Some("must not start with '..'".to_string()),
        _ => None,
    }
}

fn too_long(text: &[u8], max: usize, unit: &str) -> Vec<String> {
    if text.len() > max {
        vec![format!("must be no more than {max} {unit}")]
    } else {
        Vec::new()
    }
}

fn pattern(rule: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{regex}')",
        examples.join(" or ")
    )
}

fn is_label_byte(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn is_dns_label(text: &[u8]) -> bool {
    framed(text, is_label_byte)
}

fn is_name_part(text: &[u8]) -> bool {
    framed(text, is_name_byte)
}

fn is_subdomain(text: &[u8]) -> bool {
    text.split(|b| *b == b'.').all(is_dns_label)
}

/// Not empty, all bytes allowed, and alphanumeric at both ends.
fn framed(text: &[u8], allowed: impl Fn(u8) -> bool) -> bool {
    text.iter().all(|b| allowed(*b))
        && text.first().is_some_and(u8::is_ascii_alphanumeric)
        && text.last().is_some_and(u8::is_ascii_alphanumeric)
}
