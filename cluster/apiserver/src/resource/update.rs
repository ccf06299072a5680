//! Replacements, and the loop that every change of an existing object goes through.

use apimachinery::field::ErrorType;
use serde_json::Value;

use super::{
    Outcome, Target,
    admit::admit,
    body,
    create::check_namespace,
    options::WriteOptions,
    version,
    write::{self, Change},
};
use crate::{
    admission::{Operation, Passage},
    semantics,
    serve::Call,
    status::{ApiError, Cause, Result},
    store::Expect,
    strategy,
};

/// A change that meets other writers is recomputed this many times.
const ATTEMPTS: usize = 64;

/// PUT.
pub(super) async fn replace(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let options = WriteOptions::of(call, false)?;
    let (mut sent, warnings) = body::object(call, target, body, &options)?;
    check_name(target, &mut sent)?;
    semantics::default(&target.kind, &mut sent);
    let kind = &target.kind;
    let unconditional = sent["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    if unconditional && (kind.is_custom() || needs_version(target)) {
        let cause = Cause {
            reason: ErrorType::Invalid.into(),
            message: "Invalid value: 0: must be specified for an update".into(),
            field: "metadata.resourceVersion".into(),
        };
        let name = target.name().unwrap_or_default();
        return Err(ApiError::invalid(&kind.group, &kind.plural, name, vec![cause]));
    }
    let manager = semantics::manager(kind, &target.subresource);
    let object = modify(call, target, &options, |live| {
        check_uid(target, &sent, live)?;
        check_revision(target, &sent, live)?;
        let mut new = sent.clone();
        carry_over(&mut new, live);
        Ok(manager
            .update(live, new, &options.field_manager, &options.now)
            .object)
    })
    .await?;
    Ok(Outcome {
        warnings,
        ..Outcome::ok(object)
    })
}

/// Kinds whose writers must say what they have read.
fn needs_version(target: &Target) -> bool {
    target
        .kind
        .is("apiextensions.k8s.io", "customresourcedefinitions")
        && target.subresource.is_empty()
}

/// The name of the path and of the object must agree.
pub(super) fn check_name(target: &Target, object: &mut Value) -> Result<()> {
    let wanted = target.name().unwrap_or_default();
    check_namespace(target, object)?;
    match object["metadata"]["name"].as_str() {
        None | Some("") => {
            object["metadata"]["name"] = wanted.into();
            Ok(())
        }
        Some(name) if name == wanted => Ok(()),
        Some(name) => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        ))),
    }
}

pub(super) fn check_uid(target: &Target, sent: &Value, live: &Value) -> Result<()> {
    let uid = sent["metadata"]["uid"].as_str().unwrap_or_default();
    let live = live["metadata"]["uid"].as_str().unwrap_or_default();
    if uid.is_empty() || uid == live {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live}");
    Err(ApiError::conflict(
        &target.kind.group,
        &target.kind.plural,
        target.name().unwrap_or_default(),
        &why,
    ))
}

/// A sent `resourceVersion` must be the live one.
pub(super) fn check_revision(target: &Target, sent: &Value, live: &Value) -> Result<()> {
    let version = sent["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if version.is_empty() || sent["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"] {
        return Ok(());
    }
    super::list::parse_revision(version)?;
    Err(ApiError::modified(
        &target.kind.group,
        &target.kind.plural,
        target.name().unwrap_or_default(),
    ))
}

/// Fields that only the server sets stay as they are.
pub(super) fn carry_over(object: &mut Value, live: &Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("selfLink");
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        match live["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Changes the target's object: `change` makes the new object of the live one, both in the request's
/// version, ownership noted. Other writers in between make it start over.
pub(super) async fn modify(
    call: &Call,
    target: &Target,
    options: &WriteOptions,
    change: impl Fn(&Value) -> Result<Value>,
) -> Result<Value> {
    let kind = &target.kind;
    let name = target.name().unwrap_or_default();
    let context = strategy::Context::of(call, kind, &target.subresource);
    let _guard = strategy::write_guard(&context).await;
    for _ in 0..ATTEMPTS {
        let stored = target.stored(call)?;
        let live = version::read(kind, &stored);
        let mut object = change(&live)?;
        let passage = Passage {
            call,
            target,
            operation: Operation::Update,
            name,
            old: Some(&live),
            dry_run: options.dry_run,
        };
        admit(&context, passage, &mut object, |_| {}).await?;
        if unchanged(&object, &live) {
            return Ok(live);
        }
        if options.dry_run {
            return Ok(object);
        }
        let change = Change::of(&object, is_finished(&object));
        let what = (&call.attributes.verb, name);
        let expect = Expect::Revision(stored.revision);
        if let Some(revision) = write::commit(call, target, &context, what, expect, change).await? {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            return Ok(object);
        }
    }
    Err(ApiError::modified(&kind.group, &kind.plural, name))
}

/// Nothing but the revision differs: then nothing is written.
fn unchanged(object: &Value, live: &Value) -> bool {
    let (Some(object), Some(live)) = (object.as_object(), live.as_object()) else {
        return false;
    };
    if object.len() != live.len() {
        return false;
    }
    object.iter().all(|(key, value)| {
        let Some(other) = live.get(key) else { return false };
        if key != "metadata" {
            return value == other;
        }
        let (Some(a), Some(b)) = (value.as_object(), other.as_object()) else {
            return value == other;
        };
        let meaningful = |key: &&String| key.as_str() != "resourceVersion";
        a.keys().filter(meaningful).count() == b.keys().filter(meaningful).count()
            && a.iter()
                .filter(|(key, _)| meaningful(key))
                .all(|(key, value)| b.get(key) == Some(value))
    })
}

/// A deleted object that nobody holds any more.
pub(super) fn is_finished(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let held_by_spec = object["kind"] == "Namespace" && !empty(&object["spec"]["finalizers"]);
    !metadata["deletionTimestamp"].is_null()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && empty(&metadata["finalizers"])
        && !held_by_spec
}
