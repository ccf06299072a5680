//! Heartbeats of node agents. Each agent renews a Lease; one whose Lease has not changed for a while is silent.
//!
//! Counted is from when a change was seen here, so clocks that differ do no harm. While Leases cannot be read nobody is
//! called silent: the fault is with who listens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use c5c3_api::hypervisor::{HEARTBEAT_LIMIT, NODE_LABEL};
use c5c3_kit::kinds::Key;
use futures::StreamExt;
use futures::channel::mpsc;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::power::NAMESPACE;

/// Between looks for agents that fell silent.
const LOOK: Duration = Duration::from_secs(5);
/// A pass waits no longer for the first list of Leases.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the agent of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentView {
    /// Heartbeats cannot be read at the moment.
    #[default]
    Unknown,
    /// It has never sent one.
    Missing,
    Heard,
    /// Since then.
    Silent(Timestamp),
}

struct Beat {
    version: Option<String>,
    heard: Instant,
    /// When it was renewed, in the agent's words.
    renewed: Timestamp,
    silent: bool,
}

#[derive(Default)]
struct Known {
    /// By node.
    beats: BTreeMap<String, Beat>,
    /// Is the watch open, and everything listed?
    reads: bool,
}

/// The agents of all hosts.
#[derive(Clone)]
pub struct Pulses {
    known: Arc<Mutex<Known>>,
    listed: watch::Sender<bool>,
}

impl std::fmt::Debug for Pulses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pulses").finish_non_exhaustive()
    }
}

impl Default for Pulses {
    fn default() -> Self {
        Pulses {
            known: Arc::default(),
            listed: watch::Sender::new(false),
        }
    }
}

impl Pulses {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is of whole values.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first list, so that a start says nothing that is not so.
    pub async fn look(&self, node: &str) -> AgentView {
        let mut listed = self.listed.subscribe();
        let _ = tokio::time::timeout(PATIENCE, listed.wait_for(|done| *done)).await;
        self.known().view(node, Instant::now())
    }

    /// Follows the Leases; tells of each host whose agent falls silent or is heard again.
    pub(crate) async fn follow(self, client: Client, news: mpsc::UnboundedSender<Key>) {
        let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
        let config = watcher::Config::default().labels(NODE_LABEL);
        let mut events = watcher(api, config).default_backoff().boxed();
        // Not a sleep: in a large fleet somebody is heard at every moment.
        let mut look = tokio::time::interval(LOOK);
        loop {
            let changed = tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                _ = look.tick() => self.known().fallen(Instant::now()),
            };
            for node in changed {
                if news.unbounded_send(Key::new(None, &node)).is_err() {
                    return;
                }
            }
        }
    }

    fn take(&self, event: Result<Event<Lease>, watcher::Error>) -> Vec<String> {
        let now = Instant::now();
        let mut known = self.known();
        match event {
            Err(error) => {
                tracing::debug!("heartbeats of agents cannot be read: {error}");
                known.reads = false;
                // Nobody waits for what may never come.
                self.listed.send_replace(true);
                Vec::new()
            }
            Ok(Event::Init) => Vec::new(),
            Ok(Event::InitApply(lease)) => known.beat(&lease, now),
            Ok(Event::Apply(lease)) => {
                // A watch that was interrupted goes on where it was, without another list.
                known.resume(now);
                known.beat(&lease, now)
            }
            Ok(Event::InitDone) => {
                known.resume(now);
                self.listed.send_replace(true);
                Vec::new()
            }
            Ok(Event::Delete(lease)) => {
                known.resume(now);
                let node = node_of(&lease);
                node.filter(|node| known.beats.remove(node).is_some())
                    .into_iter()
                    .collect()
            }
        }
    }
}

fn node_of(lease: &Lease) -> Option<String> {
    lease.labels().get(NODE_LABEL).cloned()
}

impl Known {
    fn view(&self, node: &str, now: Instant) -> AgentView {
        match self.beats.get(node) {
            _ if !self.reads => AgentView::Unknown,
            None => AgentView::Missing,
            Some(beat) if now.duration_since(beat.heard) < HEARTBEAT_LIMIT => AgentView::Heard,
            Some(beat) => AgentView::Silent(beat.renewed),
        }
    }

    /// The node, if it is new or was silent.
    fn beat(&mut self, lease: &Lease, now: Instant) -> Vec<String> {
        let Some(node) = node_of(lease) else {
            return Vec::new();
        };
        let version = lease.resource_version();
        let before = self.beats.get(&node);
        if before.is_some_and(|before| before.version == version) {
            return Vec::new();
        }
        let news = before.is_none_or(|before| before.silent);
        let told = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let renewed = told.map_or_else(Timestamp::now, |time| time.0);
        let beat = Beat {
            version,
            heard: now,
            // Objects have whole seconds.
            renewed: Timestamp::from_second(renewed.as_second()).unwrap_or(renewed),
            silent: false,
        };
        self.beats.insert(node.clone(), beat);
        if news { vec![node] } else { Vec::new() }
    }

    /// Whoever could not be heard while the watch was down gets its time again; who was silent before stays so.
    fn resume(&mut self, now: Instant) {
        if !self.reads {
            let waits = self.beats.values_mut().filter(|beat| !beat.silent);
            waits.for_each(|beat| beat.heard = now);
        }
        self.reads = true;
    }

    /// Those that fell silent since the last look.
    fn fallen(&mut self, now: Instant) -> Vec<String> {
        if !self.reads {
            return Vec::new();
        }
        let mut fallen = Vec::new();
        for (node, beat) in &mut self.beats {
            if !beat.silent && now.duration_since(beat.heard) >= HEARTBEAT_LIMIT {
                beat.silent = true;
                fallen.push(node.clone());
            }
        }
        fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(node: &str, version: u32) -> Lease {
        let lease = json!({"metadata": {"name": format!("c5c3-node-agent-{node}"), "resourceVersion": version.to_string(),
            "labels": {NODE_LABEL: node}}, "spec": {"renewTime": "2026-11-01T10:00:00.000000Z"}});
        serde_json::from_value(lease).expect("a Lease")
    }

    #[test]
    fn an_agent_is_silent_when_its_lease_has_not_changed_for_long() {
        let (mut known, start) = (Known::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(known.view("a", start), AgentView::Unknown, "nothing was listed");
        assert_eq!(known.beat(&lease("a", 1), start), ["a"]);
        known.resume(start);
        assert_eq!(known.view("b", start), AgentView::Missing);
        assert_eq!(known.view("a", after(44)), AgentView::Heard);
        assert!(known.fallen(after(44)).is_empty());
        assert_eq!(known.fallen(after(45)), ["a"]);
        assert!(known.fallen(after(50)).is_empty(), "told once");
        let since: Timestamp = "2026-11-01T10:00:00Z".parse().expect("a time");
        assert_eq!(known.view("a", after(50)), AgentView::Silent(since));
        assert!(known.beat(&lease("a", 1), after(51)).is_empty(), "nothing new");
        assert_eq!(known.beat(&lease("a", 2), after(52)), ["a"], "heard again");
        assert_eq!(known.view("a", after(60)), AgentView::Heard);
        assert!(
            known.beat(&lease("a", 3), after(62)).is_empty(),
            "as it should be"
        );
    }

    #[test]
    fn a_watch_that_goes_on_after_an_error_is_believed_again() {
        let pulses = Pulses::default();
        let view = || pulses.known().view("a", Instant::now());
        assert!(pulses.take(Ok(Event::Init)).is_empty());
        assert_eq!(pulses.take(Ok(Event::InitApply(lease("a", 1)))), ["a"]);
        pulses.take(Ok(Event::InitDone));
        assert_eq!(view(), AgentView::Heard);
        pulses.take(Err(watcher::Error::NoResourceVersion));
        assert_eq!(view(), AgentView::Unknown);
        pulses.take(Ok(Event::Apply(lease("a", 2))));
        assert_eq!(view(), AgentView::Heard);
    }

    /// Maintenance of the control plane calls nobody silent.
    #[test]
    fn who_cannot_listen_blames_nobody() {
        let (mut known, start) = (Known::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        known.beat(&lease("a", 1), start);
        known.resume(start);
        known.reads = false;
        assert_eq!(known.view("a", after(100)), AgentView::Unknown);
        assert!(known.fallen(after(100)).is_empty());
        known.resume(after(600));
        assert_eq!(
            known.view("a", after(610)),
            AgentView::Heard,
            "it has its time again"
        );
        assert_eq!(known.fallen(after(645)), ["a"]);
        known.reads = false;
        known.resume(after(700));
        assert!(
            matches!(known.view("a", after(701)), AgentView::Silent(_)),
            "as before"
        );
    }
}
