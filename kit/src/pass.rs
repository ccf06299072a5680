//! One pass over one object: observe → decide → apply → report, and what is said on every way out.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::apply::{Settled, carry_out};
use crate::clusters::Clusters;
use crate::conditions::{self, Ending, Failure, settle};
use crate::controller::{Controller, Observed, Report};
use crate::events::{Events, Note, on_change};
use crate::fault::{Fault, Retry, due, pause, plain};
use crate::fields;
use crate::index::Index;
use crate::kinds::{Key, Kind, Reference};
use crate::lock;
use crate::metrics::Metrics;
use crate::owned::OwnedObjects;
use crate::ownership::Owner;
use crate::raw::Store;
use crate::read::Reader;
use crate::status;

/// How long the first lists of owned kinds are waited for.
const LISTS: Duration = Duration::from_secs(15);
/// Between looks at an object whose finalizer waits, when the controller names no interval.
const DELETION_LOOK: Duration = Duration::from_secs(5);

/// What all passes of a controller share.
pub(crate) struct Context<C> {
    pub controller: C,
    pub clusters: Clusters,
    pub metrics: Metrics,
    pub owned: Arc<OwnedObjects>,
    pub kind: Kind,
    pub timeout: Duration,
    pub settled: Settled,
    pub echoes: Echoes,
    pub events: Events,
    pub failures: Mutex<HashMap<Key, u32>>,
    pub index: Mutex<Index>,
}

impl<C: Controller> Context<C> {
    pub fn forget(&self, key: &Key) {
        self.settled.forget(key);
        self.events.forget(key);
        self.echoes
            .forget(&self.kind.named(key.namespace.as_deref(), &key.name));
        lock(&self.failures).remove(key);
    }
}

/// Our own writes come back as watch events; they are no news.
#[derive(Default)]
pub(crate) struct Echoes(Mutex<HashMap<Reference, String>>);

impl Echoes {
    pub fn expect(&self, object: &Reference, live: &Value) {
        if let Some(version) = live.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            lock(&self.0).insert(object.clone(), version.to_owned());
        }
    }

    pub fn is_echo(&self, object: &Reference, version: Option<&str>) -> bool {
        version.is_some() && lock(&self.0).get(object).map(String::as_str) == version
    }

    pub fn forget(&self, object: &Reference) {
        lock(&self.0).remove(object);
    }
}

/// Errors of the pass itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the object does not fit its type: {0}")]
    Malformed(String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("cannot list what it owns: {0}. Is the cluster reachable, and may this operator list them?")]
    Unlisted(String),
    #[error("cannot read the object: {}", plain(.0))]
    Unreadable(Box<kube::Error>),
    #[error("cannot write: {}", plain(.0))]
    Unwritable(Box<kube::Error>),
    #[error("the controller failed on this object; its log has more")]
    Panicked,
}

impl Fault for PassError {
    fn part(&self) -> Option<&'static str> {
        None
    }

    fn retry(&self) -> Retry {
        match self {
            PassError::Malformed(_) => Retry::OnChange,
            _ => Retry::Backoff,
        }
    }
}

struct Failed {
    failure: Failure,
    retry: Retry,
}

impl<F: Fault> From<&F> for Failed {
    fn from(fault: &F) -> Self {
        Failed {
            failure: Failure {
                part: fault.part(),
                reason: fault.reason(),
                message: fault.to_string(),
            },
            retry: fault.retry(),
        }
    }
}

/// Runs one pass. The answer is when to come back without being asked.
pub(crate) async fn run<C: Controller>(ctx: &Context<C>, key: &Key) -> Option<Duration> {
    let start = Instant::now();
    // The steps have their own bound; with it ends a server that takes a request and never answers.
    let all = LISTS + 2 * ctx.timeout;
    let (failed, again) = match tokio::time::timeout(all, pass(ctx, key)).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => (Some(Failed::from(&error)), None),
        Err(_) => (Some(Failed::from(&PassError::TimedOut(all))), None),
    };
    finish(ctx, key, start, failed, again)
}

/// A pass that panicked: counted and tried again like any other error.
pub(crate) fn panicked<C: Controller>(ctx: &Context<C>, key: &Key) -> Option<Duration> {
    finish(
        ctx,
        key,
        Instant::now(),
        Some(Failed::from(&PassError::Panicked)),
        None,
    )
}

fn finish<C: Controller>(
    ctx: &Context<C>,
    key: &Key,
    start: Instant,
    failed: Option<Failed>,
    again: Option<Duration>,
) -> Option<Duration> {
    let reason = failed.as_ref().map(|f| f.failure.reason.as_str());
    ctx.metrics.passed(C::NAME, start.elapsed(), reason);
    let Some(Failed { failure, retry }) = failed else {
        lock(&ctx.failures).remove(key);
        return again.map(|again| due(again, rand::random()));
    };
    tracing::warn!(controller = C::NAME, object = %key, reason = failure.reason, "{}", failure.message);
    match retry {
        Retry::OnChange => again,
        Retry::Backoff => {
            let mut failures = lock(&ctx.failures);
            let count = failures.entry(key.clone()).or_default();
            *count = count.saturating_add(1);
            Some(pause(*count, rand::random()))
        }
    }
}

type Done = (Option<Failed>, Option<Duration>);

async fn pass<C: Controller>(ctx: &Context<C>, key: &Key) -> Result<Done, PassError> {
    let resource = ApiResource::erase::<C::Kind>(&());
    let store = Store {
        client: ctx.clusters.home(),
        resource: &resource,
        controller: C::NAME,
        metrics: &ctx.metrics,
    };
    let unreadable = |e| PassError::Unreadable(Box::new(e));
    let unwritable = |e| PassError::Unwritable(Box::new(e));
    let Some(mut live) = store.get(key).await.map_err(unreadable)? else {
        return Ok((None, None));
    };
    let deleting = live.pointer("/metadata/deletionTimestamp").is_some();
    if let Some(finalizer) = C::FINALIZER {
        match (deleting, has_finalizer(&live, finalizer.name)) {
            (true, false) => return Ok((None, None)),
            (false, false) => {
                let patch = with_finalizers(&live, |list| list.push(finalizer.name.to_owned()));
                match store.patch(key, patch).await.map_err(unwritable)? {
                    Some(patched) => live = patched,
                    None => return Ok((None, None)),
                }
            }
            _ => {}
        }
    } else if deleting {
        return Ok((None, None));
    }

    let now = Timestamp::now();
    let attempt = AssertUnwindSafe(steps(ctx, &live, now)).catch_unwind();
    let (report, failed) = match tokio::time::timeout(ctx.timeout, attempt).await {
        Ok(Err(_)) => (None, Some(Failed::from(&PassError::Panicked))),
        Ok(Ok(Ok((report, failed)))) => (Some(report), failed),
        Ok(Ok(Err(failed))) => (None, Some(failed)),
        Err(_) => (None, Some(Failed::from(&PassError::TimedOut(ctx.timeout)))),
    };
    let left = deleting.then(|| what_is_left(report.as_ref(), failed.as_ref()));
    let told = tell(
        ctx,
        &store,
        key,
        &live,
        report.as_ref(),
        failed.as_ref(),
        left.as_deref(),
        now,
    )
    .await
    .map_err(unwritable)?;
    live = told.unwrap_or(live);

    let again = report.as_ref().and_then(|report| report.again);
    let (Some(finalizer), Some(left)) = (C::FINALIZER, left) else {
        return Ok((failed, again));
    };
    let overdue = overdue(&live, finalizer.within, now);
    if left.is_empty() || overdue {
        if !left.is_empty() {
            let note = Note::warning("LeftBehind", format!("gone after {:?}; {left}", finalizer.within));
            publish(ctx, &live, &note).await;
        }
        let patch = with_finalizers(&live, |list| list.retain(|name| name != finalizer.name));
        store.patch(key, patch).await.map_err(unwritable)?;
        return Ok((failed, None));
    }
    Ok((failed, Some(again.unwrap_or(DELETION_LOOK))))
}

/// The four steps. The types allow no other order.
async fn steps<C: Controller>(
    ctx: &Context<C>,
    live: &Value,
    now: Timestamp,
) -> Result<(Report, Option<Failed>), Failed> {
    if tokio::time::timeout(LISTS, ctx.owned.known()).await.is_err() {
        let kinds = ctx.owned.unlisted().join(", ");
        return Err(Failed::from(&PassError::Unlisted(kinds)));
    }
    let malformed = |text: String| Failed::from(&PassError::Malformed(text));
    let object: C::Kind = serde_json::from_value(live.clone()).map_err(|e| malformed(e.to_string()))?;
    let owner = Owner::of(C::NAME, &object).ok_or_else(|| malformed("it has no uid".to_owned()))?;
    let reader = Reader::new(ctx.clusters.clone(), ctx.owned.clone(), &owner.uid);
    let facts = look(ctx, &object, &reader).await.map_err(|e| Failed::from(&e))?;
    let observed = Observed { object, facts, now };
    let decision = C::decide(&observed).map_err(|e| Failed::from(&e))?;
    let applied = carry_out(ctx, &owner, decision)
        .await
        .map_err(|e| Failed::from(&e))?;
    let report = C::report(&observed, &applied);
    let failed = applied
        .outcomes
        .iter()
        .find_map(|outcome| outcome.result.as_ref().err());
    Ok((report, failed.map(Failed::from)))
}

/// So often is looked again in one pass.
const LOOKS: u32 = 4;

/// Observes, and once more when that named an object which was not watched until then.
async fn look<C: Controller>(
    ctx: &Context<C>,
    object: &C::Kind,
    reader: &Reader,
) -> Result<C::Facts, C::Error> {
    let mut facts = ctx.controller.observe(object, reader).await?;
    // A world that names something else at every look is looked at again with the next change.
    for _ in 0..LOOKS {
        if !lock(&ctx.index).learn(&Key::of(object), C::found(&facts)) {
            break;
        }
        facts = ctx.controller.observe(object, reader).await?;
    }
    Ok(facts)
}

/// Writes the conditions where they changed; the answer is the object as written.
#[allow(clippy::too_many_arguments)] // one call, and a struct would only rename them
async fn tell<C: Controller>(
    ctx: &Context<C>,
    store: &Store<'_>,
    key: &Key,
    live: &Value,
    report: Option<&Report>,
    failed: Option<&Failed>,
    left: Option<&str>,
    now: Timestamp,
) -> kube::Result<Option<Value>> {
    let before = status::conditions(live);
    let generation = live
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let ending = Ending {
        states: report.map(|report| &report.states),
        failure: failed.map(|failed| &failed.failure),
        deleting: left,
    };
    let mut after = settle(C::PARTS, ending, &before, generation, now);
    after.retain(|condition| C::READY || condition.type_ != conditions::READY);
    let held = fields::held(live, C::NAME, Some("status"));
    let body = status::body(live, &held, report.map(|r| &r.status), &after, generation);
    let reference = ctx.kind.named(key.namespace.as_deref(), &key.name);
    // With nothing left the object goes now: there is nobody to tell.
    let going = left == Some("");
    let mut told = None;
    if !going && fields::differs(&body, live, C::NAME, Some("status")) {
        told = store.apply_status(key, &body).await?;
        if let Some(written) = &told {
            ctx.echoes.expect(&reference, written);
        }
    }
    let change = on_change(&before, &after).filter(|_| !going);
    if change.is_some() {
        // What was said before the change may be said again after it.
        ctx.events.forget(key);
    }
    let said = report.into_iter().flat_map(|report| &report.notes);
    let said = said.filter(|note| ctx.events.is_news(key, note)).cloned();
    let notes: Vec<Note> = change.into_iter().chain(said).collect();
    for note in &notes {
        publish(ctx, live, note).await;
    }
    Ok(told)
}

async fn publish<C: Controller>(ctx: &Context<C>, live: &Value, note: &Note) {
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
        .publish(client, &ctx.metrics, C::NAME, &about, note)
        .await;
}

/// Empty when nothing is left.
fn what_is_left(report: Option<&Report>, failed: Option<&Failed>) -> String {
    let named = report.map(|report| report.left.join(", ")).unwrap_or_default();
    match (named.is_empty(), failed) {
        (true, None) => String::new(),
        (false, None) => format!("still there: {named}"),
        (true, Some(failed)) => format!("not known what is left: {}", failed.failure.message),
        (false, Some(failed)) => format!("still there: {named} ({})", failed.failure.message),
    }
}

fn overdue(live: &Value, within: Duration, now: Timestamp) -> bool {
    let since = live
        .pointer("/metadata/deletionTimestamp")
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok());
    let within = SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
    since.is_some_and(|since| now.duration_since(since) >= within)
}

fn finalizers(live: &Value) -> Vec<String> {
    let list = live.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

fn has_finalizer(live: &Value, name: &str) -> bool {
    finalizers(live).iter().any(|f| f == name)
}

/// Tests the version first, so that a finalizer that somebody else just added is not lost.
fn with_finalizers(live: &Value, change: impl FnOnce(&mut Vec<String>)) -> Patch {
    let mut list = finalizers(live);
    change(&mut list);
    let version = live
        .pointer("/metadata/resourceVersion")
        .cloned()
        .unwrap_or_default();
    Patch(vec![
        PatchOperation::Test(TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: version,
        }),
        PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(["metadata", "finalizers"]),
            value: json!(list),
        }),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_overdue_after_its_time() {
        let live = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let hour = Duration::from_secs(3600);
        assert!(!overdue(&live, hour, at("2026-01-01T00:59:59Z")));
        assert!(overdue(&live, hour, at("2026-01-01T01:00:00Z")));
        assert!(!overdue(&json!({}), hour, at("2026-01-01T01:00:00Z")));
    }

    #[test]
    fn finalizers_of_others_stay() {
        let live = json!({"metadata": {"resourceVersion": "7", "finalizers": ["other", "ours"]}});
        let patch = with_finalizers(&live, |list| list.retain(|f| f != "ours"));
        let mut changed = live;
        json_patch::patch(&mut changed, &patch).expect("applies");
        assert_eq!(changed["metadata"]["finalizers"], json!(["other"]));
    }

    #[test]
    fn what_is_left_is_named() {
        let left = |names: &[&str]| Report::default().left(names.iter().map(|n| (*n).to_owned()));
        assert_eq!(what_is_left(Some(&left(&[])), None), "");
        assert_eq!(
            what_is_left(Some(&left(&["mon a", "keyring b"])), None),
            "still there: mon a, keyring b"
        );
        let failed = Failed::from(&PassError::TimedOut(Duration::from_secs(9)));
        assert_eq!(
            what_is_left(None, Some(&failed)),
            "not known what is left: no answer within 9 s"
        );
    }

    #[test]
    fn own_writes_are_echoes_until_the_next_change() {
        let echoes = Echoes::default();
        let object =
            Kind::from(ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&())).named(None, "a");
        echoes.expect(&object, &json!({"metadata": {"resourceVersion": "5"}}));
        assert!(echoes.is_echo(&object, Some("5")));
        assert!(!echoes.is_echo(&object, Some("6")));
        assert!(!echoes.is_echo(&object, None));
    }
}
