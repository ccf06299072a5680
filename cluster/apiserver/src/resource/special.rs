//! Creates that are not creates: bindings, evictions, tokens, reviews.

use apimachinery::field::ErrorType;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Outcome, Target, body, eviction,
    options::{WriteOptions, now},
    update::{check_uid, modify},
};
use crate::{
    admission::{Operation, Passage},
    registry::Kind,
    semantics,
    serve::Call,
    status::{ApiError, Cause, Result},
    verb::Verb,
};

/// Kinds that are asked, not kept.
pub(super) fn is_review(kind: &Kind) -> bool {
    !kind.allows(&Verb::Get) && kind.allows(&Verb::Create) && !kind.is("", "bindings")
}

pub(super) async fn review(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let options = WriteOptions::of(call, false)?;
    let (object, warnings) = body::object(call, target, body, &options)?;
    let answer = call.core.access.review(
        &call.cluster,
        &call.identity,
        &target.kind,
        &target.namespace,
        object,
    )?;
    Ok(Outcome {
        code: StatusCode::CREATED,
        object: answer,
        warnings,
    })
}

/// POST to a subresource, or of a Binding.
pub(super) async fn create(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let (object, _) = body::parse(&body::content_type(call), body)?;
    let object = match target.subresource.as_str() {
        BINDING => bind(call, target, &object).await?,
        "eviction" => eviction::evict(call, target, &object).await?,
        "token" => {
            let account = target.stored(call)?.value();
            call.core
                .access
                .token(&call.cluster, &call.identity, &account, object)?
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(Outcome {
        code: StatusCode::CREATED,
        object,
        warnings: Vec::new(),
    })
}

/// POST to `bindings`: the pod is named in the object.
pub(super) async fn create_binding(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let options = WriteOptions::of(call, false)?;
    let (binding, warnings) = body::object(call, target, body, &options)?;
    let registry = call.cluster.registry();
    let kind = registry.find("", "v1", "pods").ok_or_else(ApiError::no_route)?;
    let pod = Target {
        collection: call.cluster.collection_of(kind),
        kind: kind.clone(),
        namespace: target.namespace.clone(),
        name: binding["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        subresource: BINDING.into(),
    };
    let object = bind(call, &pod, &binding).await?;
    Ok(Outcome {
        code: StatusCode::CREATED,
        object,
        warnings,
    })
}

/// The subresource of pods that takes a Binding. Webhooks see the Binding, not the pod that it changes.
pub(crate) const BINDING: &str = "binding";

/// What webhooks make of a Binding.
async fn admitted(call: &Call, target: &Target, sent: &Value, dry_run: bool) -> Result<Value> {
    let name = target.name().unwrap_or_default();
    let passage = Passage {
        call,
        target,
        operation: Operation::Create,
        name,
        old: None,
        dry_run,
    };
    let mut binding = sent.clone();
    let Some(fields) = binding.as_object_mut() else {
        return Err(ApiError::bad_request("a Binding is an object"));
    };
    fields.insert("apiVersion".into(), "v1".into());
    fields.insert("kind".into(), "Binding".into());
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), target.namespace.as_str().into());
    }
    passage.mutate(&mut binding).await?;
    passage.validate(Some(&binding)).await?;
    Ok(binding)
}

/// Binds a pod to a node, once.
pub(super) async fn bind(call: &Call, target: &Target, sent: &Value) -> Result<Value> {
    let name = target.name().unwrap_or_default();
    let options = WriteOptions::of(call, false)?;
    let binding = &admitted(call, target, sent, options.dry_run).await?;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    let kind = binding["target"]["kind"].as_str().unwrap_or_default();
    let refuse = |field: &str, message: &str| {
        ApiError::invalid(
            "",
            "Binding",
            name,
            vec![Cause {
                reason: ErrorType::Invalid.into(),
                message: message.into(),
                field: field.into(),
            }],
        )
    };
    if !kind.is_empty() && kind != "Node" {
        return Err(refuse(
            "target.kind",
            "Unsupported value: must be \"Node\" or empty",
        ));
    }
    if node.is_empty() {
        return Err(refuse("target.name", "Required value"));
    }
    let manager = semantics::manager(&target.kind, BINDING);
    modify(call, target, &options, |live| {
        check_uid(target, binding, live)?;
        let conflict = |why: String| ApiError::conflict("", "pods/binding", name, &why);
        if !live["metadata"]["deletionTimestamp"].is_null() {
            return Err(conflict(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            )));
        }
        if let Some(bound) = live["spec"]["nodeName"]
            .as_str()
            .filter(|bound| !bound.is_empty())
        {
            return Err(conflict(format!(
                "pod {name} is already assigned to node {bound:?}"
            )));
        }
        let mut pod = live.clone();
        pod["spec"]["nodeName"] = node.into();
        for field in ["annotations", "labels"] {
            for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                pod["metadata"][field][key] = value.clone();
            }
        }
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": now()});
        match &mut pod["status"]["conditions"] {
            Value::Array(conditions) => {
                conditions.retain(|condition| condition["type"] != "PodScheduled");
                conditions.push(condition);
            }
            other => *other = json!([condition]),
        }
        Ok(manager
            .update(live, pod, &options.field_manager, &options.now)
            .object)
    })
    .await?;
    Ok(json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}))
}
