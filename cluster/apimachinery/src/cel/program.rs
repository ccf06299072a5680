//! A compiled expression.

use std::sync::Arc;

use super::ast::{self, Expr, Issue, Kind, Literal};
use super::check::{self, Checked};
use super::cost;
use super::eval::Evaluator;
use super::format;
use super::parse;
use super::types::{Decl, Type};
use super::value::{Fault, Result, Value};
use crate::schema::{regexp, time};

/// One call of a rule may not cost more.
pub(super) const PER_CALL_LIMIT: u64 = 1_000_000;

/// An expression that was parsed and checked once and runs often.
#[derive(Debug)]
pub struct Program {
    checked: Checked,
    /// The most that one run can cost.
    pub max_cost: u64,
    pub uses_old_self: bool,
}

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileError {
    /// Faults with their places, ready to print.
    Invalid(String),
    WrongResult,
    /// It compiles but can never run.
    Unusable(String),
}

/// Parses an expression over these variables, and checks that it gives a `result`.
fn checked(
    source: &str,
    variables: &[(&str, Type)],
    result: &Type,
) -> std::result::Result<Checked, CompileError> {
    let invalid = |issues: Vec<Issue>| CompileError::Invalid(ast::render(source, &issues));
    let expr = parse::parse(source).map_err(invalid)?;
    let checked = check::check(expr, variables).map_err(invalid)?;
    let mut issues = literal_faults(&checked);
    mixed_literals(&checked, &checked.expr, &mut issues);
    format_faults(&checked, &mut issues);
    if !issues.is_empty() {
        return Err(invalid(issues));
    }
    if !checked.type_of(&checked.expr).same(result) {
        return Err(CompileError::WrongResult);
    }
    if let Some(reason) = bad_find_pattern(&checked.expr) {
        return Err(CompileError::Unusable(reason));
    }
    Ok(checked)
}

impl Program {
    /// Compiles `source` for data of `root`. `optional_old`: `oldSelf` may be absent.
    pub(super) fn compile(
        source: &str,
        root: &Arc<Decl>,
        optional_old: bool,
        result: &Type,
    ) -> std::result::Result<Self, CompileError> {
        let own = root.of_type();
        let old = if optional_old {
            Type::optional(own.clone())
        } else {
            own.clone()
        };
        let checked = checked(source, &[("self", own), ("oldSelf", old)], result)?;
        let max_cost = cost::estimate(&checked, root).max;
        let uses_old_self = checked.uses_old_self;
        Ok(Self {
            checked,
            max_cost,
            uses_old_self,
        })
    }

    /// Compiles a rule: an expression that answers yes or no.
    pub fn compile_rule(source: &str, root: &Arc<Decl>) -> std::result::Result<Self, CompileError> {
        Self::compile(source, root, false, &Type::Bool)
    }

    /// Compiles an expression that answers yes or no over variables of any shape.
    pub(super) fn compile_open(
        source: &str,
        variables: &[&str],
        result: &Type,
    ) -> std::result::Result<Self, CompileError> {
        let variables: Vec<(&str, Type)> = variables.iter().map(|name| (*name, Type::Dyn)).collect();
        let checked = checked(source, &variables, result)?;
        Ok(Self {
            checked,
            max_cost: PER_CALL_LIMIT,
            uses_old_self: false,
        })
    }

    /// Runs with the values of these variables.
    pub(super) fn run_open<'a>(&'a self, variables: Vec<(&'a str, Result<'a>)>) -> Result<'a> {
        Evaluator::new(variables, PER_CALL_LIMIT).eval(&self.checked.expr)
    }

    /// Runs with the values of `self` and `oldSelf`; also returns what it cost.
    pub(super) fn run<'a>(&'a self, own: Result<'a>, old: Option<Result<'a>>) -> (Result<'a>, u64) {
        let mut variables = vec![("self", own)];
        if let Some(old) = old {
            variables.push(("oldSelf", old));
        }
        let mut evaluator = Evaluator::new(variables, PER_CALL_LIMIT);
        let result = evaluator.eval(&self.checked.expr);
        let cost = evaluator.cost();
        (result, cost)
    }
}

/// Literals that can never be read: bad patterns, durations and times.
fn literal_faults(checked: &Checked) -> Vec<Issue> {
    let mut issues = Vec::new();
    walk(&checked.expr, &mut |e| {
        let Kind::Call { function, args, .. } = &e.kind else {
            return;
        };
        let Some(Expr {
            kind: Kind::Literal(literal),
            at,
            ..
        }) = args.first()
        else {
            return;
        };
        let bad = match (function.as_str(), literal) {
            ("matches", Literal::String(s)) => regexp::compile(s).is_err(),
            ("duration", Literal::String(s)) => time::parse_duration(s).is_none(),
            ("timestamp", Literal::String(s)) => time::parse_rfc3339(s).is_none(),
            _ => false,
        };
        if bad {
            issues.push(Issue {
                at: *at,
                message: format!("invalid {function} argument"),
            });
        }
    });
    issues
}

/// Lists and maps whose elements differ in type; the arguments of `format` may.
fn mixed_literals(checked: &Checked, e: &Expr, issues: &mut Vec<Issue>) {
    if matches!(&e.kind, Kind::Call { function, .. } if function == "format") {
        return;
    }
    let inner = |t: &Type, optional: bool| match t {
        Type::Optional(inner) if optional => (**inner).clone(),
        other => other.clone(),
    };
    let mut differ = |first: &Type, t: &Type, at: usize| {
        let differs = !first.same(t);
        if differs {
            issues.push(Issue {
                at,
                message: format!("expected type '{first}' but found '{t}'"),
            });
        }
        differs
    };
    match &e.kind {
        Kind::List { elements, optional } => {
            let mut types = elements
                .iter()
                .enumerate()
                .map(|(i, item)| (inner(checked.type_of(item), optional.contains(&i)), item.at));
            if let Some((first, _)) = types.next() {
                types.find(|(t, at)| differ(&first, t, *at));
            }
        }
        Kind::Map(entries) => {
            if let Some((first, rest)) = entries.split_first() {
                let key = checked.type_of(&first.key);
                let value = inner(checked.type_of(&first.value), first.optional);
                for entry in rest {
                    differ(key, checked.type_of(&entry.key), entry.key.at);
                    let t = inner(checked.type_of(&entry.value), entry.optional);
                    differ(&value, &t, entry.value.at);
                }
            }
        }
        _ => {}
    }
    e.kind
        .children(&mut |child| mixed_literals(checked, child, issues));
}

/// Calls of `format` on constants that can never succeed.
fn format_faults(checked: &Checked, issues: &mut Vec<Issue>) {
    walk(&checked.expr, &mut |e| {
        if let Kind::Call {
            function,
            target: Some(target),
            args,
        } = &e.kind
            && function == "format"
            && let Kind::Literal(Literal::String(template)) = &target.kind
            && let [
                Expr {
                    kind: Kind::List { elements, .. },
                    ..
                },
            ] = &args[..]
        {
            let types: Vec<&Type> = elements.iter().map(|a| checked.type_of(a)).collect();
            if let Err((arg, message)) = format::check(template, &types) {
                let at = arg.and_then(|i| elements.get(i)).map_or(e.at, |a| a.at);
                issues.push(Issue { at, message });
            }
        }
    });
}

/// A constant pattern of `find` or `findAll` that does not compile.
fn bad_find_pattern(expr: &Expr) -> Option<String> {
    let mut found = None;
    walk(expr, &mut |e| {
        if let Kind::Call { function, args, .. } = &e.kind
            && matches!(function.as_str(), "find" | "findAll")
            && let Some(Expr {
                kind: Kind::Literal(Literal::String(pattern)),
                ..
            }) = args.first()
            && let Err(reason) = regexp::compile(pattern)
        {
            found.get_or_insert(format!("error parsing regexp: {reason}"));
        }
    });
    found
}

fn walk<'a>(root: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    let mut open = vec![root];
    while let Some(expr) = open.pop() {
        f(expr);
        expr.kind.children(&mut |child| open.push(child));
    }
}

/// The text of a result; `None` if it is not one.
pub(super) fn text_of(result: Result<'_>) -> std::result::Result<Option<String>, Fault> {
    Ok(match result? {
        Value::String(s) => Some(s.to_string()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decl(schema: serde_json::Value) -> Arc<Decl> {
        let schema = crate::schema::Schema::parse(&schema, &crate::field::Path::root());
        Decl::of_schema(&schema.expect("readable"), "selfType").expect("visible to rules")
    }

    /// Runs a rule that needs no data.
    fn answer(source: &str) -> std::result::Result<bool, String> {
        let decl = decl(json!({"type": "string"}));
        let program = Program::compile_rule(source, &decl).map_err(|e| format!("{e:?}"))?;
        match program.run(Ok(Value::string("s")), None).0 {
            Ok(Value::Bool(b)) => Ok(b),
            Ok(other) => Err(other.type_name().to_owned()),
            Err(fault) => Err(format!("{fault:?}")),
        }
    }

    #[test]
    fn the_language() {
        for source in [
            "!!true",
            "--1 == 1",
            "1 + 2 * 3 == 7 && 7 % 4 == 3 && -7 / 2 == -3",
            "[1, 2, 3].map(x, x * 2).filter(y, y > 2) == [4, 6]",
            "{'a': 1, 'b': 2}.exists(k, v, k == 'b' && v == 2)",
            "[3, 1, 2].sort() == [1, 2, 3] && [3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
            "[[1], [2, 3]].flatten() == [1, 2, 3] && lists.range(3).sum() == 3",
            "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
            "optional.of(2).optMap(x, x + 1).orValue(0) == 3",
            "[1, ?optional.none()].size() == 1",
            "1 / 0 == 1 || true",
            "[0, 2].exists(x, 4 / x == 2)",
            "dyn(1) == 1.0 && dyn(1) == 1u && 2 > 1.5",
            "'tacocat'.substring(0, 4) == 'taco' && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
            "'abcabc'.lastIndexOf('c') == 5 && 'abcabc'.indexOf('c', 3) == 5",
            "duration('1h') + duration('30m') == duration('90m')",
            "timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59",
            "timestamp('2024-01-01T05:00:00Z').getHours('-08:00') == 21",
            "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1').add(2).asInteger() == 3",
            "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !isIP('10.0.0.256')",
            "url('https://a:80/b?c=d').getPort() == '80' && url('https://a/?c=d').getQuery() == {'c': ['d']}",
            "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && isSemver('v1.2', true)",
            "format.named('dns1123Label').value().validate('A').hasValue()",
            "'a1b22'.findAll('[0-9]+') == ['1', '22'] && b'abc'.size() == 3",
            "sets.equivalent([1, 2, 2], [2, 1]) && type(1) == int && type('') != bytes",
            "'%s|%d|%.1f'.format(['a', 1, 2.5]) == 'a|1|2.5'",
        ] {
            assert_eq!(answer(source), Ok(true), "{source}");
        }
    }

    #[test]
    fn deep_expressions_are_refused() {
        for source in [
            format!("{}true{}", "(".repeat(10_000), ")".repeat(10_000)),
            format!("{}true", "[".repeat(50_000)),
            format!("self{} == 1", ".a".repeat(40_000)),
            format!("1{} > 0", " + 1".repeat(20_000)),
            format!("{}1 > 0", "true ? 1 : ".repeat(5_000)),
        ] {
            assert!(answer(&source).is_err());
        }
        assert_eq!(answer(&format!("{}true", "!".repeat(10_000))), Ok(true));
        assert_eq!(answer(&vec!["true"; 3_000].join(" && ")), Ok(true));
    }

    #[test]
    fn endless_work_is_stopped() {
        let source =
            "lists.range(400).all(a, lists.range(400).all(b, lists.range(400).all(c, a + b + c >= 0)))";
        assert_eq!(answer(source), Err("OverBudget".to_owned()));
        let huge = "lists.range(9223372036854775807).size() > 0";
        assert_eq!(answer(huge), Err("OverBudget".to_owned()));
    }
}
