//! Pure: traits, aggregates and overcommit follow the spec; what somebody else changed is repaired.

use std::collections::BTreeSet;

use c5c3_api::conditions::hypervisor::{AGGREGATES_UPDATED, OVERCOMMIT_UPDATED, TRAITS_UPDATED};
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::AggregateStatus;
use openstack_client::Service;

use super::view::{Action, Step, View};
use crate::names;
use crate::nova::Group;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Not our turn yet.
    AsItIs,
    /// In the aggregate of tests alone, where there is one.
    Testing,
    /// As the spec says.
    Wanted,
}

/// `true`: all is as it should be.
pub(crate) fn keep(view: &View, service: &Service, step: &mut Step, membership: Membership) -> bool {
    let groups = aggregates(view, service, step, membership);
    if membership == Membership::Wanted {
        let (traits, ratios) = (traits(view, step), overcommit(view, step));
        groups && traits && ratios
    } else {
        let waits = "set after the test";
        step.states = std::mem::take(&mut step.states)
            .unmet(TRAITS_UPDATED, reason::WAITING, waits)
            .unmet(OVERCOMMIT_UPDATED, reason::WAITING, waits);
        groups
    }
}

/// Joins come before leaves: a host in no zone at all could take servers of any.
fn aggregates(view: &View, service: &Service, step: &mut Step, membership: Membership) -> bool {
    let named = |name: &str| view.nova.groups.iter().find(|group| group.name == name);
    let test = named(names::TEST);
    let (wanted, missing): (Vec<&Group>, Vec<&str>) = match (membership, test) {
        (Membership::AsItIs, _) => {
            step.states = std::mem::take(&mut step.states).unmet(
                AGGREGATES_UPDATED,
                reason::WAITING,
                "set after the test",
            );
            return true;
        }
        (Membership::Testing, Some(test)) => (vec![test], Vec::new()),
        _ => {
            let all = || view.spec.aggregates.iter().map(String::as_str);
            let there = all().filter_map(named).collect();
            (there, all().filter(|name| named(name).is_none()).collect())
        }
    };
    let ids: BTreeSet<i64> = wanted.iter().map(|group| group.id).collect();
    // Groups that others put the host into are theirs, unless we put it there before.
    let before: BTreeSet<&str> = view
        .before
        .aggregates
        .iter()
        .map(|one| one.uuid.as_str())
        .collect();
    let ours = |group: &&Group| before.contains(group.uuid.as_str()) || group.name == names::TEST;
    let host = &service.host;
    let joins = ids.difference(&view.nova.member_of).map(|id| Action::Join {
        aggregate: *id,
        host: host.clone(),
    });
    let leaves = view.nova.groups.iter().filter(ours);
    let leaves = leaves.filter(|group| view.nova.member_of.contains(&group.id) && !ids.contains(&group.id));
    let leaves = leaves.map(|group| Action::Leave {
        aggregate: group.id,
        host: host.clone(),
    });
    let changes: Vec<Action> = joins.chain(leaves).collect();
    let settled = changes.is_empty() && missing.is_empty();
    step.actions.extend(changes);
    let stays = |one: &&AggregateStatus| {
        let still = |group: &Group| group.uuid == one.uuid && view.nova.member_of.contains(&group.id);
        view.nova.groups.iter().any(still)
    };
    let mut listed: Vec<AggregateStatus> = view.before.aggregates.iter().filter(stays).cloned().collect();
    listed.extend(wanted.iter().map(|group| AggregateStatus {
        name: group.name.clone(),
        uuid: group.uuid.clone(),
    }));
    listed.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.uuid.cmp(&b.uuid)));
    listed.dedup();
    step.status.aggregates = listed;
    let states = std::mem::take(&mut step.states);
    step.states = if !missing.is_empty() {
        let said = format!(
            "Nova has no aggregate {}: create it, or correct spec.aggregates",
            missing.join(", ")
        );
        states.unmet(AGGREGATES_UPDATED, reason::INVALID, said)
    } else if settled {
        states.met(AGGREGATES_UPDATED, reason::SUCCEEDED, "")
    } else {
        states.unmet(
            AGGREGATES_UPDATED,
            reason::PROGRESSING,
            "the aggregates are being updated",
        )
    };
    settled
}

/// No trait at all is as good a wish as any: it is met at once.
fn traits(view: &View, step: &mut Step) -> bool {
    let wanted: BTreeSet<String> = view.spec.custom_traits.iter().cloned().collect();
    let Some((provider, (generation, there))) = view
        .placement
        .provider
        .as_ref()
        .zip(view.placement.traits.as_ref())
    else {
        return no_provider(step, TRAITS_UPDATED);
    };
    let former: BTreeSet<String> = view.before.traits.iter().cloned().collect();
    let mut target: BTreeSet<String> = there.difference(&former).cloned().collect();
    target.extend(wanted.iter().cloned());
    let settled = target == *there;
    // Remembered before they are set: what is set and forgotten could never be taken away.
    step.status.traits = if settled {
        wanted.into_iter().collect()
    } else {
        wanted.union(&former).cloned().collect()
    };
    let states = std::mem::take(&mut step.states);
    step.states = if settled {
        states.met(TRAITS_UPDATED, reason::SUCCEEDED, "")
    } else {
        step.actions.push(Action::SetTraits {
            provider: provider.clone(),
            generation: *generation,
            traits: target,
        });
        states.unmet(
            TRAITS_UPDATED,
            reason::PROGRESSING,
            "the traits are being updated",
        )
    };
    settled
}

fn class_of(resource: &str) -> Option<&'static str> {
    match resource {
        "cpu" => Some("VCPU"),
        "memory" => Some("MEMORY_MB"),
        "disk" => Some("DISK_GB"),
        _ => None,
    }
}

fn overcommit(view: &View, step: &mut Step) -> bool {
    let Some((provider, (generation, there))) = view
        .placement
        .provider
        .as_ref()
        .zip(view.placement.inventories.as_ref())
    else {
        return no_provider(step, OVERCOMMIT_UPDATED);
    };
    let mut target = there.clone();
    let mut unknown = Vec::new();
    for (resource, ratio) in &view.spec.overcommit {
        match class_of(resource).map(|class| target.get_mut(class)) {
            Some(Some(inventory)) => inventory.allocation_ratio = *ratio,
            // Placement has none of it: nothing to give out.
            Some(None) => {}
            None => unknown.push(resource.as_str()),
        }
    }
    let states = std::mem::take(&mut step.states);
    if !unknown.is_empty() {
        let said = format!(
            "spec.overcommit: {} is not cpu, memory or disk",
            unknown.join(", ")
        );
        step.states = states.unmet(OVERCOMMIT_UPDATED, reason::INVALID, said);
        return false;
    }
    let same = |class: &String, ratio: f64| {
        let before = there.get(class).map(|one| one.allocation_ratio);
        before.is_some_and(|before| (before - ratio).abs() < 1e-6)
    };
    let settled = target
        .iter()
        .all(|(class, one)| same(class, one.allocation_ratio));
    step.states = if settled {
        states.met(OVERCOMMIT_UPDATED, reason::SUCCEEDED, "")
    } else {
        // Traits change the generation of the same provider: one at a time.
        let busy = |action: &Action| matches!(action, Action::SetTraits { .. });
        if !step.actions.iter().any(busy) {
            step.actions.push(Action::SetInventories {
                provider: provider.clone(),
                generation: *generation,
                inventories: target,
            });
        }
        states.unmet(
            OVERCOMMIT_UPDATED,
            reason::PROGRESSING,
            "the allocation ratios are being updated",
        )
    };
    settled
}

fn no_provider(step: &mut Step, part: &'static str) -> bool {
    let said = "Placement has no resource provider of the host yet";
    step.states = std::mem::take(&mut step.states).unmet(part, reason::WAITING, said);
    false
}
