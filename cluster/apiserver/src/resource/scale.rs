//! The scale subresource: replicas of whatever has them.

use apimachinery::selector::LabelSelectorSpec;
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
    semantics,
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
fn scale_of(target: &Target, object: &Value) -> Result<Value> {
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

pub fn get(call: &Call, target: &Target) -> Result<Value> {
    scale_of(target, &version::read(&target.kind, &*target.stored(call)?))
}

pub async fn update(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
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
    let object = change(call, target, &options, |_| Ok(scale.clone())).await?;
    Ok(Outcome::ok(scale_of(target, &object)?))
}

pub async fn patch(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let media = body::content_type(call);
    let options = WriteOptions::of(call, media == patch::APPLY)?;
    let object = change(call, target, &options, |live| {
        if media == patch::APPLY {
            let (applied, _) = body::parse(&media, body)?;
            let mut scale = live.clone();
            scale["spec"]["replicas"] = applied["spec"]["replicas"].clone();
            return Ok(scale);
        }
        patch::merge(&media, live.clone(), body, Some("autoscaling.v1.Scale"))
    })
    .await?;
    Ok(Outcome::ok(scale_of(target, &object)?))
}

async fn change(
    call: &Call,
    target: &Target,
    options: &WriteOptions,
    scale: impl Fn(&Value) -> Result<Value>,
) -> Result<Value> {
    let paths = paths(target);
    let manager = semantics::manager(&target.kind, "scale");
    modify(call, target, options, |live| {
        let sent = scale(&scale_of(target, live)?)?;
        check_uid(target, &sent, live)?;
        check_revision(target, &sent, live)?;
        let replicas = match &sent["spec"]["replicas"] {
            Value::Null => 0,
            value => match value
                .as_i64()
                .filter(|&number| (0..=i64::from(i32::MAX)).contains(&number))
            {
                Some(number) => number,
                None => {
                    let cause = Cause {
                        reason: "FieldValueInvalid".into(),
                        message: format!("Invalid value: {value}: must be greater than or equal to 0"),
                        field: "spec.replicas".into(),
                    };
                    let name = target.name().unwrap_or_default();
                    return Err(ApiError::invalid("autoscaling", "Scale", name, vec![cause]));
                }
            },
        };
        let mut new = live.clone();
        set(&mut new, &paths.spec_replicas, replicas.into());
        Ok(manager
            .update(live, new, &options.field_manager, &options.now)
            .object)
    })
    .await
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
