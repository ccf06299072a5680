//! From text to a tree.

use super::ast::{Expr, Issue, Kind, Literal, op};
use super::lex::{Spanned, Token, tokenize};

/// Deeper nesting is refused, as is a longer text: nothing that walks the tree may run out of stack.
const MAX_NESTING: usize = 50;
const MAX_DEPTH: usize = 200;
const MAX_CHAINED: usize = 5_000;
const MAX_CODE_POINTS: usize = 100_000;
const TOO_DEEP: &str = "expression recursion limit exceeded: 250";

/// Parses an expression, macros expanded.
pub(super) fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    if source.chars().count() > MAX_CODE_POINTS {
        let message = format!("expression code point size exceeds limit: {MAX_CODE_POINTS}");
        return Err(vec![Issue { at: 0, message }]);
    }
    let tokens = tokenize(source).map_err(|issue| vec![issue])?;
    let mut parser = Parser {
        tokens,
        next: 0,
        depth: 0,
        chained: 0,
        ids: Ids::default(),
        issues: Vec::new(),
    };
    match parser.expression() {
        Err(issue) => {
            parser.issues.push(issue);
            Err(parser.issues)
        }
        Ok(_) if parser.peek() != &Token::End => Err(vec![parser.unexpected("<EOF>")]),
        Ok(_) if !parser.issues.is_empty() => Err(parser.issues),
        Ok(expr) if depth(&expr) > MAX_DEPTH => Err(vec![Issue {
            at: 0,
            message: TOO_DEEP.to_owned(),
        }]),
        Ok(expr) => Ok(expr),
    }
}

/// The depth of a tree, found without recursion.
fn depth(root: &Expr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(root, 1)];
    while let Some((expr, level)) = open.pop() {
        deepest = deepest.max(level);
        if deepest > MAX_DEPTH {
            break;
        }
        expr.kind.children(&mut |child| open.push((child, level + 1)));
    }
    deepest
}

/// Numbers for new nodes.
#[derive(Default)]
pub(super) struct Ids(usize);

impl Ids {
    pub(super) fn node(&mut self, at: usize, kind: Kind) -> Expr {
        self.0 += 1;
        Expr { id: self.0, at, kind }
    }

    pub(super) fn call(&mut self, at: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.node(
            at,
            Kind::Call {
                function: function.to_owned(),
                target: None,
                args,
            },
        )
    }
}

pub(super) struct Parser {
    pub(super) tokens: Vec<Spanned>,
    pub(super) next: usize,
    depth: usize,
    chained: usize,
    pub(super) ids: Ids,
    pub(super) issues: Vec<Issue>,
}

pub(super) type Parsed = Result<Expr, Issue>;

impl Parser {
    fn current(&self) -> &Spanned {
        // The last token is always the end.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    pub(super) fn peek(&self) -> &Token {
        &self.current().token
    }

    pub(super) fn at(&self) -> usize {
        self.current().at
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(s) if *s == symbol)
    }

    pub(super) fn take(&mut self, symbol: &str) -> Option<usize> {
        let at = self.at();
        self.is(symbol).then(|| {
            self.next += 1;
            at
        })
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<usize, Issue> {
        self.take(symbol)
            .ok_or_else(|| self.unexpected(&format!("'{symbol}'")))
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Issue {
        let shown = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Symbol(s) => (*s).to_owned(),
            Token::Ident(name) => name.clone(),
            Token::Literal(Literal::String(s)) => format!("'{s}'"),
            Token::Literal(Literal::Int(n)) => n.to_string(),
            Token::Literal(other) => format!("{other:?}"),
        };
        let message = match wanted {
            "" => format!(
                "Syntax error: mismatched input '{shown}' expecting {{'[', '{{', '(', '.', '-', '!', \
                 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}}"
            ),
            "<EOF>" => format!("Syntax error: extraneous input '{shown}' expecting <EOF>"),
            _ => format!("Syntax error: mismatched input '{shown}' expecting {wanted}"),
        };
        Issue {
            at: self.at(),
            message,
        }
    }

    fn too_deep(&self) -> Issue {
        Issue {
            at: self.at(),
            message: TOO_DEEP.to_owned(),
        }
    }

    /// Counts operators that nest to the left.
    fn chain(&mut self) -> Result<(), Issue> {
        self.chained += 1;
        if self.chained > MAX_CHAINED {
            return Err(self.too_deep());
        }
        Ok(())
    }

    pub(super) fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.too_deep());
        }
        let condition = self.logic(op::OR)?;
        let result = match self.take("?") {
            None => condition,
            Some(at) => {
                let yes = self.logic(op::OR)?;
                self.expect(":")?;
                let no = self.expression()?;
                self.ids.call(at, op::CONDITIONAL, vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Ok(result)
    }

    fn logic(&mut self, operator: &str) -> Parsed {
        let (symbol, or) = if operator == op::OR {
            ("||", true)
        } else {
            ("&&", false)
        };
        let operand = |p: &mut Self| if or { p.logic(op::AND) } else { p.relation() };
        let mut terms = vec![operand(self)?];
        let mut places = Vec::new();
        while let Some(at) = self.take(symbol) {
            places.push(at);
            terms.push(operand(self)?);
        }
        let mut terms: Vec<Option<Expr>> = terms.into_iter().map(Some).collect();
        Ok(self.balance(operator, &mut terms, &places))
    }

    /// A long chain becomes a flat tree, so that nothing recurses deeply.
    fn balance(&mut self, operator: &str, terms: &mut [Option<Expr>], places: &[usize]) -> Expr {
        if let [one] = terms {
            // Each term is taken once: the halves below do not overlap.
            return one.take().unwrap_or_else(|| self.ids.node(0, Kind::Broken));
        }
        let middle = terms.len().div_ceil(2);
        let (left, right) = terms.split_at_mut(middle);
        let at = places[middle - 1];
        let left = self.balance(operator, left, &places[..middle - 1]);
        let right = self.balance(operator, right, &places[middle..]);
        self.ids.call(at, operator, vec![left, right])
    }

    fn relation(&mut self) -> Parsed {
        const OPERATORS: [(&str, &str); 7] = [
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("<=", "_<=_"),
            (">=", "_>=_"),
            ("<", "_<_"),
            (">", "_>_"),
            ("in", op::IN),
        ];
        let mut left = self.sum()?;
        while let Some((_, function)) = OPERATORS.iter().find(|(s, _)| self.is(s)) {
            let at = self.at();
            self.next += 1;
            self.chain()?;
            let right = self.sum()?;
            left = self.ids.call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Some(function) = match self.peek() {
            Token::Symbol("+") => Some("_+_"),
            Token::Symbol("-") => Some("_-_"),
            _ => None,
        } {
            let at = self.at();
            self.next += 1;
            self.chain()?;
            let right = self.product()?;
            left = self.ids.call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        while let Some(function) = match self.peek() {
            Token::Symbol("*") => Some("_*_"),
            Token::Symbol("/") => Some("_/_"),
            Token::Symbol("%") => Some("_%_"),
            _ => None,
        } {
            let at = self.at();
            self.next += 1;
            self.chain()?;
            let right = self.unary()?;
            left = self.ids.call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let (symbol, function) = if self.is("!") {
            ("!", op::NOT)
        } else {
            ("-", op::NEGATE)
        };
        let first = self.at();
        let mut count = 0;
        while self.take(symbol).is_some() {
            count += 1;
            let number = matches!(self.peek(), Token::Literal(Literal::Int(_) | Literal::Double(_)));
            if symbol == "-" && number {
                self.negate_literal();
                count -= 1;
                break;
            }
        }
        let operand = self.member()?;
        Ok(if count % 2 == 1 {
            self.ids.call(first, function, vec![operand])
        } else {
            operand
        })
    }

    fn negate_literal(&mut self) {
        let at = self.next;
        if let Some(Spanned {
            token: Token::Literal(literal),
            ..
        }) = self.tokens.get_mut(at)
        {
            match literal {
                Literal::Int(n) => *n = n.wrapping_neg(),
                Literal::Double(f) => *f = -*f,
                _ => {}
            }
        }
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            self.chain()?;
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                let field = self.identifier()?;
                if optional {
                    let literal = Kind::Literal(Literal::String(field));
                    let field = self.ids.node(at, literal);
                    expr = self.ids.call(at, op::OPT_SELECT, vec![expr, field]);
                } else if let Some(open) = self.take("(") {
                    let args = self.arguments(")")?;
                    expr = self.receiver_call(open, &field, expr, args);
                } else {
                    let kind = Kind::Select {
                        operand: Box::new(expr),
                        field,
                        test: false,
                    };
                    expr = self.ids.node(at, kind);
                }
            } else if let Some(at) = self.take("[") {
                let function = if self.take("?").is_some() {
                    op::OPT_INDEX
                } else {
                    op::INDEX
                };
                let index = self.expression()?;
                self.expect("]")?;
                expr = self.ids.call(at, function, vec![expr, index]);
            } else if self.is("{") && qualified(&expr).is_some() {
                let at = self.at();
                self.next += 1;
                let name = qualified(&expr).unwrap_or_default();
                let fields = self.struct_fields()?;
                expr = self.ids.node(at, Kind::Struct { name, fields });
            } else {
                return Ok(expr);
            }
        }
    }

    pub(super) fn identifier(&mut self) -> Result<String, Issue> {
        let name = match self.peek() {
            Token::Ident(name) => name.clone(),
            _ => return Err(self.unexpected("IDENTIFIER")),
        };
        self.next += 1;
        Ok(name)
    }

    pub(super) fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        if self.take(close).is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect(close)?;
        Ok(args)
    }
}

/// `a.b.c` as one name, if that is all there is.
pub(super) fn qualified(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select {
            operand,
            field,
            test: false,
        } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}
