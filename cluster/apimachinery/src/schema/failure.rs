//! Failed checks before they are field errors.

use serde_json::Value;

use crate::field::{FieldError, Path, text};

/// What kubernetes-openapi calls a result: errors, and how many checks passed.
#[derive(Default)]
pub(super) struct Outcome {
    pub errors: Vec<Failure>,
    pub matches: u64,
}

impl Outcome {
    pub(super) fn add(&mut self, failure: Failure) {
        if !self.errors.iter().any(|e| e.message == failure.message) {
            self.errors.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        for failure in other.errors {
            self.add(failure);
        }
    }
}

pub(super) struct Failure {
    code: Code,
    name: String,
    message: String,
}

pub(super) enum Code {
    Required,
    Enum {
        value: Value,
        allowed: Vec<Value>,
    },
    TooLong(i64),
    TooMany {
        actual: i64,
        max: i64,
    },
    Type(Value),
    Other(Value),
    /// Has no field of its own.
    Unnamed,
}

impl Failure {
    pub(super) fn new(code: Code, name: &str, message: String) -> Self {
        Self {
            code,
            name: name.to_owned(),
            message,
        }
    }

    pub(super) fn other(name: &str, value: impl Into<Value>, message: String) -> Self {
        Self::new(Code::Other(value.into()), name, message)
    }

    pub(super) fn unnamed(message: String) -> Self {
        Self::new(Code::Unnamed, "", message)
    }

    pub(super) fn into_field_error(self, base: &Path) -> FieldError {
        let path = match self.name.as_str() {
            "" | "." => base.clone(),
            name => base.child(name.strip_prefix('.').unwrap_or(name)),
        };
        match self.code {
            Code::Required => FieldError::required(path, ""),
            Code::Enum { value, allowed } => {
                let allowed = allowed.iter().map(|v| match v {
                    Value::String(s) => s.clone(),
                    other => text::json(other),
                });
                FieldError::not_supported(path, value, allowed)
            }
            Code::TooLong(max) => FieldError::too_long(path, max),
            Code::TooMany { actual, max } => FieldError::too_many(path, actual, max),
            Code::Type(value) => FieldError::type_invalid(path, value, self.message),
            Code::Other(value) => FieldError::invalid(path, value, self.message),
            Code::Unnamed => FieldError::invalid(base, "", self.message),
        }
    }
}
