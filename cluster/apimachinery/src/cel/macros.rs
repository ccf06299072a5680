//! Macros: what `all`, `exists`, `map` and their like stand for.

use super::ast::{ACCU, Comprehension, Expr, Issue, Kind, Literal, op};
use super::parse::Ids;

/// `has(a.b)`.
pub(super) fn has(ids: &mut Ids, at: usize, mut args: Vec<Expr>) -> Result<Expr, Issue> {
    match args.pop() {
        Some(Expr {
            kind:
                Kind::Select {
                    operand,
                    field,
                    test: false,
                },
            ..
        }) => Ok(ids.node(
            at,
            Kind::Select {
                operand,
                field,
                test: true,
            },
        )),
        other => Err(Issue {
            at: other.map_or(at, |e| e.at),
            message: "invalid argument to has() macro".to_owned(),
        }),
    }
}

/// A call on a target; those that are macros are expanded.
pub(super) fn expand(
    ids: &mut Ids,
    at: usize,
    name: &str,
    target: Expr,
    args: Vec<Expr>,
) -> Result<Expr, Issue> {
    let mut build = Builder { ids, at };
    match (name, args.len()) {
        ("all" | "exists" | "exists_one", 2 | 3) | ("existsOne", 3) => build.quantifier(name, target, args),
        ("map", 2 | 3) => build.collect(target, args, 1),
        ("transformList", 3 | 4) => build.collect(target, args, 2),
        ("filter", 2) => build.filter(target, args),
        ("transformMap" | "transformMapEntry", 3 | 4) => build.transform_map(name, target, args),
        ("optMap" | "optFlatMap", 2) => build.opt_map(name, target, args),
        ("sortBy", 2) => build.sort_by(target, args),
        _ => Ok(build.node(Kind::Call {
            function: name.to_owned(),
            target: Some(Box::new(target)),
            args,
        })),
    }
}

struct Builder<'a> {
    ids: &'a mut Ids,
    at: usize,
}

/// Iteration variables and what is left of the arguments.
struct Vars {
    var: String,
    var2: Option<String>,
    rest: std::vec::IntoIter<Expr>,
}

impl Builder<'_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.ids.node(self.at, kind)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.ids.call(self.at, function, args)
    }

    fn accu(&mut self) -> Expr {
        self.node(Kind::Ident(ACCU.to_owned()))
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Kind::Literal(literal))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(Kind::List {
            elements,
            optional: Vec::new(),
        })
    }

    fn vars(&self, args: Vec<Expr>, count: usize) -> Result<Vars, Issue> {
        let mut rest = args.into_iter();
        let mut name = || match rest.next() {
            Some(Expr {
                kind: Kind::Ident(name),
                at,
                ..
            }) if name == ACCU => Err(Issue {
                at,
                message: "iteration variable overwrites accumulator variable".to_owned(),
            }),
            Some(Expr {
                kind: Kind::Ident(name),
                at,
                ..
            }) => Ok((name, at)),
            other => Err(Issue {
                at: other.map_or(self.at, |e| e.at),
                message: "argument must be a simple name".to_owned(),
            }),
        };
        let (var, _) = name()?;
        let var2 = match count {
            2 => {
                let (second, at) = name()?;
                if second == var {
                    let message = format!("duplicate variable name: {var}");
                    return Err(Issue { at, message });
                }
                Some(second)
            }
            _ => None,
        };
        Ok(Vars { var, var2, rest })
    }

    fn next(&mut self, vars: &mut Vars) -> Expr {
        // The number of arguments was checked with the macro's name.
        vars.rest.next().unwrap_or_else(|| self.node(Kind::Broken))
    }

    fn fold(
        &mut self,
        range: Expr,
        vars: Vars,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            var: vars.var,
            var2: vars.var2,
            accu: ACCU.to_owned(),
            init,
            condition,
            step,
            result,
        })))
    }

    fn quantifier(&mut self, name: &str, target: Expr, args: Vec<Expr>) -> Result<Expr, Issue> {
        let count = args.len() - 1;
        let mut vars = self.vars(args, count)?;
        let test = self.next(&mut vars);
        let accu = self.accu();
        Ok(match name {
            "all" => {
                let init = self.literal(Literal::Bool(true));
                let condition = self.call(op::NOT_STRICTLY_FALSE, vec![accu]);
                let accu = self.accu();
                let step = self.call(op::AND, vec![accu, test]);
                let result = self.accu();
                self.fold(target, vars, init, condition, step, result)
            }
            "exists" => {
                let init = self.literal(Literal::Bool(false));
                let not = self.call(op::NOT, vec![accu]);
                let condition = self.call(op::NOT_STRICTLY_FALSE, vec![not]);
                let accu = self.accu();
                let step = self.call(op::OR, vec![accu, test]);
                let result = self.accu();
                self.fold(target, vars, init, condition, step, result)
            }
            _ => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let one = self.literal(Literal::Int(1));
                let more = self.call(op::ADD, vec![accu, one]);
                let same = self.accu();
                let step = self.call(op::CONDITIONAL, vec![test, more, same]);
                let (accu, one) = (self.accu(), self.literal(Literal::Int(1)));
                let result = self.call(op::EQUALS, vec![accu, one]);
                self.fold(target, vars, init, condition, step, result)
            }
        })
    }

    /// `map` and `transformList`, with or without a filter.
    fn collect(&mut self, target: Expr, args: Vec<Expr>, count: usize) -> Result<Expr, Issue> {
        let filtered = args.len() == count + 2;
        let mut vars = self.vars(args, count)?;
        let filter = filtered.then(|| self.next(&mut vars));
        let transform = self.next(&mut vars);
        let init = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let (accu, item) = (self.accu(), self.list(vec![transform]));
        let mut step = self.call(op::ADD, vec![accu, item]);
        if let Some(filter) = filter {
            let same = self.accu();
            step = self.call(op::CONDITIONAL, vec![filter, step, same]);
        }
        let result = self.accu();
        Ok(self.fold(target, vars, init, condition, step, result))
    }

    fn filter(&mut self, target: Expr, args: Vec<Expr>) -> Result<Expr, Issue> {
        let mut vars = self.vars(args, 1)?;
        let test = self.next(&mut vars);
        let init = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let var = self.node(Kind::Ident(vars.var.clone()));
        let (accu, item) = (self.accu(), self.list(vec![var]));
        let more = self.call(op::ADD, vec![accu, item]);
        let same = self.accu();
        let step = self.call(op::CONDITIONAL, vec![test, more, same]);
        let result = self.accu();
        Ok(self.fold(target, vars, init, condition, step, result))
    }

    fn transform_map(&mut self, name: &str, target: Expr, args: Vec<Expr>) -> Result<Expr, Issue> {
        let filtered = args.len() == 4;
        let mut vars = self.vars(args, 2)?;
        let filter = filtered.then(|| self.next(&mut vars));
        let transform = self.next(&mut vars);
        let init = self.node(Kind::Map(Vec::new()));
        let condition = self.literal(Literal::Bool(true));
        let mut parts = vec![self.accu()];
        if name == "transformMap" {
            parts.push(self.node(Kind::Ident(vars.var.clone())));
        }
        parts.push(transform);
        let mut step = self.call(op::MAP_INSERT, parts);
        if let Some(filter) = filter {
            let same = self.accu();
            step = self.call(op::CONDITIONAL, vec![filter, step, same]);
        }
        let result = self.accu();
        Ok(self.fold(target, vars, init, condition, step, result))
    }

    /// A variable for the value of `init` in `result`.
    fn bind(&mut self, name: &str, init: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.node(Kind::Ident(name.to_owned()));
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            var: "#unused".to_owned(),
            var2: None,
            accu: name.to_owned(),
            init,
            condition,
            step,
            result,
        })))
    }

    fn member(&mut self, function: &str, target: Expr) -> Expr {
        self.node(Kind::Call {
            function: function.to_owned(),
            target: Some(Box::new(target)),
            args: Vec::new(),
        })
    }

    fn opt_map(&mut self, name: &str, target: Expr, args: Vec<Expr>) -> Result<Expr, Issue> {
        let mut vars = self.vars(args, 1)?;
        let body = self.next(&mut vars);
        let copy = self.copy(&target);
        let present = self.member("hasValue", target);
        let value = self.member("value", copy);
        let bound = self.bind(&vars.var, value, body);
        let some = if name == "optMap" {
            self.call("optional.of", vec![bound])
        } else {
            bound
        };
        let none = self.call("optional.none", Vec::new());
        Ok(self.call(op::CONDITIONAL, vec![present, some, none]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Result<Expr, Issue> {
        const INPUT: &str = "@__sortBy_input__";
        let input = self.node(Kind::Ident(INPUT.to_owned()));
        let keys = self.collect(input, args, 1)?;
        let input = self.node(Kind::Ident(INPUT.to_owned()));
        let sorted = self.node(Kind::Call {
            function: "@sortByAssociatedKeys".to_owned(),
            target: Some(Box::new(input)),
            args: vec![keys],
        });
        Ok(self.bind(INPUT, target, sorted))
    }

    /// The same expression with new ids.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.node(Kind::Broken).id;
        match &mut expr.kind {
            Kind::Select { operand, .. } => self.renumber(operand),
            Kind::Call { target, args, .. } => {
                if let Some(target) = target {
                    self.renumber(target);
                }
                args.iter_mut().for_each(|a| self.renumber(a));
            }
            Kind::List { elements, .. } => elements.iter_mut().for_each(|e| self.renumber(e)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            Kind::Struct { fields, .. } => {
                fields.iter_mut().for_each(|f| self.renumber(&mut f.value));
            }
            Kind::Comprehension(c) => {
                for part in [
                    &mut c.range,
                    &mut c.init,
                    &mut c.condition,
                    &mut c.step,
                    &mut c.result,
                ] {
                    self.renumber(part);
                }
            }
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
        }
    }
}
