//! URIs as Go's `url.ParseRequestURI` reads them.

/// Whether a text is an absolute URI or an absolute path.
pub fn is_request_uri(s: &str) -> bool {
    if s.is_empty() || s.bytes().any(|b| b < b' ' || b == 0x7f) {
        return false;
    }
    if s == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(s) else {
        return false;
    };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() => {
            let end = after.find('/').unwrap_or(after.len());
            if !is_authority(&after[..end]) {
                return false;
            }
            &after[end..]
        }
        _ => rest,
    };
    escapes_are_valid(path)
}

/// The scheme (empty if there is none) and the rest; `None` for a text such as `:a`.
fn split_scheme(s: &str) -> Option<(&str, &str)> {
    for (i, b) in s.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return None,
            b':' => return Some((&s[..i], &s[i + 1..])),
            _ => break,
        }
    }
    Some(("", s))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = match authority.rfind('@') {
        Some(at) => (&authority[..at], &authority[at + 1..]),
        None => ("", authority),
    };
    let user_fine = user
        .bytes()
        .all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9') || b"-._:~!$&'()*+,;=%@".contains(&b));
    user_fine && escapes_are_valid(user) && is_host(host)
}

fn is_host(host: &str) -> bool {
    let port = if host.starts_with('[') {
        match host.rfind(']') {
            Some(end) => &host[end + 1..],
            None => return false,
        }
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let port_fine = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    port_fine && host_characters_are_valid(host)
}

fn host_characters_are_valid(host: &str) -> bool {
    let bytes = host.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let Some(hex) = bytes.get(i + 1..i + 3) else {
                    return false;
                };
                if !hex.iter().all(u8::is_ascii_hexdigit) {
                    return false;
                }
                // Only non-ASCII bytes (and a zone's `%25`) may be escaped in a host.
                if hex[0] < b'8' && hex != b"25" {
                    return false;
                }
                i += 3;
                continue;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | 0x80.. => {}
            b if b"-_.~!$&'()*+,;=:[]<>\"".contains(&b) => {}
            _ => return false,
        }
        i += 1;
    }
    true
}

fn escapes_are_valid(s: &str) -> bool {
    let bytes = s.as_bytes();
    bytes.iter().enumerate().all(|(i, b)| {
        *b != b'%'
            || bytes
                .get(i + 1..i + 3)
                .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    })
}
