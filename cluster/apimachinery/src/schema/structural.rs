use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::correlate::Correlation;
use super::model::Schema;
use super::validate::{self, Mode};
use super::{default, listtype, objectmeta, prune};
use crate::cel;
use crate::field::{ErrorType, FieldError, Path};

/// The schema of a kind of custom resources, ready for use; cheap to clone.
#[derive(Clone)]
pub struct Structural(Arc<Inner>);

struct Inner {
    schema: Schema,
    typed_lists: bool,
    embeds: bool,
    /// Rules are compiled when the first object is validated.
    rules: OnceLock<Option<cel::Validator>>,
}

impl std::fmt::Debug for Structural {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Structural").field(&self.0.schema).finish()
    }
}

impl Structural {
    /// Reads an `openAPIV3Schema`. Whether it may be used in a
    /// CustomResourceDefinition is checked by [`crate::crd`].
    pub fn from_json(schema: &Value) -> Result<Self, Vec<FieldError>> {
        Ok(Self::new(Schema::parse(schema, &Path::root())?))
    }

    pub fn new(schema: Schema) -> Self {
        Self(Arc::new(Inner {
            typed_lists: listtype::applies(&schema),
            embeds: objectmeta::embeds(&schema),
            schema,
            rules: OnceLock::new(),
        }))
    }

    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// Removes unknown fields and nulls that are not allowed; returns the
    /// paths of the unknown fields, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let unknown = prune::prune(object, self.schema(), true);
        prune::prune_nulls(object, Some(self.schema()));
        unknown
    }

    /// Brings an object that a client sent into the shape that is stored:
    /// metadata is decoded, the rest pruned. Returns the paths of unknown
    /// fields, for `fieldValidation`; the error is the text of a 400.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.decode_with(object, Self::prune)
    }

    /// The same for what server-side apply merged: a null that was applied stays, and is refused.
    pub fn decode_merged(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.decode_with(object, |schema, object| {
            prune::prune(object, schema.schema(), true)
        })
    }

    fn decode_with(
        &self,
        object: &mut Value,
        prune: impl FnOnce(&Self, &mut Value) -> Vec<String>,
    ) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        let metadata = match object.get("metadata") {
            Some(metadata) => {
                let (decoded, fields) = objectmeta::decode(metadata)?;
                unknown.extend(fields.iter().map(|f| format!("metadata.{f}")));
                Some(decoded)
            }
            None => None,
        };
        unknown.extend(prune(self, object));
        if self.0.embeds {
            let more =
                objectmeta::coerce(object, self.schema(), false, &Path::root()).map_err(|e| e.to_string())?;
            unknown.extend(more);
        }
        unknown.sort();
        if let (Some(metadata), Value::Object(map)) = (metadata, object) {
            map.insert("metadata".to_owned(), metadata);
        }
        Ok(unknown)
    }

    pub fn apply_defaults(&self, object: &mut Value) {
        default::apply(object, self.schema());
    }

    /// All errors of an object, except those of its name and metadata.
    /// With the old object unchanged parts are not held against the new one.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_after(Vec::new(), true, object, old)
    }

    /// Like `validate`, with the errors that were found before: some of them keep rules
    /// from being run. Values are not checked if kind or version are wrong already.
    pub(crate) fn validate_after(
        &self,
        mut errors: Vec<FieldError>,
        check_values: bool,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let correlation = old.map(|old| Correlation::new(object, old, self.schema()));
        if check_values {
            errors.extend(validate::validate(
                object,
                self.schema(),
                Mode::Object,
                correlation.as_ref(),
                &Path::root(),
            ));
        }
        self.finish(errors, object, old, correlation.as_ref(), true)
    }

    /// Errors of an update of the status subresource.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        self.validate_status_after(Vec::new(), true, object, old)
    }

    pub(crate) fn validate_status_after(
        &self,
        mut errors: Vec<FieldError>,
        check_values: bool,
        object: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        let root = Correlation::new(object, old, self.schema());
        if let (true, Some(status), Some(schema)) = (
            check_values,
            object.get("status"),
            self.schema().properties.get("status"),
        ) {
            let old = old.get("status").unwrap_or(&Value::Null);
            let correlation = root
                .key("status")
                .unwrap_or_else(|| Correlation::new(status, old, schema));
            errors.extend(validate::validate(
                status,
                schema,
                Mode::Object,
                Some(&correlation),
                &Path::new("status"),
            ));
        }
        self.finish(errors, object, Some(old), Some(&root), false)
    }

    fn finish(
        &self,
        mut errors: Vec<FieldError>,
        object: &Value,
        old: Option<&Value>,
        correlation: Option<&Correlation<'_>>,
        embedded: bool,
    ) -> Vec<FieldError> {
        let root = Path::root();
        if embedded && self.0.embeds {
            objectmeta::validate(object, self.schema(), false, &root, &mut errors);
        }
        if self.0.typed_lists {
            let had_duplicates = old.is_some_and(|old| {
                let mut before = Vec::new();
                listtype::validate(old, self.schema(), &root, &mut before);
                !before.is_empty()
            });
            if !had_duplicates {
                listtype::validate(object, self.schema(), &root, &mut errors);
            }
        }
        let rules = self
            .0
            .rules
            .get_or_init(|| cel::Validator::new(self.schema(), true));
        if let Some(rules) = rules {
            if errors.iter().any(blocks_rules) {
                errors.push(FieldError::invalid(
                    &root,
                    Value::Null,
                    "some validation rules were not checked because the object was invalid; \
                     correct the existing errors to complete validation",
                ));
            } else {
                errors.extend(rules.validate(&root, object, old, correlation));
            }
        }
        errors
    }
}

/// Errors after which rules would read what is not there.
pub(crate) fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shared_between_threads() {
        fn shared<T: Send + Sync + Clone>() {}
        shared::<Structural>();
    }
}
