//! The words of a label selector.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    pub text: String,
}

fn keyword(text: &str) -> Option<Kind> {
    Some(match text {
        ")" => Kind::Close,
        "," => Kind::Comma,
        "!" => Kind::Not,
        "==" => Kind::DoubleEquals,
        "=" => Kind::Equals,
        ">" => Kind::Greater,
        "in" => Kind::In,
        "<" => Kind::Less,
        "!=" => Kind::NotEquals,
        "notin" => Kind::NotIn,
        "(" => Kind::Open,
        _ => return None,
    })
}

fn special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// All tokens; the last one is always the end. A zero byte ends the text.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text.split('\0').next().unwrap_or("");
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(blank);
        let Some(first) = rest.chars().next() else {
            tokens.push(Token {
                kind: Kind::End,
                text: String::new(),
            });
            return tokens;
        };
        let (token, length) = if special(first) {
            symbol(rest)
        } else {
            let length = rest.find(|c| special(c) || blank(c)).unwrap_or(rest.len());
            let text = rest[..length].to_string();
            let kind = keyword(&text).unwrap_or(Kind::Identifier);
            (Token { kind, text }, length)
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

/// The longest symbol at the start. Symbols are ASCII, so bytes are characters.
fn symbol(text: &str) -> (Token, usize) {
    let run = text.find(|c| !special(c)).unwrap_or(text.len());
    let mut best: Option<(Kind, usize)> = None;
    for length in 1..=run {
        match keyword(&text[..length]) {
            Some(kind) => best = Some((kind, length)),
            None if best.is_some() => break,
            None => {}
        }
    }
    match best {
        Some((kind, length)) => {
            let text = text[..length].to_string();
            (Token { kind, text }, length)
        }
        // Every special character is a keyword by itself.
        None => (
            Token {
                kind: Kind::Error,
                text: format!("error expected: keyword found '{}'", &text[..run]),
            },
            run.max(1),
        ),
    }
}
