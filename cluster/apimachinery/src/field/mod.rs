//! Field errors with Kubernetes' types, paths and wording.

mod path;
pub mod text;

use std::fmt;

use serde_json::{Value, json};

pub use path::Path;

/// Why a field was refused. The names are those of a Status cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooShort,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The machine-readable reason, as in `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal
        )
    }
}

/// One refused field: what `field.Error` is in Kubernetes.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: ErrorType,
    pub field: String,
    /// The refused value; `None` leaves it out of the message.
    pub bad_value: Option<Value>,
    /// How the message shows the value, where its own order of fields counts.
    shown: Option<String>,
    pub detail: String,
}

impl FieldError {
    pub fn new(
        kind: ErrorType,
        field: impl fmt::Display,
        bad_value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.to_string(),
            bad_value,
            shown: None,
            detail: detail.into(),
        }
    }

    /// The same error with the value in this form in its message.
    #[must_use]
    pub fn showing(mut self, value: String) -> Self {
        self.shown = Some(value);
        self
    }

    pub fn required(field: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, field, None, detail)
    }

    pub fn invalid(field: impl fmt::Display, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, field, Some(value.into()), detail)
    }

    /// Invalid without the value in the message.
    pub fn invalid_omitted(field: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, field, None, detail)
    }

    pub fn type_invalid(
        field: impl fmt::Display,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorType::TypeInvalid, field, Some(value.into()), detail)
    }

    pub fn forbidden(field: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, field, None, detail)
    }

    pub fn duplicate(field: impl fmt::Display, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::Duplicate, field, Some(value.into()), "")
    }

    pub fn not_found(field: impl fmt::Display, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::NotFound, field, Some(value.into()), "")
    }

    pub fn internal(field: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, field, None, detail)
    }

    /// The values are listed as they come, quoted.
    pub fn not_supported<S: AsRef<str>>(
        field: impl fmt::Display,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(|s| text::quote(s.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorType::NotSupported, field, Some(value.into()), detail)
    }

    /// `max` is the bound in bytes; a negative one says nothing of it.
    pub fn too_long(field: impl fmt::Display, max: i64) -> Self {
        let detail = if max >= 0 {
            let unit = if max == 1 { "byte" } else { "bytes" };
            format!("may not be more than {max} {unit}")
        } else {
            "value is too long".to_owned()
        };
        Self::new(ErrorType::TooLong, field, None, detail)
    }

    pub fn too_many(field: impl fmt::Display, actual: i64, max: i64) -> Self {
        let detail = if max >= 0 {
            let unit = if max == 1 { "item" } else { "items" };
            format!("must have at most {max} {unit}")
        } else {
            "has too many items".to_owned()
        };
        let value = (actual >= 0).then(|| Value::from(actual));
        Self::new(ErrorType::TooMany, field, value, detail)
    }

    /// The message without the field, as in a Status cause.
    pub fn body(&self) -> String {
        let mut out = self.kind.title().to_owned();
        let shown = || self.bad_value.as_ref().map(text::value);
        if self.kind.shows_value()
            && let Some(value) = self.shown.clone().or_else(shown)
        {
            out.push_str(": ");
            out.push_str(&value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    /// An entry of `details.causes` of a Status.
    pub fn to_cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.body(), "field": self.field})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Several errors as one line: one as it is, more in brackets, repeated ones once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let line = error.to_string();
        if !seen.contains(&line) {
            seen.push(line);
        }
    }
    match seen.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_in_kubernetes() {
        let path = Path::new("spec").child("ports").index(0).key("a/b");
        let cases = [
            (
                FieldError::required(&path, ""),
                "spec.ports[0][a/b]: Required value",
            ),
            (
                FieldError::invalid(&path, "a\n\"b", "no"),
                "spec.ports[0][a/b]: Invalid value: \"a\\n\\\"b\": no",
            ),
            (
                FieldError::invalid(Path::root(), json!({"a": "<"}), "no"),
                "<nil>: Invalid value: {\"a\":\"\\u003c\"}: no",
            ),
            (
                FieldError::not_supported("x", Value::Null, ["a", "b"]),
                "x: Unsupported value: null: supported values: \"a\", \"b\"",
            ),
            (
                FieldError::too_many("x", 3, 1),
                "x: Too many: 3: must have at most 1 item",
            ),
            (FieldError::invalid_omitted("x", "no"), "x: Invalid value: no"),
        ];
        for (error, want) in cases {
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn aggregates() {
        let a = FieldError::required("a", "");
        assert_eq!(aggregate(std::slice::from_ref(&a)), "a: Required value");
        let b = FieldError::forbidden("b", "x");
        assert_eq!(
            aggregate(&[a.clone(), b, a]),
            "[a: Required value, b: Forbidden: x]"
        );
    }
}
