//! Patches of all types, server-side apply among them.

use apimachinery::{
    openapi::ObjectType,
    patch::{self, PatchError},
    ssa::ApplyError,
};
use http::StatusCode;
use serde_json::Value;

use super::{
    Outcome, Target, body,
    create::insert,
    options::WriteOptions,
    update::{carry_over, check_name, check_revision, check_uid, modify},
};
use crate::{
    registry::Schema,
    semantics,
    serve::Call,
    status::{ApiError, Cause, CauseReason, Reason, Result},
    verb::Verb,
};

pub(super) const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(super) async fn patch(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let media = body::content_type(call);
    let options = WriteOptions::of(call, media == APPLY)?;
    if media == APPLY {
        return apply(call, target, &options, body).await;
    }
    let definition = match &target.kind.schema {
        Schema::Builtin(definition) => Some(definition.as_str()),
        Schema::Custom(_) => None,
    };
    let manager = semantics::manager(&target.kind, &target.subresource);
    let warnings = std::sync::Mutex::new(Vec::new());
    let object = modify(call, target, &options, |live| {
        let mut new = merge(&media, live.clone(), body, definition)?;
        body::check_kind(&target.kind, &mut new)?;
        let unknown = body::decode(&target.kind, &mut new, Vec::new(), &options, None)?;
        *warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = unknown;
        same_name(target, &new, live)?;
        check_name(target, &mut new)?;
        check_uid(target, &new, live)?;
        check_revision(target, &new, live)?;
        semantics::default(&target.kind, &mut new);
        carry_over(&mut new, live);
        Ok(manager
            .update(live, new, &options.field_manager, &options.now)
            .object)
    })
    .await?;
    let warnings = warnings
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Outcome {
        warnings,
        ..Outcome::ok(object)
    })
}

fn same_name(target: &Target, new: &Value, live: &Value) -> Result<()> {
    if new["metadata"]["name"] == live["metadata"]["name"] {
        return Ok(());
    }
    let name = target.name().unwrap_or_default();
    let found = new["metadata"]["name"].as_str().unwrap_or_default();
    Err(ApiError::bad_request(format!(
        "the name of the object ({found}) does not match the name on the URL ({name})"
    )))
}

/// Applies a JSON, merge or strategic patch to an object. `definition` names a built-in type;
/// without one there is nothing that a strategic patch could go by.
pub(super) fn merge(media: &str, object: Value, bytes: &[u8], definition: Option<&str>) -> Result<Value> {
    let result = match (media, definition) {
        (JSON, _) => patch::json::apply(object, bytes),
        (MERGE, _) => patch::merge::apply(object, bytes),
        (STRATEGIC, Some(definition)) => {
            let Some(ty) = ObjectType::builtin(definition) else {
                return Err(ApiError::internal(format!("no type {definition}")));
            };
            patch::strategic::apply(object, bytes, &ty)
        }
        _ => {
            let accepted = if definition.is_some() {
                [JSON, MERGE, APPLY, STRATEGIC].join(", ")
            } else {
                [JSON, MERGE, APPLY].join(", ")
            };
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            )));
        }
    };
    result.map_err(|error| match error {
        PatchError::BadRequest(text) => ApiError::bad_request(text),
        PatchError::Unprocessable(_) => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            Reason::Invalid,
            PatchError::REJECTED,
        ),
        PatchError::TooLarge(text) => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge, text)
        }
        PatchError::Internal(text) => ApiError::internal(text),
    })
}

/// Server-side apply: creates what is not there.
async fn apply(call: &Call, target: &Target, options: &WriteOptions, bytes: &[u8]) -> Result<Outcome> {
    let (mut applied, duplicates) = body::parse(APPLY, bytes)?;
    let kind = &target.kind;
    if !applied.is_object() {
        return Err(ApiError::bad_request(
            "error decoding YAML: an apply patch must be an object",
        ));
    }
    for field in ["apiVersion", "kind"] {
        if applied[field].as_str().unwrap_or_default().is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object '{field}' is missing in the apply patch"
            )));
        }
    }
    body::check_kind(kind, &mut applied)?;
    let mut checked = applied.clone();
    let warnings = body::decode(kind, &mut checked, duplicates, options, None)?;
    check_name(target, &mut applied)?;
    for _ in 0..2 {
        if target.stored(call).is_ok() {
            let object = modify(call, target, options, |live| {
                check_uid(target, &applied, live)?;
                check_revision(target, &applied, live)?;
                let mut merged = merge_applied(target, options, live.clone(), &applied)?;
                carry_over(&mut merged, live);
                Ok(merged)
            })
            .await;
            match object {
                Err(error) if error.reason == Reason::NotFound && target.subresource.is_empty() => continue,
                object => {
                    return Ok(Outcome {
                        warnings,
                        ..Outcome::ok(object?)
                    });
                }
            }
        }
        match create_applied(call, target, options, &applied).await {
            Err(error) if error.reason == Reason::AlreadyExists => {}
            created => {
                let object = created?;
                return Ok(Outcome {
                    code: StatusCode::CREATED,
                    object,
                    warnings,
                });
            }
        }
    }
    Err(ApiError::modified(
        &kind.group,
        &kind.plural,
        target.name().unwrap_or_default(),
    ))
}

/// An object with what was applied, and who owns which of its fields.
fn merge_applied(target: &Target, options: &WriteOptions, live: Value, applied: &Value) -> Result<Value> {
    let kind = &target.kind;
    // Built-in defaults are filled in like those of custom resources: after the merge, owned by nobody.
    let default = |object: &mut Value| semantics::default(kind, object);
    let mut merged = semantics::manager(kind, &target.subresource)
        .apply(
            live,
            applied,
            &options.field_manager,
            options.force,
            &options.now,
            default,
        )
        .map_err(|error| refused(target, error))?;
    let managed = merged["metadata"]["managedFields"].clone();
    semantics::decode_merged(kind, &mut merged)?;
    if !managed.is_null() {
        merged["metadata"]["managedFields"] = managed;
    }
    Ok(merged)
}

/// An apply of what is not there creates it.
async fn create_applied(
    call: &Call,
    target: &Target,
    options: &WriteOptions,
    applied: &Value,
) -> Result<Value> {
    let kind = &target.kind;
    let name = target.name().unwrap_or_default();
    if !target.subresource.is_empty() {
        return Err(target.not_found(name));
    }
    call.authorize_also(Verb::Create)?;
    let metadata = &applied["metadata"];
    if let Some(uid) = metadata["uid"].as_str().filter(|uid| !uid.is_empty()) {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(ApiError::conflict(&kind.group, &kind.plural, name, &why));
    }
    let empty = semantics::manager(kind, &target.subresource).empty_object();
    let object = merge_applied(target, options, empty, applied)?;
    insert(call, target, object, options, |object| object).await
}

pub(super) fn refused(target: &Target, error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts
                .0
                .iter()
                .map(|conflict| Cause {
                    reason: CauseReason::FieldManagerConflict,
                    message: conflict.message(),
                    field: conflict.path.to_string(),
                })
                .collect();
            ApiError::new(StatusCode::CONFLICT, Reason::Conflict, conflicts.to_string()).with_causes(causes)
        }
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Type(message) => {
            tracing::debug!(kind = target.kind.kind, message, "apply refused");
            ApiError::internal(message)
        }
    }
}
