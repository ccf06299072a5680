//! Creates.

use http::StatusCode;
use rand::RngExt;
use serde_json::{Value, json};

use super::{
    Outcome, Target,
    admit::admit,
    body,
    options::WriteOptions,
    write::{self, Change},
};
use crate::{
    admission::{Operation, Passage},
    semantics,
    serve::Call,
    status::{ApiError, Cause, CauseReason, Reason, Result},
    store::Expect,
    strategy,
    verb::Verb,
};

/// Letters and digits that make no words and are hard to mistake.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const NAME_MAX: usize = 63;
/// New names tried when a generated one is taken.
const ATTEMPTS: usize = 8;

pub(super) async fn create(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let options = WriteOptions::of(call, false)?;
    let (mut object, warnings) = body::object(call, target, body, &options)?;
    let manager = semantics::manager(&target.kind, "");
    semantics::default(&target.kind, &mut object);
    let object = insert(call, target, object, &options, |object| {
        let updated = manager.update(
            &manager.empty_object(),
            object,
            &options.field_manager,
            &options.now,
        );
        if let Some(problem) = updated.problem {
            tracing::debug!(%problem, "field ownership not tracked");
        }
        updated.object
    })
    .await?;
    Ok(Outcome {
        code: StatusCode::CREATED,
        object,
        warnings,
    })
}

/// Writes a new object. `own` notes who owns its fields.
pub(super) async fn insert(
    call: &Call,
    target: &Target,
    mut object: Value,
    options: &WriteOptions,
    own: impl Fn(Value) -> Value,
) -> Result<Value> {
    check_namespace(target, &mut object)?;
    let metadata = &mut object["metadata"];
    if let Some(map) = metadata.as_object_mut() {
        if map
            .get("resourceVersion")
            .is_some_and(|version| !matches!(version.as_str(), Some("" | "0")))
        {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        for field in [
            "resourceVersion",
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            map.remove(field);
        }
        map.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
        map.insert("creationTimestamp".into(), options.now.as_str().into());
    }
    let named = generate_name(&object).is_none();
    let object = own(object);
    for attempt in 1.. {
        match store(call, target, object.clone(), options).await {
            Err(error) if error.reason == Reason::AlreadyExists && !named && attempt < ATTEMPTS => {}
            result => return result,
        }
    }
    Err(ApiError::internal("no name could be generated"))
}

async fn store(call: &Call, target: &Target, mut object: Value, options: &WriteOptions) -> Result<Value> {
    let kind = &target.kind;
    let context = strategy::Context::of(call, kind, "");
    let _guard = strategy::write_guard(&context).await;
    live_namespace(call, target, &object)?;
    let sent = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let passage = Passage {
        call,
        target,
        operation: Operation::Create,
        name: &sent,
        old: None,
        dry_run: options.dry_run,
    };
    admit(&context, passage, &mut object, |object| {
        if let Some(prefix) = generate_name(object) {
            object["metadata"]["name"] = generated(&prefix).into();
        }
    })
    .await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if options.dry_run {
        if call
            .core
            .store
            .get(&target.collection, &target.key(&name))
            .is_some()
        {
            return Err(ApiError::already_exists(&kind.group, &kind.plural, &name));
        }
        return Ok(object);
    }
    let change = Change::Put(&object);
    let revision = write::commit(
        call,
        target,
        &context,
        (&Verb::Create, &name),
        Expect::Absent,
        change,
    )
    .await?;
    // Only a change of an object that is there can meet another.
    let revision = revision.ok_or_else(|| ApiError::modified(&kind.group, &kind.plural, &name))?;
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    Ok(object)
}

/// The namespace of the path and of the object must agree.
pub(super) fn check_namespace(target: &Target, object: &mut Value) -> Result<()> {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Ok(());
    };
    if !target.kind.namespaced {
        match metadata.get("namespace").and_then(Value::as_str) {
            None | Some("") => metadata.remove("namespace"),
            Some(_) => {
                return Err(ApiError::bad_request(
                    "namespace may not be set on a cluster-scoped object",
                ));
            }
        };
        return Ok(());
    }
    match metadata.get("namespace").and_then(Value::as_str) {
        Some(namespace) if !namespace.is_empty() && namespace != target.namespace => {
            Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ))
        }
        _ => {
            metadata.insert("namespace".into(), target.namespace.as_str().into());
            Ok(())
        }
    }
}

/// New objects need a namespace that is there and stays.
fn live_namespace(call: &Call, target: &Target, object: &Value) -> Result<()> {
    if !target.kind.namespaced {
        return Ok(());
    }
    let namespace = &target.namespace;
    let Some(stored) = call.cluster.get("", "namespaces", "", namespace) else {
        return Err(ApiError::not_found("", "namespaces", namespace));
    };
    if stored.value()["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    // What the namespace's own clean-up needs may still be written.
    if target.kind.is_event() {
        return Ok(());
    }
    let what =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    Err(ApiError::forbidden(
        &target.kind.group,
        &target.kind.plural,
        strategy::sent_name(object),
        &what,
    )
    .with_causes(vec![Cause {
        reason: CauseReason::NamespaceTerminating,
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    }]))
}

fn generate_name(object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    let named = metadata["name"].as_str().is_some_and(|name| !name.is_empty());
    let prefix = metadata["generateName"]
        .as_str()
        .filter(|prefix| !prefix.is_empty())?;
    (!named).then(|| prefix.to_owned())
}

fn generated(prefix: &str) -> String {
    let mut random = rand::rng();
    let mut name: String = prefix.chars().take(NAME_MAX - SUFFIX_LENGTH).collect();
    for _ in 0..SUFFIX_LENGTH {
        name.push(char::from(SUFFIX[random.random_range(0..SUFFIX.len())]));
    }
    name
}

/// A success as Kubernetes tells it.
pub(super) fn success(target: &Target, name: &str, uid: &Value) -> Value {
    let mut details = json!({"name": name, "kind": target.kind.plural, "uid": uid});
    if !target.kind.group.is_empty() {
        details["group"] = target.kind.group.as_str().into();
    }
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details})
}
