//! Leadership by a `coordination.k8s.io` Lease: of several processes one works, the others wait.
//!
//! A candidate trusts its own clock only: it counts from when it saw the lease change, so clocks that
//! disagree do no harm.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};

use crate::fault::{plain, spread};
use crate::process::metrics::Metrics;
use crate::process::stop::Stop;
use crate::report::events::instance;

const CONTROLLER: &str = "leader";

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
            duration: Duration::from_secs(15),
        }
    }

    fn renewal(&self) -> Duration {
        self.duration / 3
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

/// A candidate for one lease.
pub struct Candidate {
    api: Api<LeaseObject>,
    terms: Terms,
    metrics: Metrics,
    me: String,
    /// The version last seen, and when it was first seen.
    seen: Option<(String, Instant)>,
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
            seen: None,
            held: None,
        }
    }

    pub fn identity(&self) -> &str {
        &self.me
    }

    /// Waits until this process leads; `false` when the stop came first.
    pub async fn lead(&mut self, stop: &Stop) -> bool {
        let mut told = false;
        loop {
            // An answer that comes later than this is of a reign that is over.
            let patience = self.terms.reign();
            let step = tokio::select! {
                () = stop.requested() => return false,
                step = tokio::time::timeout(patience, self.step()) => step,
            };
            match step {
                Ok(Ok(true)) => {
                    tracing::info!(lease = self.terms.name, "leading");
                    return true;
                }
                Ok(Ok(false)) if !told => {
                    told = true;
                    tracing::info!(lease = self.terms.name, "another process leads; waiting");
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(lease = self.terms.name, "{}", plain(&error)),
                Err(_) => tracing::warn!(lease = self.terms.name, "no answer in {patience:?}"),
            }
            tokio::select! {
                () = stop.requested() => return false,
                () = tokio::time::sleep(spread(self.terms.renewal(), rand::random())) => {}
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
        let version = live
            .as_ref()
            .and_then(|l| l.metadata.resource_version.clone())
            .unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => {
                let now = Instant::now();
                self.seen = Some((version, now));
                now
            }
        };
        let spec = live.as_ref().and_then(|lease| lease.spec.as_ref());
        let claim = if live.is_some() && spec.is_none() {
            Claim::Take
        } else {
            claim(spec, &self.me, since.elapsed())
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
}
