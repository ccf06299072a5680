//! Which schemas a CustomResourceDefinition may have.

use std::sync::Arc;

use serde_json::{Value, json};

use super::keywords::{keywords, rule_forms, standard};
use super::{defaults, structural};
use crate::cel::{self, CompiledRule, Decl};
use crate::field::{FieldError, Path, text};
use crate::schema::{Additional, Rule, Schema};

/// The most that one rule, and all rules together, may be estimated to cost.
const RULE_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Errors of the schema at `path`.
pub fn validate(schema: &Schema, status_enabled: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if status_enabled && let Some(error) = status_root(schema, path) {
        errors.push(error);
    }
    if schema.nullable {
        errors.push(FieldError::forbidden(
            path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let unreadable = structural::unreadable(schema);
    let mut rules_checked = false;
    if unreadable.is_none() {
        let mut faults = structural::validate(schema, path);
        if faults.is_empty() {
            faults = defaults::validate(schema, path);
        }
        rules_checked = faults.is_empty();
        errors.extend(faults);
    }
    let mut walk = Walk::default();
    let scope = rules_checked.then(|| Scope::root(schema));
    let found = walk.node(schema, path, &Place::default(), true, scope.as_ref());
    errors.extend(found.schema);
    errors.extend(found.rules);
    if let Some(reason) = unreadable
        && errors.is_empty()
    {
        errors.push(FieldError::invalid(path, "", reason));
    }
    if walk.total > SCHEMA_LIMIT {
        for (at, _) in &walk.expensive {
            errors.push(FieldError::forbidden(
                at,
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            path,
            cost_message(what, walk.total, SCHEMA_LIMIT),
        ));
    }
    errors
}

/// With a status subresource the root may hold only what survives taking the status out of it.
fn status_root(schema: &Schema, path: &Path) -> Option<FieldError> {
    const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum \
                           MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items \
                           Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
    if !schema.type_.is_empty() && schema.type_ != "object" {
        return Some(FieldError::invalid(
            path.child("type"),
            schema.type_.as_str(),
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    }
    let more = schema.unsupported.is_some()
        || schema.default.is_some()
        || schema.nullable
        || !schema.enum_.is_empty()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || !schema.all_of.is_empty()
        || !schema.one_of.is_empty()
        || !schema.any_of.is_empty()
        || schema.not.is_some()
        || schema.additional_properties.is_some()
        || schema.embedded_resource
        || schema.int_or_string
        || !schema.list_map_keys.is_empty()
        || schema.list_type.is_some()
        || schema.map_type.is_some();
    more.then(|| {
        FieldError::invalid_omitted(
            path,
            format!("only {ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled"),
        )
    })
}

/// Errors of a node and those below it; rules are not looked at where the schema is wrong.
#[derive(Default)]
struct Found {
    schema: Vec<FieldError>,
    rules: Vec<FieldError>,
}

impl Found {
    fn take(&mut self, other: Found) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
    }
}

/// What is forbidden at a place because of what is above it.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub no_defaults: Option<String>,
    pub inside_meta: bool,
    /// The list or map that does not let old and new values be told apart.
    uncorrelatable: Option<Path>,
}

/// What rules at a place can see.
struct Scope<'a> {
    parent: Option<&'a Scope<'a>>,
    schema: &'a Schema,
    /// The declaration here, if a rule here or above needs one.
    decl: Option<Arc<Decl>>,
    /// How often this place can be in an object; none: unbounded.
    cardinality: Option<u64>,
}

impl<'a> Scope<'a> {
    fn root(schema: &'a Schema) -> Self {
        let mut scope = Self {
            parent: None,
            schema,
            decl: None,
            cardinality: Some(1),
        };
        if !schema.validations.is_empty() {
            scope.decl = scope.declare();
        }
        scope
    }

    fn declare(&self) -> Option<Arc<Decl>> {
        let root = self.parent.is_none() || self.schema.embedded_resource;
        Decl::of_schema(&cel::with_meta(self.schema, root), cel::SELF_TYPE)
    }

    fn child(&'a self, schema: &'a Schema) -> Scope<'a> {
        let mut scope = Scope {
            parent: Some(self),
            schema,
            decl: None,
            cardinality: match (self.cardinality, max_elements(self.schema)) {
                (Some(a), Some(b)) => Some(a.saturating_mul(b)),
                _ => None,
            },
        };
        if !schema.validations.is_empty() {
            scope.decl = scope.declare();
        }
        scope
    }
}

/// How many times what is below a schema can be in one value of it.
fn max_elements(schema: &Schema) -> Option<u64> {
    let bound = |n: Option<i64>| n.map(|n| u64::try_from(n).unwrap_or(0));
    match schema.type_.as_str() {
        "object" if schema.additional_properties.is_some() => bound(schema.max_properties),
        "array" => bound(schema.max_items),
        _ => Some(1),
    }
}

#[derive(Default)]
struct Walk {
    total: u64,
    /// The four most expensive rules.
    expensive: Vec<(Path, u64)>,
}

impl Walk {
    fn observe(&mut self, path: Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((path, cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    fn node(
        &mut self,
        s: &Schema,
        path: &Path,
        place: &Place,
        root: bool,
        scope: Option<&Scope<'_>>,
    ) -> Found {
        let mut found = Found {
            schema: standard(s, path, place),
            rules: Vec::new(),
        };
        if s.unique_items {
            found.schema.push(FieldError::forbidden(
                path.child("uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ));
        }
        self.below(s, path, place, root, scope, &mut found);
        keywords(s, path, &mut found.schema);
        if !s.validations.is_empty() {
            rule_forms(s, path, &mut found.schema);
            if found.schema.is_empty()
                && let Some(scope) = scope
            {
                self.rules(s, path, place, scope, &mut found.rules);
            }
        }
        found
    }

    fn below(
        &mut self,
        s: &Schema,
        path: &Path,
        place: &Place,
        root: bool,
        scope: Option<&Scope<'_>>,
        found: &mut Found,
    ) {
        if let Some(additional) = &s.additional_properties {
            let at = path.child("additionalProperties");
            if !s.properties.is_empty() && !matches!(additional, Additional::Allowed(true)) {
                found.schema.push(FieldError::forbidden(
                    &at,
                    "additionalProperties and properties are mutual exclusive",
                ));
            }
            if let Additional::Schema(sub) = additional {
                let mut place = place.clone();
                if place.inside_meta {
                    place.no_defaults =
                        Some("inside additionalProperties applying to object metadata".to_owned());
                }
                let scope = scope.map(|c| c.child(sub));
                found.take(self.node(sub, &at, &place, false, scope.as_ref()));
            }
        }
        for (name, property) in &s.properties {
            let mut place = place.clone();
            let correlatable = matches!(s.map_type.as_deref(), None | Some("granular" | "atomic"));
            if !correlatable {
                place.uncorrelatable.get_or_insert(path.clone());
            }
            let meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
            if (root || s.embedded_resource) && meta {
                place.inside_meta = true;
                if root {
                    place.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            let at = path.child("properties").key(name);
            let scope = scope.map(|c| c.child(property));
            found.take(self.node(property, &at, &place, false, scope.as_ref()));
        }
        if let Some(not) = s.not.as_deref() {
            found.take(self.node(not, &path.child("not"), place, false, None));
        }
        for (name, list) in [("allOf", &s.all_of), ("oneOf", &s.one_of), ("anyOf", &s.any_of)] {
            for (i, sub) in list.iter().enumerate() {
                found.take(self.node(sub, &path.child(name).index(i), place, false, None));
            }
        }
        let mut items = place.clone();
        if s.list_type.as_deref() != Some("map") {
            items.uncorrelatable.get_or_insert(path.clone());
        }
        if let Some(sub) = s.items.as_deref() {
            let scope = scope.map(|c| c.child(sub));
            found.take(self.node(sub, &path.child("items"), &items, false, scope.as_ref()));
        }
        if let Some(u) = s.unsupported.as_deref() {
            for (name, sub) in &u.definitions {
                found.take(self.node(sub, &path.child("definitions").key(name), place, false, None));
            }
            for (i, sub) in u.items.iter().enumerate() {
                found.take(self.node(sub, &path.child("items").index(i), &items, false, None));
            }
            for (name, sub) in &u.dependencies {
                if let Some(sub) = sub {
                    found.take(self.node(sub, &path.child("dependencies").key(name), place, false, None));
                }
            }
        }
    }

    fn rules(
        &mut self,
        s: &Schema,
        path: &Path,
        place: &Place,
        scope: &Scope<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let at = path.child("x-kubernetes-validations");
        let Some(decl) = &scope.decl else {
            errors.push(FieldError::internal(
                at,
                "internal error: failed to construct type information for x-kubernetes-validations rules: \
                 unable to convert structural schema to CEL declarations",
            ));
            return;
        };
        let cardinality = scope
            .cardinality
            .unwrap_or(cel::MAX_REQUEST / (decl.min_size + 1));
        for (i, compiled) in cel::compile(s, decl).iter().enumerate() {
            self.rule(compiled, &at.index(i), place, cardinality, errors);
        }
    }

    fn rule(
        &mut self,
        compiled: &CompiledRule,
        at: &Path,
        place: &Place,
        cardinality: u64,
        errors: &mut Vec<FieldError>,
    ) {
        let rule = &compiled.rule;
        let program = compiled.program.as_ref().and_then(|p| p.as_ref().ok());
        let cost = program.map_or(0, |p| p.max_cost).saturating_mul(cardinality);
        let rule_at = at.child("rule");
        if cost > RULE_LIMIT {
            let message = cost_message("estimated rule cost", cost, RULE_LIMIT);
            errors.push(FieldError::forbidden(&rule_at, message));
        }
        self.observe(rule_at.clone(), cost);
        let refused = |at: &Path, detail: &str| {
            let (value, shown) = printed(rule);
            FieldError::invalid(at, value, detail).showing(shown)
        };
        if let Some(Err(detail)) = &compiled.program {
            errors.push(refused(&rule_at, detail));
        }
        let message_at = at.child("messageExpression");
        match &compiled.message {
            Some(Err(detail)) => errors.push(refused(&message_at, detail)),
            Some(Ok(message)) => {
                if message.max_cost > RULE_LIMIT {
                    let text = cost_message("estimated messageExpression cost", message.max_cost, RULE_LIMIT);
                    errors.push(FieldError::forbidden(&message_at, text));
                }
                self.observe(message_at, message.max_cost);
            }
            None => {}
        }
        if program.is_some_and(|p| p.uses_old_self) {
            if let Some(list) = &place.uncorrelatable {
                errors.push(FieldError::invalid(
                    rule_at,
                    rule.rule.as_str(),
                    format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                    ),
                ));
            }
        } else if let Some(optional) = rule.optional_old_self {
            errors.push(FieldError::invalid(
                at.child("optionalOldSelf"),
                optional,
                "may not be set if oldSelf is not used in rule",
            ));
        }
    }
}

/// A rule as it is printed in errors.
fn printed(rule: &Rule) -> (Value, String) {
    let fields = [
        ("Rule", json!(rule.rule)),
        ("Message", json!(rule.message)),
        ("MessageExpression", json!(rule.message_expression)),
        ("Reason", json!(rule.reason)),
        ("FieldPath", json!(rule.field_path)),
        ("OptionalOldSelf", json!(rule.optional_old_self)),
    ];
    let shown: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{}", text::json(value)))
        .collect();
    let value = fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    (Value::Object(value), format!("{{{}}}", shown.join(",")))
}

fn cost_message(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
