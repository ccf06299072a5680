//! What makes a schema structural.

use crate::field::{FieldError, Path};
use crate::schema::{Additional, Schema};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Breaches of the structural rules, sorted by message.
pub(super) fn validate(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Why a schema cannot be read as structural at all.
pub(super) fn unreadable(schema: &Schema) -> Option<String> {
    let no = |what: &str| Some(format!("OpenAPIV3Schema '{what}' is not supported"));
    if let Some(u) = schema.unsupported.as_deref() {
        if !u.id.is_empty() {
            return no("id");
        }
        if !u.schema.is_empty() {
            return no("schema");
        }
        if u.reference.as_deref().is_some_and(|r| !r.is_empty()) {
            return no("$ref");
        }
        if u.pattern_properties {
            return no("patternProperties");
        }
        if !u.dependencies.is_empty() {
            return no("dependencies");
        }
        if u.additional_items {
            return no("additionalItems");
        }
        if !u.definitions.is_empty() {
            return no("definitions");
        }
        if !u.items.is_empty() {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
    }
    if schema.preserve_unknown_fields == Some(false) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    schema
        .not
        .as_deref()
        .into_iter()
        .chain(&schema.all_of)
        .chain(&schema.any_of)
        .chain(&schema.one_of)
        .chain(schema.items.as_deref())
        .chain(schema.additional_schema())
        .chain(schema.properties.values())
        .find_map(unreadable)
}

fn invariants(s: &Schema, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    if s.type_ == "array" && s.items.is_none() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if let Some(items) = s.items.as_deref() {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in &s.properties {
        invariants(property, Level::Field, &properties.key(name), errors);
    }
    let additional = path.child("additionalProperties");
    if let Some(value) = &s.additional_properties {
        if level == Level::Root {
            errors.push(FieldError::forbidden(&additional, "must not be used at the root"));
        }
        if let Additional::Schema(sub) = value {
            invariants(sub, Level::Field, &additional, errors);
        }
    }
    if s.int_or_string && s.preserves_unknown_fields() {
        errors.push(FieldError::invalid(
            path.child("x-kubernetes-preserve-unknown-fields"),
            true,
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    if s.int_or_string && s.embedded_resource {
        errors.push(FieldError::invalid(
            path.child("x-kubernetes-embedded-resource"),
            true,
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    let skip_first = s
        .all_of
        .first()
        .is_some_and(|first| is_int_or_string(&first.any_of));
    values(s, is_int_or_string(&s.any_of), skip_first, path, errors);
    type_of_node(s, level, path, errors);
    metadata(s, level, path, errors);
    if s.embedded_resource && !s.preserves_unknown_fields() && s.properties.is_empty() {
        errors.push(FieldError::required(
            properties,
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn type_of_node(s: &Schema, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("type");
    if s.embedded_resource && s.type_ != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if s.type_.is_empty() {
            FieldError::required(&at, detail)
        } else {
            FieldError::invalid(&at, s.type_.as_str(), detail)
        });
    } else if s.type_.is_empty() && !s.int_or_string && !s.preserves_unknown_fields() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&at, detail));
    }
    if s.embedded_resource && s.additional_properties.is_some() {
        errors.push(FieldError::forbidden(
            path.child("additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !s.type_.is_empty() && s.type_ != "object" {
        errors.push(FieldError::invalid(
            &at,
            s.type_.as_str(),
            "must be object at the root",
        ));
    }
}

/// apiVersion, kind and metadata have the types that every resource has.
fn metadata(s: &Schema, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let resource = level == Level::Root || s.embedded_resource;
    let properties = path.child("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(property) = s.properties.get(name)
            && resource
            && property.type_ != "string"
        {
            errors.push(FieldError::invalid(
                properties.key(name).child("type"),
                property.type_.as_str(),
                "must be string",
            ));
        }
    }
    let Some(metadata) = s.properties.get("metadata") else {
        return;
    };
    let at = properties.key("metadata");
    if resource && metadata.type_ != "object" {
        errors.push(FieldError::invalid(
            at.child("type"),
            metadata.type_.as_str(),
            "must be object",
        ));
    }
    if level == Level::Root && says_more(metadata) {
        errors.push(FieldError::forbidden(
            at,
            "must not specify anything other than name and generateName, but metadata is implicitly \
             specified",
        ));
    }
}

/// Whether a schema of metadata has anything but a type and the two names.
fn says_more(m: &Schema) -> bool {
    let only_names = m.properties.keys().all(|k| k == "name" || k == "generateName");
    !only_names
        || m.nullable
        || !m.title.is_empty()
        || !m.description.is_empty()
        || m.example.is_some()
        || m.external_docs.is_some()
        || has_value_validation(m)
        || m.items.is_some()
        || m.additional_properties.is_some()
        || m.preserve_unknown_fields.is_some()
        || m.embedded_resource
        || m.int_or_string
        || m.list_type.is_some()
        || !m.list_map_keys.is_empty()
        || m.map_type.is_some()
        || !m.validations.is_empty()
}

fn has_value_validation(m: &Schema) -> bool {
    !m.format.is_empty()
        || m.maximum.is_some()
        || m.exclusive_maximum
        || m.minimum.is_some()
        || m.exclusive_minimum
        || m.max_length.is_some()
        || m.min_length.is_some()
        || m.pattern.is_some()
        || m.max_items.is_some()
        || m.min_items.is_some()
        || m.unique_items
        || m.multiple_of.is_some()
        || !m.enum_.is_empty()
        || m.max_properties.is_some()
        || m.min_properties.is_some()
        || !m.required.is_empty()
        || !m.all_of.is_empty()
        || !m.any_of.is_empty()
        || !m.one_of.is_empty()
        || m.not.is_some()
}

/// `anyOf: [{type: integer}, {type: string}]`, which goes with int-or-string.
fn is_int_or_string(any_of: &[Schema]) -> bool {
    let is_only = |s: &Schema, type_: &str| {
        s.type_ == type_ && {
            let mut plain = s.clone();
            plain.type_ = "object".to_owned();
            plain.default.is_none() && plain.properties.is_empty() && !says_more(&plain)
        }
    };
    matches!(any_of, [a, b] if is_only(a, "integer") && is_only(b, "string"))
}

fn values(s: &Schema, skip_any_of: bool, skip_first_all_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    if !skip_any_of {
        let at = path.child("anyOf");
        for (i, sub) in s.any_of.iter().enumerate() {
            nested(sub, false, &at.index(i), errors);
        }
    }
    let at = path.child("allOf");
    for (i, sub) in s.all_of.iter().enumerate() {
        nested(sub, skip_first_all_of && i == 0, &at.index(i), errors);
    }
    let at = path.child("oneOf");
    for (i, sub) in s.one_of.iter().enumerate() {
        nested(sub, false, &at.index(i), errors);
    }
    if let Some(not) = s.not.as_deref() {
        nested(not, false, &path.child("not"), errors);
    }
    if let Some(pattern) = &s.pattern
        && let Err(reason) = &pattern.regex
    {
        errors.push(FieldError::invalid(
            path.child("pattern"),
            pattern.source.as_str(),
            format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}"),
        ));
    }
}

/// Below allOf and its like only values may be restricted.
fn nested(s: &Schema, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    values(s, skip_any_of, false, path, errors);
    if let Some(items) = s.items.as_deref() {
        nested(items, false, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in &s.properties {
        nested(property, false, &properties.key(name), errors);
    }
    let mut forbid = |present: bool, field: &str, detail: &str| {
        if present {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    };
    let (empty, undefined, no) = (
        "must be empty to be structural",
        "must be undefined to be structural",
        "must be false to be structural",
    );
    let additional = match &s.additional_properties {
        Some(Additional::Allowed(allowed)) => *allowed,
        other => other.is_some(),
    };
    forbid(!s.type_.is_empty(), "type", empty);
    forbid(additional, "additionalProperties", undefined);
    forbid(s.default.is_some(), "default", undefined);
    forbid(!s.title.is_empty(), "title", empty);
    forbid(!s.description.is_empty(), "description", empty);
    forbid(s.nullable, "nullable", no);
    forbid(
        s.preserves_unknown_fields(),
        "x-kubernetes-preserve-unknown-fields",
        no,
    );
    forbid(s.embedded_resource, "x-kubernetes-embedded-resource", no);
    forbid(s.int_or_string, "x-kubernetes-int-or-string", no);
    forbid(!s.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", empty);
    forbid(s.list_type.is_some(), "x-kubernetes-list-type", undefined);
    forbid(s.map_type.is_some(), "x-kubernetes-map-type", undefined);
    forbid(!s.validations.is_empty(), "x-kubernetes-validations", empty);
    if s.properties.contains_key("metadata") {
        errors.push(FieldError::forbidden(
            properties.key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

/// What is restricted below allOf and its like must be specified outside of them.
fn complete(v: &Schema, s: Option<&Schema>, s_path: &Path, v_path: &Path, errors: &mut Vec<FieldError>) {
    let mut each = |sub: &Schema, at: Path| complete_nested(sub, s, s_path, &at, errors);
    if let Some(not) = v.not.as_deref() {
        each(not, v_path.child("not"));
    }
    for (name, list) in [("allOf", &v.all_of), ("anyOf", &v.any_of), ("oneOf", &v.one_of)] {
        for (i, sub) in list.iter().enumerate() {
            each(sub, v_path.child(name).index(i));
        }
    }
}

fn complete_nested(
    v: &Schema,
    s: Option<&Schema>,
    s_path: &Path,
    v_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let missing =
        |at: &Path, because: &Path| FieldError::required(at, format!("because it is defined in {because}"));
    let Some(known) = s else {
        errors.push(missing(s_path, v_path));
        return;
    };
    complete(v, s, s_path, v_path, errors);
    if let Some(items) = v.items.as_deref() {
        complete_nested(
            items,
            known.items.as_deref(),
            &s_path.child("items"),
            &v_path.child("items"),
            errors,
        );
    }
    for (name, property) in &v.properties {
        let at = s_path.child("properties").key(name);
        let because = v_path.child("properties").key(name);
        match known.properties.get(name) {
            None => errors.push(missing(&at, &because)),
            found => complete_nested(property, found, &at, &because, errors),
        }
    }
}
