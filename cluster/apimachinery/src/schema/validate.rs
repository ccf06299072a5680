//! Validation of values against a schema, error for error as Kubernetes does it.

use serde_json::Value;

use super::correlate::Correlation;
use super::failure::{Code, Failure, Outcome};
use super::formats::Format;
use super::model::{Additional, Schema};
use super::numbers;
use crate::field::{FieldError, Path, text};

/// How a schema is read. Defaults are checked a little differently from objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An object of a client: unknown formats are ignored, int-or-string is checked.
    Object,
    /// A default in a schema: the format stands as written.
    Default,
}

/// Validates a value; with a correlation, errors of unchanged parts are dropped.
pub fn validate(
    value: &Value,
    schema: &Schema,
    mode: Mode,
    correlation: Option<&Correlation<'_>>,
    path: &Path,
) -> Vec<FieldError> {
    let mut validator = Validator {
        mode,
        path: String::new(),
    };
    let outcome = match correlation {
        Some(c) => validator.ratcheting(c, schema),
        None => validator.schema(value, schema, None),
    };
    outcome
        .errors
        .into_iter()
        .map(|e| e.into_field_error(path))
        .collect()
}
struct Validator {
    mode: Mode,
    path: String,
}

impl Validator {
    fn below<R>(&mut self, segment: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let len = self.path.len();
        self.path.push_str(segment);
        let result = f(self);
        self.path.truncate(len);
        result
    }

    /// Validates a value that has an old one; if it is unchanged its errors do not count.
    fn ratcheting(&mut self, c: &Correlation<'_>, schema: &Schema) -> Outcome {
        let mut outcome = self.schema(c.new, schema, Some(c));
        if !outcome.errors.is_empty() && c.unchanged() {
            outcome.errors.clear();
        }
        outcome
    }

    fn field(
        &mut self,
        name: &str,
        value: &Value,
        schema: &Schema,
        parent: Option<&Correlation<'_>>,
        at_root: bool,
    ) -> Outcome {
        // Old and new have been converted to one version: these cannot be ratcheted.
        let type_meta = at_root && matches!(name, "kind" | "apiVersion");
        match parent.filter(|_| !type_meta).and_then(|c| c.key(name)) {
            Some(c) => self.ratcheting(&c, schema),
            None => self.schema(value, schema, None),
        }
    }

    fn types<'a>(&self, s: &'a Schema) -> Vec<&'a str> {
        if s.int_or_string && self.mode == Mode::Object {
            vec!["integer", "string"]
        } else if s.type_.is_empty() {
            Vec::new()
        } else {
            vec![s.type_.as_str()]
        }
    }

    fn format<'a>(&self, s: &'a Schema) -> &'a str {
        match self.mode {
            Mode::Object if s.checked_format.is_none() => "",
            _ => &s.format,
        }
    }

    fn schema(&mut self, value: &Value, s: &Schema, c: Option<&Correlation<'_>>) -> Outcome {
        let mut out = Outcome::default();
        let types = self.types(s);
        let format = self.format(s);
        if value.is_null() {
            if types.is_empty() || types.contains(&"null") || s.nullable {
                out.matches += 1;
            } else {
                out.add(self.wrong_type(&types.join(","), "null"));
            }
            self.enum_(value, s, &mut out);
            return out;
        }
        if !types.is_empty() || !format.is_empty() {
            match self.check_type(value, &types, format) {
                None => out.matches += 1,
                Some(failure) => out.add(failure),
            }
            out.matches += 1;
        }
        self.logic(value, s, &mut out);
        out.matches += 1;
        match value {
            Value::String(text) => {
                if let Some(failure) = self.string(text, s) {
                    out.add(failure);
                }
                out.matches += 1;
                let known = match self.mode {
                    Mode::Object => s.checked_format,
                    Mode::Default => Format::of_string(format),
                };
                if let Some(known) = known.filter(|_| Format::of_string(format).is_some()) {
                    if !known.accepts(text) {
                        out.add(self.wrong_type(format, text));
                    }
                    out.matches += 1;
                }
            }
            Value::Number(n) => {
                numbers::validate(n, s, &types, format, &self.path, &mut |f| out.errors.push(f));
                let errors = std::mem::take(&mut out.errors);
                for failure in errors {
                    out.add(failure);
                }
                out.matches += 2;
            }
            Value::Array(items) => {
                self.array(items, s, c, &mut out);
                out.matches += 2;
            }
            _ => {}
        }
        self.enum_(value, s, &mut out);
        out.matches += 1;
        if let Value::Object(map) = value {
            self.object(map, s, c, &mut out);
            out.matches += 1;
        }
        out.matches += 1;
        out
    }

    fn wrong_type(&self, want: &str, got: &str) -> Failure {
        let message = format!(
            "{} in body must be of type {want}: {}",
            self.path,
            text::quote(got)
        );
        Failure::new(Code::Type(Value::from(got)), &self.path, message)
    }

    fn check_type(&self, value: &Value, types: &[&str], format: &str) -> Option<Failure> {
        let (kind, kind_format) = match value {
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Number(n) if n.as_i64().is_some() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Null => return None,
        };
        let float_is_integer = kind == "number"
            && types.contains(&"integer")
            && value.as_f64().is_some_and(numbers::is_json_integer);
        let integer_is_number = kind == "integer" && types.contains(&"number");
        let fits = types.contains(&kind) || float_is_integer || integer_is_number;
        let textual = matches!(value, Value::String(_) | Value::Array(_));
        if !textual && !format.is_empty() && !fits && kind_format != format {
            return Some(self.wrong_type(format, kind_format));
        }
        let numeric = types.contains(&"number") || types.contains(&"integer");
        if !numeric && !format.is_empty() && textual {
            return None;
        }
        (!fits).then(|| self.wrong_type(&types.join(","), kind))
    }

    fn string(&self, data: &str, s: &Schema) -> Option<Failure> {
        let path = &self.path;
        if let Some(max) = s.max_length
            && length(data) > max
        {
            let message = format!("{path} in body should be at most {max} chars long");
            return Some(Failure::new(Code::TooLong(max), path, message));
        }
        if let Some(min) = s.min_length
            && length(data) < min
        {
            let message = format!("{path} in body should be at least {min} chars long");
            return Some(Failure::other(path, data, message));
        }
        let pattern = s.pattern.as_ref()?;
        let source = &pattern.source;
        match &pattern.regex {
            Ok(regex) if regex.is_match(data) => None,
            Ok(_) => {
                let message = format!("{path} in body should match '{source}'");
                Some(Failure::other(path, data, message))
            }
            Err(reason) => {
                let message = format!(
                    "{path} in body should match '{source}, but pattern is invalid: error parsing regexp: {reason}'"
                );
                Some(Failure::other(path, data, message))
            }
        }
    }

    fn enum_(&self, value: &Value, s: &Schema, out: &mut Outcome) {
        if s.enum_.is_empty() || s.enum_.iter().any(|e| numbers::enum_matches(value, e)) {
            return;
        }
        let listed: Vec<String> = s.enum_.iter().map(text::value).collect();
        let message = format!("{} in body should be one of [{}]", self.path, listed.join(" "));
        let code = Code::Enum {
            value: value.clone(),
            allowed: s.enum_.clone(),
        };
        out.add(Failure::new(code, &self.path, message));
    }

    fn array(&mut self, items: &[Value], s: &Schema, c: Option<&Correlation<'_>>, out: &mut Outcome) {
        if let Some(sub) = s.items.as_deref() {
            for (i, item) in items.iter().enumerate() {
                let outcome = self.below(&format!("[{i}]"), |v| match c.and_then(|c| c.index(i)) {
                    Some(c) => v.ratcheting(&c, sub),
                    None => v.schema(item, sub, None),
                });
                out.merge(outcome);
            }
        }
        let path = &self.path;
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = s.min_items
            && size < min
        {
            let message = format!("{path} in body should have at least {min} items");
            out.add(Failure::other(path, size, message));
        }
        if let Some(max) = s.max_items
            && size > max
        {
            let message = format!("{path} in body should have at most {max} items");
            let code = Code::TooMany { actual: size, max };
            out.add(Failure::new(code, path, message));
        }
        if s.unique_items && (1..items.len()).any(|i| items[..i].contains(&items[i])) {
            let message = format!("{path} in body shouldn't contain duplicates");
            out.add(Failure::other(path, "", message));
        }
    }

    fn object(
        &mut self,
        map: &serde_json::Map<String, Value>,
        s: &Schema,
        c: Option<&Correlation<'_>>,
        out: &mut Outcome,
    ) {
        let at_root = self.path.is_empty();
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        let path = &self.path;
        if let Some(min) = s.min_properties
            && size < min
        {
            let message = format!("{path} in body should have at least {min} properties");
            out.add(Failure::other(path, size, message));
        }
        if let Some(max) = s.max_properties
            && size > max
        {
            let message = format!("{path} in body should have at most {max} properties");
            let code = Code::TooMany { actual: size, max };
            out.add(Failure::new(code, path, message));
        }
        match &s.additional_properties {
            Some(Additional::Allowed(false)) => {
                for key in map.keys().filter(|k| !s.properties.contains_key(*k)) {
                    let message = format!("{path}.{key} in body is a forbidden property");
                    out.add(Failure::other(path, key.as_str(), message));
                }
            }
            Some(Additional::Schema(sub)) => {
                for (key, value) in map.iter().filter(|(k, _)| !s.properties.contains_key(*k)) {
                    let outcome = self.below(&format!(".{key}"), |v| v.field(key, value, sub, c, at_root));
                    out.merge(outcome);
                }
            }
            _ => {}
        }
        for (name, sub) in &s.properties {
            let Some(value) = map.get(name) else {
                continue;
            };
            let len = self.path.len();
            if len > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let outcome = self.field(name, value, sub, c, at_root);
            self.path.truncate(len);
            out.merge(outcome);
        }
        for name in s.required.iter().filter(|name| !map.contains_key(*name)) {
            let at = format!("{}.{name}", self.path);
            let message = format!("{at} in body is required");
            out.add(Failure::new(Code::Required, &at, message));
        }
    }

    /// allOf, anyOf, oneOf and not. Nothing below them is ratcheted.
    fn logic(&mut self, value: &Value, s: &Schema, out: &mut Outcome) {
        let quoted = text::quote(&self.path);
        if !s.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut success = None;
            for sub in &s.any_of {
                let outcome = self.schema(value, sub, None);
                if outcome.errors.is_empty() {
                    success = Some(outcome);
                    break;
                }
                if best.as_ref().is_none_or(|b| outcome.matches > b.matches) {
                    best = Some(outcome);
                }
            }
            if success.is_none() {
                out.add(Failure::unnamed(format!(
                    "{quoted} must validate at least one schema (anyOf)"
                )));
            }
            if let Some(outcome) = success.or(best) {
                out.merge(outcome);
            }
        }
        if !s.one_of.is_empty() {
            self.one_of(value, s, &quoted, out);
        }
        if !s.all_of.is_empty() {
            let mut valid = 0;
            for sub in &s.all_of {
                let outcome = self.schema(value, sub, None);
                valid += usize::from(outcome.errors.is_empty());
                out.merge(outcome);
            }
            if valid != s.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                out.add(Failure::unnamed(format!(
                    "{quoted} must validate all the schemas (allOf){none}"
                )));
            }
        }
        if let Some(not) = &s.not
            && self.schema(value, not, None).errors.is_empty()
        {
            out.add(Failure::unnamed(format!(
                "{quoted} must not validate the schema (not)"
            )));
        }
        out.matches += 1;
    }

    fn one_of(&mut self, value: &Value, s: &Schema, quoted: &str, out: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid = 0;
        for sub in &s.one_of {
            let outcome = self.schema(value, sub, None);
            if outcome.errors.is_empty() {
                valid += 1;
                best = None;
                first.get_or_insert(outcome);
            } else if valid == 0 && best.as_ref().is_none_or(|b| outcome.matches > b.matches) {
                best = Some(outcome);
            }
        }
        if valid == 1 {
            if let Some(first) = first {
                out.merge(first);
            }
            return;
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            n => format!("Found {n} valid alternatives"),
        };
        out.add(Failure::unnamed(format!(
            "{quoted} must validate one and only one schema (oneOf). {found}"
        )));
        if let Some(best) = best {
            out.merge(best);
        }
    }
}

/// Length in code points.
fn length(s: &str) -> i64 {
    i64::try_from(s.chars().count()).unwrap_or(i64::MAX)
}
