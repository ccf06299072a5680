//! The rules of a schema, compiled and run on objects.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value as Json;

use super::escape;
use super::program::{CompileError, Program, text_of};
use super::types::{Decl, Type, with_meta};
use super::value::{Fault, Value};
use crate::crd::field_path;
use crate::field::{FieldError, Path, text};
use crate::schema::listtype::MapList;
use crate::schema::{Correlation, Rule, Schema};

/// All rules that run on one object together may not cost more.
const BUDGET: i64 = 10_000_000;
/// The name of the type of `self` in messages.
pub const SELF_TYPE: &str = "selfType";
const LONGEST_MESSAGE: usize = 5 * 1024;
const EXHAUSTED: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The compiled rules of a schema.
pub struct Validator {
    schema: Schema,
    root: Node,
}

/// Rules of one place in a schema, and of the places below it.
#[derive(Default)]
struct Node {
    rules: Vec<CompiledRule>,
    /// There are rules, but of data that rules cannot see.
    undeclared: bool,
    items: Option<Box<Node>>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
}

/// A rule with its programs.
pub struct CompiledRule {
    pub rule: Rule,
    /// `None` for an empty rule.
    pub program: Option<Result<Program, String>>,
    pub message: Option<Result<Program, String>>,
    field: Option<Path>,
}

/// Compiles the rules of one node.
pub fn compile(schema: &Schema, decl: &Arc<Decl>) -> Vec<CompiledRule> {
    schema
        .validations
        .iter()
        .map(|rule| compile_rule(schema, rule, decl))
        .collect()
}

fn compile_rule(schema: &Schema, rule: &Rule, decl: &Arc<Decl>) -> CompiledRule {
    let mut compiled = CompiledRule {
        rule: rule.clone(),
        program: None,
        message: None,
        field: None,
    };
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let optional_old = rule.optional_old_self == Some(true);
    let program = Program::compile(&rule.rule, decl, optional_old, &Type::Bool).map_err(|e| match e {
        CompileError::Invalid(text) => format!("compilation failed: {text}"),
        CompileError::WrongResult => "cel expression must evaluate to a bool".to_owned(),
        CompileError::Unusable(text) => format!("program instantiation failed: {text}"),
    });
    let usable = program.is_ok();
    compiled.program = Some(program);
    if usable && !rule.message_expression.is_empty() {
        let source = &rule.message_expression;
        let program = Program::compile(source, decl, optional_old, &Type::String).map_err(|e| match e {
            CompileError::Invalid(text) => format!("messageExpression compilation failed: {text}"),
            CompileError::WrongResult => "messageExpression must evaluate to a string".to_owned(),
            CompileError::Unusable(text) => format!("messageExpression instantiation failed: {text}"),
        });
        if program.is_err() {
            compiled.message = Some(program);
            return compiled;
        }
        compiled.message = Some(program);
    }
    if !rule.field_path.is_empty() {
        compiled.field = field_path::parse(&rule.field_path, schema)
            .ok()
            .map(|(path, _)| path);
    }
    compiled
}

impl Node {
    fn new(schema: &Schema, decl: Option<&Arc<Decl>>) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let mut node = Self::default();
        if decl.is_some()
            && !schema.validations.is_empty()
            && let Some(own) = Decl::of_schema(schema, SELF_TYPE)
        {
            node.rules = compile(schema, &own);
        }
        node.undeclared = decl.is_none() && !schema.validations.is_empty();
        let element = decl.and_then(|d| d.element());
        if let Some(items) = schema.items.as_deref() {
            node.items = Self::new(items, element).map(Box::new);
        }
        if let Some(sub) = schema.additional_schema() {
            node.additional = Self::new(sub, element).map(Box::new);
        }
        for (name, property) in &schema.properties {
            let own;
            let below = match escape::escape(name) {
                // Fields that rules cannot see have no rules.
                Some(escaped) => match decl.and_then(|d| d.field(&escaped)) {
                    Some(field) => field,
                    None => continue,
                },
                None => match Decl::of_schema(property, SELF_TYPE) {
                    Some(decl) => {
                        own = decl;
                        &own
                    }
                    None => continue,
                },
            };
            if let Some(sub) = Self::new(property, Some(below)) {
                node.properties.insert(name.clone(), sub);
            }
        }
        let empty = node.rules.is_empty()
            && !node.undeclared
            && node.items.is_none()
            && node.additional.is_none()
            && node.properties.is_empty();
        (!empty).then_some(node)
    }
}

fn has_rules(schema: &Schema) -> bool {
    !schema.validations.is_empty()
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.additional_schema().is_some_and(has_rules)
        || schema.properties.values().any(has_rules)
}

/// Where ratcheting stands: the value with its old one, and the nearest ancestor that has one.
#[derive(Clone, Copy)]
struct Ratchet<'r, 'a> {
    current: Option<&'r Correlation<'a>>,
    parent: Option<&'r Correlation<'a>>,
}

impl Ratchet<'_, '_> {
    /// Errors of what did not change are not held against an update.
    fn unchanged(self) -> bool {
        match (self.current, self.parent) {
            (Some(c), _) | (None, Some(c)) => c.unchanged(),
            (None, None) => false,
        }
    }
}

impl Validator {
    /// `None` if the schema has no rules.
    pub fn new(schema: &Schema, resource_root: bool) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let schema = with_meta(schema, resource_root || schema.embedded_resource);
        let decl = Decl::of_schema(&schema, SELF_TYPE);
        let root = Node::new(&schema, decl.as_ref())?;
        Some(Self { schema, root })
    }

    /// Runs all rules on an object, transition rules if there is an old one.
    pub fn validate(
        &self,
        path: &Path,
        object: &Json,
        old: Option<&Json>,
        correlation: Option<&Correlation<'_>>,
    ) -> Vec<FieldError> {
        let mut run = Run {
            errors: Vec::new(),
            budget: BUDGET,
        };
        let ratchet = Ratchet {
            current: correlation,
            parent: None,
        };
        run.node(&self.root, &self.schema, path, object, old, ratchet);
        run.errors
    }
}

struct Run {
    errors: Vec<FieldError>,
    /// Negative: nothing else is run.
    budget: i64,
}

impl Run {
    fn node(
        &mut self,
        node: &Node,
        schema: &Schema,
        path: &Path,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_, '_>,
    ) {
        if self.budget < 0 || value.is_null() {
            return;
        }
        let old = old.filter(|o| !o.is_null());
        self.rules(node, schema, path, value, old, ratchet);
        match value {
            Json::Array(items) => {
                let (Some(sub), Some(sub_schema)) = (&node.items, schema.items.as_deref()) else {
                    return;
                };
                let old_items = match old {
                    Some(Json::Array(old)) => MapList::new(schema, old),
                    _ => None,
                };
                for (i, item) in items.iter().enumerate() {
                    let old_item = old_items.as_ref().and_then(|l| l.get(item));
                    let child = ratchet.current.and_then(|c| c.index(i));
                    let below = Ratchet {
                        current: child.as_ref(),
                        parent: ratchet.current.or(ratchet.parent),
                    };
                    self.node(sub, sub_schema, &path.index(i), item, old_item, below);
                }
            }
            Json::Object(map) => {
                for (key, item) in map {
                    let old_item = old.and_then(|o| o.get(key));
                    let type_meta = matches!(key.as_str(), "apiVersion" | "kind")
                        && ratchet.current.is_some()
                        && ratchet.parent.is_none();
                    let child = ratchet.current.filter(|_| !type_meta).and_then(|c| c.key(key));
                    let below = Ratchet {
                        current: child.as_ref(),
                        parent: if type_meta {
                            None
                        } else {
                            ratchet.current.or(ratchet.parent)
                        },
                    };
                    if let (Some(sub), Some(s)) = (&node.additional, schema.additional_schema()) {
                        self.node(sub, s, &path.key(key), item, old_item, below);
                    }
                    if let (Some(sub), Some(s)) = (node.properties.get(key), schema.properties.get(key)) {
                        self.node(sub, s, &path.child(key), item, old_item, below);
                    }
                }
            }
            _ => {}
        }
    }

    fn out_of_budget(&mut self, path: &Path, schema: &Schema, message: String) {
        self.errors
            .push(FieldError::invalid(path, schema.type_.as_str(), message));
        self.budget = -1;
    }

    fn rules(
        &mut self,
        node: &Node,
        schema: &Schema,
        path: &Path,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_, '_>,
    ) {
        if node.undeclared {
            self.errors.push(FieldError::invalid(
                path,
                schema.type_.as_str(),
                "rule compiler initialization error: failed to convert to declType for CEL validation rules",
            ));
        }
        if node.rules.is_empty() {
            return;
        }
        if self.budget <= 0 {
            self.out_of_budget(path, schema, EXHAUSTED.to_owned());
            return;
        }
        for compiled in &node.rules {
            if self.rule(compiled, schema, path, value, old, ratchet).is_break() {
                return;
            }
        }
    }

    /// Runs one rule; breaks when the budget is spent.
    fn rule(
        &mut self,
        compiled: &CompiledRule,
        schema: &Schema,
        path: &Path,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_, '_>,
    ) -> ControlFlow<()> {
        let wrong = |message: String| FieldError::invalid(path, schema.type_.as_str(), message);
        let program = match &compiled.program {
            None => return ControlFlow::Continue(()),
            Some(Err(error)) => {
                self.errors.push(wrong(format!("rule compile error: {error}")));
                return ControlFlow::Continue(());
            }
            Some(Ok(program)) => program,
        };
        let optional = compiled.rule.optional_old_self == Some(true);
        if program.uses_old_self && old.is_none() && !optional {
            return ControlFlow::Continue(());
        }
        let variables = || {
            let own = Value::of_json(value, schema);
            let before = old.map(|o| Value::of_json(o, schema));
            let before = if optional {
                Some(match before {
                    Some(Err(Fault::Error(reason))) => Ok(Value::some(Value::Invalid(reason.into()))),
                    Some(v) => v.map(Value::some),
                    None => Ok(Value::Optional(None)),
                })
            } else {
                before
            };
            (own, before)
        };
        let (own, before) = variables();
        let (result, cost) = program.run(own, before);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            self.out_of_budget(path, schema, EXHAUSTED.to_owned());
            return ControlFlow::Break(());
        }
        self.budget -= cost;
        match result {
            Ok(Value::Bool(true)) => return ControlFlow::Continue(()),
            Ok(_) => {}
            Err(Fault::OverBudget) => {
                let message = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules \
                     will be run due to call cost exceeds limit for rule: {}",
                    shown(&compiled.rule)
                );
                self.out_of_budget(path, schema, message);
                return ControlFlow::Break(());
            }
            Err(Fault::Error(error)) => {
                self.errors.push(wrong(fault_message(&error, &compiled.rule)));
                return ControlFlow::Continue(());
            }
        }
        let at = match &compiled.field {
            Some(below) => path.child(&below.to_string()),
            None => path.clone(),
        };
        let mut detail = None;
        if let Some(Ok(message)) = &compiled.message {
            let (own, before) = variables();
            let (result, cost) = message.run(own, before);
            let cost = i64::try_from(cost).unwrap_or(i64::MAX);
            if cost > self.budget || matches!(result, Err(Fault::OverBudget)) {
                let message = if cost > self.budget {
                    "messageExpression evaluation failed due to running out of cost budget, no \
                     further validation rules will be run"
                        .to_owned()
                } else {
                    format!(
                        "no further validation rules will be run due to call cost exceeds limit for \
                         messageExpression: {}",
                        text::quote(&compiled.rule.message_expression)
                    )
                };
                self.out_of_budget(&at, schema, message);
                return ControlFlow::Break(());
            }
            self.budget -= cost;
            detail = usable_message(result);
        }
        let detail = detail.unwrap_or_else(|| default_message(&compiled.rule));
        if program.uses_old_self || !ratchet.unchanged() {
            let reason = compiled.rule.reason.as_deref();
            self.errors.push(failure(&at, schema, value, detail, reason));
        }
        ControlFlow::Continue(())
    }
}

/// What is reported when a rule fails to run.
fn fault_message(error: &str, rule: &Rule) -> String {
    let shown = shown(rule);
    if error.starts_with("no such overload") {
        format!(
            "'{error}': call arguments did not match a supported operator, function or \
             macro signature for rule: {shown}"
        )
    } else {
        format!("{error} evaluating rule: {shown}")
    }
}

/// One line that is neither empty nor too long; else the rule's own message counts.
fn usable_message(result: super::value::Result<'_>) -> Option<String> {
    let message = text_of(result).ok().flatten()?;
    let message = message.trim();
    let fine = !message.is_empty() && !message.contains('\n') && message.len() <= LONGEST_MESSAGE;
    fine.then(|| message.to_owned())
}

fn shown(rule: &Rule) -> &str {
    if rule.message.is_empty() {
        rule.rule.trim()
    } else {
        rule.message.trim()
    }
}

fn default_message(rule: &Rule) -> String {
    if rule.message.is_empty() {
        format!("failed rule: {}", shown(rule))
    } else {
        rule.message.trim().to_owned()
    }
}

fn failure(at: &Path, schema: &Schema, value: &Json, detail: String, reason: Option<&str>) -> FieldError {
    let value = (!matches!(schema.type_.as_str(), "object" | "array")).then(|| value.clone());
    match reason {
        Some("FieldValueForbidden") => FieldError::forbidden(at, detail),
        Some("FieldValueRequired") => FieldError::required(at, detail),
        Some("FieldValueDuplicate") => FieldError::new(crate::field::ErrorType::Duplicate, at, value, ""),
        _ => FieldError::new(crate::field::ErrorType::Invalid, at, value, detail),
    }
}
