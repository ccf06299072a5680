//! Pure: how a host gets into service, and how it is kept there.

use c5c3_api::common::Time;
use c5c3_api::conditions::hypervisor::ONBOARDING;
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{OnboardingPhase, OnboardingStatus};
use c5c3_kit::States;
use jiff::SignedDuration;
use openstack_client::{Service, TestBed, TestDraft};

use super::transition::WAITING;
use super::upkeep::{self, Membership};
use super::view::{Action, NodeView, Step, View};
use crate::names;

/// From the beginning of the test to the words of the test server on its console.
const TEST: SignedDuration = SignedDuration::from_mins(5);

fn enter(onboarding: &mut OnboardingStatus, phase: OnboardingPhase, view: &View, message: &str) {
    onboarding.phase = phase;
    onboarding.since = Some(Time(view.now));
    onboarding.message = Some(message.to_owned()).filter(|text| !text.is_empty());
}

pub(crate) fn serve(view: &View, service: &Service, step: &mut Step) {
    let mut onboarding = step.status.onboarding.take().unwrap_or_default();
    let membership = match onboarding.phase {
        OnboardingPhase::Initial | OnboardingPhase::Aborted => Membership::AsItIs,
        OnboardingPhase::Testing => Membership::Testing,
        OnboardingPhase::Handover | OnboardingPhase::Succeeded => Membership::Wanted,
    };
    let settled = upkeep::keep(view, service, step, membership);
    match onboarding.phase {
        OnboardingPhase::Initial => initial(view, service, &mut onboarding, step),
        OnboardingPhase::Testing => testing(view, service, &mut onboarding, step),
        OnboardingPhase::Handover => handover(view, settled, &mut onboarding, step),
        OnboardingPhase::Succeeded => succeeded(view, service, &mut onboarding, step),
        OnboardingPhase::Aborted => aborted(view, service, &mut onboarding, step),
    }
    let mut states = report(std::mem::take(&mut step.states), &onboarding);
    let disabled = service.disabled_reason.as_deref();
    let by_others = !service.enabled() && !names::is_new(disabled) && !names::is_of_pressure(disabled);
    if onboarding.phase == OnboardingPhase::Succeeded && !view.pressure.is_empty() {
        let short = view.pressure.join(", ");
        states = states.blocked_by(
            reason::NODE_PRESSURE,
            format!("the Node reports {short}: the host takes no new servers until that is over"),
        );
    } else if by_others && onboarding.phase != OnboardingPhase::Aborted {
        let why = service.disabled_reason.clone().unwrap_or_default();
        states = states.blocked_by(
            reason::DISABLED_BY_OTHERS,
            format!(
                "the compute service was disabled with {why:?}: enable it in Nova, or delete the Eviction"
            ),
        );
    } else if onboarding.phase != OnboardingPhase::Succeeded {
        states = states.blocked_by(
            name(onboarding.phase),
            onboarding.message.clone().unwrap_or_default(),
        );
    }
    step.states = states;
    step.status.onboarding = Some(onboarding);
}

fn name(phase: OnboardingPhase) -> &'static str {
    match phase {
        OnboardingPhase::Initial => reason::INITIAL,
        OnboardingPhase::Testing => reason::TESTING,
        OnboardingPhase::Handover => reason::HANDOVER,
        OnboardingPhase::Succeeded => reason::SUCCEEDED,
        OnboardingPhase::Aborted => reason::ABORTED,
    }
}

pub(crate) fn report(states: States, onboarding: &OnboardingStatus) -> States {
    let message = onboarding.message.clone().unwrap_or_default();
    match onboarding.phase {
        OnboardingPhase::Succeeded => states.met(ONBOARDING, reason::SUCCEEDED, message),
        phase => states.unmet(ONBOARDING, name(phase), message),
    }
}

/// A host that Nova does not know, for the reason that is given.
pub(crate) fn unregistered(view: &View, why: &str, step: &mut Step) {
    let mut onboarding = step.status.onboarding.take().unwrap_or_default();
    step.again = WAITING;
    match onboarding.phase {
        OnboardingPhase::Aborted => _ = again(view, &mut onboarding, step),
        OnboardingPhase::Initial | OnboardingPhase::Testing => _ = hindered(view, &mut onboarding),
        OnboardingPhase::Handover | OnboardingPhase::Succeeded => {}
    }
    let states = std::mem::take(&mut step.states);
    step.states = match (onboarding.phase, view.complaints.first()) {
        (OnboardingPhase::Aborted, _) => {
            let said = onboarding.message.clone().unwrap_or_default();
            report(states, &onboarding).blocked_by(reason::ABORTED, said)
        }
        (_, Some(complaint)) => states.unmet(
            ONBOARDING,
            reason::NOT_IN_NOVA,
            format!("{why}: {}", complaint.why),
        ),
        (_, None) => states.unmet(ONBOARDING, reason::NOT_IN_NOVA, why),
    };
    step.status.onboarding = Some(onboarding).filter(|one| *one != OnboardingStatus::default());
}

/// `true`: the host cannot run servers, which is told, or ends its onboarding when it lasts.
fn hindered(view: &View, onboarding: &mut OnboardingStatus) -> bool {
    if view.spec.skip_tests {
        return false;
    }
    if let Some(lasting) = view.complaints.iter().find(|one| one.lasts(view.now)) {
        give_up(onboarding, view, &lasting.why);
        return true;
    }
    if let Some(first) = view.complaints.first() {
        onboarding.message = Some(first.why.clone());
    }
    !view.complaints.is_empty()
}

/// Waits for Node and service, then opens the service.
fn initial(view: &View, service: &Service, onboarding: &mut OnboardingStatus, step: &mut Step) {
    step.again = WAITING;
    delete_tests(view, onboarding, step);
    if hindered(view, onboarding) {
        return;
    }
    let wait = match view.node {
        NodeView::There { ready: true, .. } if service.forced_down => {
            "the compute service is forced down: end this with `openstack compute service set --up`"
        }
        NodeView::There { ready: true, .. } if !service.up() => "Nova does not report nova-compute up yet",
        NodeView::There { ready: true, .. } if !view.pressure.is_empty() => {
            "the Node is short of disk, memory or processes: see its conditions"
        }
        NodeView::There { ready: true, .. } if view.nova.provider.is_none() => {
            "Placement has no resource provider for the host yet"
        }
        NodeView::There { ready: true, .. } => "",
        NodeView::There { .. } => "the Node is not ready",
        NodeView::Missing => "there is no Node of this name",
    };
    if !wait.is_empty() {
        onboarding.message = Some(wait.to_owned());
    } else if !service.enabled() {
        onboarding.message = Some("the compute service is enabled".to_owned());
        if names::is_new(service.disabled_reason.as_deref()) {
            let service = service.id.clone();
            step.actions.push(Action::Enable { service });
        }
    } else if view.tests.is_empty() {
        onboarding.attempt = onboarding.attempt.max(1);
        if view.spec.skip_tests {
            enter(
                onboarding,
                OnboardingPhase::Handover,
                view,
                "not tested: skipTests is true",
            );
        } else {
            enter(
                onboarding,
                OnboardingPhase::Testing,
                view,
                "a test server is being created",
            );
        }
        step.again = WAITING / 10;
    }
}

fn delete_tests(view: &View, onboarding: &mut OnboardingStatus, step: &mut Step) {
    for test in &view.tests {
        let server = test.id.clone();
        step.actions.push(Action::DeleteTest { server });
    }
    if view.tests.is_empty() {
        onboarding.test_server = None;
    }
}

fn testing(view: &View, service: &Service, onboarding: &mut OnboardingStatus, step: &mut Step) {
    step.again = WAITING / 2;
    if view.spec.skip_tests {
        return enter(
            onboarding,
            OnboardingPhase::Handover,
            view,
            "not tested: skipTests is true",
        );
    }
    let lasting = view.complaints.iter().any(|one| one.lasts(view.now));
    // What is said now is a better reason than what comes of a test server.
    if (lasting || view.tests.is_empty()) && hindered(view, onboarding) {
        return;
    }
    let late = onboarding
        .since
        .as_ref()
        .is_some_and(|since| view.now.duration_since(since.0) > TEST);
    let (first, others) = match view.tests.split_first() {
        Some((first, others)) => (first, others),
        None if late => {
            return give_up(
                onboarding,
                view,
                "no test server could be created within 5 minutes",
            );
        }
        None => return begin(view, service, onboarding, step),
    };
    // A second one comes of a request that was taken for lost.
    for other in others {
        let server = other.id.clone();
        step.actions.push(Action::DeleteTest { server });
    }
    onboarding.test_server = Some(first.id.clone());
    let has_network = view.bed.as_ref().is_some_and(|bed| bed.network.is_some());
    let spoke = if has_network {
        view.console.contains(&first.name)
    } else {
        !view.console.trim().is_empty()
    };
    match first.status.as_str() {
        "ACTIVE" if spoke => {
            delete_tests(view, onboarding, step);
            enter(
                onboarding,
                OnboardingPhase::Handover,
                view,
                "a test server booted",
            );
        }
        "ERROR" => {
            let why = first
                .fault
                .clone()
                .unwrap_or_else(|| "Nova gives no reason".to_owned());
            give_up(onboarding, view, &format!("the test server failed: {why}"));
        }
        status if late => {
            let why =
                format!("the test server is {status} and its console does not show its name after 5 minutes");
            give_up(onboarding, view, &why);
        }
        status => onboarding.message = Some(format!("the test server is {status}")),
    }
}

fn begin(view: &View, service: &Service, onboarding: &mut OnboardingStatus, step: &mut Step) {
    let Some(bed) = &view.bed else {
        return;
    };
    match bed {
        TestBed {
            image: Some(image),
            flavour: Some(flavour),
            network,
        } => {
            if !service.enabled() {
                return enter(
                    onboarding,
                    OnboardingPhase::Initial,
                    view,
                    "the compute service was disabled",
                );
            }
            step.actions.push(Action::CreateTest(TestDraft {
                name: names::test_server(&view.uid),
                host: service.host.clone(),
                image: image.clone(),
                flavour: flavour.clone(),
                network: network.clone(),
            }));
        }
        TestBed {
            image: None,
            flavour: None,
            ..
        } => {
            let why = format!("not tested: the cloud has no image and flavour {}", names::TEST);
            enter(onboarding, OnboardingPhase::Handover, view, &why);
        }
        partly => {
            let what = if partly.image.is_none() {
                "image"
            } else {
                "flavour"
            };
            let why = format!(
                "the cloud has no {what} {}: create it, or set skipTests",
                names::TEST
            );
            onboarding.message = Some(why);
        }
    }
}

fn give_up(onboarding: &mut OnboardingStatus, view: &View, why: &str) {
    let way = format!(
        "{why}; fix this, then set the annotation {} to a new value to try again",
        names::RETRY
    );
    enter(onboarding, OnboardingPhase::Aborted, view, &way);
}

fn handover(view: &View, settled: bool, onboarding: &mut OnboardingStatus, step: &mut Step) {
    step.again = WAITING;
    delete_tests(view, onboarding, step);
    if settled && view.tests.is_empty() {
        let message = onboarding.message.clone().unwrap_or_default();
        enter(onboarding, OnboardingPhase::Succeeded, view, &message);
    }
}

/// A service that we disabled ourselves is enabled, unless the Node is short of something; whoever else did it has a
/// reason.
fn succeeded(view: &View, service: &Service, onboarding: &mut OnboardingStatus, step: &mut Step) {
    delete_tests(view, onboarding, step);
    let ready = matches!(view.node, NodeView::There { ready: true, .. });
    let disabled = service.disabled_reason.as_deref();
    let by_us = names::is_ours(disabled) || names::is_of_pressure(disabled);
    if !view.pressure.is_empty() {
        if service.enabled() {
            step.actions.push(Action::Disable {
                service: service.id.clone(),
                reason: names::pressure(&view.pressure),
            });
        }
    } else if !service.enabled() && by_us && ready {
        let service = service.id.clone();
        step.actions.push(Action::Enable { service });
    }
}

fn aborted(view: &View, service: &Service, onboarding: &mut OnboardingStatus, step: &mut Step) {
    delete_tests(view, onboarding, step);
    if !again(view, onboarding, step) && service.enabled() {
        let why = onboarding.message.clone().unwrap_or_default();
        step.actions.push(Action::Disable {
            service: service.id.clone(),
            reason: names::aborted(&why),
        });
    }
}

/// `true`: somebody asks for another try.
fn again(view: &View, onboarding: &mut OnboardingStatus, step: &mut Step) -> bool {
    let asked = view.retry.is_some() && view.retry != onboarding.retried;
    // The servers of the last try go first: the next has the same name.
    if (asked || view.spec.skip_tests) && view.tests.is_empty() {
        onboarding.retried.clone_from(&view.retry);
        onboarding.attempt += 1;
        enter(onboarding, OnboardingPhase::Initial, view, "tried again");
        step.again = WAITING / 10;
    }
    asked || view.spec.skip_tests
}
