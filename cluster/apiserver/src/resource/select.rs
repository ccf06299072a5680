//! Label and field selectors of a list or watch.

use apimachinery::selector::{FieldSelector, LabelSelector};
use serde_json::Value;

use crate::{
    registry::Kind,
    serve::Query,
    status::{ApiError, Result},
    store::Stored,
};

/// What a list or watch shows.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Fields beyond name and namespace: those need the object's tree.
    deep: bool,
}

impl Selection {
    pub(super) fn parse(kind: &Kind, query: &Query) -> Result<Self> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(format!("unable to parse label selector: {error}")))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(format!("unable to parse field selector: {error}")))?;
        let mut deep = false;
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            match field {
                "metadata.name" => {}
                "metadata.namespace" if kind.namespaced => {}
                _ if kind.selectable.iter().any(|path| path == field) => deep = true,
                _ => {
                    let message = if kind.is_custom() || !kind.selectable.is_empty() {
                        format!("field label not supported: {field}")
                    } else {
                        let known = "only \"metadata.name\", \"metadata.namespace\"";
                        format!("{field:?} is not a known field selector: {known}")
                    };
                    return Err(ApiError::bad_request(message));
                }
            }
        }
        Ok(Self { labels, fields, deep })
    }

    /// Everything is shown.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, object: &Stored) -> bool {
        if !self.labels.is_empty() {
            let labels = object.labels();
            let lookup = |key: &str| {
                labels
                    .iter()
                    .find(|(k, _)| k == key)
                    .map(|(_, value)| value.as_str())
            };
            if !self.labels.matches(lookup) {
                return false;
            }
        }
        if self.fields.is_empty() {
            return true;
        }
        let tree = if self.deep { object.value() } else { Value::Null };
        let texts: Vec<(&str, String)> = self
            .fields
            .requirements()
            .iter()
            .map(|requirement| {
                let field = requirement.field.as_str();
                let text = match field {
                    "metadata.name" => object.key.name.to_string(),
                    "metadata.namespace" => object.key.namespace.to_string(),
                    _ => field_text(&tree, field),
                };
                (field, text)
            })
            .collect();
        self.fields.matches(|field| {
            texts
                .iter()
                .find(|(f, _)| *f == field)
                .map(|(_, text)| text.as_str())
        })
    }
}

/// A field as selectors see it: absent is empty (or false, or zero).
fn field_text(tree: &Value, field: &str) -> String {
    let path = match field {
        "source" => "source.component",
        "reportingController" => "reportingComponent",
        "status.successful" => "status.succeeded",
        other => other,
    };
    let renamed = path
        .strip_prefix("regarding.")
        .map(|rest| format!("involvedObject.{rest}"));
    let path = renamed.as_deref().unwrap_or(path);
    let mut value = tree;
    for part in path.split('.') {
        value = &value[part];
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Null => match field {
            // An event of the newer API names its source there.
            "source" => field_text(tree, "reportingComponent"),
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.successful" | "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
        other => other.to_string(),
    }
}
