//! Which schemas a CustomResourceDefinition may have.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{defaults, field_path, structural};
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
struct Place {
    no_defaults: Option<String>,
    inside_meta: bool,
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

/// Keywords that no schema may have.
fn standard(s: &Schema, path: &Path, place: &Place) -> Vec<FieldError> {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let mut errors = Vec::new();
    if !s.type_.is_empty() && !TYPES.contains(&s.type_.as_str()) {
        errors.push(FieldError::not_supported(
            path.child("type"),
            s.type_.as_str(),
            TYPES,
        ));
    }
    if s.default.is_some()
        && let Some(reason) = &place.no_defaults
    {
        errors.push(FieldError::forbidden(
            path.child("default"),
            format!("must not be set {reason}"),
        ));
    }
    let mut forbid = |present: bool, field: &str, detail: &str| {
        if present {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    };
    if let Some(u) = s.unsupported.as_deref() {
        forbid(!u.id.is_empty(), "id", "id is not supported");
        forbid(
            u.additional_items,
            "additionalItems",
            "additionalItems is not supported",
        );
        forbid(
            u.pattern_properties,
            "patternProperties",
            "patternProperties is not supported",
        );
        forbid(
            !u.definitions.is_empty(),
            "definitions",
            "definitions is not supported",
        );
        forbid(
            u.has_dependencies,
            "dependencies",
            "dependencies is not supported",
        );
        forbid(u.reference.is_some(), "$ref", "$ref is not supported");
    }
    forbid(
        s.type_ == "null",
        "type",
        "type cannot be set to null, use nullable as an alternative",
    );
    forbid(
        s.unsupported.as_deref().is_some_and(|u| !u.items.is_empty()),
        "items",
        "items must be a schema object and not an array",
    );
    forbid(
        place.inside_meta && s.embedded_resource,
        "x-kubernetes-embedded-resource",
        "must not be used inside of resource meta",
    );
    errors
}

fn wants_type(s: &Schema, type_: &str, detail: &str, path: &Path) -> FieldError {
    debug_assert_ne!(s.type_, type_);
    let at = path.child("type");
    if s.type_.is_empty() {
        FieldError::required(at, detail)
    } else {
        FieldError::invalid(at, s.type_.as_str(), detail)
    }
}

/// The keywords of Kubernetes: list types, map types, unknown fields.
fn keywords(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if s.preserve_unknown_fields == Some(false) {
        errors.push(FieldError::invalid(
            path.child("x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        ));
    }
    if let Some(map_type) = &s.map_type {
        if s.type_ != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            errors.push(wants_type(s, "object", detail, path));
        }
        if !matches!(map_type.as_str(), "atomic" | "granular") {
            let at = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(
                at,
                map_type.as_str(),
                ["atomic", "granular"],
            ));
        }
    }
    if let Some(list_type) = &s.list_type {
        if s.type_ != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            errors.push(wants_type(s, "array", detail, path));
        } else if list_type == "set" {
            set_items(s, path, errors);
        }
        if !matches!(list_type.as_str(), "atomic" | "set" | "map") {
            let at = path.child("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(
                at,
                list_type.as_str(),
                ["atomic", "set", "map"],
            ));
        }
    }
    if !s.list_map_keys.is_empty() && s.list_type.as_deref() != Some("map") {
        let at = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match &s.list_type {
            None => FieldError::required(at, detail),
            Some(other) => FieldError::invalid(at, other.as_str(), detail),
        });
    }
    if s.list_type.as_deref() == Some("map") {
        list_map(s, path, errors);
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (s.list_type.as_deref(), s.items.as_deref()) {
        list_items(s, list_type, items, path, errors);
    }
}

fn set_items(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(items) = s.items.as_deref() else {
        return;
    };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let wrong = match items.type_.as_str() {
        "array" => items.list_type.as_deref().is_some_and(|t| t != "atomic"),
        "object" => items.map_type.as_deref() != Some("atomic"),
        _ => false,
    };
    if wrong {
        let field = format!(
            "x-kubernetes-{}-type",
            if items.type_ == "array" { "list" } else { "map" }
        );
        errors.push(FieldError::invalid(
            path.child("items").child(&field),
            items.list_type.clone().map_or(Value::Null, Value::from),
            detail,
        ));
    }
}

fn list_map(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let keys_at = path.child("x-kubernetes-list-map-keys");
    if s.list_map_keys.is_empty() {
        errors.push(FieldError::required(
            &keys_at,
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = s.items.as_deref() else {
        if s.unsupported.as_deref().is_none_or(|u| u.items.is_empty()) {
            errors.push(FieldError::required(
                path.child("items"),
                "must have a schema if x-kubernetes-list-type is map",
            ));
        } else {
            errors.push(FieldError::invalid_omitted(
                path.child("items"),
                "must only have a single schema if x-kubernetes-list-type is map",
            ));
        }
        return;
    };
    let at = path.child("items");
    if items.type_ != "object" {
        errors.push(FieldError::invalid(
            at.child("type"),
            items.type_.as_str(),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    for (i, key) in s.list_map_keys.iter().enumerate() {
        match items.properties.get(key) {
            Some(property) if matches!(property.type_.as_str(), "array" | "object") => {
                errors.push(FieldError::invalid(
                    at.child("properties").key(key).child("type"),
                    items.type_.as_str(),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                &keys_at,
                json!(s.list_map_keys),
                "entries must all be names of item properties",
            )),
        }
        if s.list_map_keys[..i].contains(key) {
            errors.push(FieldError::invalid(
                &keys_at,
                json!(s.list_map_keys),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Items and their keys must always be there.
fn list_items(s: &Schema, list_type: &str, items: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("items");
    if items.nullable {
        errors.push(FieldError::forbidden(
            at.child("nullable"),
            format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
        ));
    }
    if list_type != "map" {
        return;
    }
    for key in &s.list_map_keys {
        let Some(property) = items.properties.get(key) else {
            continue;
        };
        let at = at.child("properties").key(key);
        if !items.required.contains(key) && property.default.is_none() {
            errors.push(FieldError::required(
                at.child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                 property",
            ));
        }
        if property.nullable {
            errors.push(FieldError::forbidden(
                at.child("nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

/// What can be said of rules without compiling them.
fn rule_forms(s: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let lines = |text: &str| text.contains(['\n', '\r']);
    for (i, rule) in s.validations.iter().enumerate() {
        let at = path.child("x-kubernetes-validations").index(i);
        let (source, message) = (rule.rule.trim(), rule.message.trim());
        let message_at = at.child("message");
        if source.is_empty() {
            errors.push(FieldError::required(at.child("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(message_at, rule.message.as_str(), detail));
        } else if lines(message) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(message_at, rule.message.as_str(), detail));
        } else if lines(source) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(message_at, detail));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            errors.push(FieldError::required(
                at.child("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        if let Some(reason) = &rule.reason
            && !REASONS.contains(&reason.as_str())
        {
            errors.push(FieldError::not_supported(
                at.child("reason"),
                reason.as_str(),
                REASONS,
            ));
        }
        if rule.field_path.is_empty() {
            continue;
        }
        let mut refuse = |detail: &str| {
            let at = at.child("fieldPath");
            errors.push(FieldError::invalid(at, rule.field_path.as_str(), detail));
        };
        if rule.field_path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if lines(&rule.field_path) {
            refuse("must not contain line breaks");
        }
        if structural::unreadable(s).is_none() && field_path::parse(&rule.field_path, s).is_err() {
            refuse("must be a valid path");
        }
    }
}
