//! Evaluation of a checked expression.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::ast::{ACCU, Comprehension, Expr, Kind, Literal, op};
use super::functions;
use super::library::type_of_name;
use super::value::{Fault, Key, Result, Value};

/// Runs expressions within a budget.
pub(super) struct Evaluator<'a> {
    variables: Vec<(&'a str, Result<'a>)>,
    cost: u64,
    limit: u64,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(variables: Vec<(&'a str, Result<'a>)>, limit: u64) -> Self {
        Self {
            variables,
            cost: 0,
            limit,
        }
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&mut self, cost: u64) -> std::result::Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(Fault::OverBudget);
        }
        Ok(())
    }

    pub(super) fn eval(&mut self, e: &'a Expr) -> Result<'a> {
        match &e.kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::Ident(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Kind::Select { operand, field, test } => {
                let value = self.eval(operand)?;
                if *test {
                    return has(&value, field);
                }
                self.charge(1)?;
                select(&value, field)
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args),
            Kind::List { elements, optional } => {
                let mut items = Vec::with_capacity(elements.len());
                for (i, element) in elements.iter().enumerate() {
                    match self.eval(element)? {
                        Value::Optional(inner) if optional.contains(&i) => {
                            items.extend(inner.map(|v| (*v).clone()));
                        }
                        value => items.push(value),
                    }
                }
                self.charge(10)?;
                Ok(Value::list(items))
            }
            Kind::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = self.eval(&entry.key)?;
                    let mut value = self.eval(&entry.value)?;
                    if entry.optional {
                        match value {
                            Value::Optional(Some(inner)) => value = (*inner).clone(),
                            _ => continue,
                        }
                    }
                    let key = Key::of(&key).ok_or_else(|| Fault::new("unsupported key type"))?;
                    map.insert(key, value);
                }
                self.charge(30)?;
                Ok(Value::Map(Rc::new(map)))
            }
            Kind::Comprehension(c) => self.comprehension(c),
            Kind::Struct { .. } | Kind::Broken => Err(Fault::no_such_overload()),
        }
    }

    fn variable(&self, name: &str) -> Result<'a> {
        if let Some((_, value)) = self.variables.iter().rev().find(|(n, _)| *n == name) {
            return value.clone();
        }
        match type_of_name(name) {
            Some(_) => Ok(Value::Type(name.into())),
            None => Err(Fault::new(format!("no such attribute(s): {name}"))),
        }
    }

    fn call(&mut self, function: &str, target: Option<&'a Expr>, args: &'a [Expr]) -> Result<'a> {
        match (function, args) {
            (op::AND, [left, right]) => return self.logic(left, right, false),
            (op::OR, [left, right]) => return self.logic(left, right, true),
            (op::CONDITIONAL, [condition, yes, no]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.eval(yes),
                    Value::Bool(false) => self.eval(no),
                    _ => Err(Fault::no_such_overload()),
                };
            }
            (op::NOT_STRICTLY_FALSE, [arg]) => {
                return match self.eval(arg) {
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Err(Fault::OverBudget) => Err(Fault::OverBudget),
                    _ => Ok(Value::Bool(true)),
                };
            }
            (op::OPT_SELECT, [operand, field]) => {
                let (value, field) = (self.eval(operand)?, self.eval(field)?);
                self.charge(1)?;
                return optional_find(&value, &field);
            }
            (op::OPT_INDEX, [operand, index]) => {
                let (value, index) = (self.eval(operand)?, self.eval(index)?);
                self.charge(1)?;
                return optional_find(&value, &index);
            }
            (op::INDEX, [operand, index]) => {
                let (value, index) = (self.eval(operand)?, self.eval(index)?);
                self.charge(1)?;
                return match value {
                    Value::Optional(_) => optional_find(&value, &index),
                    value => value.index(&index),
                };
            }
            ("or" | "orValue", [alternative]) => {
                let Some(target) = target else {
                    return Err(Fault::no_such_overload());
                };
                return match self.eval(target)? {
                    Value::Optional(Some(inner)) if function == "orValue" => Ok((*inner).clone()),
                    Value::Optional(Some(inner)) => Ok(Value::Optional(Some(inner))),
                    Value::Optional(None) => self.eval(alternative),
                    _ => Err(Fault::no_such_overload()),
                };
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target {
            values.push(self.eval(target)?);
        }
        for arg in args {
            values.push(self.eval(arg)?);
        }
        // What a call costs is known before it is made, but for a few that depend on the result.
        self.charge(functions::cost(function, &values))?;
        functions::call(function, target.is_some(), &values)
    }

    /// `&&` and `||`: an error on one side does not count if the other side decides.
    fn logic(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> Result<'a> {
        let first = self.eval(left);
        match first {
            Ok(Value::Bool(b)) if b == decides => return Ok(Value::Bool(decides)),
            Err(Fault::OverBudget) => return first,
            _ => {}
        }
        let second = self.eval(right);
        match (first, second) {
            (_, Ok(Value::Bool(b))) if b == decides => Ok(Value::Bool(decides)),
            (_, Err(Fault::OverBudget)) => Err(Fault::OverBudget),
            (Err(fault), _) | (Ok(Value::Bool(_)), Err(fault)) => Err(fault),
            (Ok(Value::Bool(_)), Ok(Value::Bool(b))) => Ok(Value::Bool(b)),
            _ => Err(Fault::no_such_overload()),
        }
    }

    fn comprehension(&mut self, c: &'a Comprehension) -> Result<'a> {
        let range = self.eval(&c.range)?;
        let init = self.eval(&c.init);
        if matches!(init, Err(Fault::OverBudget)) {
            return init;
        }
        let steps = self.steps(&range, c.var2.is_some())?;
        let depth = self.variables.len();
        self.variables.push((&c.accu, init));
        let outcome = self.fold(c, steps, depth);
        self.variables.truncate(depth + 1);
        let result = outcome.and_then(|()| self.eval(&c.result));
        self.variables.truncate(depth);
        result
    }

    fn fold(
        &mut self,
        c: &'a Comprehension,
        steps: Vec<(Result<'a>, Option<Result<'a>>)>,
        depth: usize,
    ) -> std::result::Result<(), Fault> {
        let appended = appended(&c.step);
        let unconditional = matches!(c.condition.kind, Kind::Literal(Literal::Bool(true)));
        for (first, second) in steps {
            self.variables.truncate(depth + 1);
            self.variables.push((&c.var, first));
            if let (Some(var2), Some(second)) = (&c.var2, second) {
                self.variables.push((var2, second));
            }
            if !matches!(self.eval(&c.condition)?, Value::Bool(true)) {
                break;
            }
            if let Some((filter, item)) = appended
                && matches!(self.variables[depth].1, Ok(Value::List(_)))
            {
                match self.append(filter, item, depth) {
                    Ok(()) => continue,
                    Err(Fault::OverBudget) => return Err(Fault::OverBudget),
                    Err(fault) => {
                        self.variables[depth].1 = Err(fault);
                        break;
                    }
                }
            }
            let next = self.eval(&c.step);
            if matches!(next, Err(Fault::OverBudget)) {
                return Err(Fault::OverBudget);
            }
            let failed = next.is_err();
            self.variables[depth].1 = next;
            // Nothing can fix an error in a map or filter.
            if failed && unconditional {
                break;
            }
        }
        Ok(())
    }

    /// `accu + [item]` without a copy of what is there already.
    fn append(
        &mut self,
        filter: Option<&'a Expr>,
        item: &'a Expr,
        depth: usize,
    ) -> std::result::Result<(), Fault> {
        if let Some(filter) = filter {
            match self.eval(filter)? {
                Value::Bool(true) => {}
                Value::Bool(false) => return self.charge(1),
                _ => return Err(Fault::no_such_overload()),
            }
        }
        let value = self.eval(item)?;
        self.charge(12)?;
        if let Ok(Value::List(items)) = &mut self.variables[depth].1 {
            Rc::make_mut(items).push(value);
        }
        Ok(())
    }

    /// The values of the iteration variables.
    fn steps(
        &mut self,
        range: &Value<'a>,
        two: bool,
    ) -> std::result::Result<Vec<(Result<'a>, Option<Result<'a>>)>, Fault> {
        if let Some(size) = range.size().filter(|_| range.is_list()) {
            return Ok((0..size)
                .map(|i| {
                    let index = Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                    let item = range.index(&index);
                    if two {
                        (Ok(index), Some(item))
                    } else {
                        (item, None)
                    }
                })
                .collect());
        }
        if !range.is_map() {
            return Err(Fault::no_such_overload());
        }
        Ok(range
            .keys()
            .into_iter()
            .map(|key| {
                let value = two.then(|| range.index(&key));
                (Ok(key), value)
            })
            .collect())
    }
}

/// The filter and item of `accu + [item]` or `filter ? accu + [item] : accu`.
fn appended(step: &Expr) -> Option<(Option<&Expr>, &Expr)> {
    let Kind::Call { function, args, .. } = &step.kind else {
        return None;
    };
    let is_accu = |e: &Expr| matches!(&e.kind, Kind::Ident(name) if name == ACCU);
    match (function.as_str(), &args[..]) {
        (op::ADD, [accu, list]) if is_accu(accu) => match &list.kind {
            Kind::List { elements, optional } if optional.is_empty() => match &elements[..] {
                [item] => Some((None, item)),
                _ => None,
            },
            _ => None,
        },
        (op::CONDITIONAL, [filter, more, same]) if is_accu(same) => {
            let (_, item) = appended(more).filter(|(nested, _)| nested.is_none())?;
            Some((Some(filter), item))
        }
        _ => None,
    }
}

fn literal_value<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(*i),
        Literal::Uint(u) => Value::Uint(*u),
        Literal::Double(f) => Value::Double(*f),
        Literal::String(s) => Value::string(s.as_str()),
        Literal::Bytes(b) => Value::Bytes(b.as_slice().into()),
    }
}

fn has<'a>(value: &Value<'a>, field: &str) -> Result<'a> {
    match value {
        Value::Optional(None) => Ok(Value::Bool(false)),
        Value::Optional(Some(inner)) => has(inner, field),
        value if value.is_map() => match value.find(&Value::string(field))? {
            Some(_) => Ok(Value::Bool(true)),
            None => Ok(Value::Bool(false)),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn select<'a>(value: &Value<'a>, field: &str) -> Result<'a> {
    match value {
        Value::Optional(_) => optional_find(value, &Value::string(field)),
        value if value.is_map() => value
            .find(&Value::string(field))?
            .ok_or_else(|| Fault::new(format!("no such key: {field}"))),
        _ => Err(Fault::no_such_overload()),
    }
}

/// The optional value of a field, key or index.
fn optional_find<'a>(value: &Value<'a>, key: &Value<'a>) -> Result<'a> {
    match value {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_find(inner, key),
        value if value.is_list() => {
            let Value::Int(i) = key else {
                return Err(Fault::no_such_overload());
            };
            let inside = usize::try_from(*i).is_ok_and(|i| value.size().is_some_and(|n| i < n));
            Ok(if inside {
                Value::some(value.index(key)?)
            } else {
                Value::Optional(None)
            })
        }
        value => Ok(value.find(key)?.map_or(Value::Optional(None), Value::some)),
    }
}
