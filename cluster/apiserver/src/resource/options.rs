//! Parameters of writes.

use apimachinery::field::ErrorType;
use apimachinery::names;
use http::header;

use crate::{
    serve::Call,
    status::{ApiError, Cause, Result},
    verb::Verb,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

#[derive(Clone, Debug)]
pub(super) struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    pub field_manager: String,
    /// Of an apply.
    pub force: bool,
    /// RFC 3339, seconds.
    pub now: String,
}

fn invalid(options: &str, field: &str, reason: ErrorType, message: String) -> ApiError {
    let cause = Cause {
        reason: reason.into(),
        message,
        field: field.into(),
    };
    ApiError::invalid("meta.k8s.io", options, "", vec![cause])
}

/// `dryRun` from the query, or from a body of delete options.
pub(super) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, options: &str) -> Result<bool> {
    let mut dry = false;
    for value in values.filter(|value| !value.is_empty()) {
        if value != "All" {
            let message = format!("Unsupported value: [{value:?}]: supported values: \"All\"");
            return Err(invalid(options, "dryRun", ErrorType::NotSupported, message));
        }
        dry = true;
    }
    Ok(dry)
}

impl WriteOptions {
    pub(super) fn of(call: &Call, apply: bool) -> Result<Self> {
        let kind = match call.attributes.verb {
            Verb::Create => "CreateOptions",
            Verb::Patch => "PatchOptions",
            _ => "UpdateOptions",
        };
        let field_validation = match call.query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                );
                return Err(invalid(kind, "fieldValidation", ErrorType::NotSupported, message));
            }
        };
        let given = call.query.get("fieldManager");
        if let Some(manager) = given {
            let errors = names::validate_field_manager(manager, "fieldManager");
            if let Some(error) = errors.first() {
                return Err(invalid(kind, &error.field, error.kind, error.body()));
            }
        }
        if apply && given.is_none() {
            let message = "Required value: is required for apply patch".to_owned();
            return Err(invalid(kind, "fieldManager", ErrorType::Required, message));
        }
        let force = call.query.optional_flag("force");
        if !apply && force.is_some() && kind == "PatchOptions" {
            let message = "Forbidden: may not be specified for non-apply patch".to_owned();
            return Err(invalid(kind, "force", ErrorType::Forbidden, message));
        }
        Ok(Self {
            dry_run: dry_run(call.query.all("dryRun"), kind)?,
            field_validation,
            field_manager: given
                .map_or_else(|| from_user_agent(call.header(header::USER_AGENT)), str::to_owned),
            force: force.unwrap_or(false),
            now: now(),
        })
    }
}

/// The program's name, as clients that name no manager are known by.
fn from_user_agent(agent: &str) -> String {
    let name: String = agent
        .split('/')
        .next()
        .unwrap_or_default()
        .chars()
        .take(128)
        .collect();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// RFC 3339 in UTC, seconds.
pub fn now() -> String {
    time_text(jiff::Timestamp::now())
}

pub(super) fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
