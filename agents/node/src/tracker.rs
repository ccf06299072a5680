//! Tells of migrations while they run. libvirt says when one begins and ends; what happens between
//! has to be asked for, and is asked only then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use c5c3_api::common::Time;
use c5c3_api::hypervisor::{Migration, MigrationStatus, NODE_LABEL};
use c5c3_kit::fault::plain;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use libvirt_client::events::{Lifecycle, lifecycle};
use libvirt_client::{Connection, Domain, Event, Param, job, param};
use serde_json::json;
use tokio::sync::mpsc;

use crate::migration::{leaves, progress};
use crate::view::Heard;

/// Between looks at a migration that runs.
const LOOK: Duration = Duration::from_secs(1);
/// Origin and destination write into one object: each has fields of its own.
const ORIGIN: &str = "c5c3-node-agent";
const DESTINATION: &str = "c5c3-node-agent-destination";
/// So long a migration that is over can be read.
const KEEP: SignedDuration = SignedDuration::from_hours(1);
/// One of which no end was told: the agent was away.
const KEEP_OPEN: SignedDuration = SignedDuration::from_hours(24);
/// Between looks for those that are old.
const SWEEP: Duration = Duration::from_secs(600);
/// Looks for the object of a guest that has arrived.
const ARRIVALS: usize = 10;
/// After a look that failed.
const SWEEP_AGAIN: Duration = Duration::from_secs(60);

pub(crate) struct Tracker {
    pub client: Client,
    pub namespace: String,
    pub node: String,
}

struct Moving {
    domain: Domain,
    since: Timestamp,
}

impl Tracker {
    pub(crate) async fn run(self, mut heard: mpsc::Receiver<Heard>) {
        let mut moving: BTreeMap<String, Moving> = BTreeMap::new();
        let mut connection = None;
        // Those of this host that may have to be deleted; the first look finds what an agent before this one left.
        let mut open: Option<BTreeSet<String>> = None;
        let mut sweep = tokio::time::Instant::now();
        loop {
            let heard = tokio::select! {
                () = tokio::time::sleep_until(sweep), if open.as_ref().is_none_or(|open| !open.is_empty()) => {
                    let again = match self.sweep(&moving, Timestamp::now()).await {
                        Ok(left) => {
                            open = Some(left);
                            SWEEP
                        }
                        Err(error) => {
                            tracing::warn!("old Migrations stay for now: {}", plain(&error));
                            SWEEP_AGAIN
                        }
                    };
                    sweep = tokio::time::Instant::now() + again;
                    continue;
                }
                heard = heard.recv() => match heard {
                    Some(heard) => heard,
                    None => return,
                },
                () = tokio::time::sleep(LOOK), if !moving.is_empty() && connection.is_some() => {
                    if let Some(connection) = &connection {
                        self.look(connection, &mut moving).await;
                    }
                    continue;
                }
            };
            match heard {
                Heard::Connected(new) => connection = Some(new),
                Heard::Lost => connection = None,
                Heard::Event(Event::MigrationIteration(event)) => {
                    let begun = !moving.contains_key(&event.domain.uuid.to_string());
                    if let Some(connection) = connection.as_ref().filter(|_| begun) {
                        let now = Moving {
                            domain: event.domain,
                            since: Timestamp::now(),
                        };
                        self.begin(&now.domain).await;
                        open.get_or_insert_default().insert(now.domain.uuid.to_string());
                        moving.insert(now.domain.uuid.to_string(), now);
                        self.look(connection, &mut moving).await;
                    }
                }
                Heard::Event(Event::JobCompleted(event)) => {
                    if let Some(moved) = moving.remove(&event.domain.uuid.to_string()) {
                        self.tell_end(&moved, &event.params.0).await;
                    }
                }
                Heard::Event(Event::Lifecycle(event)) if arrives(&event) => {
                    let status = MigrationStatus {
                        destination: Some(self.node.clone()),
                        ..MigrationStatus::default()
                    };
                    self.tell(&event.domain, DESTINATION, &status).await;
                }
                Heard::Event(_) => {}
            }
        }
    }

    async fn look(&self, connection: &Connection, moving: &mut BTreeMap<String, Moving>) {
        let mut over = Vec::new();
        for (id, one) in &*moving {
            match connection.domain_get_job_stats(&one.domain, 0).await {
                Ok(stats) if stats.kind == job::NONE => over.push(id.clone()),
                Ok(stats) if leaves(&stats.params.0) => {
                    let status = progress(stats.kind, &stats.params.0, &self.node, one.since);
                    self.tell(&one.domain, ORIGIN, &status).await;
                }
                Ok(_) => over.push(id.clone()),
                Err(error) if error.code().is_some() => over.push(id.clone()),
                // The connection ends; the next one sees whether it still runs.
                Err(error) => tracing::debug!("job of {id}: {error}"),
            }
        }
        for id in over {
            moving.remove(&id);
        }
    }

    /// The job's last figures, with how it ended.
    async fn tell_end(&self, moved: &Moving, params: &[Param]) {
        let success = param(params, "success").and_then(libvirt_client::Value::as_u64) != Some(0);
        let kind = if success { job::COMPLETED } else { job::FAILED };
        let status = MigrationStatus {
            ended: Some(Time(whole(Timestamp::now()))),
            ..progress(kind, params, &self.node, moved.since)
        };
        self.tell(&moved.domain, ORIGIN, &status).await;
    }

    /// Makes the object, and says whose it is.
    async fn begin(&self, domain: &Domain) {
        let name = domain.uuid.to_string();
        let api: Api<Migration> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut object = head(&name);
        object["metadata"]["labels"] = json!({NODE_LABEL: self.node});
        let params = PatchParams::apply(ORIGIN).force();
        if let Err(error) = api.patch(&name, &params, &Patch::Apply(&object)).await {
            tracing::warn!(migration = name, "cannot be made: {}", plain(&error));
        }
    }

    /// Deletes those of this host that were kept for long enough, and names those that are left.
    async fn sweep(
        &self,
        moving: &BTreeMap<String, Moving>,
        now: Timestamp,
    ) -> kube::Result<BTreeSet<String>> {
        let api: Api<Migration> = Api::namespaced(self.client.clone(), &self.namespace);
        let own = ListParams::default().labels(&format!("{NODE_LABEL}={}", self.node));
        let mut left = BTreeSet::new();
        for migration in api.list(&own).await? {
            let name = migration.name_any();
            if moving.contains_key(&name) || !is_old(&migration, now) {
                left.insert(name);
                continue;
            }
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                gone if is_missing(&gone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    async fn tell(&self, domain: &Domain, manager: &str, status: &MigrationStatus) {
        let name = domain.uuid.to_string();
        let api: Api<Migration> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams::apply(manager).force();
        let mut body = head(&name);
        body["status"] = json!(status);
        let mut told = api.patch_status(&name, &params, &Patch::Apply(&body)).await;
        // Only the origin makes it, because the origin deletes it. Somebody may have deleted it meanwhile.
        if manager == ORIGIN && is_missing(&told) {
            self.begin(domain).await;
            told = api.patch_status(&name, &params, &Patch::Apply(&body)).await;
        }
        // A guest may be seen to arrive before its origin has told that it leaves.
        let mut tries = 0;
        while manager == DESTINATION && is_missing(&told) && tries < ARRIVALS {
            tokio::time::sleep(LOOK).await;
            told = api.patch_status(&name, &params, &Patch::Apply(&body)).await;
            tries += 1;
        }
        if is_missing(&told) && manager == DESTINATION {
            tracing::debug!(migration = name, "its origin tells nothing of it");
        } else if let Err(error) = told {
            // The next look tells more than this one did.
            tracing::warn!(migration = name, "cannot tell: {}", plain(&error));
        }
    }
}

fn head(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": Migration::api_version(&()), "kind": Migration::kind(&()),
        "metadata": {"name": name}, "spec": {},
    })
}

fn is_missing<T>(told: &kube::Result<T>) -> bool {
    matches!(told, Err(kube::Error::Api(refused)) if refused.code == 404)
}

/// Times of objects have no fractions.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Pure: has it been kept for long enough?
fn is_old(migration: &Migration, now: Timestamp) -> bool {
    let status = migration.status.clone().unwrap_or_default();
    let since = |time: &Time| now.duration_since(time.0);
    match (&status.ended, &status.started) {
        (Some(ended), _) => since(ended) >= KEEP,
        (None, Some(started)) => since(started) >= KEEP_OPEN,
        (None, None) => {
            let made = migration.metadata.creation_timestamp.as_ref();
            made.is_some_and(|made| since(made) >= KEEP_OPEN)
        }
    }
}

fn arrives(event: &Lifecycle) -> bool {
    (event.event, event.detail) == (lifecycle::STARTED, lifecycle::STARTED_MIGRATED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::hypervisor::MigrationSpec;

    #[test]
    fn what_is_over_is_kept_for_an_hour() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let hours = |hours| Some(Time(now - SignedDuration::from_hours(hours)));
        let of = |ended: Option<Time>, started: Option<Time>| {
            let mut migration = Migration::new("a", MigrationSpec::default());
            migration.metadata.creation_timestamp = hours(30);
            migration.status = Some(MigrationStatus {
                ended,
                started,
                ..MigrationStatus::default()
            });
            is_old(&migration, now)
        };
        assert!(of(hours(1), hours(2)) && !of(hours(0), hours(2)));
        assert!(!of(hours(0), hours(30)), "a second migration of an old server");
        assert!(!of(None, hours(23)) && of(None, hours(24)), "nobody saw its end");
        assert!(of(None, None), "nothing was ever told of it");
    }
}
