//! The report: a pod's status as a kubelet writes it.

pub mod conditions;
pub(super) mod report;
pub(super) mod traces;

use k8s_openapi::api::core::v1::{
    Container as Wanted, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pods::decide::Input;
use crate::pods::memory::Task;
use crate::pods::observe::observed::{Container, State};
use crate::pods::observe::view::{self, Policy};
use crate::pods::start::resources;
use crate::pods::steps::restart_delay;

/// What the decision found out on its way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Every container has ended for good.
    pub finished: bool,
    /// Reason and message when the node ended the pod.
    pub overdue: Option<(String, String)>,
}

/// What the pod's stored status says about a container.
pub fn reported<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let of = |list: &'a Option<Vec<ContainerStatus>>| {
        list.as_ref().and_then(|l| l.iter().find(|s| s.name == name))
    };
    of(&status.container_statuses).or_else(|| of(&status.init_container_statuses))
}

pub fn report(input: &Input, spec: &PodSpec, facts: &Facts) -> PodStatus {
    let stored = input.pod.status.clone().unwrap_or_default();
    let initialised = initialised(input, spec);
    let init = statuses(input, spec, view::init_containers(spec), initialised);
    let main = statuses(input, spec, &spec.containers, initialised);
    let phase = phase(input, spec, facts, &init, &main);
    let ip = address(input, spec);
    let mut status = PodStatus {
        phase: Some(phase.clone()),
        host_ip: Some(input.node_address.into()),
        host_ips: Some(vec![HostIP {
            ip: input.node_address.into(),
        }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        start_time: stored.start_time.clone().or(Some(Time(whole(input.now)))),
        qos_class: stored
            .qos_class
            .clone()
            .or_else(|| Some(resources::qos(spec).into())),
        observed_generation: input.pod.metadata.generation,
        nominated_node_name: stored.nominated_node_name.clone(),
        reason: stored.reason.clone(),
        message: stored.message.clone(),
        ..PodStatus::default()
    };
    if let Some((reason, message)) = &facts.overdue {
        status.reason = Some(reason.clone());
        status.message = Some(message.clone());
    }
    status.conditions = Some(conditions::conditions(
        input,
        spec,
        &phase,
        initialised,
        &main,
        &init,
    ));
    status.container_statuses = Some(main);
    status.init_container_statuses = (!init.is_empty()).then_some(init);
    status
}

/// Timestamps of the API have whole seconds.
pub(super) fn whole(at: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn address(input: &Input, spec: &PodSpec) -> Option<String> {
    let sandbox = input.observed.newest()?;
    if spec.host_network == Some(true) {
        return Some(input.node_address.into());
    }
    // An ended pod has given its address back.
    let ended = view::is_final(view::phase(input.pod)) || input.memory.stopped.contains(&sandbox.id);
    if ended {
        input.pod.status.as_ref()?.pod_ip.clone()
    } else {
        sandbox.ip.clone()
    }
}

/// Whether all init containers have done their part.
fn initialised(input: &Input, spec: &PodSpec) -> bool {
    let Some(sandbox) = input.observed.newest() else {
        return view::init_containers(spec).is_empty();
    };
    let started = spec
        .containers
        .iter()
        .any(|c| input.observed.latest(&sandbox.id, &c.name).is_some());
    started
        || view::init_containers(spec).iter().all(|c| {
            let instance = input.observed.latest(&sandbox.id, &c.name);
            if view::is_sidecar(c) {
                instance.is_some_and(|i| is_started(input, c, i))
            } else {
                instance.is_some_and(|i| i.state == State::Exited && i.exit_code == 0)
            }
        })
}

fn is_started(input: &Input, wanted: &Wanted, instance: &Container) -> bool {
    let probed = input.memory.probes.get(&instance.id);
    instance.state == State::Running
        && !input.memory.is_running(&Task::Start(wanted.name.clone()))
        && (wanted.startup_probe.is_none() || probed.is_some_and(|p| p.started))
}

fn is_ready(input: &Input, wanted: &Wanted, instance: &Container) -> bool {
    let probed = input.memory.probes.get(&instance.id);
    is_started(input, wanted, instance)
        && (wanted.readiness_probe.is_none() || probed.is_some_and(|p| p.ready))
}

fn statuses(input: &Input, spec: &PodSpec, wanted: &[Wanted], initialised: bool) -> Vec<ContainerStatus> {
    wanted
        .iter()
        .map(|c| container(input, spec, c, initialised))
        .collect()
}

fn container(input: &Input, spec: &PodSpec, wanted: &Wanted, initialised: bool) -> ContainerStatus {
    let is_init = view::init_containers(spec).iter().any(|c| c.name == wanted.name);
    let known = reported(input.pod, &wanted.name);
    let Some(instance) = input.observed.last(&wanted.name) else {
        return unseen(input, wanted, known, is_init, initialised);
    };
    let previous = input
        .observed
        .instances(&wanted.name)
        .filter(|c| c.attempt < instance.attempt)
        .max_by_key(|c| c.attempt)
        .and_then(ended);
    let before = previous.or_else(|| earlier(known, instance));
    let policy = match (is_init, view::is_sidecar(wanted), view::policy(spec)) {
        (true, true, _) => Policy::Always,
        (true, false, Policy::Always) => Policy::OnFailure,
        (_, _, policy) => policy,
    };
    let (state, before) = match waiting(input, wanted, instance, policy) {
        Some(waiting) => (waiting, ended(instance).or(before)),
        None => (current(instance), before),
    };
    let complete =
        is_init && !view::is_sidecar(wanted) && instance.state == State::Exited && instance.exit_code == 0;
    ContainerStatus {
        name: wanted.name.clone(),
        state: Some(state),
        last_state: Some(before.unwrap_or_default()),
        ready: complete || is_ready(input, wanted, instance),
        started: Some(is_started(input, wanted, instance)),
        restart_count: i32::try_from(instance.attempt).unwrap_or(i32::MAX),
        image: wanted.image.clone().unwrap_or_default(),
        image_id: instance.image_id.clone(),
        container_id: Some(id(instance)),
        ..ContainerStatus::default()
    }
}

/// A container of which the runtime knows nothing: not made yet, or lost with its node.
fn unseen(
    input: &Input,
    wanted: &Wanted,
    known: Option<&ContainerStatus>,
    is_init: bool,
    initialised: bool,
) -> ContainerStatus {
    if let Some(known) = known.filter(|k| k.container_id.is_some()) {
        let mut status = known.clone();
        let lost = ContainerStateTerminated {
            container_id: known.container_id.clone(),
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".into()),
            message: Some("The container could not be located when the pod was terminated".into()),
            ..ContainerStateTerminated::default()
        };
        status.ready = false;
        status.started = Some(false);
        if known.state.as_ref().is_none_or(|s| s.terminated.is_none()) {
            status.state = Some(ContainerState {
                terminated: Some(lost),
                ..ContainerState::default()
            });
        }
        return status;
    }
    let failure = input
        .memory
        .failures
        .get(&wanted.name)
        .or_else(|| input.memory.failures.get(""));
    let (reason, message) = match failure {
        Some(f) => (f.reason.clone(), Some(f.message.clone())),
        None if is_init || !initialised => ("PodInitializing".into(), None),
        None => ("ContainerCreating".into(), None),
    };
    ContainerStatus {
        name: wanted.name.clone(),
        image: wanted.image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason),
                message,
            }),
            ..ContainerState::default()
        }),
        last_state: Some(ContainerState::default()),
        ..ContainerStatus::default()
    }
}

/// The end before this one, as far as the stored status knows it.
fn earlier(known: Option<&ContainerStatus>, instance: &Container) -> Option<ContainerState> {
    let known = known?;
    let attempt = i32::try_from(instance.attempt).ok()?;
    if known.restart_count == attempt && known.container_id.as_deref() == Some(&id(instance)) {
        return known.last_state.clone();
    }
    if known.restart_count < attempt && known.container_id.is_some() {
        let state = known.state.clone().filter(|s| s.terminated.is_some());
        return state.or_else(|| known.last_state.clone());
    }
    None
}

/// The id as a pod's status has it.
pub(super) fn id(instance: &Container) -> String {
    format!("containerd://{}", instance.id)
}

fn current(instance: &Container) -> ContainerState {
    match instance.state {
        State::Running => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: instance.started.map(|t| Time(whole(t))),
            }),
            ..ContainerState::default()
        },
        State::Exited => ended(instance).unwrap_or_default(),
        State::Created | State::Unknown => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some("ContainerCreating".into()),
                message: None,
            }),
            ..ContainerState::default()
        },
    }
}

fn ended(instance: &Container) -> Option<ContainerState> {
    if instance.state != State::Exited {
        return None;
    }
    let reason = match (instance.reason.as_str(), instance.exit_code) {
        ("", 0) => "Completed",
        ("", _) => "Error",
        (reason, _) => reason,
    };
    Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(id(instance)),
            exit_code: instance.exit_code,
            reason: Some(reason.into()),
            message: (!instance.message.is_empty()).then(|| instance.message.clone()),
            started_at: instance.started.map(|t| Time(whole(t))),
            finished_at: instance.finished.map(|t| Time(whole(t))),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    })
}

/// An ended container that waits for its restart.
fn waiting(input: &Input, wanted: &Wanted, instance: &Container, policy: Policy) -> Option<ContainerState> {
    let ending = input.pod.metadata.deletion_timestamp.is_some() || view::is_final(view::phase(input.pod));
    // The restart is under way: the delay that shows now belongs to the next one.
    let starting = input.memory.is_running(&Task::Start(wanted.name.clone()));
    if ending || starting || instance.state != State::Exited || !policy.restarts(instance.exit_code) {
        return None;
    }
    let wait = |reason: &str, message: String| ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.into()),
            message: Some(message),
        }),
        ..ContainerState::default()
    };
    if let Some(failure) = input.memory.failures.get(&wanted.name) {
        return Some(wait(&failure.reason, failure.message.clone()));
    }
    let delay = restart_delay(instance, input.memory);
    let finished = instance.finished.unwrap_or(instance.created);
    if delay.is_zero() || finished + delay <= input.now {
        return None;
    }
    let message = format!(
        "back-off {} restarting failed container={} pod={}_{}({})",
        seconds(delay.as_secs()),
        wanted.name,
        view::name(input.pod),
        view::namespace(input.pod),
        view::uid(input.pod),
    );
    Some(wait("CrashLoopBackOff", message))
}

/// `10s`, `1m20s`, `5m0s`.
fn seconds(all: i64) -> String {
    match all / 60 {
        0 => format!("{all}s"),
        minutes => format!("{minutes}m{}s", all % 60),
    }
}

fn phase(
    input: &Input,
    spec: &PodSpec,
    facts: &Facts,
    init: &[ContainerStatus],
    main: &[ContainerStatus],
) -> String {
    // Final phases never change back.
    if let Some(phase) = view::phase(input.pod).filter(|p| view::is_final(Some(p))) {
        return phase.into();
    }
    let terminated = |s: &ContainerStatus| s.state.as_ref().and_then(|s| s.terminated.clone());
    let all_ended = |list: &[ContainerStatus]| list.iter().all(|s| terminated(s).is_some());
    if facts.overdue.is_some() {
        return "Failed".into();
    }
    let deleted_and_still = input.pod.metadata.deletion_timestamp.is_some()
        && all_ended(main)
        && input.observed.containers.iter().all(|c| !c.lives());
    if facts.finished || deleted_and_still {
        let plain = |s: &&ContainerStatus| view::find(spec, &s.name).is_some_and(|c| !view::is_sidecar(c));
        let ok = |s: &ContainerStatus| terminated(s).is_some_and(|t| t.exit_code == 0);
        let good = main.iter().all(ok) && init.iter().filter(plain).all(|s| ok(s) || s.ready);
        return if good { "Succeeded" } else { "Failed" }.into();
    }
    let begun = main.iter().any(|s| {
        s.state
            .as_ref()
            .is_some_and(|s| s.running.is_some() || s.terminated.is_some())
            || s.container_id.is_some()
    });
    if begun { "Running" } else { "Pending" }.into()
}
