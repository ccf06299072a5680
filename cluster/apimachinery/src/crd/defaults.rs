//! Defaults of a schema must be valid values themselves.

use serde_json::{Map, Value};

use crate::cel;
use crate::field::{FieldError, Path, aggregate};
use crate::schema::validate::{Mode, validate as validate_value};
use crate::schema::{Schema, objectmeta, prune};

/// Errors of all defaults below a schema of a resource.
pub(super) fn validate(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut root = schema.clone();
    root.embedded_resource = true;
    node(&root, &Surrounding::root(&root), false, path, &mut errors);
    errors
}

/// The resource around a default: its schema, and the way from it down to the default.
#[derive(Clone)]
struct Surrounding<'a> {
    root: &'a Schema,
    steps: Vec<Step<'a>>,
}

#[derive(Clone)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

impl<'a> Surrounding<'a> {
    fn root(root: &'a Schema) -> Self {
        Self {
            root,
            steps: Vec::new(),
        }
    }

    fn below(&self, step: Step<'a>) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self {
            root: self.root,
            steps,
        }
    }

    /// A whole object with the default in its place.
    fn object(&self, default: &Value) -> Value {
        let mut value = default.clone();
        for step in self.steps.iter().rev() {
            value = match step {
                Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
                Step::Item => Value::Array(vec![value]),
            };
        }
        if let Value::Object(map) = &mut value {
            map.entry("kind").or_insert_with(|| Value::from("Validation"));
            map.entry("apiVersion")
                .or_insert_with(|| Value::from("validation/v1"));
        }
        value
    }
}

fn node<'a>(
    s: &'a Schema,
    around: &Surrounding<'a>,
    inside_meta: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let own;
    let (around, inside_meta) = if s.embedded_resource {
        own = Surrounding::root(s);
        (&own, false)
    } else {
        (around, inside_meta)
    };
    if let Some(default) = &s.default {
        let at = path.child("default");
        if inside_meta {
            in_metadata(s, default, around, &at, errors);
        } else {
            plain(s, default, &at, errors);
        }
    }
    if let Some(items) = s.items.as_deref() {
        node(
            items,
            &around.below(Step::Item),
            inside_meta,
            &path.child("items"),
            errors,
        );
    }
    for (name, property) in &s.properties {
        let meta = s.embedded_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let below = around.below(Step::Field(name));
        let at = path.child("properties").key(name);
        node(property, &below, inside_meta || meta, &at, errors);
    }
}

/// A default inside the metadata of a resource: the resource must stay valid.
fn in_metadata(
    s: &Schema,
    default: &Value,
    around: &Surrounding<'_>,
    at: &Path,
    errors: &mut Vec<FieldError>,
) {
    let mut object = around.object(default);
    let bad = |why: String| {
        FieldError::invalid(
            at,
            default.clone(),
            format!("must result in valid metadata: {why}"),
        )
    };
    if let Err(e) = objectmeta::coerce(&mut object, around.root, true, &Path::root()) {
        errors.push(bad(e.to_string()));
        return;
    }
    let mut faults = Vec::new();
    objectmeta::validate(&object, around.root, true, &Path::root(), &mut faults);
    if !faults.is_empty() {
        errors.push(bad(aggregate(&faults)));
        return;
    }
    values(s, default, at, errors);
}

fn plain(s: &Schema, default: &Value, at: &Path, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune::prune(&mut pruned, s, s.embedded_resource);
    if pruned != *default {
        errors.push(FieldError::invalid(
            at,
            default.clone(),
            "must not have unknown fields",
        ));
    }
    let mut coerced = default.clone();
    if let Err(e) = objectmeta::coerce(&mut coerced, s, s.embedded_resource, at) {
        errors.push(e);
        return;
    }
    let mut faults = Vec::new();
    objectmeta::validate(&coerced, s, s.embedded_resource, at, &mut faults);
    if faults.is_empty() {
        values(s, &coerced, at, errors);
    } else {
        errors.extend(faults);
    }
}

/// The default against its own schema and rules, as a value that is there and as a new one.
fn values(s: &Schema, default: &Value, at: &Path, errors: &mut Vec<FieldError>) {
    let faults = validate_value(default, s, Mode::Default, None, at);
    if !faults.is_empty() {
        errors.extend(faults);
        return;
    }
    if let Some(rules) = cel::Validator::new(s, s.embedded_resource) {
        let mut faults = rules.validate(at, default, Some(default), None);
        if faults.is_empty() {
            faults = rules.validate(at, default, None, None);
        }
        errors.extend(faults);
    }
}
