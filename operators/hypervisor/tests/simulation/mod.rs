#![allow(dead_code)] // each of its users needs a part
//! Hosts and evictions on a simulated Nova and Placement, with a clock that jumps from one look to
//! the next. Kubernetes is a map of objects; the transitions, the planner and every call are the real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::hypervisor::{
    Eviction, EvictionSpec, Hypervisor, HypervisorSpec, HypervisorStatus, Maintenance, OnboardingPhase,
};
use c5c3_hypervisor::eviction::{self, Evictions, Refusals};
use c5c3_hypervisor::host::{self, Ground, Hosts, NodeView};
use c5c3_hypervisor::names::RETRY;
use c5c3_hypervisor::nova::Nova;
use c5c3_kit::conditions::{Ending, settle};
use c5c3_kit::{Controller, States};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use openstack_client::SimulatedFleet;

/// Between a failed pass and the next, as a stand-in for the kit's growing pauses.
const PAUSE: Duration = Duration::from_secs(7);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Host(String),
    Eviction(String),
}

pub(crate) struct Simulation {
    pub fleet: SimulatedFleet,
    pub hosts: BTreeMap<String, Hypervisor>,
    pub evictions: BTreeMap<String, Eviction>,
    pub passes: u64,
    /// Nodes that Kubernetes does not hear, and those that are known to have no power.
    pub silent: BTreeSet<String>,
    pub fenced: BTreeSet<String>,
    nova: Nova,
    refusals: Refusals,
    due: BTreeSet<(Duration, Who)>,
    when: BTreeMap<Who, Duration>,
    made: u64,
}

impl Simulation {
    pub(crate) fn new(fleet: SimulatedFleet) -> Self {
        Simulation {
            nova: Nova::new(Arc::new(fleet.clone())),
            fleet,
            hosts: BTreeMap::new(),
            evictions: BTreeMap::new(),
            passes: 0,
            silent: BTreeSet::new(),
            fenced: BTreeSet::new(),
            refusals: Refusals::default(),
            due: BTreeSet::new(),
            when: BTreeMap::new(),
            made: 0,
        }
    }

    fn now(&self) -> Timestamp {
        let clock = SignedDuration::try_from(self.fleet.clock()).expect("a short time");
        Timestamp::from_second(1_800_000_000).expect("a time") + clock
    }

    /// A pass at that time, or sooner when one is due sooner.
    fn push(&mut self, who: Who, after: Duration) {
        let at = self.fleet.clock() + after;
        if let Some(before) = self.when.get(&who).copied() {
            if before <= at {
                return;
            }
            self.due.remove(&(before, who.clone()));
        }
        self.when.insert(who.clone(), at);
        self.due.insert((at, who));
    }

    pub(crate) fn join(&mut self, name: &str, spec: HypervisorSpec) {
        self.made += 1;
        let mut object = Hypervisor::new(name, spec);
        object.metadata.uid = Some(format!("u{}", self.made));
        self.hosts.insert(name.to_owned(), object);
        self.push(Who::Host(name.to_owned()), Duration::ZERO);
    }

    /// Somebody edits the object.
    pub(crate) fn edit(&mut self, name: &str, change: impl FnOnce(&mut Hypervisor)) {
        if let Some(object) = self.hosts.get_mut(name) {
            change(object);
            self.push(Who::Host(name.to_owned()), Duration::ZERO);
        }
    }

    pub(crate) fn maintain(&mut self, name: &str, kind: Maintenance) {
        self.edit(name, |object| {
            object.spec.maintenance = kind;
            object.spec.maintenance_reason = Some("test".to_owned());
        });
    }

    pub(crate) fn retry(&mut self, name: &str, value: &str) {
        self.edit(name, |object| {
            object
                .annotations_mut()
                .insert(RETRY.to_owned(), value.to_owned());
        });
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let now = Time(self.now());
        self.edit(name, |object| object.metadata.deletion_timestamp = Some(now));
    }

    /// An eviction of its own, without maintenance.
    pub(crate) fn evict(&mut self, name: &str, spec: EvictionSpec) {
        self.evictions.insert(name.to_owned(), Eviction::new(name, spec));
        self.push(Who::Eviction(name.to_owned()), Duration::ZERO);
    }

    /// Somebody deletes an eviction.
    pub(crate) fn cancel(&mut self, name: &str) {
        let now = Time(self.now());
        if let Some(eviction) = self.evictions.get_mut(name) {
            eviction.metadata.deletion_timestamp.get_or_insert(now);
            self.push(Who::Eviction(name.to_owned()), Duration::ZERO);
        }
    }

    /// Something about the host changed that a watch tells.
    pub(crate) fn wake(&mut self, name: &str) {
        self.push(Who::Host(name.to_owned()), Duration::ZERO);
    }

    pub(crate) fn phase(&self, name: &str) -> Option<OnboardingPhase> {
        let status = self.hosts.get(name)?.status.as_ref()?;
        status.onboarding.as_ref().map(|one| one.phase)
    }

    /// Passes until that much time has gone by, or until the test is content.
    pub(crate) async fn run(&mut self, time: Duration, mut content: impl FnMut(&Self) -> bool) -> bool {
        let until = self.fleet.clock() + time;
        loop {
            if content(self) {
                return true;
            }
            let Some((at, who)) = self.due.first().cloned().filter(|(at, _)| *at <= until) else {
                self.fleet.advance(until.saturating_sub(self.fleet.clock()));
                return content(self);
            };
            self.due.remove(&(at, who.clone()));
            self.when.remove(&who);
            self.fleet.advance(at.saturating_sub(self.fleet.clock()));
            self.passes += 1;
            match who {
                Who::Host(name) => self.host_pass(&name).await,
                Who::Eviction(name) => self.eviction_pass(&name).await,
            }
        }
    }

    async fn host_pass(&mut self, name: &str) {
        let Some(object) = self.hosts.get(name).cloned() else {
            return;
        };
        let who = Who::Host(name.to_owned());
        let ground = Ground {
            node: NodeView::There {
                ready: !self.silent.contains(name),
                terminating: false,
            },
            fence: self.fenced.get(name).map(|_| "the plug was pulled".to_owned()),
            power: None,
            eviction: self.evictions.get(name).and_then(host::eviction_view),
            complaints: Vec::new(),
            now: self.now(),
        };
        let Ok(view) = host::look(&object, &self.nova, ground).await else {
            return self.push(who, PAUSE);
        };
        let step = host::transition(&view);
        let mut failed = false;
        for action in &step.actions {
            failed |= host::carry_out(&self.nova, action).await.is_err();
        }
        match &step.evict {
            Some(reason) if !self.evictions.contains_key(name) => {
                let spec = EvictionSpec {
                    hypervisor: name.to_owned(),
                    reason: reason.clone(),
                    parallel: Some(20),
                    ..EvictionSpec::default()
                };
                self.evict(name, spec);
            }
            Some(_) => {}
            None => self.cancel(name),
        }
        if view.deleting && step.left.is_empty() {
            self.hosts.remove(name);
            self.evictions.remove(name);
            return;
        }
        let before = object.status.map(|status| status.conditions).unwrap_or_default();
        let conditions = settled::<Hosts>(&step.states, &before, self.now());
        if let Some(object) = self.hosts.get_mut(name) {
            object.status = Some(HypervisorStatus {
                conditions,
                ..step.status
            });
        }
        self.push(who, if failed { PAUSE } else { step.again });
    }

    async fn eviction_pass(&mut self, name: &str) {
        let Some(object) = self.evictions.get(name).cloned() else {
            return;
        };
        let who = Who::Eviction(name.to_owned());
        let host = self.hosts.get(&object.spec.hypervisor);
        let now = self.now();
        let Ok(view) = eviction::look(&object, host, &self.nova, &self.refusals, now).await else {
            return self.push(who, PAUSE);
        };
        let step = eviction::plan(&view);
        for action in &step.actions {
            let _ = eviction::carry_out(&self.nova, action, &self.refusals).await;
        }
        if view.deleting && step.left.is_empty() {
            self.evictions.remove(name);
            return self.push(Who::Host(object.spec.hypervisor), Duration::ZERO);
        }
        let before = view.before.conditions;
        let conditions = settled::<Evictions>(&step.states, &before, now);
        let news = reasons(&conditions) != reasons(&before);
        let mut status = step.status;
        status.conditions = conditions;
        if let Some(object) = self.evictions.get_mut(name) {
            object.status = Some(status);
        }
        self.push(who, step.again);
        if news {
            self.push(Who::Host(object.spec.hypervisor), Duration::ZERO);
        }
    }
}

fn settled<C: Controller>(states: &States, before: &[Condition], now: Timestamp) -> Vec<Condition> {
    let ending = Ending {
        states: Some(states),
        ..Ending::default()
    };
    settle(C::PARTS, ending, before, 1, now).conditions
}

fn reasons(conditions: &[Condition]) -> Vec<(&str, &str)> {
    conditions
        .iter()
        .map(|one| (one.type_.as_str(), one.reason.as_str()))
        .collect()
}
