//! The syntax of a JSONPath.

use serde_json::Value;

use super::filter::{Comparison, Filter, Operand};
use super::{JsonPath, JsonPathError, Step};

pub(super) fn parse(path: &str) -> Result<JsonPath, JsonPathError> {
    let inner = path
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or(path);
    let mut reader = Reader {
        path: inner,
        position: 0,
    };
    let steps = reader.steps()?;
    match reader.peek() {
        None => Ok(JsonPath { steps }),
        Some(c) => Err(reader.fail(format!("unexpected {c:?}"))),
    }
}

struct Reader<'a> {
    path: &'a str,
    position: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.path[self.position..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.path[self.position..].starts_with(text);
        if found {
            self.position += text.len();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), JsonPathError> {
        if self.take(text) {
            Ok(())
        } else {
            Err(self.fail(format!("expected {text:?}")))
        }
    }

    fn blanks(&mut self) {
        while self.peek() == Some(' ') {
            self.position += 1;
        }
    }

    fn fail(&self, reason: String) -> JsonPathError {
        JsonPathError {
            path: self.path.to_string(),
            position: self.position,
            reason,
        }
    }

    fn steps(&mut self) -> Result<Vec<Step>, JsonPathError> {
        let mut steps = Vec::new();
        if !self.take("$") {
            self.take("@");
        }
        loop {
            match self.peek() {
                Some('[') => {
                    self.position += 1;
                    let step = self.brackets()?;
                    steps.push(step);
                }
                Some('.') => {
                    self.position += 1;
                    if self.take(".") {
                        steps.push(Step::Recursive);
                    }
                    self.name(&mut steps);
                }
                // A path may begin with a name.
                Some(c) if steps.is_empty() && is_name(c) => self.name(&mut steps),
                _ => return Ok(steps),
            }
        }
    }

    fn name(&mut self, steps: &mut Vec<Step>) {
        if self.take("*") {
            steps.push(Step::Wildcard);
            return;
        }
        let mut name = String::new();
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.position += 1;
                name.extend(self.next());
            } else if is_name(c) {
                name.extend(self.next());
            } else {
                break;
            }
        }
        if !name.is_empty() {
            steps.push(Step::Field(name));
        }
    }

    fn brackets(&mut self) -> Result<Step, JsonPathError> {
        self.blanks();
        let step = if self.take("?(") {
            let filter = self.filter()?;
            self.expect(")")?;
            Step::Filter(Box::new(filter))
        } else if self.take("*") {
            Step::Wildcard
        } else if matches!(self.peek(), Some('\'' | '"')) {
            let mut names = vec![self.quoted()?];
            while self.comma() {
                names.push(self.quoted()?);
            }
            match <[String; 1]>::try_from(names) {
                Ok([name]) => Step::Field(name),
                Err(names) => Step::Fields(names),
            }
        } else {
            self.numbers()?
        };
        self.blanks();
        self.expect("]")?;
        Ok(step)
    }

    fn comma(&mut self) -> bool {
        self.blanks();
        let found = self.take(",");
        self.blanks();
        found
    }

    fn numbers(&mut self) -> Result<Step, JsonPathError> {
        let first = self.integer()?;
        if self.take(":") {
            let end = self.integer()?;
            let step = if self.take(":") { self.integer()? } else { None };
            return Ok(Step::Slice {
                start: first,
                end,
                step: step.unwrap_or(1),
            });
        }
        let mut indexes = vec![first];
        while self.comma() {
            indexes.push(self.integer()?);
        }
        let indexes: Option<Vec<i64>> = indexes.into_iter().collect();
        indexes
            .map(Step::Indexes)
            .ok_or_else(|| self.fail("expected an index".to_string()))
    }

    fn integer(&mut self) -> Result<Option<i64>, JsonPathError> {
        let text = self.span(|c| c == '-' || c.is_ascii_digit());
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.fail(format!("{text:?} is not an index"))),
        }
    }

    fn span(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = &self.path[self.position..];
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let text = rest[..length].to_string();
        self.position += length;
        text
    }

    fn quoted(&mut self) -> Result<String, JsonPathError> {
        let Some(quote @ ('\'' | '"')) = self.next() else {
            return Err(self.fail("expected a quoted name".to_string()));
        };
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(self.fail(format!("missing {quote}"))),
                Some('\\') => text.extend(self.next()),
                Some(c) if c == quote => return Ok(text),
                Some(c) => text.push(c),
            }
        }
    }

    fn filter(&mut self) -> Result<Filter, JsonPathError> {
        self.blanks();
        let left = self.operand()?;
        self.blanks();
        let comparison = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ]
        .into_iter()
        .find(|(text, _)| self.take(text));
        self.blanks();
        let comparison = match comparison {
            None => None,
            Some((_, comparison)) => Some((comparison, self.operand()?)),
        };
        self.blanks();
        Ok(Filter { left, comparison })
    }

    fn operand(&mut self) -> Result<Operand, JsonPathError> {
        match self.peek() {
            Some('\'' | '"') => Ok(Operand::Literal(Value::from(self.quoted()?))),
            Some('$') => Ok(Operand::Root(JsonPath { steps: self.steps()? })),
            Some('@' | '.') => Ok(Operand::Current(JsonPath { steps: self.steps()? })),
            _ => {
                let text = self.span(|c| is_name(c) || c == '.' || c == '+');
                match text.as_str() {
                    "true" => Ok(Operand::Literal(Value::Bool(true))),
                    "false" => Ok(Operand::Literal(Value::Bool(false))),
                    number => match number.parse::<serde_json::Number>() {
                        Ok(number) => Ok(Operand::Literal(Value::Number(number))),
                        Err(_) => Err(self.fail(format!("{text:?} is not a value"))),
                    },
                }
            }
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '/')
}
