//! Complaints of servers without the secrets that they repeat.

use std::collections::HashSet;

use crate::mariadb::text;
use crate::objects::encode;

/// Servers quote a part of what they complain about: pieces of this length are hidden too.
const PIECE: usize = 6;

/// `said` without these secrets, in any form in which a server may repeat them.
pub fn mask(said: &str, secrets: &[String]) -> String {
    let said: Vec<char> = said.chars().collect();
    let mut hidden = vec![false; said.len()];
    for form in secrets.iter().flat_map(|secret| forms(secret)) {
        let form: Vec<char> = form.chars().collect();
        let length = form.len().min(PIECE);
        if length == 0 {
            continue;
        }
        let pieces: HashSet<&[char]> = form.windows(length).collect();
        for (at, window) in said.windows(length).enumerate() {
            if pieces.contains(window) {
                hidden[at..at + length].fill(true);
            }
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

/// As it is, as SQL, as JSON and Erlang write it, as Base64, and in the bytes that `erl_call` shows.
fn forms(secret: &str) -> HashSet<String> {
    let inner = |quoted: String| {
        let end = quoted.len().saturating_sub(1);
        quoted.get(1..end).unwrap_or_default().to_owned()
    };
    let json = inner(serde_json::Value::from(secret).to_string());
    let twice = inner(serde_json::Value::from(json.as_str()).to_string());
    let bytes: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
    let forms = [
        secret.to_owned(),
        inner(text(secret)),
        json,
        twice,
        encode(secret),
        bytes.join(","),
    ];
    forms.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hide(said: &str, secret: &str) -> String {
        mask(said, &[secret.to_owned()])
    }

    #[test]
    fn complaints_do_not_repeat_passwords() {
        let said = "syntax error near 'hunter2'";
        assert_eq!(hide(said, "hunter2"), "syntax error near '***'");
        assert_eq!(hide(said, ""), said);
        assert_eq!(mask(said, &[]), said);
        assert_eq!(hide("near 'abc' and 'ab'", "abc"), "near '***' and 'ab'");
    }

    #[test]
    fn every_form_is_hidden() {
        for secret in ["it's\\a \"secret\"", "p\u{e4}ss\nword", "''quotes''", "\\\\\\"] {
            for form in forms(secret) {
                let masked = hide(&format!("near <{form}> at line 1"), secret);
                assert_eq!(masked, "near <***> at line 1", "{form}");
            }
        }
        assert_eq!(hide("#Bin<34,115,51,99,114,51,116>", "s3cr3t"), "#Bin<34,***>");
        let sql = text("it's so");
        assert_eq!(hide(&format!("near {sql} at"), "it's so"), "near '***' at");
    }

    #[test]
    fn a_part_is_hidden() {
        let secret = "correct horse battery staple";
        let said = hide("near 'correct horse batt' at line 1", secret);
        assert_eq!(said, "near '***' at line 1");
    }
}
