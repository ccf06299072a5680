//! Pure: how a host is taken out of service, until it is removed from Nova and Placement.

use c5c3_api::conditions::hypervisor::{
    AGGREGATES_UPDATED, EVICTING, OFFBOARDED, ONBOARDING, OVERCOMMIT_UPDATED, TERMINATING, TRAITS_UPDATED,
};
use c5c3_api::conditions::reason;

use super::transition::{WAITING, close, eviction_reason};
use super::view::{Action, Step, View};
use crate::names;

pub(crate) fn leave(view: &View, step: &mut Step) {
    let why = names::maintenance("termination", view.spec.maintenance_reason.as_deref());
    let mut states = std::mem::take(&mut step.states).met(
        TERMINATING,
        reason::TERMINATING,
        "the host is being decommissioned",
    );
    for part in [ONBOARDING, TRAITS_UPDATED, AGGREGATES_UPDATED, OVERCOMMIT_UPDATED] {
        states = states.unmet(part, reason::TERMINATING, "the host is being decommissioned");
    }
    step.again = WAITING;
    for test in &view.tests {
        let server = test.id.clone();
        step.actions.push(Action::DeleteTest { server });
    }
    step.left = left(view);
    if step.left.is_empty() {
        step.status.service_id = None;
        step.status.hypervisor_id = None;
        step.status.host = None;
        step.status.onboarding = None;
        step.status.traits.clear();
        step.status.aggregates.clear();
        let said = "the host was removed from Nova and Placement";
        step.states = states
            .unmet(EVICTING, reason::SUCCEEDED, "")
            .met(OFFBOARDED, reason::SUCCEEDED, said)
            .blocked_by(reason::DECOMMISSIONED, said);
        return;
    }
    step.evict = Some(why.clone());
    // A host without a service takes no servers.
    let closed = view.service().is_none_or(|service| close(service, &why, step));
    let empty = view.guests.as_ref().is_some_and(Vec::is_empty);
    let evicted = empty && closed && view.eviction.as_ref().is_some_and(|one| one.succeeded);
    step.status.evicted = Some(evicted);
    let still = format!("still there: {}", step.left.join(", "));
    if !evicted {
        let (reason_, message) = view.eviction.as_ref().map_or_else(
            || (reason::WAITING.to_owned(), "the eviction is starting".to_owned()),
            |one| (eviction_reason(&one.reason), one.message.clone()),
        );
        step.states = states
            .met(EVICTING, &reason_, message.clone())
            .unmet(OFFBOARDED, reason::EVICTING, still)
            .blocked_by(reason::TERMINATING, message);
        return;
    }
    offboard(view, step);
    step.states = states
        .unmet(EVICTING, reason::SUCCEEDED, "the host is empty")
        .unmet(OFFBOARDED, reason::PROGRESSING, still.clone())
        .blocked_by(reason::TERMINATING, still);
}

/// In this order, one after the other: each needs the one before.
fn offboard(view: &View, step: &mut Step) {
    if let Some(service) = view.service() {
        let host = service.host.clone();
        step.actions
            .extend(view.nova.member_of.iter().map(|id| Action::Leave {
                aggregate: *id,
                host: host.clone(),
            }));
        let service = service.id.clone();
        step.actions.push(Action::DeleteService { service });
        return;
    }
    let Some(provider) = view.placement.provider.clone() else {
        return;
    };
    let consumers = view.placement.consumers.iter();
    step.actions
        .extend(consumers.map(|(consumer, _)| Action::Release {
            consumer: consumer.clone(),
            provider: provider.clone(),
        }));
    step.actions.push(Action::DeleteProvider { provider });
}

fn left(view: &View) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    let named = |server: &openstack_client::Guest| format!("server {} ({})", server.name, server.id);
    left.extend(view.guests.iter().flatten().map(named));
    left.extend(view.tests.iter().map(named));
    if let Some(service) = view.service() {
        left.push(format!("compute service {}", service.id));
    }
    if let Some((provider, _)) = view
        .placement
        .provider
        .as_ref()
        .zip(view.placement.traits.as_ref())
    {
        left.push(format!("resource provider {provider}"));
    }
    left.sort();
    left.dedup();
    left
}
