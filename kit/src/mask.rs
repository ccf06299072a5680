//! Masks secrets in the output of programs, for logs, conditions, events and errors.

use std::collections::{BTreeSet, HashSet};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Programs quote a part of what they complain about: pieces of this length are hidden too, where
/// that is asked for.
const PIECE: usize = 6;
/// Shortest rest of a secret that is hidden where a text was cut.
const REST: usize = 6;

/// Hides secrets in any form in which a program may repeat them. To be asked before a text is cut;
/// of one that others have cut, what is left of a secret at its ends is hidden too.
#[derive(Clone, Default)]
pub struct Mask {
    /// The longest first: one may be part of another.
    forms: Vec<Vec<char>>,
    pieces: bool,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mask of {} forms", self.forms.len())
    }
}

impl Mask {
    pub fn of<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let forms: BTreeSet<String> = secrets
            .into_iter()
            .flat_map(|secret| forms(secret.as_ref()))
            .filter(|form| !form.is_empty())
            .collect();
        let mut forms: Vec<Vec<char>> = forms.iter().map(|form| form.chars().collect()).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Mask { forms, pieces: false }
    }

    /// Hides parts of the secrets as well. Only for random passwords: parts of addresses and settings
    /// are common words.
    #[must_use]
    pub fn in_pieces(mut self) -> Self {
        self.pieces = true;
        self
    }

    pub fn hide(&self, said: &str) -> String {
        let said: Vec<char> = said.chars().collect();
        let mut hidden = vec![false; said.len()];
        for form in &self.forms {
            let length = if self.pieces {
                form.len().min(PIECE)
            } else {
                form.len()
            };
            let pieces: HashSet<&[char]> = if length < form.len() {
                form.windows(length).collect()
            } else {
                HashSet::new()
            };
            for (at, window) in said.windows(length).enumerate() {
                if window == form || pieces.contains(window) {
                    hidden[at..at + length].fill(true);
                }
            }
            let longest = (form.len() - 1).min(said.len());
            let rests = || (REST..=longest).rev();
            if let Some(rest) = rests().find(|n| said[..*n] == form[form.len() - n..]) {
                hidden[..rest].fill(true);
            }
            if let Some(rest) = rests().find(|n| said[said.len() - n..] == form[..*n]) {
                hidden[said.len() - rest..].fill(true);
            }
        }
        let mut text = String::new();
        for (at, c) in said.iter().enumerate() {
            match (hidden[at], at > 0 && hidden[at - 1]) {
                (false, _) => text.push(*c),
                (true, false) => text.push_str("***"),
                (true, true) => {}
            }
        }
        text
    }
}

/// As it is, as SQL, JSON, Erlang and Python write it, in URLs, as Base64 and hexadecimal, and in the
/// bytes that `erl_call` shows.
fn forms(secret: &str) -> Vec<String> {
    let inner = |quoted: String| {
        let end = quoted.len().saturating_sub(1);
        quoted.get(1..end).unwrap_or_default().to_owned()
    };
    let json = inner(serde_json::Value::from(secret).to_string());
    let twice = inner(serde_json::Value::from(json.as_str()).to_string());
    let bytes: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
    let hex = hex::encode(secret);
    let mut all = vec![
        secret.to_owned(),
        secret.replace('\\', "\\\\").replace('\'', "''"),
        json.clone(),
        twice,
        repr(secret, '\'', false),
        repr(secret, '"', false),
        repr(secret, '\'', true),
        repr(secret, '"', true),
        url(secret, false),
        url(secret, true),
        url(secret, false).replace("%20", "+"),
        bytes.join(","),
        bytes.join(", "),
        ascii(&json),
        hex.to_uppercase(),
        hex,
    ];
    all.extend(base64(secret));
    all
}

/// With numbers for what is beyond ASCII, as Python writes JSON.
fn ascii(json: &str) -> String {
    let one = |c: char| {
        let mut buffer = [0; 2];
        let units = c.encode_utf16(&mut buffer).iter();
        if c.is_ascii() {
            c.to_string()
        } else {
            units.map(|unit| format!("\\u{unit:04x}")).collect()
        }
    };
    json.chars().map(one).collect()
}

/// Percent-encoded as in an address.
fn url(secret: &str, lower: bool) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match (plain(byte), lower) {
        (true, _) => char::from(byte).to_string(),
        (false, true) => format!("%{byte:02x}"),
        (false, false) => format!("%{byte:02X}"),
    };
    secret.bytes().map(one).collect()
}

/// Inside the quotes of Python's `repr`, of text or of bytes.
fn repr(secret: &str, quote: char, bytes: bool) -> String {
    let one = |c: char| match c {
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c == quote => format!("\\{c}"),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c if bytes && !c.is_ascii() => {
            let mut buffer = [0; 4];
            let encoded = c.encode_utf8(&mut buffer).bytes();
            encoded.map(|byte| format!("\\x{byte:02x}")).collect()
        }
        c => c.to_string(),
    };
    secret.chars().map(one).collect()
}

/// Alone, and after one or two other bytes: as in `user:password` of a header. Without the characters
/// at the ends that depend on what stands beside the secret.
fn base64(secret: &str) -> Vec<String> {
    let mut all = Vec::new();
    for before in 0..3 {
        let bytes = [vec![0; before], secret.as_bytes().to_vec()].concat();
        let whole = bytes.len() % 3 == 0;
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let from = [0, 2, 3][before];
            let to = text.len() - usize::from(!whole);
            let inner = text.get(from..to).unwrap_or_default();
            // A short rest is a part of too many words.
            if inner.len() >= REST {
                all.push(inner.to_owned());
            }
            if before == 0 {
                let pad = "=".repeat((4 - text.len() % 4) % 4);
                all.push(text + &pad);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn hide(said: &str, secret: &str) -> String {
        Mask::of([secret]).hide(said)
    }

    #[test]
    fn complaints_do_not_repeat_passwords() {
        let said = "syntax error near 'hunter2'";
        assert_eq!(hide(said, "hunter2"), "syntax error near '***'");
        assert_eq!(hide(said, ""), said);
        assert_eq!(Mask::default().hide(said), said);
        assert_eq!(hide("near 'abc' and 'ab'", "abc"), "near '***' and 'ab'");
    }

    #[test]
    fn every_form_is_hidden() {
        for secret in [
            "it's\\a \"secret\"",
            "p\u{e4}ss\nword/+",
            "''quotes''",
            "\\\\\\\\",
        ] {
            for form in forms(secret) {
                for mask in [Mask::of([secret]), Mask::of([secret]).in_pieces()] {
                    let masked = mask.hide(&format!("near <{form}> at line 1"));
                    assert_eq!(masked, "near <***> at line 1", "{form}");
                }
            }
        }
        let bytes = hide("#Bin<34,115,51,99,114,51,116>", "s3cr3t");
        assert_eq!(bytes, "#Bin<34,***>");
    }

    /// The masker of Jobs (`operators/services/src/build/steps.py`) passes the same examples.
    #[test]
    fn the_examples_of_both_maskers_are_hidden() {
        let all: Vec<[String; 3]> =
            serde_json::from_str(include_str!("mask_examples.json")).expect("examples");
        assert!(all.len() > 60, "{}", all.len());
        for [secret, said, masked] in all {
            assert_eq!(hide(&said, &secret), masked, "{said}");
        }
    }

    #[test]
    fn a_password_is_hidden_in_a_header_and_in_an_address() {
        let secret = "pa/ss w\u{f6}rd?";
        for user in ["a", "ab", "abc", "glance"] {
            let header = STANDARD.encode(format!("{user}:{secret}"));
            let masked = hide(&format!("Basic {header}"), secret);
            let left = masked.trim_start_matches("Basic ").replace("***", "");
            assert!(
                masked.contains("***") && left.len() <= user.len() * 4 / 3 + 8,
                "{masked}"
            );
        }
        let said = "mysql+pymysql://glance:pa%2Fss%20w%C3%B6rd%3F@mariadb/glance";
        assert_eq!(hide(said, secret), "mysql+pymysql://glance:***@mariadb/glance");
    }

    #[test]
    fn what_a_cut_left_of_a_secret_is_hidden() {
        let secret = "correct horse battery staple";
        assert_eq!(hide("ery staple' is wrong", secret), "***' is wrong");
        assert_eq!(hide("wrong: 'correct hor", secret), "wrong: '***");
        let within = "near 'correct horse batt' at line 1";
        assert_eq!(hide(within, secret), within);
        assert_eq!(
            Mask::of([secret]).in_pieces().hide(within),
            "near '***' at line 1"
        );
    }

    proptest! {
        /// Masking first and cutting then shows nothing that cutting alone would not have hidden.
        #[test]
        fn no_cut_shows_a_secret(secret in "[a-z0-9+/' ]{8,24}", before in ".{0,20}", after in ".{0,20}", cut in 0usize..60) {
            let said = format!("{before}{secret}{after}");
            let masked = Mask::of([&secret]).hide(&said);
            prop_assert!(!masked.contains(&secret));
            let cut: String = said.chars().take(cut).collect();
            let masked = Mask::of([&secret]).hide(&cut);
            prop_assert!(!masked.contains(&secret[..8]) || before.contains(&secret[..8]), "{masked}");
        }
    }
}
