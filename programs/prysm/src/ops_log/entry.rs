//! One request as RadosGW writes it down.

use std::borrow::Cow;

use serde::Deserialize;

/// What the metrics need of an entry; strings point into the log where they hold no escapes.
#[derive(Debug, Deserialize, PartialEq)]
pub struct Entry<'a> {
    #[serde(borrow, default)]
    pub bucket: Cow<'a, str>,
    #[serde(borrow, default)]
    pub remote_addr: Cow<'a, str>,
    #[serde(borrow, default)]
    pub user: Cow<'a, str>,
    /// Required, like the status: without them it is some other object.
    #[serde(borrow)]
    pub operation: Cow<'a, str>,
    #[serde(borrow, default)]
    pub uri: Cow<'a, str>,
    #[serde(borrow)]
    pub http_status: Cow<'a, str>,
    #[serde(default)]
    pub bytes_sent: u64,
    #[serde(default)]
    pub bytes_received: u64,
    /// Milliseconds.
    #[serde(default)]
    pub total_time: u64,
}

/// A tenant that nobody named.
pub(super) const NO_TENANT: &str = "none";
pub(super) const ANONYMOUS: &str = "anonymous";

impl Entry<'_> {
    /// RadosGW writes `tenant$user`, and the user alone where there is no tenant.
    pub fn tenant_and_user(&self) -> (&str, &str) {
        match self.user.split_once('$') {
            Some((tenant, user)) if !tenant.is_empty() => (tenant, user),
            Some((_, user)) => (NO_TENANT, user),
            None if self.user.is_empty() => (NO_TENANT, ANONYMOUS),
            None => (NO_TENANT, &self.user),
        }
    }

    pub fn is_anonymous(&self) -> bool {
        self.tenant_and_user().1 == ANONYMOUS
    }

    /// The method of the request line, `GET /bucket/key HTTP/1.1`.
    pub fn method(&self) -> &str {
        let word = self.uri.split(' ').next().unwrap_or_default();
        match word.len() {
            1..=7 if word.bytes().all(|byte| byte.is_ascii_uppercase()) => word,
            _ => "unknown",
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(self.http_status.as_bytes().first(), Some(b'4' | b'5')) && self.http_status.len() == 3
    }

    /// How a request timed out, if it did.
    pub fn timeout(&self) -> Option<&'static str> {
        match &*self.http_status {
            "408" => Some("request_timeout"),
            "499" => Some("client_closed"),
            "504" => Some("gateway_timeout"),
            "598" => Some("network_read_timeout"),
            _ => None,
        }
    }

    pub fn error_category(&self) -> Option<&'static str> {
        match (self.timeout(), &*self.http_status) {
            _ if !self.is_error() => None,
            (Some(_), _) => Some("timeout"),
            (None, "502" | "503") => Some("connection"),
            (None, status) if status.starts_with('4') => Some("client"),
            _ => Some("server"),
        }
    }

    /// Reads and listings, on which objectives for a bucket are set.
    pub fn objective(&self) -> Option<&'static str> {
        match &*self.operation {
            "get_obj" | "head_obj" => Some("get"),
            "list_bucket" | "list_buckets" | "get_bucket_info" => Some("list"),
            _ => None,
        }
    }

    pub fn status_class(&self) -> &'static str {
        match self.http_status.as_bytes() {
            [first, a, b] if a.is_ascii_digit() && b.is_ascii_digit() => match first {
                b'1' => "1xx",
                b'2' => "2xx",
                b'3' => "3xx",
                b'4' => "4xx",
                b'5' => "5xx",
                _ => "unknown",
            },
            _ => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(user: &'static str, uri: &'static str, status: &'static str) -> Entry<'static> {
        Entry {
            bucket: "b".into(),
            remote_addr: "10.0.0.1".into(),
            user: user.into(),
            operation: "get_obj".into(),
            uri: uri.into(),
            http_status: status.into(),
            bytes_sent: 0,
            bytes_received: 0,
            total_time: 0,
        }
    }

    #[test]
    fn the_tenant_stands_before_the_dollar() {
        let of = |user| {
            let entry = entry(user, "", "200");
            let (tenant, user) = entry.tenant_and_user();
            (tenant.to_owned(), user.to_owned())
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of("acme$ann"), pair("acme", "ann"));
        assert_eq!(of("acme$ann$x"), pair("acme", "ann$x"));
        assert_eq!(of("$ann"), pair("none", "ann"));
        assert_eq!(of("ann"), pair("none", "ann"));
        assert_eq!(of(""), pair("none", "anonymous"));
    }

    #[test]
    fn a_method_is_a_word_in_capitals() {
        for (uri, method) in [
            ("GET /b/k HTTP/1.1", "GET"),
            ("DELETE /b", "DELETE"),
            ("", "unknown"),
            ("/b/k", "unknown"),
            ("get /b", "unknown"),
            ("AVERYLONGWORD /b", "unknown"),
        ] {
            assert_eq!(entry("", uri, "200").method(), method, "{uri}");
        }
    }

    #[test]
    fn errors_have_one_category() {
        for (status, category) in [
            ("200", None),
            ("304", None),
            ("404", Some("client")),
            ("408", Some("timeout")),
            ("499", Some("timeout")),
            ("500", Some("server")),
            ("503", Some("connection")),
            ("504", Some("timeout")),
            ("5", None),
            ("", None),
        ] {
            assert_eq!(entry("", "", status).error_category(), category, "{status}");
        }
    }
}
