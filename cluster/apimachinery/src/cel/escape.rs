//! Names of properties as identifiers of rules.

/// Words that CEL keeps for itself, beside its literals and operators.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Literals and operators that are words.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

fn is_reserved(name: &str) -> bool {
    WORDS.contains(&name) || RESERVED.contains(&name)
}

/// The identifier of a property; `None` if it cannot have one.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(out)
}

/// The property of an identifier; `None` if no property has it.
pub(super) fn unescape(identifier: &str) -> Option<String> {
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while !rest.is_empty() {
        if let Some(body) = rest.strip_prefix("__") {
            let word_end = body.find('_').unwrap_or(0);
            if word_end > 0 && body[word_end..].starts_with("__") {
                let word = &body[..word_end];
                match word {
                    "underscores" => out.push_str("__"),
                    "dot" => out.push('.'),
                    "dash" => out.push('-'),
                    "slash" => out.push('/'),
                    _ if is_reserved(word) => {
                        if word.len() + 4 != identifier.len() {
                            return None;
                        }
                        out.push_str(word);
                    }
                    _ => return None,
                }
                rest = &body[word_end + 2..];
                continue;
            }
        }
        let c = rest.chars().next()?;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (name, want) in [
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("namespace", Some("__namespace__")),
            ("a__b", Some("a__underscores__b")),
            ("a_b", Some("a_b")),
            ("self", Some("self")),
            ("1a", None),
            ("$x", None),
        ] {
            assert_eq!(escape(name).as_deref(), want, "{name}");
            if let Some(want) = want {
                assert_eq!(unescape(want).as_deref(), Some(name));
            }
        }
    }
}
