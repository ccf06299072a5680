#![allow(dead_code)] // each of its users needs a part
//! Hosts and evictions on a simulated Nova and Placement, with a clock that jumps from one look to
//! the next. Kubernetes is a map of objects; the transitions, the planner and every call are the real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::conditions::hypervisor::LIBVIRT_CONNECTION;
use c5c3_api::hypervisor::{
    Eviction, EvictionSpec, Hypervisor, HypervisorSpec, HypervisorStatus, Instance, InstanceTrouble,
    Maintenance, OnboardingPhase, ReactionState, Trouble,
};
use c5c3_hypervisor::AgentView;
use c5c3_hypervisor::PowerView;
use c5c3_hypervisor::eviction::{self, Evictions, Refusals};
use c5c3_hypervisor::host::{self, Complaint, Ground, Hosts, NodeView};
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
    /// Nodes that are short of disk.
    pub pressed: BTreeSet<String>,
    /// What agents see in trouble, or saw, with the restarts before.
    pub seen: BTreeMap<String, Vec<(Instance, u32)>>,
    /// Hosts whose agents send no heartbeats.
    pub mute: BTreeSet<String>,
    /// Hosts with a management controller, and those whose controller does not answer.
    pub plugs: BTreeSet<String>,
    pub deaf_plugs: BTreeSet<String>,
    /// Hosts on which a part is missing that servers need.
    pub unfit: BTreeSet<String>,
    /// How often the power of a host was cut whose agent was heard.
    pub cut_alive: u32,
    nova: Nova,
    refusals: Refusals,
    of_hosts: Refusals,
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
            pressed: BTreeSet::new(),
            seen: BTreeMap::new(),
            mute: BTreeSet::new(),
            plugs: BTreeSet::new(),
            deaf_plugs: BTreeSet::new(),
            unfit: BTreeSet::new(),
            cut_alive: 0,
            refusals: Refusals::default(),
            of_hosts: Refusals::default(),
            due: BTreeSet::new(),
            when: BTreeMap::new(),
            made: 0,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
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

    /// What the agent of the host sees of a server.
    pub(crate) fn report(&mut self, name: &str, server: &str, trouble: Option<Trouble>) {
        let since = Some(Time(self.now()));
        let restarts = self.fleet.restarts(server);
        let instances = self.seen.entry(name.to_owned()).or_default();
        instances.retain(|(one, _)| one.id != server);
        let instance = Instance {
            id: server.to_owned(),
            name: format!("instance-{server}"),
            active: trouble.is_none(),
            trouble: trouble.map(|kind| InstanceTrouble { kind, since }),
        };
        instances.push((instance, restarts));
        self.wake(name);
    }

    /// The agent looks: one that was restarted since runs, and one that left is no more of this host.
    fn look_at_instances(&mut self, name: &str) {
        let fleet = self.fleet.clone();
        let Some(instances) = self.seen.get_mut(name) else {
            return;
        };
        instances.retain(|(one, _)| fleet.server(&one.id).is_some_and(|guest| guest.host == name));
        for (one, restarts) in instances {
            let runs = |guest: &openstack_client::Guest| guest.status == "ACTIVE" && guest.task.is_none();
            if fleet.restarts(&one.id) > *restarts && fleet.server(&one.id).as_ref().is_some_and(runs) {
                (one.active, one.trouble) = (true, None);
            }
        }
    }

    /// Somebody mends every server that is in trouble.
    pub(crate) fn mend(&mut self) {
        let all = self.seen.values_mut().flatten();
        all.for_each(|(one, _)| (one.active, one.trouble) = (true, None));
    }

    /// Is anything still done about a server?
    pub(crate) fn reacts(&self) -> bool {
        use ReactionState::{Moving, Restarting, Waiting};
        let told = self.hosts.values().filter_map(|host| host.status.as_ref());
        let mut all = told.flat_map(|status| &status.reactions);
        all.any(|one| matches!(one.state, Waiting | Restarting | Moving))
    }

    /// What the management controller of a silent host says.
    fn power(&self, name: &str) -> Option<PowerView> {
        if !self.plugs.contains(name) || !self.silent.contains(name) {
            return None;
        }
        Some(
            match (self.deaf_plugs.contains(name), self.fleet.has_power(name)) {
                (true, _) => PowerView::Unknown("no answer".to_owned()),
                (false, true) => PowerView::NotOff("On".to_owned()),
                (false, false) => PowerView::Off,
            },
        )
    }

    fn cut(&mut self, name: &str) {
        self.cut_alive += u32::from(!self.mute.contains(name));
        self.fleet.set_power(name, false);
        self.fleet.set_up(name, false);
        self.mute.insert(name.to_owned());
    }

    /// As the agent last told it, with the fields of the operator.
    fn with_agent(&self, name: &str, status: Option<HypervisorStatus>) -> HypervisorStatus {
        let mut status = status.unwrap_or_default();
        let seen = self.seen.get(name).into_iter().flatten();
        status.instances = seen.map(|(one, _)| one.clone()).collect();
        status.conditions.retain(|one| one.type_ != LIBVIRT_CONNECTION);
        status.conditions.push(Condition {
            type_: LIBVIRT_CONNECTION.to_owned(),
            status: "True".to_owned(),
            reason: "Connected".to_owned(),
            message: String::new(),
            last_transition_time: Time(self.now()),
            observed_generation: None,
        });
        status
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
        self.look_at_instances(name);
        let Some(mut object) = self.hosts.get(name).cloned() else {
            return;
        };
        object.status = Some(self.with_agent(name, object.status.take()));
        let who = Who::Host(name.to_owned());
        let ground = Ground {
            node: NodeView::There {
                ready: !self.silent.contains(name),
                terminating: false,
            },
            fence: self.fenced.get(name).map(|_| "the plug was pulled".to_owned()),
            power: self.power(name),
            eviction: self.evictions.get(name).and_then(host::eviction_view),
            complaints: self
                .unfit
                .get(name)
                .map(|_| complaint(self.now()))
                .into_iter()
                .collect(),
            pressure: self
                .pressed
                .get(name)
                .map(|_| "DiskPressure".to_owned())
                .into_iter()
                .collect(),
            taints: Vec::new(),
            agent: if self.mute.contains(name) {
                AgentView::Silent(self.now())
            } else {
                AgentView::Heard
            },
            now: self.now(),
        };
        let Ok(view) = host::look(&object, &self.nova, &self.of_hosts, ground).await else {
            return self.push(who, PAUSE);
        };
        let step = host::transition(&view);
        let mut failed = false;
        for action in &step.actions {
            if let host::Action::PowerOff { host } = action {
                self.cut(host);
            }
            failed |= host::carry_out(&self.nova, action, &self.of_hosts).await.is_err();
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

fn complaint(now: Timestamp) -> Complaint {
    Complaint {
        why: "Open vSwitch has no bridge br-int".to_owned(),
        since: Some(now - SignedDuration::from_secs(90)),
    }
}

fn reasons(conditions: &[Condition]) -> Vec<(&str, &str)> {
    conditions
        .iter()
        .map(|one| (one.type_.as_str(), one.reason.as_str()))
        .collect()
}
