//! One pass over one object: observe → plan → decide → apply → report, and what is said on every way out.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;

use crate::clusters::Clusters;
use crate::fault::{Fault, Retry, due, pause, pause_within, plain};
use crate::kinds::{Key, Kind};
use crate::lock;
use crate::process::metrics::Metrics;
use crate::reconcile::controller::Report;
use crate::reconcile::erased::{Declared, Erased, Stepped};
use crate::reconcile::finalizers::{has_finalizer, overdue, with_finalizers};
use crate::reconcile::index::Index;
use crate::report::conditions::Failure;
use crate::report::events::{Events, Note};
use crate::report::publish::{Ended, publish_event, publish_status};
use crate::write::own_writes::OwnWrites;
use crate::write::owned::OwnedObjects;
use crate::write::rewritten::Rewritten;
use crate::write::store::{Store, is_outrun};

/// How long the first lists of owned kinds are waited for.
const LISTS: Duration = Duration::from_secs(15);
/// Between looks at an object whose finalizer waits, when the controller names no interval.
const DELETION_LOOK: Duration = Duration::from_secs(5);

/// What all passes of a controller share.
pub(crate) struct Context {
    pub controller: Box<dyn Erased>,
    pub declared: Declared,
    pub clusters: Clusters,
    pub metrics: Metrics,
    pub owned: Arc<OwnedObjects>,
    pub kind: Kind,
    pub timeout: Duration,
    pub rewritten: Rewritten,
    pub own_writes: OwnWrites,
    pub events: Events,
    pub failures: Mutex<HashMap<Key, u32>>,
    pub index: Mutex<Index>,
}

impl Context {
    pub(crate) fn forget(&self, key: &Key) {
        self.rewritten.forget_all_of(key);
        self.events.forget(key);
        self.own_writes
            .forget(&self.kind.named(key.namespace.as_deref(), &key.name));
        lock(&self.failures).remove(key);
    }

    /// After a pass during which the object went: nobody else would forget what the pass noted.
    fn forget_if_gone(&self, key: &Key) {
        if !lock(&self.index).has(key) {
            self.forget(key);
        }
    }
}

/// Errors of the pass itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the object cannot be read as its kind: {0}")]
    Malformed(String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("cannot list what it owns: {0}. Is the cluster reachable, and may this operator list them?")]
    Unlisted(String),
    #[error("cannot read the object: {}", plain(.0))]
    Unreadable(Box<kube::Error>),
    #[error("cannot write: {}", plain(.0))]
    Unwritable(Box<kube::Error>),
    #[error("the controller failed on this object; see its log")]
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

pub(crate) struct Failed {
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
                blocker: fault.blocker(),
            },
            retry: fault.retry(),
        }
    }
}

/// Runs one pass. The answer is when to come back without being asked.
pub(crate) async fn run(ctx: &Context, key: &Key) -> Option<Duration> {
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
pub(crate) fn panicked(ctx: &Context, key: &Key) -> Option<Duration> {
    finish(
        ctx,
        key,
        Instant::now(),
        Some(Failed::from(&PassError::Panicked)),
        None,
    )
}

fn finish(
    ctx: &Context,
    key: &Key,
    start: Instant,
    failed: Option<Failed>,
    again: Option<Duration>,
) -> Option<Duration> {
    let reason = failed.as_ref().map(|f| f.failure.reason.as_str());
    ctx.metrics.passed(ctx.declared.name, start.elapsed(), reason);
    let again = match failed {
        None => {
            lock(&ctx.failures).remove(key);
            again.map(|again| due(again, rand::random()))
        }
        Some(Failed { failure, retry }) => {
            tracing::warn!(controller = ctx.declared.name, object = %key, reason = failure.reason, "{}", failure.message);
            match retry {
                Retry::OnChange => again,
                Retry::Backoff => Some(pause(one_more(ctx, key), rand::random())),
                Retry::Within(longest) => Some(pause_within(longest, one_more(ctx, key), rand::random())),
            }
        }
    };
    ctx.forget_if_gone(key);
    again
}

/// Failures of this object in a row, with this one.
fn one_more(ctx: &Context, key: &Key) -> u32 {
    let mut failures = lock(&ctx.failures);
    let count = failures.entry(key.clone()).or_default();
    *count = count.saturating_add(1);
    *count
}

type Done = (Option<Failed>, Option<Duration>);

async fn pass(ctx: &Context, key: &Key) -> Result<Done, PassError> {
    let store = Store {
        client: ctx.clusters.home(),
        resource: &ctx.kind.resource,
        controller: ctx.declared.name,
        metrics: &ctx.metrics,
    };
    let unreadable = |e| PassError::Unreadable(Box::new(e));
    let Some(mut live) = store.get(key).await.map_err(unreadable)? else {
        return Ok((None, None));
    };
    let deleting = live.pointer("/metadata/deletionTimestamp").is_some();
    if let Some(finalizer) = ctx.declared.finalizer {
        match (deleting, has_finalizer(&live, finalizer.name)) {
            (true, false) => return Ok((None, None)),
            (false, false) if ctx.controller.is_held(&live) => {
                let patch = with_finalizers(&live, |list| list.push(finalizer.name.to_owned()));
                match store.patch(key, patch).await {
                    Ok(Some(patched)) => live = patched,
                    Ok(None) => return Ok((None, None)),
                    Err(error) => return Err(stuck(ctx, &store, key, &live, error, None).await),
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
    let deletion = ctx.declared.finalizer.filter(|_| deleting).map(|finalizer| {
        let left = what_is_left(report.as_ref(), failed.as_ref());
        let going = left.is_empty() || overdue(&live, finalizer.within, now);
        (finalizer, left, going)
    });
    let ended = Ended {
        live: &live,
        report: report.as_ref(),
        failure: failed.as_ref().map(|failed| &failed.failure),
        left: deletion.as_ref().map(|(_, left, _)| left.as_str()),
        going: deletion.as_ref().is_some_and(|(_, _, going)| *going),
        now,
    };
    let published = publish_status(ctx, &store, key, ended).await;
    published.map_err(|e| PassError::Unwritable(Box::new(e)))?;

    let again = report.as_ref().and_then(|report| report.again);
    match deletion {
        None => Ok((failed, again)),
        Some((_, _, false)) => Ok((failed, Some(again.unwrap_or(DELETION_LOOK)))),
        Some((finalizer, left, true)) => {
            let patch = with_finalizers(&live, |list| list.retain(|name| name != finalizer.name));
            if let Err(error) = store.patch(key, patch).await {
                return Err(stuck(ctx, &store, key, &live, error, Some(&left)).await);
            }
            if !left.is_empty() {
                let note = Note::warning(
                    "LeftBehind",
                    format!("the finalizer was removed after {:?}; {left}", finalizer.within),
                );
                publish_event(ctx, &live, &note).await;
            }
            Ok((failed, None))
        }
    }
}

/// A finalizer that cannot be written shows on the object. Where somebody else was just faster there
/// is nothing to show: the next pass will do.
async fn stuck(
    ctx: &Context,
    store: &Store<'_>,
    key: &Key,
    live: &Value,
    error: kube::Error,
    left: Option<&str>,
) -> PassError {
    let outrun = is_outrun(&error);
    let error = PassError::Unwritable(Box::new(error));
    if outrun {
        return error;
    }
    let failure = Failed::from(&error).failure;
    let left = left.map(|left| {
        let left = if left.is_empty() { "nothing is left" } else { left };
        format!("{left}; the finalizer stays: {}", failure.message)
    });
    let ended = Ended {
        live,
        report: None,
        failure: Some(&failure),
        left: left.as_deref(),
        going: false,
        now: Timestamp::now(),
    };
    if let Err(second) = publish_status(ctx, store, key, ended).await {
        tracing::warn!(controller = ctx.declared.name, object = %key, "status not written: {}", plain(&second));
    }
    error
}

/// What the controller itself does, once all that it owns is known.
async fn steps(ctx: &Context, live: &Value, now: Timestamp) -> Stepped {
    // Another cluster that is away must not hold up this one: what is listed there later brings a
    // pass that prunes. But nothing follows the last pass of an object.
    let last = live.pointer("/metadata/deletionTimestamp").is_some();
    if tokio::time::timeout(LISTS, ctx.owned.known(last)).await.is_err() {
        let kinds = ctx.owned.unlisted().join(", ");
        return Err(Failed::from(&PassError::Unlisted(kinds)));
    }
    ctx.controller.steps(ctx, live, now).await
}

/// Empty when nothing is left.
fn what_is_left(report: Option<&Report>, failed: Option<&Failed>) -> String {
    let named = report.map(|report| report.left.join(", ")).unwrap_or_default();
    match (named.is_empty(), failed) {
        (true, None) => String::new(),
        (false, None) => format!("still there: {named}"),
        (true, Some(failed)) => format!("unknown what is left: {}", failed.failure.message),
        (false, Some(failed)) => format!("still there: {named} ({})", failed.failure.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::erased::Typed;
    use crate::testing::Doing;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[tokio::test]
    async fn a_pass_leaves_no_trace_of_an_object_that_went_meanwhile() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
        let client = kube::Client::try_from(config).expect("a client");
        let ctx = Context {
            controller: Box::new(Typed(Doing::<false>)),
            declared: Declared::of::<Doing<false>>(),
            clusters: Clusters::of(client),
            metrics: Metrics::default(),
            owned: Arc::new(OwnedObjects::new(Vec::new())),
            kind: Kind::of::<ConfigMap>(),
            timeout: Duration::from_secs(1),
            rewritten: Rewritten::default(),
            own_writes: OwnWrites::default(),
            events: Events::default(),
            failures: Mutex::default(),
            index: Mutex::default(),
        };
        let [there, gone] = ["there", "gone"].map(|name| Key::new(None, name));
        lock(&ctx.index).set(&there, Vec::new());
        let note = Note::normal("Said", "once");
        for key in [&there, &gone] {
            assert!(ctx.events.is_news(key, &note));
            assert!(panicked(&ctx, key).is_some());
        }
        assert!(lock(&ctx.failures).contains_key(&there) && !lock(&ctx.failures).contains_key(&gone));
        assert!(!ctx.events.is_news(&there, &note) && ctx.events.is_news(&gone, &note));
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
            "unknown what is left: no answer within 9 s"
        );
    }
}
