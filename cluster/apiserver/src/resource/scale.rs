//! The scale subresource: replicas of whatever has them.

use apimachinery::field::ErrorType;
use apimachinery::{
    openapi::ObjectType,
    selector::LabelSelectorSpec,
    ssa::{FieldManager, FieldSet, Path, ScaleOwnership, Version},
};
use serde_json::{Value, json};

use super::{
    Outcome, Target, body,
    options::WriteOptions,
    patch,
    update::{check_revision, check_uid, modify},
    version,
};
use crate::{
    registry::{ScalePaths, Schema},
    serve::Call,
    status::{ApiError, Cause, Result},
};

fn paths(target: &Target) -> ScalePaths {
    match &target.kind.schema {
        Schema::Custom(schema) => schema.scale.clone(),
        Schema::Builtin(_) => None,
    }
    .unwrap_or_else(|| ScalePaths {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: None,
    })
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.is_empty())
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    parts(path).fold(object, |value, part| &value[part])
}

/// The Scale of an object.
pub(crate) fn scale_of(target: &Target, object: &Value) -> Result<Value> {
    let paths = paths(target);
    let replicas = at(object, &paths.spec_replicas).as_i64();
    if replicas.is_none() && target.kind.is_custom() {
        return Err(ApiError::internal(format!(
            "the spec replicas field {:?} does not exist",
            paths.spec_replicas
        )));
    }
    let metadata = &object["metadata"];
    let mut status = json!({"replicas": at(object, &paths.status_replicas).as_i64().unwrap_or(0)});
    let selector = match (&paths.label_selector, target.kind.plural.as_str()) {
        (Some(path), _) => at(object, path).as_str().unwrap_or_default().to_owned(),
        (None, _) if target.kind.is_custom() => String::new(),
        (None, "replicationcontrollers") => {
            let pairs = object["spec"]["selector"].as_object().into_iter().flatten();
            pairs
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect::<Vec<_>>()
                .join(",")
        }
        (None, _) => LabelSelectorSpec::selector_of(object["spec"].get("selector"))
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut own = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(field) {
            own[field] = value.clone();
        }
    }
    Ok(json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": own,
        "spec": {"replicas": replicas.unwrap_or(0)},
        "status": status,
    }))
}

pub(super) fn get(call: &Call, target: &Target) -> Result<Value> {
    scale_of(target, &version::read(&target.kind, &*target.stored(call)?))
}

/// Who owns the replicas: the Scale's own view, and the way back to the object.
struct Ownership {
    manager: FieldManager,
    entries: ScaleOwnership,
}

fn ownership(target: &Target) -> Ownership {
    let scale = Version {
        api_version: "autoscaling/v1".into(),
        // Part of the built-in schemas, as the registry's tests see.
        ty: ObjectType::builtin("autoscaling.v1.Scale").unwrap_or_else(ObjectType::deduced),
        reset: FieldSet::default(),
    };
    let path = parts(&paths(target).spec_replicas).collect::<Vec<_>>().join(".");
    let replicas = target
        .kind
        .types
        .iter()
        .map(|(version, _)| (version.clone(), Some(Path::fields(&path))))
        .collect();
    Ownership {
        manager: FieldManager::new("autoscaling", "v1", "Scale", "scale", vec![scale]),
        entries: ScaleOwnership::new(&target.kind.api_version(), replicas),
    }
}

pub(super) async fn update(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let options = WriteOptions::of(call, false)?;
    let (scale, _) = body::parse(&body::content_type(call), body)?;
    if scale["kind"] != "Scale" || !scale["spec"].is_object() {
        return Err(ApiError::bad_request(
            "expected an object of kind Scale (autoscaling/v1)",
        ));
    }
    if scale["metadata"]["name"]
        .as_str()
        .is_some_and(|name| Some(name) != target.name())
    {
        return Err(ApiError::bad_request(
            "the name of the Scale does not match the name on the URL",
        ));
    }
    let object = change(call, target, &options, |manager, live| {
        Ok(manager
            .update(live, scale.clone(), &options.field_manager, &options.now)
            .object)
    })
    .await?;
    Ok(Outcome::ok(scale_of(target, &object)?))
}

pub(super) async fn patch(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let media = body::content_type(call);
    let options = WriteOptions::of(call, media == patch::APPLY)?;
    let object = change(call, target, &options, |manager, live| {
        if media == patch::APPLY {
            let (applied, _) = body::parse(&media, body)?;
            let applied_by = &options.field_manager;
            return manager
                .apply(
                    live.clone(),
                    &applied,
                    applied_by,
                    options.force,
                    &options.now,
                    |_| {},
                )
                .map_err(|error| patch::refused(target, error));
        }
        let new = patch::merge(&media, live.clone(), body, Some("autoscaling.v1.Scale"))?;
        if !new["metadata"].is_object() || !new["spec"].is_object() {
            return Err(ApiError::bad_request("the patch leaves no Scale"));
        }
        Ok(manager
            .update(live, new, &options.field_manager, &options.now)
            .object)
    })
    .await?;
    Ok(Outcome::ok(scale_of(target, &object)?))
}

/// Writes the replicas of the Scale that `scale` makes of the live one, and who owns them.
async fn change(
    call: &Call,
    target: &Target,
    options: &WriteOptions,
    scale: impl Fn(&FieldManager, &Value) -> Result<Value>,
) -> Result<Value> {
    let paths = paths(target);
    let Ownership { manager, entries } = ownership(target);
    modify(call, target, options, |live| {
        let owned = live["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut before = scale_of(target, live)?;
        before["metadata"]["managedFields"] = entries.to_scale(&owned).map_err(ApiError::internal)?.into();
        let sent = scale(&manager, &before)?;
        check_uid(target, &sent, live)?;
        check_revision(target, &sent, live)?;
        let replicas = replicas(target, &sent["spec"]["replicas"])?;
        let mut new = live.clone();
        set(&mut new, &paths.spec_replicas, replicas.into());
        let after = sent["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        new["metadata"]["managedFields"] = entries
            .to_object(&owned, &after)
            .map_err(ApiError::internal)?
            .into();
        Ok(new)
    })
    .await
}

fn replicas(target: &Target, value: &Value) -> Result<i64> {
    if value.is_null() {
        return Ok(0);
    }
    value
        .as_i64()
        .filter(|&number| (0..=i64::from(i32::MAX)).contains(&number))
        .ok_or_else(|| {
            let cause = Cause {
                reason: ErrorType::Invalid.into(),
                message: format!("Invalid value: {value}: must be greater than or equal to 0"),
                field: "spec.replicas".into(),
            };
            ApiError::invalid(
                "autoscaling",
                "Scale",
                target.name().unwrap_or_default(),
                vec![cause],
            )
        })
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in parts(path) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}
