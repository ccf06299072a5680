//! Deletes: preconditions, finalizers, grace.

use apimachinery::field::ErrorType;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Outcome, Target, body,
    create::success,
    options::{dry_run, now, time_text},
    select::Selection,
    update::is_finished,
    version,
    write::{self, Change},
};
use crate::{
    admission::{Operation, Passage},
    serve::Call,
    status::{ApiError, Reason, Result},
    store::Expect,
    strategy,
    verb::Verb,
};

const ATTEMPTS: usize = 64;
/// Deletes of a collection under way at once: they share commits.
const TOGETHER: usize = 64;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dependents {
    Background,
    Foreground,
    Orphan,
    /// Nobody said: what an earlier delete decided stays.
    Unsaid,
}

struct Plan {
    options: DeleteOptions,
    dependents: Dependents,
    dry_run: bool,
}

fn plan(call: &Call, body: &[u8]) -> Result<Plan> {
    let mut options: DeleteOptions = if body.is_empty() {
        DeleteOptions::default()
    } else {
        let (value, _) = body::parse(&body::content_type(call), body)?;
        DeleteOptions::deserialize(value)
            .map_err(|error| ApiError::bad_request(format!("cannot read the delete options: {error}")))?
    };
    if let Some(seconds) = call.query.get("gracePeriodSeconds") {
        let seconds = seconds.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "gracePeriodSeconds: {seconds:?} is not a number of seconds"
            ))
        })?;
        options.grace_period_seconds.get_or_insert(seconds);
    }
    if let Some(policy) = call.query.get("propagationPolicy") {
        options
            .propagation_policy
            .get_or_insert_with(|| policy.to_owned());
    }
    if let Some(orphan) = call.query.optional_flag("orphanDependents") {
        options.orphan_dependents.get_or_insert(orphan);
    }
    let invalid = |field: &str, value: &str| {
        ApiError::invalid(
            "meta.k8s.io",
            "DeleteOptions",
            "",
            vec![crate::status::Cause {
                reason: ErrorType::Invalid.into(),
                message: format!("Invalid value: {value}"),
                field: field.into(),
            }],
        )
    };
    let dependents = match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        (Some(_), Some(_)) => {
            return Err(invalid(
                "propagationPolicy",
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        (Some("Background"), _) | (None, Some(false)) => Dependents::Background,
        (Some("Foreground"), _) => Dependents::Foreground,
        (Some("Orphan"), _) | (None, Some(true)) => Dependents::Orphan,
        (Some(other), _) => {
            return Err(invalid(
                "propagationPolicy",
                &format!("{other:?}: must be one of Background, Foreground, Orphan"),
            ));
        }
        (None, None) => Dependents::Unsaid,
    };
    let in_body = options.dry_run.iter().flatten().map(String::as_str);
    let dry_run = dry_run(call.query.all("dryRun").chain(in_body), "DeleteOptions")?;
    Ok(Plan {
        options,
        dependents,
        dry_run,
    })
}

pub(super) async fn delete(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let plan = plan(call, body)?;
    let name = target.name().unwrap_or_default();
    Ok(Outcome::ok(remove(call, target, name, &plan).await?))
}

/// Deletes with the options that an Eviction carries.
pub(super) async fn evict(call: &Call, target: &Target, name: &str, options: &Value) -> Result<Value> {
    let options: DeleteOptions = if options.is_null() {
        DeleteOptions::default()
    } else {
        DeleteOptions::deserialize(options)
            .map_err(|error| ApiError::bad_request(format!("deleteOptions: {error}")))?
    };
    let in_body = options.dry_run.iter().flatten().map(String::as_str);
    let dry_run = dry_run(call.query.all("dryRun").chain(in_body), "DeleteOptions")?;
    let target = Target {
        subresource: String::new(),
        ..target.clone()
    };
    remove(
        call,
        &target,
        name,
        &Plan {
            options,
            dependents: Dependents::Unsaid,
            dry_run,
        },
    )
    .await
}

pub(super) async fn delete_collection(call: &Call, target: &Target, body: &[u8]) -> Result<Outcome> {
    let plan = plan(call, body)?;
    let selection = Selection::parse(&target.kind, &call.query)?;
    let listing = call.core.store.list(&target.collection, target.list_namespace());
    let matching: Vec<_> = listing
        .objects
        .into_iter()
        .filter(|object| selection.matches(object))
        .collect();
    let plan = &plan;
    let removals: Vec<BoxFuture<'_, Result<Value>>> = matching
        .iter()
        .map(|object| {
            let place = Target {
                namespace: object.key.namespace.to_string(),
                ..target.clone()
            };
            async move { remove(call, &place, &object.key.name, plan).await }.boxed()
        })
        .collect();
    let results: Vec<Result<Value>> = stream::iter(removals).buffer_unordered(TOGETHER).collect().await;
    for result in results {
        match result {
            Err(error) if error.reason != Reason::NotFound => return Err(error),
            _ => {}
        }
    }
    let mut items: Vec<Value> = matching
        .iter()
        .map(|object| version::read(&target.kind, object))
        .collect();
    if !target.kind.is_custom() {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
    Ok(Outcome::ok(json!({
        "apiVersion": target.kind.api_version(),
        "kind": target.kind.list_kind,
        "metadata": {"resourceVersion": call.core.store.revision().to_string()},
        "items": items,
    })))
}

async fn remove(call: &Call, target: &Target, name: &str, plan: &Plan) -> Result<Value> {
    let kind = &target.kind;
    let context = strategy::Context::of(call, kind, "");
    let _guard = strategy::write_guard(&context).await;
    for _ in 0..ATTEMPTS {
        let stored = call
            .core
            .store
            .get(&target.collection, &target.key(name))
            .ok_or_else(|| target.not_found(name))?;
        let live = version::read(kind, &stored);
        check_preconditions(target, name, plan, &live)?;
        strategy::check_delete(&context, &live)?;
        let passage = Passage {
            call,
            target,
            operation: Operation::Delete,
            name,
            old: Some(&live),
            dry_run: plan.dry_run,
        };
        passage.mutate(&mut live.clone()).await?;
        passage.validate(None).await?;
        let object = doom(target, &live, plan);
        let gone = is_finished(&object);
        let uid = live["metadata"]["uid"].clone();
        if plan.dry_run || (!gone && object == live) {
            return Ok(if gone { success(target, name, &uid) } else { object });
        }
        let change = Change::of(if gone { &live } else { &object }, gone);
        let expect = Expect::Revision(stored.revision);
        let written = write::commit(call, target, &context, (&Verb::Delete, name), expect, change).await?;
        if let Some(revision) = written {
            if gone {
                return Ok(success(target, name, &uid));
            }
            let mut object = object;
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            return Ok(object);
        }
    }
    Err(ApiError::modified(&kind.group, &kind.plural, name))
}

fn check_preconditions(target: &Target, name: &str, plan: &Plan, live: &Value) -> Result<()> {
    let Some(wanted) = &plan.options.preconditions else {
        return Ok(());
    };
    let metadata = &live["metadata"];
    let conflict = |why: String| ApiError::conflict(&target.kind.group, &target.kind.plural, name, &why);
    if let Some(uid) = &wanted.uid
        && metadata["uid"] != uid.as_str()
    {
        let live = metadata["uid"].as_str().unwrap_or_default();
        return Err(conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {live}"
        )));
    }
    if let Some(version) = &wanted.resource_version
        && metadata["resourceVersion"] != version.as_str()
    {
        let live = metadata["resourceVersion"].as_str().unwrap_or_default();
        return Err(conflict(format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {live}"
        )));
    }
    Ok(())
}

/// The object as the delete leaves it; finished if nobody holds it.
fn doom(target: &Target, live: &Value, plan: &Plan) -> Value {
    let mut object = live.clone();
    let grace = strategy::grace_period(&target.kind, live, plan.options.grace_period_seconds);
    let metadata = &mut object["metadata"];
    let mut finalizers: Vec<Value> = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if plan.dependents != Dependents::Unsaid {
        finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
        match plan.dependents {
            Dependents::Orphan => finalizers.push(ORPHAN.into()),
            Dependents::Foreground => finalizers.push(FOREGROUND.into()),
            _ => {}
        }
    }
    if let Some(map) = metadata.as_object_mut() {
        if finalizers.is_empty() {
            map.remove("finalizers");
        } else {
            map.insert("finalizers".into(), finalizers.into());
        }
        let earlier = map.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        let first = !map.contains_key("deletionTimestamp");
        // A second delete can only shorten the time that is left.
        if first || earlier.is_some_and(|earlier| grace < earlier) {
            let time = if grace == 0 && first {
                now()
            } else {
                let seconds = jiff::SignedDuration::from_secs(grace);
                time_text(
                    jiff::Timestamp::now()
                        .checked_add(seconds)
                        .unwrap_or(jiff::Timestamp::MAX),
                )
            };
            map.insert("deletionTimestamp".into(), time.into());
            map.insert("deletionGracePeriodSeconds".into(), grace.into());
            if first && let Some(generation) = map.get("generation").and_then(Value::as_i64) {
                map.insert("generation".into(), (generation + 1).into());
            }
        }
    }
    if object["kind"] == "Namespace" && target.kind.group.is_empty() {
        object["status"]["phase"] = "Terminating".into();
    }
    object
}
