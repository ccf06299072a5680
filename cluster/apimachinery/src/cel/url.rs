//! URLs as rules read them.

use crate::schema::is_request_uri;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub text: String,
    pub scheme: String,
    /// With the port.
    pub host: String,
    pub escaped_path: String,
    raw_query: String,
}

impl Url {
    /// An absolute URI or an absolute path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !is_request_uri(text) {
            let shown = crate::field::text::quote(text);
            return Err(match text {
                "" => format!("parse {shown}: empty url"),
                _ => format!("parse {shown}: invalid URI for request"),
            });
        }
        let colon = text.find(':').filter(|at| {
            let scheme = &text[..*at];
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        });
        let (scheme, rest) = match colon {
            Some(at) => (text[..at].to_lowercase(), &text[at + 1..]),
            None => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            text: text.to_owned(),
            scheme,
            host: String::new(),
            escaped_path: String::new(),
            raw_query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            // Opaque, such as `mailto:a`: there is no host and no path.
            return Ok(url);
        }
        let path = match rest.strip_prefix("//") {
            Some(after) if !url.scheme.is_empty() => {
                let end = after.find('/').unwrap_or(after.len());
                let authority = &after[..end];
                url.host = authority
                    .rsplit_once('@')
                    .map_or(authority, |(_, host)| host)
                    .to_owned();
                &after[end..]
            }
            _ => rest,
        };
        url.escaped_path = escape_path(path);
        Ok(url)
    }

    pub(super) fn hostname(&self) -> &str {
        let host = match self.host.rfind(':') {
            Some(at) if !self.host[at..].contains(']') => &self.host[..at],
            _ => &self.host,
        };
        host.strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(host)
    }

    pub(super) fn port(&self) -> &str {
        match self.host.rfind(':') {
            Some(at) if !self.host[at..].contains(']') => &self.host[at + 1..],
            _ => "",
        }
    }

    /// Keys and values of the query, decoded.
    pub(super) fn query(&self) -> Vec<(String, String)> {
        self.raw_query
            .split('&')
            .filter(|part| !part.is_empty() && !part.contains(';'))
            .filter_map(|part| {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                Some((unescape(key)?, unescape(value)?))
            })
            .collect()
    }
}

/// The path with what must be escaped escaped; what is escaped already stays.
fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let bytes = path.as_bytes();
    for (i, b) in bytes.iter().enumerate() {
        let escaped = *b == b'%'
            && bytes
                .get(i + 1..i + 3)
                .is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit));
        if escaped || b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]".contains(b) {
            out.push(char::from(*b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let hex = std::str::from_utf8(bytes.get(i + 1..i + 3)?).ok()?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                i += 3;
                continue;
            }
            b'+' => out.push(b' '),
            b => out.push(b),
        }
        i += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
