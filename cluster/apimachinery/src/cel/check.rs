//! Type checking: every name is known, every call has an overload.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{Expr, Issue, Kind, Literal, op};
use super::library::{FUNCTIONS, type_of_name};
use super::parse::qualified;
use super::types::Type;
use super::unify::most_general;

/// A checked expression.
#[derive(Debug)]
pub struct Checked {
    pub expr: Expr,
    pub types: HashMap<usize, Type>,
    /// The overloads that a call may have, by the id of the call.
    pub overloads: HashMap<usize, Vec<String>>,
    /// Whether `oldSelf` is used.
    pub uses_old_self: bool,
}

impl Checked {
    pub fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(&expr.id).unwrap_or(&Type::Dyn)
    }
}

/// Checks an expression with the given variables.
pub fn check(expr: Expr, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        scopes: vec![
            variables
                .iter()
                .map(|(n, t)| ((*n).to_owned(), t.clone()))
                .collect(),
        ],
        substitutions: HashMap::new(),
        next_var: 0,
        types: HashMap::new(),
        overloads: HashMap::new(),
        issues: Vec::new(),
        uses_old_self: false,
    };
    let mut expr = expr;
    checker.check(&mut expr);
    if !checker.issues.is_empty() {
        checker.issues.sort_by_key(|i| i.at);
        return Err(checker.issues);
    }
    let types = std::mem::take(&mut checker.types)
        .into_iter()
        .map(|(id, t)| (id, checker.substitute(&t, true)))
        .collect();
    Ok(Checked {
        expr,
        types,
        overloads: checker.overloads,
        uses_old_self: checker.uses_old_self,
    })
}

pub(super) struct Checker {
    scopes: Vec<HashMap<String, Type>>,
    pub(super) substitutions: HashMap<usize, Type>,
    next_var: usize,
    types: HashMap<usize, Type>,
    overloads: HashMap<usize, Vec<String>>,
    issues: Vec<Issue>,
    uses_old_self: bool,
}

impl Checker {
    fn report(&mut self, at: usize, message: String) {
        self.issues.push(Issue { at, message });
    }

    fn set(&mut self, expr: &Expr, t: Type) {
        self.types.insert(expr.id, t);
    }

    fn get(&self, expr: &Expr) -> Type {
        self.types.get(&expr.id).cloned().unwrap_or(Type::Error)
    }

    fn new_var(&mut self) -> Type {
        self.next_var += 1;
        Type::Var(self.next_var - 1)
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        self.scopes.iter().rev().find_map(|s| s.get(name).cloned())
    }

    fn check(&mut self, expr: &mut Expr) {
        let t = match &mut expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => self.ident(name, expr.at),
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List { .. } => self.list(expr),
            Kind::Map(_) => self.map(expr),
            Kind::Struct { name, fields } => {
                let message = format!("undeclared reference to '{name}' (in container '')");
                for field in fields {
                    self.check(&mut field.value);
                }
                self.report(expr.at, message);
                Type::Error
            }
            Kind::Comprehension(_) => self.comprehension(expr),
            Kind::Broken => Type::Error,
        };
        self.set(expr, t);
    }

    fn ident(&mut self, name: &str, at: usize) -> Type {
        if let Some(t) = self.lookup(name) {
            self.uses_old_self |= name == "oldSelf" && self.scopes[0].contains_key(name);
            return t;
        }
        if let Some(t) = type_of_name(name) {
            return Type::Type(Some(Arc::new(t)));
        }
        self.report(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        // Names of types have dots: `google.protobuf.Duration`.
        if let Some(name) = qualified(expr)
            && let Some(t) = type_of_name(&name)
        {
            expr.kind = Kind::Ident(name);
            return Type::Type(Some(Arc::new(t)));
        }
        let at = expr.at;
        let Kind::Select { operand, field, test } = &mut expr.kind else {
            return Type::Error;
        };
        let result = self.select_field(operand, field, at, false);
        if *test {
            Type::Bool
        } else {
            self.substitute(&result, false)
        }
    }

    fn select_field(&mut self, operand: &mut Expr, field: &str, at: usize, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.substitute(&self.get(operand), false);
        let (target, was_optional) = match &operand_type {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(decl) => match decl.field(field) {
                Some(field) => field.of_type(),
                None => {
                    self.report(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Struct(name) => {
                self.report(at, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Var(_) => {
                self.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(at, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional {
            Type::optional(result)
        } else {
            result
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let Kind::Call {
            function,
            target,
            args,
        } = &mut expr.kind
        else {
            return Type::Error;
        };
        if function == op::OPT_SELECT {
            let [operand, field] = &mut args[..] else {
                return Type::Error;
            };
            let Kind::Literal(Literal::String(name)) = &field.kind else {
                return Type::Error;
            };
            let name = name.clone();
            self.set(field, Type::String);
            let result = self.select_field(operand, &name, at, true);
            self.overloads
                .insert(id, vec!["select_optional_field".to_owned()]);
            return self.substitute(&result, false);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        if let Some(receiver) = target {
            // `a.b.f()` may be the function `a.b.f`.
            if let Some(prefix) = qualified(receiver) {
                let name = format!("{prefix}.{function}");
                if FUNCTIONS.contains_key(&name) {
                    *function = name;
                    *target = None;
                }
            }
        }
        if let Some(receiver) = target {
            self.check(receiver);
        }
        if !FUNCTIONS.contains_key(function.as_str()) {
            let message = format!("undeclared reference to '{function}' (in container '')");
            self.report(at, message);
            return Type::Error;
        }
        let mut types: Vec<Type> = target.iter().map(|t| self.get(t)).collect();
        types.extend(args.iter().map(|a| self.get(a)));
        if matches!(function.as_str(), op::AND | op::OR) {
            let name = if function == op::AND {
                "logical_and"
            } else {
                "logical_or"
            };
            let mut fine = true;
            for (arg, t) in args.iter().zip(&types) {
                if !self.assignable(t, &Type::Bool) {
                    self.report(arg.at, format!("expected type 'bool' but found '{t}'"));
                    fine = false;
                }
            }
            self.overloads.insert(id, vec![name.to_owned()]);
            return if fine { Type::Bool } else { Type::Error };
        }
        let (function, member) = (function.clone(), target.is_some());
        self.resolve(id, at, &function, member, &types)
    }

    fn resolve(&mut self, id: usize, at: usize, function: &str, member: bool, types: &[Type]) -> Type {
        let mut result: Option<Type> = None;
        let mut found = Vec::new();
        for overload in FUNCTIONS.get(function).into_iter().flatten() {
            if overload.member != member || overload.args.len() != types.len() {
                continue;
            }
            let mut params = HashMap::new();
            let wanted: Vec<Type> = overload
                .args
                .iter()
                .map(|t| self.instantiate(t, &mut params))
                .collect();
            let returned = self.instantiate(&overload.result, &mut params);
            if !self.all_assignable(types, &wanted) {
                continue;
            }
            found.push(overload.id.clone());
            let returned = self.substitute(&returned, false);
            result = Some(match result {
                None => returned,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if before.same(&returned) => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(t) => {
                self.overloads.insert(id, found);
                t
            }
            None => {
                let shown: Vec<String> = types
                    .iter()
                    .map(|t| self.substitute(t, true).to_string())
                    .collect();
                let signature = match (member, shown.split_first()) {
                    (true, Some((target, args))) => format!("{target}.({})", args.join(", ")),
                    _ => format!("({})", shown.join(", ")),
                };
                self.report(
                    at,
                    format!("found no matching overload for '{function}' applied to '{signature}'"),
                );
                Type::Error
            }
        }
    }

    fn instantiate(&mut self, t: &Type, params: &mut HashMap<char, Type>) -> Type {
        match t {
            Type::Param(c) => match params.get(c) {
                Some(var) => var.clone(),
                None => {
                    let var = self.new_var();
                    params.insert(*c, var.clone());
                    var
                }
            },
            Type::List(a) => Type::list(self.instantiate(a, params)),
            Type::Map(a, b) => Type::map(self.instantiate(a, params), self.instantiate(b, params)),
            Type::Optional(a) => Type::optional(self.instantiate(a, params)),
            Type::Type(Some(a)) => Type::Type(Some(Arc::new(self.instantiate(a, params)))),
            other => other.clone(),
        }
    }

    fn list(&mut self, expr: &mut Expr) -> Type {
        let Kind::List { elements, optional } = &mut expr.kind else {
            return Type::Error;
        };
        let mut joined: Option<Type> = None;
        for (i, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let mut t = self.get(element);
            if optional.contains(&i) {
                t = self.unwrap_optional(t, element.at);
            }
            joined = Some(self.join(joined, t));
        }
        let item = joined.unwrap_or_else(|| self.new_var());
        Type::list(item)
    }

    fn unwrap_optional(&mut self, t: Type, at: usize) -> Type {
        match t {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.report(at, message);
                other
            }
        }
    }

    fn map(&mut self, expr: &mut Expr) -> Type {
        let Kind::Map(entries) = &mut expr.kind else {
            return Type::Error;
        };
        let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.get(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let mut value = self.get(&entry.value);
            if entry.optional {
                value = self.unwrap_optional(value, entry.value.at);
            }
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.new_var());
        let value = values.unwrap_or_else(|| self.new_var());
        Type::map(key, value)
    }

    fn join(&mut self, before: Option<Type>, t: Type) -> Type {
        let Some(before) = before else {
            return t;
        };
        if self.assignable(&before, &t) {
            return most_general(&before, &t);
        }
        // Mixed literals are refused later, unless they are the arguments of `format`.
        Type::Dyn
    }

    fn comprehension(&mut self, expr: &mut Expr) -> Type {
        let Kind::Comprehension(c) = &mut expr.kind else {
            return Type::Error;
        };
        self.check(&mut c.range);
        self.check(&mut c.init);
        let range = self.substitute(&self.get(&c.range), false);
        let accu = self.get(&c.init);
        self.scopes.push(HashMap::from([(c.accu.clone(), accu.clone())]));
        let two = c.var2.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                self.report(
                    c.range.at,
                    format!(
                        "expression of type '{other}' cannot be range of a comprehension \
                         (must be list, map, or dynamic)"
                    ),
                );
                (Type::Error, Type::Error)
            }
        };
        let mut scope = HashMap::from([(c.var.clone(), first)]);
        if let Some(var2) = &c.var2 {
            scope.insert(var2.clone(), second);
        }
        self.scopes.push(scope);
        self.check(&mut c.condition);
        self.assert(&c.condition, &Type::Bool);
        self.check(&mut c.step);
        self.assert(&c.step, &accu);
        self.scopes.pop();
        self.check(&mut c.result);
        self.scopes.pop();
        let result = self.get(&c.result);
        self.substitute(&result, false)
    }

    fn assert(&mut self, expr: &Expr, wanted: &Type) {
        let t = self.get(expr);
        if !self.assignable(wanted, &t) {
            self.report(expr.at, format!("expected type '{wanted}' but found '{t}'"));
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
