//! Tells of migrations while they run. libvirt says when one begins and ends; what happens between
//! has to be asked for, and is asked only then.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::hypervisor::{Migration, MigrationStatus};
use c5c3_kit::fault::plain;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
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
        loop {
            let heard = tokio::select! {
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
        let status = progress(kind, params, &self.node, moved.since);
        self.tell(&moved.domain, ORIGIN, &status).await;
    }

    async fn tell(&self, domain: &Domain, manager: &str, status: &MigrationStatus) {
        let name = domain.uuid.to_string();
        let api: Api<Migration> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams::apply(manager).force();
        let head = json!({
            "apiVersion": Migration::api_version(&()), "kind": Migration::kind(&()),
            "metadata": {"name": name}, "spec": {},
        });
        let mut body = head.clone();
        body["status"] = json!(status);
        // Nearly always it is there already.
        let told = match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => {
                match api.patch(&name, &params, &Patch::Apply(&head)).await {
                    Ok(_) => api.patch_status(&name, &params, &Patch::Apply(&body)).await,
                    failed => failed,
                }
            }
            told => told,
        };
        if let Err(error) = told {
            // The next look tells more than this one did.
            tracing::warn!(migration = name, "cannot tell: {}", plain(&error));
        }
    }
}

fn arrives(event: &Lifecycle) -> bool {
    (event.event, event.detail) == (lifecycle::STARTED, lifecycle::STARTED_MIGRATED)
}
