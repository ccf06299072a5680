//! What a kind's schema means for a request: the same calls for built-in and custom kinds.

mod builtin_decode;
mod builtin_defaults;
mod builtin_validate;
mod ownership;

use apimachinery::{
    field::FieldError,
    names::{self, NameRule},
    schema::Structural,
};
use serde_json::Value;

pub(crate) use ownership::manager;

use crate::{
    registry::{Kind, Schema},
    status::{ApiError, Cause, Result},
};

/// Brings what a client sent into the shape that is stored. Returns the unknown fields that were
/// dropped.
pub(crate) fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>> {
    decode_by(kind, object, Structural::decode)
}

/// The same for what server-side apply merged.
pub(crate) fn decode_merged(kind: &Kind, object: &mut Value) -> Result<Vec<String>> {
    decode_by(kind, object, Structural::decode_merged)
}

fn decode_by(
    kind: &Kind,
    object: &mut Value,
    custom: fn(&Structural, &mut Value) -> std::result::Result<Vec<String>, String>,
) -> Result<Vec<String>> {
    match &kind.schema {
        Schema::Builtin(definition) => builtin_decode::decode(definition, object).map_err(|problem| {
            ApiError::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {problem}",
                kind.kind, kind.version, kind.kind
            ))
        }),
        Schema::Custom(schema) => custom(&schema.resource.schema, object).map_err(ApiError::bad_request),
    }
}

pub(crate) fn default(kind: &Kind, object: &mut Value) {
    match &kind.schema {
        Schema::Builtin(definition) => builtin_defaults::apply(definition, object),
        Schema::Custom(schema) => schema.resource.schema.apply_defaults(object),
    }
}

/// Before a create: status and generation.
pub(crate) fn prepare_create(kind: &Kind, object: &mut Value) {
    match &kind.schema {
        Schema::Custom(schema) => schema.resource.prepare_create(object),
        Schema::Builtin(definition) => {
            if resets_status(kind) {
                remove(object, "status");
                builtin_defaults::apply(definition, object);
            }
            if counts_generations(kind) {
                object["metadata"]["generation"] = 1.into();
            } else {
                remove(&mut object["metadata"], "generation");
            }
        }
    }
}

/// Before an update through `subresource` (`""`: the object itself).
pub(crate) fn prepare_update(kind: &Kind, subresource: &str, object: &mut Value, old: &Value) {
    match &kind.schema {
        Schema::Custom(schema) if subresource == "status" => {
            schema.resource.prepare_status_update(object, old);
        }
        Schema::Custom(schema) => schema.resource.prepare_update(object, old),
        Schema::Builtin(_) => {
            if let Some(only) = only_path(subresource) {
                // Who approves may say something about it.
                let said: &[&str] = match subresource {
                    "approval" => &["annotations", "labels"],
                    _ => &[],
                };
                keep_only(object, old, only, said);
            }
            for path in kind.reset_fields_of(subresource) {
                copy_path(object, old, path);
            }
            if counts_generations(kind) {
                let before = old["metadata"]["generation"].as_i64().unwrap_or(0);
                // Where a pod runs is no wish of its owner.
                let changed = (subresource != "binding" && object.get("spec") != old.get("spec"))
                    || (kind.group == "admissionregistration.k8s.io"
                        && object.get("webhooks") != old.get("webhooks"));
                object["metadata"]["generation"] = (before + i64::from(changed)).into();
            } else if let Some(generation) = old["metadata"].get("generation") {
                object["metadata"]["generation"] = generation.clone();
            } else {
                remove(&mut object["metadata"], "generation");
            }
        }
    }
}

pub(crate) fn validate_create(kind: &Kind, object: &Value) -> Vec<FieldError> {
    match &kind.schema {
        Schema::Custom(schema) => schema.resource.validate_create(object),
        Schema::Builtin(definition) => {
            let mut errors = names::validate_create(&object["metadata"], kind.namespaced, name_rule(kind));
            errors.extend(builtin_validate::validate(definition, object));
            errors
        }
    }
}

pub(crate) fn validate_update(
    kind: &Kind,
    subresource: &str,
    object: &Value,
    old: &Value,
) -> Vec<FieldError> {
    match &kind.schema {
        Schema::Custom(schema) if subresource == "status" => {
            schema.resource.validate_status_update(object, old)
        }
        Schema::Custom(schema) => schema.resource.validate_update(object, old),
        Schema::Builtin(definition) => {
            let mut errors = names::validate_update(&object["metadata"], &old["metadata"]);
            if object.get("spec") != old.get("spec") || object.get("spec").is_none() {
                errors.extend(builtin_validate::validate(definition, object));
            }
            errors
        }
    }
}

/// 422 with a cause for each error, if there is one.
pub(crate) fn refuse(kind: &Kind, object: &Value, errors: &[FieldError]) -> Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let metadata = &object["metadata"];
    let name = metadata["name"]
        .as_str()
        .or(metadata["generateName"].as_str())
        .unwrap_or_default();
    Err(ApiError::invalid(
        &kind.group,
        &kind.kind,
        name,
        errors.iter().map(cause).collect(),
    ))
}

fn cause(error: &FieldError) -> Cause {
    Cause {
        reason: error.kind.into(),
        message: error.body(),
        field: error.field.clone(),
    }
}

fn name_rule(kind: &Kind) -> NameRule {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => NameRule::Label,
        ("", "services") => NameRule::Label1035,
        ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// Namespaces, persistent volumes and claims keep what the creator says; everyone else starts without
/// a status.
fn resets_status(kind: &Kind) -> bool {
    kind.has_status() && kind.plural != "nodes"
}

fn counts_generations(kind: &Kind) -> bool {
    matches!(
        (kind.group.as_str(), kind.plural.as_str()),
        (
            "apps",
            "deployments" | "daemonsets" | "replicasets" | "statefulsets"
        ) | (
            "batch" | "policy" | "apiextensions.k8s.io" | "admissionregistration.k8s.io",
            _
        ) | ("", "replicationcontrollers" | "pods")
            | (
                "networking.k8s.io",
                "ingresses" | "networkpolicies" | "ingressclasses"
            )
            | ("discovery.k8s.io", "endpointslices")
    )
}

/// The one part of an object that a narrow subresource may change.
fn only_path(subresource: &str) -> Option<&'static str> {
    match subresource {
        "finalize" => Some("spec.finalizers"),
        "ephemeralcontainers" => Some("spec.ephemeralContainers"),
        "resize" => Some("spec.containers"),
        "approval" => Some("status.conditions"),
        _ => None,
    }
}

fn keep_only(object: &mut Value, old: &Value, path: &str, metadata: &[&str]) {
    let mut kept = old.clone();
    copy_path(&mut kept, object, path);
    for field in ["managedFields", "resourceVersion"].iter().chain(metadata) {
        copy_path(&mut kept, object, &format!("metadata.{field}"));
    }
    *object = kept;
}

/// Makes `to` at `path` what `from` is there.
fn copy_path(to: &mut Value, from: &Value, path: &str) {
    let mut source = from;
    let mut target = to;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        source = &source[part];
        if parts.peek().is_some() {
            if target[part].is_null() {
                if source.is_null() {
                    return;
                }
                target[part] = Value::Object(serde_json::Map::new());
            }
            target = &mut target[part];
            continue;
        }
        if source.is_null() {
            remove(target, part);
        } else if target.is_object() {
            target[part] = source.clone();
        }
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(field);
    }
}
