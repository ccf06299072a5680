//! AWS' fourth signature, for requests without a body.

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What AWS leaves as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// One key of S3.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub access: String,
    pub secret: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Key").finish_non_exhaustive()
    }
}

/// What is signed, and where it goes.
#[derive(Debug)]
pub(super) struct Signed {
    /// Path and query as they stand in the request.
    pub target: String,
    pub headers: [(&'static str, String); 3],
}

/// A GET of `path` with these parameters.
pub(super) fn get(key: &Key, host: &str, path: &str, query: &[(&str, &str)], now: Timestamp) -> Signed {
    let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = now.strftime("%Y%m%d").to_string();
    let path: Vec<String> = path.split('/').map(encoded).collect();
    let path = path.join("/");
    let mut pairs: Vec<(String, String)> = query
        .iter()
        .map(|(name, value)| (encoded(name), encoded(value)))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let query = pairs.join("&");
    let names = "host;x-amz-content-sha256;x-amz-date";
    let canonical = format!(
        "GET\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{EMPTY}\nx-amz-date:{stamp}\n\n{names}\n{EMPTY}"
    );
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let hashed = hex::encode(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}");
    let mut signing = format!("AWS4{}", key.secret).into_bytes();
    for part in scope.split('/') {
        signing = mac(&signing, part);
    }
    let signature = hex::encode(mac(&signing, &text));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        key.access
    );
    let target = if query.is_empty() {
        path
    } else {
        format!("{path}?{query}")
    };
    Signed {
        target,
        headers: [
            ("x-amz-content-sha256", EMPTY.to_owned()),
            ("x-amz-date", stamp),
            ("authorization", authorization),
        ],
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of AWS' own documentation.
    #[test]
    fn signatures_are_those_that_aws_publishes() {
        let key = Key {
            access: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        };
        let now: Timestamp = "2013-05-24T00:00:00Z".parse().expect("a time");
        for (query, signature) in [
            (
                &[("lifecycle", "")][..],
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                &[("prefix", "J"), ("max-keys", "2")],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let signed = get(&key, "examplebucket.s3.amazonaws.com", "/", query, now);
            let [.., (_, authorization)] = &signed.headers;
            assert!(authorization.ends_with(signature), "{authorization}");
        }
        assert!(!format!("{key:?}").contains("wJalr"));
    }

    #[test]
    fn what_is_sent_is_what_was_signed() {
        let key = Key {
            access: "a".to_owned(),
            secret: "s".to_owned(),
        };
        let signed = get(
            &key,
            "h",
            "/admin/user",
            &[("uid", "acme$ann b"), ("stats", "true")],
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(signed.target, "/admin/user?stats=true&uid=acme%24ann%20b");
    }
}
