//! Pure: from what is known of a host to what is done and told. One function, so that every way a
//! host can be in has one answer; its table is in `golden`.

use std::time::Duration;

use c5c3_api::conditions::hypervisor::{
    AGENT_REPORTING, AGGREGATES_UPDATED, EVICTING, HA_ENABLED, HOST_FAILED, HYPERVISOR_DISABLED,
    INSTANCES_WELL, OFFBOARDED, ONBOARDING, OVERCOMMIT_UPDATED, TERMINATING, TRAITS_UPDATED,
};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{HypervisorStatus, Maintenance, OnboardingPhase, OnboardingStatus};
use c5c3_kit::States;
use openstack_client::Service;

use super::view::{Action, NodeView, Step, View};
use super::{failover, leaving, onboarding, reactions, unsupported, upkeep};
use crate::names;
use crate::nova::Found;
use crate::pulse::AgentView;

/// After a call: what came of it is looked at soon.
const SOON: Duration = Duration::from_secs(2);
/// While something outside is waited for.
pub(crate) const WAITING: Duration = Duration::from_secs(10);
/// A host that is not in service, whatever the reason.
const UNWELL: Duration = Duration::from_secs(60);
/// A host in service: drift in Nova and Placement is found within this.
const DRIFT: Duration = Duration::from_secs(600);

/// The next step of a host.
pub fn transition(view: &View) -> Step {
    let mut step = Step {
        status: own_fields(&view.before),
        again: DRIFT,
        ..Step::default()
    };
    identify(view, &mut step);
    if !view.spec.lifecycle_enabled {
        unmanaged(&mut step);
    } else if view.leaving() {
        leaving::leave(view, &mut step);
    } else {
        stay(view, &mut step);
    }
    step.states = around(view, std::mem::take(&mut step.states));
    if !step.actions.is_empty() {
        step.again = SOON;
    } else if step.states.blocker().is_some() {
        step.again = step.again.min(UNWELL);
    }
    step
}

/// Of what was told before, the fields of this operator; the others belong to the agent.
fn own_fields(before: &HypervisorStatus) -> HypervisorStatus {
    HypervisorStatus {
        hypervisor_id: before.hypervisor_id.clone(),
        service_id: before.service_id.clone(),
        host: before.host.clone(),
        traits: before.traits.clone(),
        aggregates: before.aggregates.clone(),
        internal_ip: before.internal_ip.clone(),
        evicted: before.evicted,
        onboarding: before.onboarding.clone(),
        failover: before.failover.clone(),
        reactions: before.reactions.clone(),
        history: before.history.clone(),
        ..HypervisorStatus::default()
    }
}

/// Ids are stored as soon as they are known. A service under another id is another registration:
/// the host is onboarded again.
fn identify(view: &View, step: &mut Step) {
    let Some(service) = view.service() else {
        return;
    };
    let status = &mut step.status;
    if status
        .service_id
        .as_ref()
        .is_some_and(|known| *known != service.id)
    {
        let before = status.onboarding.take().unwrap_or_default();
        status.onboarding = Some(OnboardingStatus {
            attempt: before.attempt + 1,
            test_server: before.test_server,
            retried: before.retried,
            ..OnboardingStatus::default()
        });
        status.hypervisor_id = None;
    }
    status.service_id = Some(service.id.clone());
    status.host = Some(service.host.clone());
    if view.nova.provider.is_some() {
        status.hypervisor_id.clone_from(&view.nova.provider);
    }
}

/// `lifecycleEnabled: false`: nothing is written outside Kubernetes.
fn unmanaged(step: &mut Step) {
    let why = "lifecycleEnabled is false: Nova and Placement are not changed";
    let mut states = States::default();
    for part in [ONBOARDING, TRAITS_UPDATED, AGGREGATES_UPDATED, OVERCOMMIT_UPDATED] {
        states = states.not_required(part, why);
    }
    step.states = states
        .unmet(TERMINATING, reason::NOT_REQUIRED, why)
        .unmet(OFFBOARDED, reason::NOT_REQUIRED, why)
        .unmet(EVICTING, reason::NOT_REQUIRED, why);
}

fn stay(view: &View, step: &mut Step) {
    let states = std::mem::take(&mut step.states)
        .unmet(TERMINATING, reason::IN_SERVICE, "")
        .unmet(OFFBOARDED, reason::IN_SERVICE, "");
    step.states = states;
    let service = match &view.nova.service {
        Found::One(service) => service,
        Found::Nothing => {
            return unknown(view, step, "nova-compute of this node has not registered in Nova");
        }
        Found::Several(hosts) => {
            let all = hosts.join(", ");
            let why = format!(
                "Nova has several hosts for this name: {all}; set the host of nova-compute to the name of the node"
            );
            return unknown(view, step, &why);
        }
    };
    if failover::handle(view, service, step) {
        return;
    }
    if view.spec.maintenance == Maintenance::None {
        step.status.evicted = None;
        step.states = std::mem::take(&mut step.states).unmet(EVICTING, reason::NOT_REQUIRED, "");
        onboarding::serve(view, service, step);
    } else {
        maintain(view, service, step);
    }
    reactions::react(view, service, step);
}

fn unknown(view: &View, step: &mut Step, why: &str) {
    let waits = "waiting for the host to register in Nova";
    onboarding::unregistered(view, why, step);
    step.states = std::mem::take(&mut step.states)
        .unmet(TRAITS_UPDATED, reason::WAITING, waits)
        .unmet(AGGREGATES_UPDATED, reason::WAITING, waits)
        .unmet(OVERCOMMIT_UPDATED, reason::WAITING, waits)
        .unmet(EVICTING, reason::NOT_REQUIRED, "");
}

/// How the reason in Nova and that of the Eviction read.
pub(crate) fn words(maintenance: Maintenance) -> &'static str {
    match maintenance {
        Maintenance::None => "none",
        Maintenance::Manual => "manual",
        Maintenance::Auto => "auto",
        Maintenance::Ha => "ha",
        Maintenance::Termination => "termination",
    }
}

/// Disables the service, and again when somebody enabled it. `true`: it is disabled.
pub(crate) fn close(service: &Service, why: &str, step: &mut Step) -> bool {
    let ours = names::is_ours(service.disabled_reason.as_deref());
    if !service.enabled() && ours {
        return true;
    }
    step.actions.push(Action::Disable {
        service: service.id.clone(),
        reason: why.to_owned(),
    });
    false
}

fn maintain(view: &View, service: &Service, step: &mut Step) {
    let kind = words(view.spec.maintenance);
    let why = names::maintenance(kind, view.spec.maintenance_reason.as_deref());
    let closed = close(service, &why, step);
    // A test that was under way starts over afterwards.
    for test in &view.tests {
        let server = test.id.clone();
        step.actions.push(Action::DeleteTest { server });
    }
    let onboarding = step.status.onboarding.get_or_insert_default();
    if onboarding.phase == OnboardingPhase::Testing {
        onboarding.phase = OnboardingPhase::Initial;
    }
    if view.tests.is_empty() {
        onboarding.test_server = None;
    }
    let phase = onboarding.clone();
    upkeep::keep(view, service, step, upkeep::Membership::Wanted);
    let states = onboarding::report(std::mem::take(&mut step.states), &phase);
    step.again = WAITING * 6;
    if view.spec.maintenance == Maintenance::Ha {
        let said = "maintenance ha: instances stay and are handled by high availability";
        step.status.evicted = None;
        step.states = states
            .unmet(EVICTING, reason::NOT_REQUIRED, said)
            .blocked_by(reason::MAINTENANCE, said);
        return;
    }
    step.evict = Some(why);
    let empty = view.guests.as_ref().is_some_and(Vec::is_empty);
    let done = closed && empty && view.eviction.as_ref().is_some_and(|one| one.succeeded);
    step.status.evicted = Some(done);
    let said = format!("maintenance {kind}");
    step.states = match &view.eviction {
        _ if done => states
            .unmet(EVICTING, reason::SUCCEEDED, "the host is empty")
            .blocked_by(reason::MAINTENANCE, format!("{said}; the host is empty")),
        Some(eviction) if eviction.succeeded => states
            .met(
                EVICTING,
                reason::RUNNING,
                "servers arrived after the host was empty",
            )
            .blocked_by(
                reason::EVICTING,
                format!("{said}: servers arrived after the host was empty"),
            ),
        Some(eviction) => states
            .met(
                EVICTING,
                &eviction_reason(&eviction.reason),
                eviction.message.clone(),
            )
            .blocked_by(reason::EVICTING, format!("{said}: {}", eviction.message)),
        None => states
            .met(EVICTING, reason::WAITING, "the eviction is starting")
            .blocked_by(reason::EVICTING, said),
    };
}

/// A reason is never empty.
pub(crate) fn eviction_reason(reason: &str) -> String {
    if reason.is_empty() {
        reason::WAITING
    } else {
        reason
    }
    .to_owned()
}

/// Whether what the agent told can be relied upon.
fn agent(view: &View, states: States) -> States {
    let missing = "the agent of the node has not reported: is its pod running?";
    match (view.agent, view.libvirt()) {
        (AgentView::Unknown, _) => states.unknown(
            AGENT_REPORTING,
            reason::WAITING,
            "the heartbeats of agents cannot be read",
        ),
        (AgentView::Silent(since), _) => states.unmet(
            AGENT_REPORTING,
            reason::SILENT,
            format!(
                "the agent has been silent since {since}, and what it reported may be outdated: is its pod running?"
            ),
        ),
        (AgentView::Missing, _) => states.unmet(AGENT_REPORTING, reason::AGENT_MISSING, missing),
        (AgentView::Heard, None) => states.unmet(
            AGENT_REPORTING,
            reason::WAITING,
            "the agent is running, but has not reported yet",
        ),
        (AgentView::Heard, Some(true)) => states.met(AGENT_REPORTING, reason::READY, ""),
        (AgentView::Heard, Some(false)) => states.met(
            AGENT_REPORTING,
            reason::UNREACHABLE,
            "the agent cannot reach libvirt",
        ),
    }
}

/// What holds for a host whatever its phase: service, agent, high availability, Node.
fn around(view: &View, states: States) -> States {
    let states = match &view.nova.service {
        Found::One(service) if service.enabled() => states.unmet(HYPERVISOR_DISABLED, reason::IN_SERVICE, ""),
        Found::One(service) => {
            let why = service.disabled_reason.clone().unwrap_or_default();
            let by = match service.disabled_reason.as_deref() {
                ours if names::is_ours(ours) => reason::MAINTENANCE,
                short if names::is_of_pressure(short) => reason::NODE_PRESSURE,
                new if names::is_new(new) => reason::INITIAL,
                _ => reason::DISABLED_BY_OTHERS,
            };
            states.met(HYPERVISOR_DISABLED, by, why)
        }
        _ => states.unknown(
            HYPERVISOR_DISABLED,
            reason::NOT_IN_NOVA,
            "Nova does not know the host",
        ),
    };
    let states = unsupported::report(view, agent(view, states));
    let states = if !view.spec.high_availability {
        states.unmet(HA_ENABLED, reason::NOT_REQUIRED, "highAvailability is false")
    } else if view.spec.lifecycle_enabled && failover::applies(&view.spec) && !view.leaving() {
        states.met(
            HA_ENABLED,
            reason::READY,
            "if the host fails, its servers start elsewhere once it is known to be powered off",
        )
    } else {
        states.unmet(
            HA_ENABLED,
            reason::MAINTENANCE,
            "the host is in maintenance: high availability is suspended",
        )
    };
    let states = match states.get(HOST_FAILED) {
        Some(_) => states,
        None => states.unmet(
            HOST_FAILED,
            reason::NOT_REQUIRED,
            "failover does not apply to this host at the moment",
        ),
    };
    let states = match states.get(INSTANCES_WELL) {
        Some(_) => states,
        None => states.unknown(
            INSTANCES_WELL,
            reason::NOT_REQUIRED,
            "instances in trouble are not restarted at the moment",
        ),
    };
    let blocked = states.blocker().is_some();
    match view.node {
        _ if blocked || view.leaving() => states,
        NodeView::Missing => {
            states.blocked_by(reason::NODE_MISSING, format!("there is no Node {}", view.name))
        }
        NodeView::There { ready: false, .. } => {
            states.blocked_by(reason::UNREACHABLE, format!("Node {} is not ready", view.name))
        }
        NodeView::There { .. } => match view.service() {
            Some(service) if !service.up() => {
                states.blocked_by(reason::UNREACHABLE, "Nova reports nova-compute of the host down")
            }
            _ => states,
        },
    }
}
