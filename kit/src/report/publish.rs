//! Publishes what a pass found: the status where it changed, and events.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use crate::kinds::{Key, Reference};
use crate::reconcile::controller::Report;
use crate::reconcile::pass::Context;
use crate::report::conditions::{self, Ending, Failure, Settled, settle};
use crate::report::events::{Note, on_change};
use crate::report::status;
use crate::write::fields;
use crate::write::rewritten::Rewritten;
use crate::write::store::{Store, TRIES, is_conflict};

/// How a pass ended.
pub(crate) struct Ended<'a> {
    pub live: &'a Value,
    pub report: Option<&'a Report>,
    pub failure: Option<&'a Failure>,
    /// Of an object that is being deleted: what is still there.
    pub left: Option<&'a str>,
    /// The finalizer is taken off next: there is nobody to tell.
    pub going: bool,
    pub now: Timestamp,
}

/// Writes the conditions where they changed.
pub(crate) async fn publish_status(
    ctx: &Context,
    store: &Store<'_>,
    key: &Key,
    ended: Ended<'_>,
) -> kube::Result<()> {
    let Ended {
        live, report, going, ..
    } = ended;
    let declared = &ctx.declared;
    let before = status::conditions(live);
    let generation = live
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let ending = Ending {
        states: report.map(|report| &report.states),
        failure: ended.failure,
        deleting: ended.left,
    };
    let Settled {
        conditions: mut after,
        blocker,
    } = settle(declared.parts, ending, &before, generation, ended.now);
    after.retain(|condition| declared.ready || condition.type_ != conditions::READY);
    let held = fields::held(live, declared.name, Some("status"));
    let processed = declared.generation.then_some(generation);
    let mut body = status::body(live, &held, report.map(|r| &r.status), &after, processed);
    if declared.blocked_by {
        status::point(&mut body, key, blocker.as_ref());
    }
    let reference = ctx.kind.named(key.namespace.as_deref(), &key.name);
    let acted = report.is_some_and(|report| report.acted);
    if !going
        && declared.status
        && is_due(&ctx.rewritten, declared.name, &reference, &body, live)
        && let Some((rested_on, written)) = write(store, key, live, &body, acted).await?
    {
        ctx.own_writes.expect(&reference, Some(&rested_on), &written);
        if fields::differs(&body, &written, declared.name, Some("status")) {
            ctx.rewritten.remember(key, &reference, &body, &written["status"]);
        }
    }
    let change = on_change(&before, &after).filter(|_| !going && declared.status);
    if change.is_some() {
        // What was said before the change may be said again after it.
        ctx.events.forget(key);
    }
    let said = report.into_iter().flat_map(|report| &report.notes);
    let said = said.filter(|note| ctx.events.is_news(key, note)).cloned();
    let notes: Vec<Note> = change.into_iter().chain(said).collect();
    for note in &notes {
        publish_event(ctx, live, note).await;
    }
    Ok(())
}

/// Whether sending the status would change anything.
fn is_due(rewritten: &Rewritten, manager: &str, object: &Reference, body: &Value, live: &Value) -> bool {
    fields::differs(body, live, manager, Some("status")) && !rewritten.holds(object, body, &live["status"])
}

/// Writes the status of this very object; the answer is it before and after. `None`: it is gone,
/// or somebody changed what this pass rests on, and the pass that follows from that has the word.
/// What was done is told in any case: that pass would not know of it.
async fn write(
    store: &Store<'_>,
    key: &Key,
    live: &Value,
    body: &Value,
    acted: bool,
) -> kube::Result<Option<(Value, Value)>> {
    let fields = ["/metadata/uid", "/metadata/generation", "/status"];
    let fields = if acted { &fields[..1] } else { &fields[..] };
    let rests_on = |object: &Value| {
        let values = fields.iter().map(|field| object.pointer(field).cloned());
        values.collect::<Vec<_>>()
    };
    let mut before = live.clone();
    let mut tries = 1;
    loop {
        match store.apply_status(key, body, &before).await {
            Err(error) if tries < TRIES && is_conflict(&error) => match store.get(key).await? {
                Some(now) if rests_on(&now) == rests_on(live) => before = now,
                _ => return Ok(None),
            },
            written => return Ok(written?.map(|after| (before, after))),
        }
        tries += 1;
    }
}

pub(crate) async fn publish_event(ctx: &Context, live: &Value, note: &Note) {
    let text = |path: &str| live.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let about = ObjectReference {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        uid: text("/metadata/uid"),
        ..ObjectReference::default()
    };
    let client = ctx.clusters.home();
    ctx.events
        .publish(client, &ctx.metrics, ctx.declared.name, &about, note)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    #[test]
    fn a_status_that_the_server_rewrites_is_sent_once() {
        let (rewritten, object) = (Rewritten::default(), Kind::of::<Secret>().named(None, "a"));
        let sent = |size: &str| json!({"apiVersion": "g/v1", "kind": "K", "status": {"size": size}});
        let live = |size: &str, version: &str| {
            json!({"apiVersion": "g/v1", "kind": "K", "status": {"size": size}, "metadata": {
                "resourceVersion": version,
                "managedFields": [{"manager": "us", "operation": "Apply", "subresource": "status",
                    "apiVersion": "g/v1", "fieldsV1": {"f:status": {"f:size": {}}}}]}})
        };
        let due = |sent: &Value, live: &Value| is_due(&rewritten, "us", &object, sent, live);
        assert!(!due(&sent("1"), &live("1", "4")));
        assert!(due(&sent("1000m"), &live("1", "4")));
        let written = live("1", "5");
        rewritten.remember(&Key::new(None, "a"), &object, &sent("1000m"), &written["status"]);
        assert!(!due(&sent("1000m"), &live("1", "6")), "idle is silent");
        assert!(due(&sent("2000m"), &live("1", "6")));
        assert!(due(&sent("1000m"), &live("3", "7")), "somebody changed it");
    }
}
