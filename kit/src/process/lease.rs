//! Leadership by a `coordination.k8s.io` Lease: of several processes one works, the others wait.
//!
//! A candidate trusts its own clock only: it counts from when it saw the lease change, so clocks that
//! disagree do no harm. One that waits watches the lease, so it asks nothing while the leader renews, and
//! is there when the lease has run out: with the usual terms 10 s after the last renewal. Where it cannot
//! watch, it looks every second.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::BoxStream;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};

use crate::fault::plain;
use crate::process::metrics::Metrics;
use crate::process::stop::Stop;
use crate::report::events::instance;

const CONTROLLER: &str = "leader";

/// How long a leader may be silent.
const DURATION: Duration = Duration::from_secs(10);
/// How often one that waits looks at a lease that it cannot watch.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks at a lease that is free: another candidate may have been faster.
const SOON: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub namespace: String,
    pub name: String,
    /// After this long without a renewal another may take over.
    pub duration: Duration,
}

impl Terms {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Terms {
            namespace: namespace.into(),
            name: name.into(),
            duration: DURATION,
        }
    }

    fn renewal(&self) -> Duration {
        self.duration / 5
    }

    /// A renewal that failed is tried again this soon.
    fn retry(&self) -> Duration {
        self.duration / 15
    }

    /// A leader that could not renew stops this long after its last renewal: well before another
    /// may begin.
    fn reign(&self) -> Duration {
        self.duration * 2 / 3
    }
}

/// Why leadership was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("another process is the leader now")]
    Taken,
    #[error("the lease could not be renewed for {} s", .0.as_secs())]
    NotRenewed(Duration),
}

/// What a candidate does about the lease it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Create,
    /// Ours: say that we are still there.
    Renew,
    /// Nobody's, or its holder is silent for too long.
    Take,
    Wait,
}

fn claim(lease: Option<&LeaseSpec>, me: &str, unchanged: Duration) -> Claim {
    let Some(lease) = lease else {
        return Claim::Create;
    };
    let seconds = u64::try_from(lease.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    match lease.holder_identity.as_deref() {
        None | Some("") => Claim::Take,
        Some(holder) if holder == me => Claim::Renew,
        Some(_) if unchanged >= Duration::from_secs(seconds) => Claim::Take,
        Some(_) => Claim::Wait,
    }
}

fn written(before: Option<&LeaseSpec>, me: &str, terms: &Terms, claim: Claim) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    let before = before.cloned().unwrap_or_default();
    let taken = claim != Claim::Renew;
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(i32::try_from(terms.duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if taken {
            Some(now.clone())
        } else {
            before.acquire_time
        },
        renew_time: Some(now),
        lease_transitions: Some(if claim == Claim::Take {
            transitions.saturating_add(1)
        } else {
            transitions
        }),
        ..before
    }
}

/// What a candidate has seen of the lease, by its own clock.
#[derive(Debug, Default)]
struct Sight {
    /// The version last seen, and when it was first seen.
    seen: Option<(String, Instant)>,
    /// How long its holder may be silent; nothing when there is no holder.
    lasts: Duration,
    /// Changes come by a watch.
    watched: bool,
}

impl Sight {
    /// Whether it is another version than before.
    fn see(&mut self, lease: Option<&LeaseObject>, now: Instant) -> bool {
        let version = lease.and_then(|lease| lease.metadata.resource_version.clone());
        let version = version.unwrap_or_default();
        if self.seen.as_ref().is_some_and(|(seen, _)| *seen == version) {
            return false;
        }
        self.seen = Some((version, now));
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        let held = spec.filter(|spec| spec.holder_identity.as_deref().is_some_and(|h| !h.is_empty()));
        let seconds = held.and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
        self.lasts = Duration::from_secs(seconds.unwrap_or(0));
        true
    }

    fn unchanged(&self, now: Instant) -> Duration {
        let since = self.seen.as_ref().map(|(_, since)| *since);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// How long to wait before the next look.
    fn pause(&self, now: Instant) -> Duration {
        let left = self.lasts.saturating_sub(self.unchanged(now)).max(SOON);
        if self.watched { left } else { left.min(LOOK) }
    }
}

/// A candidate for one lease.
pub struct Candidate {
    api: Api<LeaseObject>,
    terms: Terms,
    metrics: Metrics,
    me: String,
    sight: Sight,
    /// When the last question was put whose answer is that we hold the lease. Others count from
    /// when the server has the request, which is after this.
    held: Option<Instant>,
}

impl Candidate {
    pub fn new(client: &Client, terms: Terms, metrics: Metrics) -> Self {
        let me = format!("{}-{:08x}", instance(), rand::random::<u32>());
        Candidate {
            api: Api::namespaced(client.clone(), &terms.namespace),
            terms,
            metrics,
            me,
            sight: Sight::default(),
            held: None,
        }
    }

    pub fn identity(&self) -> &str {
        &self.me
    }

    /// Waits until this process leads; `false` when the stop came first.
    pub async fn lead(&mut self, stop: &Stop) -> bool {
        let mut changes: Option<BoxStream<'static, watcher::Result<Option<LeaseObject>>>> = None;
        loop {
            // An answer that comes later than this is of a reign that is over.
            let patience = self.terms.reign();
            let before = self.sight.seen.clone();
            let step = tokio::select! {
                () = stop.requested() => return false,
                step = tokio::time::timeout(patience, self.step()) => step,
            };
            match step {
                Ok(Ok(true)) => {
                    tracing::info!(lease = self.terms.name, "leading");
                    return true;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(lease = self.terms.name, "{}", plain(&error)),
                Err(_) => tracing::warn!(lease = self.terms.name, "no answer in {patience:?}"),
            }
            // A watch that did not tell of what this look has found is dead.
            if self.sight.watched && self.sight.seen != before {
                self.sight.watched = false;
                changes = None;
            }
            let changes = changes.get_or_insert_with(|| {
                tracing::info!(lease = self.terms.name, "another process leads; waiting");
                let watched = watcher::watch_object(self.api.clone(), &self.terms.name);
                watched.default_backoff().boxed()
            });
            if !self.wait(changes, stop).await {
                return false;
            }
        }
    }

    /// Waits until the next look is due; `false` when the stop came first.
    async fn wait(
        &mut self,
        changes: &mut BoxStream<'static, watcher::Result<Option<LeaseObject>>>,
        stop: &Stop,
    ) -> bool {
        let mut due = Instant::now() + self.sight.pause(Instant::now());
        loop {
            let told = tokio::select! {
                () = stop.requested() => return false,
                () = tokio::time::sleep_until(due.into()) => return true,
                told = changes.next() => told,
            };
            let now = Instant::now();
            match told {
                Some(Ok(lease)) => {
                    self.sight.watched = true;
                    self.sight.see(lease.as_ref(), now);
                    due = now + self.sight.pause(now);
                }
                Some(Err(error)) => {
                    tracing::debug!(lease = self.terms.name, %error, "cannot watch the lease");
                    self.sight.watched = false;
                    due = due.min(now + self.sight.pause(now));
                }
                None => {
                    self.sight.watched = false;
                    tokio::time::sleep(self.sight.pause(now)).await;
                    return true;
                }
            }
        }
    }

    /// Renews until the stop, and then gives the lease up. An error says how leadership was lost.
    pub async fn hold(&mut self, stop: &Stop) -> Result<(), Lost> {
        let mut renewed = self.held.unwrap_or_else(Instant::now);
        let mut pause = self.terms.renewal().saturating_sub(renewed.elapsed());
        loop {
            if renewed.elapsed() >= self.terms.reign() {
                return Err(Lost::NotRenewed(self.terms.reign()));
            }
            tokio::select! {
                () = stop.requested() => {
                    self.release().await;
                    return Ok(());
                }
                () = tokio::time::sleep(pause) => {}
            }
            let left = self.terms.reign().saturating_sub(renewed.elapsed());
            pause = self.terms.retry();
            match tokio::time::timeout(left, self.step()).await {
                Ok(Ok(true)) => {
                    renewed = self.held.unwrap_or(renewed);
                    pause = self.terms.renewal();
                }
                Ok(Ok(false)) => return Err(Lost::Taken),
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.terms.name, "not renewed: {}", plain(&error));
                }
                Err(_) => {}
            }
        }
    }

    /// One look at the lease, and one write when there is something to say. `true`: we hold it.
    async fn step(&mut self) -> kube::Result<bool> {
        let asked = Instant::now();
        let live = self.api.get_opt(&self.terms.name).await?;
        self.sight.see(live.as_ref(), Instant::now());
        let spec = live.as_ref().and_then(|lease| lease.spec.as_ref());
        let claim = if live.is_some() && spec.is_none() {
            Claim::Take
        } else {
            claim(spec, &self.me, self.sight.unchanged(Instant::now()))
        };
        if claim == Claim::Wait {
            return Ok(false);
        }
        let held = self
            .write(live.as_ref(), written(spec, &self.me, &self.terms, claim))
            .await?;
        self.held = held.then_some(asked);
        Ok(held)
    }

    async fn write(&self, live: Option<&LeaseObject>, spec: LeaseSpec) -> kube::Result<bool> {
        let metadata = match live {
            Some(live) => live.metadata.clone(),
            None => ObjectMeta {
                name: Some(self.terms.name.clone()),
                namespace: Some(self.terms.namespace.clone()),
                ..ObjectMeta::default()
            },
        };
        let lease = LeaseObject {
            metadata,
            spec: Some(spec),
        };
        let verb = if live.is_some() { "update" } else { "create" };
        self.metrics.wrote(CONTROLLER, &LeaseObject::kind(&()), verb);
        let params = PostParams::default();
        let answer = match live {
            Some(_) => self.api.replace(&self.terms.name, &params, &lease).await,
            None => self.api.create(&params, &lease).await,
        };
        match answer {
            Ok(_) => Ok(true),
            // Somebody was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn release(&self) {
        let Ok(Some(live)) = self.api.get_opt(&self.terms.name).await else {
            return;
        };
        let Some(spec) = live
            .spec
            .clone()
            .filter(|s| s.holder_identity.as_deref() == Some(&self.me))
        else {
            return;
        };
        let free = LeaseSpec {
            holder_identity: None,
            ..spec
        };
        // Not given up means that the next leader waits for the duration: no harm.
        let _ = self.write(Some(&live), free).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(2),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn claims() {
        let (short, long) = (Duration::from_secs(14), Duration::from_secs(15));
        assert_eq!(claim(None, "me", short), Claim::Create);
        assert_eq!(claim(Some(&held_by("me")), "me", long), Claim::Renew);
        assert_eq!(claim(Some(&held_by("you")), "me", short), Claim::Wait);
        assert_eq!(claim(Some(&held_by("you")), "me", long), Claim::Take);
        assert_eq!(claim(Some(&held_by("")), "me", Duration::ZERO), Claim::Take);
        assert_eq!(
            claim(Some(&LeaseSpec::default()), "me", Duration::ZERO),
            Claim::Take
        );
    }

    #[test]
    fn taking_over_counts_and_renewing_does_not() {
        let terms = Terms::new("ns", "l");
        let before = held_by("you");
        let taken = written(Some(&before), "me", &terms, Claim::Take);
        assert_eq!(
            (taken.lease_transitions, taken.holder_identity.as_deref()),
            (Some(3), Some("me"))
        );
        let renewed = written(Some(&taken), "me", &terms, Claim::Renew);
        assert_eq!(renewed.lease_transitions, Some(3));
        assert_eq!(renewed.acquire_time, taken.acquire_time);
    }

    /// From the last renewal until one that waits looks at a lease that has run out. `late`: so long before
    /// it the one that waits had looked; `heard`: so long after a renewal its watch tells of it.
    fn hand_over(watched: bool, late: Duration, heard: Duration) -> Duration {
        let terms = Terms::new("ns", "l");
        let start = Instant::now();
        let renewed = start + Duration::from_secs(60);
        let version = |name: &str| LeaseObject {
            metadata: ObjectMeta {
                resource_version: Some(name.into()),
                ..ObjectMeta::default()
            },
            spec: Some(written(None, "you", &terms, Claim::Create)),
        };
        let mut sight = Sight {
            watched,
            ..Sight::default()
        };
        let mut now = renewed.checked_sub(late).expect("after the start");
        sight.see(Some(&version("1")), now);
        if watched {
            now = renewed + heard;
            sight.see(Some(&version("2")), now);
        }
        for _ in 0..100 {
            now += sight.pause(now);
            let live = if now >= renewed { "2" } else { "1" };
            sight.see(Some(&version(live)), now);
            let spec = version(live).spec;
            if now >= renewed && claim(spec.as_ref(), "me", sight.unchanged(now)) == Claim::Take {
                return now - renewed;
            }
        }
        panic!("the lease is never taken")
    }

    #[test]
    fn another_leads_within_15_s_after_the_last_renewal() {
        let (mut watching, mut looking) = (Duration::ZERO, Duration::ZERO);
        for late in (0..2_000).step_by(50).map(Duration::from_millis) {
            watching = watching.max(hand_over(true, late, Duration::from_millis(500)));
            looking = looking.max(hand_over(false, late, Duration::ZERO));
        }
        assert_eq!(watching, Duration::from_millis(10_500));
        assert!(looking <= Duration::from_secs(12), "{looking:?}");
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_before_another_begins() {
        let terms = Terms::new("ns", "l");
        assert!(terms.renewal() * 3 < terms.reign(), "two renewals may fail");
        assert!(terms.reign() + Duration::from_secs(3) < terms.duration);
    }

    #[test]
    fn one_that_waits_looks_at_once_when_the_lease_is_free() {
        let now = Instant::now();
        let mut sight = Sight {
            watched: true,
            ..Sight::default()
        };
        let mut lease = LeaseObject {
            spec: Some(held_by("you")),
            ..LeaseObject::default()
        };
        assert!(sight.see(Some(&lease), now));
        assert!(!sight.see(Some(&lease), now), "the same version");
        assert_eq!(sight.pause(now), Duration::from_secs(15), "as its holder says");
        sight.watched = false;
        assert_eq!(sight.pause(now), LOOK);
        lease.spec = Some(held_by(""));
        lease.metadata.resource_version = Some("2".into());
        sight.see(Some(&lease), now);
        assert_eq!(sight.pause(now), SOON);
        sight.see(None, now);
        assert_eq!(sight.pause(now), SOON, "it was deleted");
    }
}
