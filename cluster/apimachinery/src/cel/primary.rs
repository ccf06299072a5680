//! The smallest parts of an expression: names, literals, lists, maps, calls.

use super::ast::{Entry, Expr, Issue, Kind, Literal, StructField};
use super::escape::RESERVED;
use super::lex::Token;
use super::macros;
use super::parse::{Parsed, Parser};

impl Parser {
    pub(super) fn primary(&mut self) -> Parsed {
        let at = self.at();
        match self.peek().clone() {
            Token::Literal(literal) => {
                self.next += 1;
                if literal == Literal::Int(i64::MIN) && !self.negated_before() {
                    return Err(Issue {
                        at,
                        message: "invalid int literal".to_owned(),
                    });
                }
                Ok(self.ids.node(at, Kind::Literal(literal)))
            }
            Token::Ident(name) => {
                self.next += 1;
                self.named(at, name)
            }
            Token::Symbol(".") => {
                self.next += 1;
                let at = self.at();
                let name = self.identifier()?;
                self.named(at, name)
            }
            Token::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.next += 1;
                self.list(at)
            }
            Token::Symbol("{") => {
                self.next += 1;
                self.map(at)
            }
            _ => Err(self.unexpected("")),
        }
    }

    fn negated_before(&self) -> bool {
        self.next >= 2
            && matches!(
                self.tokens.get(self.next - 2).map(|t| &t.token),
                Some(Token::Symbol("-"))
            )
    }

    fn named(&mut self, at: usize, name: String) -> Parsed {
        if RESERVED.contains(&name.as_str()) {
            self.issues.push(Issue {
                at,
                message: format!("reserved identifier: {name}"),
            });
        }
        if let Some(open) = self.take("(") {
            let args = self.arguments(")")?;
            return Ok(self.global_call(open, name, args));
        }
        Ok(self.ids.node(at, Kind::Ident(name)))
    }

    fn list(&mut self, at: usize) -> Parsed {
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        while self.take("]").is_none() {
            if self.take("?").is_some() {
                optional.push(elements.len());
            }
            elements.push(self.expression()?);
            if self.take(",").is_none() {
                self.expect("]")?;
                break;
            }
        }
        Ok(self.ids.node(at, Kind::List { elements, optional }))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(Entry { key, value, optional });
            if self.take(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        Ok(self.ids.node(at, Kind::Map(entries)))
    }

    pub(super) fn struct_fields(&mut self) -> Result<Vec<StructField>, Issue> {
        let mut fields = Vec::new();
        while self.take("}").is_none() {
            self.take("?");
            let name = self.identifier()?;
            let at = self.expect(":")?;
            let value = self.expression()?;
            fields.push(StructField { at, name, value });
            if self.take(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        Ok(fields)
    }

    fn global_call(&mut self, at: usize, name: String, args: Vec<Expr>) -> Expr {
        if name == "has" && args.len() == 1 {
            return match macros::has(&mut self.ids, at, args) {
                Ok(expr) => expr,
                Err(issue) => self.broken(at, issue),
            };
        }
        self.ids.node(
            at,
            Kind::Call {
                function: name,
                target: None,
                args,
            },
        )
    }

    pub(super) fn receiver_call(&mut self, at: usize, name: &str, target: Expr, args: Vec<Expr>) -> Expr {
        match macros::expand(&mut self.ids, at, name, target, args) {
            Ok(expr) => expr,
            Err(issue) => self.broken(at, issue),
        }
    }

    fn broken(&mut self, at: usize, issue: Issue) -> Expr {
        self.issues.push(issue);
        self.ids.node(at, Kind::Broken)
    }
}
