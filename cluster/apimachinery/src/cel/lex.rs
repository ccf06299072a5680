//! Words of an expression.

use super::ast::{Issue, Literal};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Literal(Literal),
    /// Operators, brackets and the word `in`.
    Symbol(&'static str),
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Spanned {
    pub token: Token,
    /// In code points.
    pub at: usize,
}

const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "=", "&",
];

pub(super) fn tokenize(source: &str) -> Result<Vec<Spanned>, Issue> {
    let chars: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let token = lexer.next()?;
        let end = token == Token::End;
        tokens.push(Spanned { token, at });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Issue> {
        Err(Issue {
            at,
            message: message.into(),
        })
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t' | '\n' | '\r' | '\x0c') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn next(&mut self) -> Result<Token, Issue> {
        let Some(c) = self.peek(0) else {
            return Ok(Token::End);
        };
        if let Some(token) = self.string()? {
            return Ok(token);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let start = self.at;
            while self
                .peek(0)
                .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
            {
                self.at += 1;
            }
            let word: String = self.chars[start..self.at].iter().collect();
            return Ok(match word.as_str() {
                "true" => Token::Literal(Literal::Bool(true)),
                "false" => Token::Literal(Literal::Bool(false)),
                "null" => Token::Literal(Literal::Null),
                "in" => Token::Symbol("in"),
                _ => Token::Ident(word),
            });
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|d| d.is_ascii_digit())) {
            return self.number();
        }
        if c == '`' {
            let start = self.at;
            self.at += 1;
            let mut name = String::new();
            while let Some(c) = self.peek(0) {
                self.at += 1;
                if c == '`' {
                    return Ok(Token::Ident(name));
                }
                name.push(c);
            }
            self.at = start;
        }
        for symbol in SYMBOLS {
            if symbol.chars().enumerate().all(|(i, s)| self.peek(i) == Some(s)) {
                if matches!(symbol, "=" | "&") {
                    break;
                }
                self.at += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        self.fail(
            self.at,
            format!("Syntax error: token recognition error at: '{c}'"),
        )
    }

    fn number(&mut self) -> Result<Token, Issue> {
        let start = self.at;
        let text = |l: &Self| -> String { l.chars[start..l.at].iter().collect() };
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
            let digits = text(self)[2..].to_owned();
            if matches!(self.peek(0), Some('u' | 'U')) {
                self.at += 1;
                return match u64::from_str_radix(&digits, 16) {
                    Ok(n) => Ok(Token::Literal(Literal::Uint(n))),
                    Err(_) => self.fail(start, "invalid uint literal"),
                };
            }
            return match i64::from_str_radix(&digits, 16) {
                Ok(n) => Ok(Token::Literal(Literal::Int(n))),
                Err(_) => self.fail(start, "invalid int literal"),
            };
        }
        let mut float = false;
        self.digits();
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            float = true;
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                float = true;
                self.at += 1 + sign;
                self.digits();
            }
        }
        if float {
            return match text(self).parse::<f64>() {
                Ok(f) if f.is_finite() => Ok(Token::Literal(Literal::Double(f))),
                _ => self.fail(start, "invalid double literal"),
            };
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            let digits = text(self);
            self.at += 1;
            return match digits.parse() {
                Ok(n) => Ok(Token::Literal(Literal::Uint(n))),
                Err(_) => self.fail(start, "invalid uint literal"),
            };
        }
        let digits = text(self);
        match digits.parse::<i64>() {
            Ok(n) => Ok(Token::Literal(Literal::Int(n))),
            // The lowest integer has no positive twin; the parser joins it with its sign.
            Err(_) if digits == "9223372036854775808" => Ok(Token::Literal(Literal::Int(i64::MIN))),
            Err(_) => self.fail(start, "invalid int literal"),
        }
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// A string or bytes literal, if one begins here.
    fn string(&mut self) -> Result<Option<Token>, Issue> {
        let start = self.at;
        let (mut raw, mut bytes, mut ahead) = (false, false, 0);
        loop {
            match self.peek(ahead) {
                Some('r' | 'R') if !raw => raw = true,
                Some('b' | 'B') if !bytes && ahead == 0 => bytes = true,
                Some('"' | '\'') => break,
                _ => return Ok(None),
            }
            ahead += 1;
        }
        let Some(quote) = self.peek(ahead) else {
            return Ok(None);
        };
        let triple = (1..3).all(|i| self.peek(ahead + i) == Some(quote));
        let width = if triple { 3 } else { 1 };
        self.at += ahead + width;
        let mut out: Vec<u8> = Vec::new();
        loop {
            let Some(c) = self.peek(0) else {
                let shown: String = self.chars[start..].iter().collect();
                return self.fail(
                    start,
                    format!("Syntax error: token recognition error at: '{shown}'"),
                );
            };
            if c == quote && (0..width).all(|i| self.peek(i) == Some(quote)) {
                self.at += width;
                break;
            }
            if c == '\n' && !triple {
                let shown: String = self.chars[start..self.at].iter().collect();
                return self.fail(
                    start,
                    format!("Syntax error: token recognition error at: '{shown}'"),
                );
            }
            self.at += 1;
            if c == '\\' && !raw {
                self.escape(bytes, start, &mut out)?;
            } else {
                out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            }
        }
        Ok(Some(Token::Literal(if bytes {
            Literal::Bytes(out)
        } else {
            Literal::String(String::from_utf8_lossy(&out).into_owned())
        })))
    }

    fn escape(&mut self, bytes: bool, start: usize, out: &mut Vec<u8>) -> Result<(), Issue> {
        let bad = || Issue {
            at: start,
            message: "invalid string literal".to_owned(),
        };
        let c = self.peek(0).ok_or_else(bad)?;
        self.at += 1;
        let simple = match c {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => c as u8,
            'x' | 'X' | 'u' | 'U' | '0'..='3' => {
                let (radix, len) = match c {
                    'x' | 'X' => (16, 2),
                    'u' => (16, 4),
                    'U' => (16, 8),
                    _ => {
                        self.at -= 1;
                        (8, 3)
                    }
                };
                let digits: String = self.chars.iter().skip(self.at).take(len).collect();
                if digits.chars().count() != len {
                    return Err(bad());
                }
                self.at += len;
                let code = u32::from_str_radix(&digits, radix).map_err(|_| bad())?;
                if bytes {
                    out.push(u8::try_from(code).map_err(|_| bad())?);
                } else {
                    let c = char::from_u32(code).ok_or_else(bad)?;
                    out.extend(c.encode_utf8(&mut [0; 4]).bytes());
                }
                return Ok(());
            }
            _ => return Err(bad()),
        };
        out.push(simple);
        Ok(())
    }
}
