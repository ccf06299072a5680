//! Takes signatures out of an entry before others read it: a signed URL lets its reader in until it ends.

use std::borrow::Cow;

const NAMES: &[&[u8]] = &[
    b"x-amz-signature",
    b"x-amz-security-token",
    b"signature",
    b"temp_url_sig",
];
const INSTEAD: &[u8] = b"REMOVED";

/// The entry with the values of such parameters replaced.
pub fn without_signatures(text: &[u8]) -> Cow<'_, [u8]> {
    let mut made: Option<Vec<u8>> = None;
    let mut copied = 0;
    for (equals, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'=') {
        if equals < copied || !is_secret(&text[..equals]) {
            continue;
        }
        let value = &text[equals + 1..];
        // The value of a parameter is encoded: it holds none of these.
        let end = value.iter().position(|byte| b"& \"\\".contains(byte));
        let made = made.get_or_insert_default();
        made.extend_from_slice(&text[copied..=equals]);
        made.extend_from_slice(INSTEAD);
        copied = equals + 1 + end.unwrap_or(value.len());
    }
    match made {
        None => Cow::Borrowed(text),
        Some(mut made) => {
            made.extend_from_slice(&text[copied..]);
            Cow::Owned(made)
        }
    }
}

/// A parameter of such a name ends here.
fn is_secret(before: &[u8]) -> bool {
    NAMES.iter().any(|name| {
        let Some(start) = before.len().checked_sub(name.len() + 1) else {
            return false;
        };
        b"?&".contains(&before[start]) && before[start + 1..].eq_ignore_ascii_case(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_go_and_the_rest_stays() {
        for (text, without) in [
            (r#"{"uri":"GET /b/k HTTP/1.1"}"#, r#"{"uri":"GET /b/k HTTP/1.1"}"#),
            (
                r#"{"uri":"GET /b?X-Amz-Signature=abc%2F&x=1 HTTP/1.1","a":"b=c"}"#,
                r#"{"uri":"GET /b?X-Amz-Signature=REMOVED&x=1 HTTP/1.1","a":"b=c"}"#,
            ),
            (
                r#""/v1/a?temp_url_sig=00ff&temp_url_expires=9""#,
                r#""/v1/a?temp_url_sig=REMOVED&temp_url_expires=9""#,
            ),
            ("?Signature=abc", "?Signature=REMOVED"),
            ("Signature=abc", "Signature=abc"),
            ("?nosignature=abc", "?nosignature=abc"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&without_signatures(text.as_bytes())),
                without
            );
        }
    }
}
