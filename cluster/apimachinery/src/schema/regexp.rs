//! Go's regular expressions on the `regex` crate: the syntax is translated
//! where the two differ, and what Go refuses is refused with Go's words.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::Regex;

/// Compiles a pattern; the error reads as Go's, without the `error parsing regexp: ` in front.
pub fn compile(source: &str) -> Result<Regex, String> {
    let translated = Translator::new(source).translate()?;
    Regex::new(&translated).map_err(|_| format!("invalid regular expression: `{source}`"))
}

/// Like [`compile`], but keeps what was compiled on this thread: rules use the same few patterns.
pub fn cached(source: &str) -> Result<Regex, String> {
    const KEPT: usize = 64;
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Result<Regex, String>>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(known) = compiled.get(source) {
            return known.clone();
        }
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        let regex = compile(source);
        compiled.insert(source.to_owned(), regex.clone());
        regex
    })
}

struct Translator<'a> {
    source: &'a str,
    at: usize,
    out: String,
    open: Vec<usize>,
}

impl<'a> Translator<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            out: String::with_capacity(source.len() + 8),
            open: Vec::new(),
        }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn translate(mut self) -> Result<String, String> {
        // Where the last repetition operator began, to name a nested one.
        let mut repetition: Option<usize> = None;
        // Whether there is something to repeat.
        let mut repeatable = false;
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            match c {
                '*' | '+' | '?' | '{' => {
                    let operator = match c {
                        '{' => self.counted(),
                        _ => {
                            self.at += 1;
                            Some(Ok(()))
                        }
                    };
                    let Some(operator) = operator else {
                        // Not a count: a plain brace.
                        self.at += 1;
                        self.out.push_str("\\{");
                        (repetition, repeatable) = (None, true);
                        continue;
                    };
                    operator?;
                    if self.rest().starts_with('?') {
                        self.at += 1;
                    }
                    if !repeatable {
                        return Err(format!(
                            "missing argument to repetition operator: `{}`",
                            &self.source[start..self.at]
                        ));
                    }
                    if let Some(before) = repetition {
                        return Err(format!(
                            "invalid nested repetition operator: `{}`",
                            &self.source[before..self.at]
                        ));
                    }
                    self.out.push_str(&self.source[start..self.at]);
                    repetition = Some(start);
                    continue;
                }
                '(' => {
                    self.group()?;
                    repeatable = false;
                }
                ')' => {
                    if self.open.pop().is_none() {
                        return Err(format!("unexpected ): `{}`", self.source));
                    }
                    self.at += 1;
                    self.out.push(')');
                    repeatable = true;
                }
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    repeatable = false;
                }
                '[' => {
                    self.class()?;
                    repeatable = true;
                }
                '\\' => {
                    self.escape()?;
                    repeatable = true;
                }
                _ => {
                    self.next();
                    self.out.push(c);
                    repeatable = true;
                }
            }
            repetition = None;
        }
        if !self.open.is_empty() {
            return Err(format!("missing closing ): `{}`", self.source));
        }
        Ok(self.out)
    }

    /// Reads `{n}`, `{n,}` or `{n,m}`; `None` if the brace is a plain one.
    fn counted(&mut self) -> Option<Result<(), String>> {
        let rest = self.rest();
        let end = rest.find('}')?;
        let body = &rest[1..end];
        let (low, high) = match body.split_once(',') {
            Some((low, high)) => (low, Some(high)),
            None => (body, None),
        };
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if low.is_empty() || !digits(low) || !high.is_none_or(digits) {
            return None;
        }
        let bound = |s: &str| s.parse::<u32>().unwrap_or(u32::MAX);
        let low = bound(low);
        let high = match high {
            None | Some("") => low,
            Some(high) => bound(high),
        };
        self.at += end + 1;
        if low > 1000 || high > 1000 || high < low {
            return Some(Err(format!("invalid repeat count: `{}`", &rest[..=end])));
        }
        Some(Ok(()))
    }

    fn group(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let start = self.at;
        if !rest.starts_with("(?") {
            self.at += 1;
            self.out.push('(');
            self.open.push(start);
            return Ok(());
        }
        let named = ["(?P<", "(?<"].iter().find(|p| rest.starts_with(**p));
        if let Some(prefix) = named {
            let after = &rest[prefix.len()..];
            if *prefix == "(?<" && (after.starts_with('=') || after.starts_with('!')) {
                return Err("invalid or unsupported Perl syntax: `(?<`".to_owned());
            }
            let Some(end) = after.find('>') else {
                return Err(format!("invalid named capture: `{rest}`"));
            };
            let name = &after[..end];
            let word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !word {
                let shown = &rest[..prefix.len() + end + 1];
                return Err(format!("invalid named capture: `{shown}`"));
            }
            self.at += prefix.len() + end + 1;
            // A capture's name does not matter here, and Go allows names that start with digits.
            self.out.push('(');
            self.open.push(start);
            return Ok(());
        }
        for (i, c) in rest.char_indices().skip(2) {
            match c {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' | ')' => {
                    self.out.push_str(&rest[..=i]);
                    self.at += i + 1;
                    if c == ':' {
                        self.open.push(start);
                    }
                    return Ok(());
                }
                _ => {
                    let shown = &rest[..i + c.len_utf8()];
                    return Err(format!("invalid or unsupported Perl syntax: `{shown}`"));
                }
            }
        }
        Err(format!("invalid or unsupported Perl syntax: `{rest}`"))
    }

    /// An escape outside of a class.
    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let Some(c) = rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        if c == 'Q' {
            let literal = &rest[2..];
            let (literal, used) = match literal.find("\\E") {
                Some(end) => (&literal[..end], end + 4),
                None => (literal, rest.len()),
            };
            self.out.push_str(&regex::escape(literal));
            self.at += used;
            return Ok(());
        }
        match c {
            'A' | 'z' => self.out.push_str(&rest[..2]),
            'b' | 'B' => self.out.push_str(&format!("(?-u:\\{c})")),
            _ => {
                if let Some(set) = perl_class(c) {
                    self.out.push_str(&format!("[{set}]"));
                } else {
                    return self.character();
                }
            }
        }
        self.at += 2;
        Ok(())
    }

    /// An escape that is a character or a Unicode class, inside a class or not.
    fn character(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let Some(c) = rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let end = 1 + c.len_utf8();
        let invalid = |end: usize| Err(format!("invalid escape sequence: `{}`", &rest[..end]));
        match c {
            'p' | 'P' => {
                let len = match rest[2..].chars().next() {
                    Some('{') => match rest.find('}') {
                        Some(close) => close + 1,
                        None => return Err(format!("invalid character class range: `{rest}`")),
                    },
                    Some(one) => 2 + one.len_utf8(),
                    None => return Err(format!("invalid character class range: `{rest}`")),
                };
                if Regex::new(&rest[..len]).is_err() {
                    return Err(format!("invalid character class range: `{}`", &rest[..len]));
                }
                self.out.push_str(&rest[..len]);
                self.at += len;
            }
            'x' => {
                let body = &rest[2..];
                let (digits, len) = if let Some(inner) = body.strip_prefix('{') {
                    match inner.find('}') {
                        Some(close) => (&inner[..close], close + 4),
                        None => return invalid(rest.len()),
                    }
                } else {
                    (body.get(..2).unwrap_or(body), 2 + body.len().min(2))
                };
                let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                let Some(code) = code.filter(|_| digits.len() >= 2 || body.starts_with('{')) else {
                    return invalid(len.min(rest.len()));
                };
                self.out.push_str(&format!("\\x{{{:x}}}", code as u32));
                self.at += len;
            }
            '0'..='7' => {
                let digits: String = rest[1..]
                    .chars()
                    .take(3)
                    .take_while(|d| ('0'..='7').contains(d))
                    .collect();
                if c != '0' && digits.len() < 2 {
                    return invalid(end);
                }
                let code = u32::from_str_radix(&digits, 8).unwrap_or_default();
                self.out.push_str(&format!("\\x{{{code:x}}}"));
                self.at += 1 + digits.len();
            }
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => {
                self.out.push_str(&rest[..2]);
                self.at += 2;
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => {
                // Escaped punctuation is itself, in a class as well.
                self.out.push_str(&format!("\\x{{{:x}}}", c as u32));
                self.at += 2;
            }
            _ => return invalid(end),
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        self.out.push('[');
        if self.rest().starts_with('^') {
            self.at += 1;
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return Err(format!("missing closing ]: `{}`", &self.source[start..]));
            };
            match c {
                ']' if !first => {
                    self.at += 1;
                    self.out.push(']');
                    return Ok(());
                }
                '[' if rest.starts_with("[:") && rest.contains(":]") => {
                    let end = rest.find(":]").unwrap_or_default() + 2;
                    let name = rest[2..end - 2].trim_start_matches('^');
                    if !POSIX.contains(&name) {
                        return Err(format!("invalid character class range: `{}`", &rest[..end]));
                    }
                    self.out.push_str(&rest[..end]);
                    self.at += end;
                }
                '-' if first || rest.starts_with("-]") => {
                    self.at += 1;
                    self.out.push_str("\\-");
                    first = false;
                    self.range(start)?;
                    continue;
                }
                '\\' => {
                    if let Some(set) = rest[1..].chars().next().and_then(perl_class) {
                        self.out.push_str(&format!("[{set}]"));
                        self.at += 2;
                    } else {
                        let from = self.at;
                        self.character()?;
                        if !matches!(self.source.as_bytes().get(from + 1), Some(b'p' | b'P')) {
                            self.range(from)?;
                        }
                    }
                }
                _ => {
                    let from = self.at;
                    self.literal();
                    self.range(from)?;
                }
            }
            first = false;
        }
    }

    fn literal(&mut self) {
        if let Some(c) = self.next() {
            if matches!(c, '[' | ']' | '&' | '~' | '^' | '-') {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }

    /// The `-x` after a character of a class, if it is there.
    fn range(&mut self, from: usize) -> Result<(), String> {
        let rest = self.rest();
        if !rest.starts_with('-') || rest.starts_with("-]") || rest.len() < 2 {
            return Ok(());
        }
        self.at += 1;
        self.out.push('-');
        if self.rest().starts_with('\\') {
            self.character()?;
        } else {
            self.literal();
        }
        let shown = &self.source[from..self.at];
        let bounds = Translator::bounds(shown);
        if bounds.is_some_and(|(low, high)| low > high) {
            return Err(format!("invalid character class range: `{shown}`"));
        }
        Ok(())
    }

    fn bounds(shown: &str) -> Option<(char, char)> {
        let mut chars = shown.chars();
        let (low, dash, high, end) = (chars.next()?, chars.next()?, chars.next()?, chars.next());
        (dash == '-' && end.is_none() && low != '\\').then_some((low, high))
    }
}

/// Names of classes such as `[:alpha:]`.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Go's `\d`, `\w` and `\s` are ASCII.
fn perl_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "0-9",
        'D' => "^0-9",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        'S' => "^\\t\\n\\f\\r ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_with_go_wording() {
        for (source, want) in [
            ("[", "missing closing ]: `[`"),
            ("(a)\\1", "invalid escape sequence: `\\1`"),
            ("^(?!x)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=x)", "invalid or unsupported Perl syntax: `(?<`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(compile(source).expect_err(source), want, "{source}");
        }
    }

    #[test]
    fn matches_as_go() {
        for (source, text, want) in [
            (r"^\d+$", "٣", false),
            (r"^[\w.-]+$", "a-b.c", true),
            (r"^[^\s]+$", "a b", false),
            (r"a{,2}", "a{,2}", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^[]a]+$", "]", true),
            (r"^[a\-z]+$", "-", true),
            (r"^[+--]+$", ",", true),
            (r"(?i)^abc$", "ABC", true),
            (r"^\p{Greek}+$", "λ", true),
        ] {
            let regex = compile(source).unwrap_or_else(|e| panic!("{source}: {e}"));
            assert_eq!(regex.is_match(text), want, "{source} on {text}");
        }
    }
}
