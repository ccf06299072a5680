//! The grammar of label selectors: `a in (b,c), !d, e!=f, g>1`.

use std::collections::BTreeSet;

use super::label::{Operator, Requirement, SelectorError, key_fault};
use super::lexer::{Kind, Token, tokens};

type Parsed<T> = Result<T, SelectorError>;

/// Where `in` and `notin` are words of the language; elsewhere they are plain names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Operator,
    Value,
}

pub(super) fn parse(text: &str) -> Parsed<Vec<Requirement>> {
    let mut parser = Parser {
        tokens: tokens(text),
        position: 0,
    };
    parser.selector()
}

struct Parser {
    /// Ends with an `End` token.
    tokens: Vec<Token>,
    position: usize,
}

fn fail<T>(message: String) -> Parsed<T> {
    Err(SelectorError(message))
}

impl Parser {
    fn peek(&self, context: Context) -> (Kind, String) {
        // Past the end there is the end still.
        let last = self.tokens.len() - 1;
        let token = &self.tokens[self.position.min(last)];
        let kind = match token.kind {
            Kind::In | Kind::NotIn if context == Context::Value => Kind::Identifier,
            kind => kind,
        };
        (kind, token.text.clone())
    }

    fn next(&mut self, context: Context) -> (Kind, String) {
        let token = self.peek(context);
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Parsed<Vec<Requirement>> {
        let mut requirements = Vec::new();
        loop {
            match self.peek(Context::Value) {
                (Kind::Identifier | Kind::Not, _) => {
                    let requirement = self
                        .requirement()
                        .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?;
                    requirements.push(requirement);
                    match self.next(Context::Value) {
                        (Kind::End, _) => return Ok(requirements),
                        (Kind::Comma, _) => {
                            let (kind, text) = self.peek(Context::Value);
                            if !matches!(kind, Kind::Identifier | Kind::Not) {
                                return fail(format!("found '{text}', expected: identifier after ','"));
                            }
                        }
                        (_, text) => {
                            return fail(format!("found '{text}', expected: ',' or 'end of string'"));
                        }
                    }
                }
                (Kind::End, _) => return Ok(requirements),
                (_, text) => {
                    return fail(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let (mut kind, mut key) = self.next(Context::Value);
        let absent = kind == Kind::Not;
        if absent {
            (kind, key) = self.next(Context::Value);
        }
        if kind != Kind::Identifier {
            return fail(format!("found '{key}', expected: identifier"));
        }
        if let Some(error) = key_fault(&key, "<nil>") {
            return fail(error.to_string());
        }
        if absent {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(Context::Value).0, Kind::End | Kind::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => self.exact_value()?,
        };
        Requirement::new(key, operator, values.into_iter().collect())
    }

    fn operator(&mut self) -> Parsed<Operator> {
        Ok(match self.next(Context::Operator) {
            (Kind::In, _) => Operator::In,
            (Kind::NotIn, _) => Operator::NotIn,
            (Kind::Equals, _) => Operator::Equals,
            (Kind::DoubleEquals, _) => Operator::DoubleEquals,
            (Kind::NotEquals, _) => Operator::NotEquals,
            (Kind::Greater, _) => Operator::GreaterThan,
            (Kind::Less, _) => Operator::LessThan,
            (_, text) => {
                return fail(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        })
    }

    fn set(&mut self) -> Parsed<BTreeSet<String>> {
        let (kind, text) = self.next(Context::Value);
        if kind != Kind::Open {
            return fail(format!("found '{text}' expected: '('"));
        }
        match self.peek(Context::Value) {
            (Kind::Identifier | Kind::Comma, _) => self.members(),
            (Kind::Close, _) => {
                self.next(Context::Value);
                Ok(BTreeSet::from([String::new()]))
            }
            (_, text) => fail(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// The members up to and with the closing bracket; between two commas stands the empty value.
    fn members(&mut self) -> Parsed<BTreeSet<String>> {
        let mut members = BTreeSet::new();
        loop {
            let after_comma = match self.next(Context::Value) {
                (Kind::Identifier, text) => {
                    members.insert(text);
                    false
                }
                (Kind::Comma, _) => {
                    if members.is_empty() {
                        members.insert(String::new());
                    }
                    true
                }
                (_, text) => {
                    return fail(format!("found '{text}', expected: ',', or identifier"));
                }
            };
            match self.peek(Context::Value) {
                (Kind::Close, _) => {
                    if after_comma {
                        members.insert(String::new());
                    }
                    self.next(Context::Value);
                    return Ok(members);
                }
                (Kind::Comma, _) if after_comma => {
                    members.insert(String::new());
                }
                (Kind::Comma, _) => {}
                (_, text) if !after_comma => {
                    return fail(format!("found '{text}', expected: ',' or ')'"));
                }
                _ => {}
            }
        }
    }

    fn exact_value(&mut self) -> Parsed<BTreeSet<String>> {
        if matches!(self.peek(Context::Value).0, Kind::End | Kind::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next(Context::Value) {
            (Kind::Identifier, text) => Ok(BTreeSet::from([text])),
            (_, text) => fail(format!("found '{text}', expected: identifier")),
        }
    }
}
