//! Conditions of a pod. Those that other writers own (scheduling, readiness gates) stay as they are.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pods::decide::Input;
use crate::pods::observe::view;
use crate::pods::status::whole;

const OURS: [&str; 4] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
];

/// Status, reason and message.
type Verdict = (bool, Option<String>, Option<String>);

pub(in crate::pods) fn conditions(
    input: &Input,
    spec: &PodSpec,
    phase: &str,
    initialised: bool,
    main: &[ContainerStatus],
    init: &[ContainerStatus],
) -> Vec<PodCondition> {
    let stored = input
        .pod
        .status
        .as_ref()
        .and_then(|s| s.conditions.clone())
        .unwrap_or_default();
    let completed = phase == "Succeeded";
    let ended = view::is_final(Some(phase));
    let sandbox = input
        .observed
        .current()
        .is_some_and(|s| !input.memory.stopped.contains(&s.id));
    let why = |reason: &str, message: String| (false, Some(reason.to_owned()), Some(message));

    let initial: Verdict = if completed {
        (true, Some("PodCompleted".into()), None)
    } else if initialised {
        (true, None, None)
    } else {
        let list = unready(init);
        why(
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{}]", list.join(" ")),
        )
    };
    let helpers: Vec<&ContainerStatus> = init
        .iter()
        .filter(|s| view::find(spec, &s.name).is_some_and(view::is_sidecar))
        .collect();
    let missing: Vec<String> = helpers
        .into_iter()
        .chain(main)
        .filter(|s| !s.ready)
        .map(|s| s.name.clone())
        .collect();
    let containers: Verdict = if completed {
        (false, Some("PodCompleted".into()), None)
    } else if ended {
        (false, Some("PodFailed".into()), None)
    } else if missing.is_empty() && sandbox {
        (true, None, None)
    } else {
        why(
            "ContainersNotReady",
            format!("containers with unready status: [{}]", missing.join(" ")),
        )
    };
    let gates: Vec<&str> = spec
        .readiness_gates
        .iter()
        .flatten()
        .map(|g| g.condition_type.as_str())
        .filter(|t| !stored.iter().any(|c| c.type_ == *t && c.status == "True"))
        .collect();
    let ready: Verdict = if containers.0 && !input.node_ready {
        // In the words of whoever marks the pods of such a node: two writers that agree.
        why("NodeNotReady", "The node stopped answering.".into())
    } else if containers.0 && !gates.is_empty() {
        why(
            "ReadinessGatesNotReady",
            format!("corresponding conditions of pod readiness gates do not hold: {gates:?}"),
        )
    } else {
        containers.clone()
    };
    let verdicts = [(sandbox && !ended, None, None), initial, ready, containers];

    let mut all: Vec<PodCondition> = OURS
        .iter()
        .zip(verdicts)
        .map(|(kind, verdict)| {
            let old = stored.iter().find(|c| c.type_ == *kind);
            condition(kind, verdict, old, input)
        })
        .collect();
    all.extend(stored.into_iter().filter(|c| !OURS.contains(&c.type_.as_str())));
    all
}

fn condition(
    kind: &str,
    (status, reason, message): Verdict,
    old: Option<&PodCondition>,
    input: &Input,
) -> PodCondition {
    let status = if status { "True" } else { "False" };
    let since = old
        .filter(|o| o.status == status)
        .and_then(|o| o.last_transition_time.clone())
        .or(Some(Time(whole(input.now))));
    PodCondition {
        type_: kind.into(),
        status: status.into(),
        reason,
        message,
        last_transition_time: since,
        observed_generation: input.pod.metadata.generation,
        ..PodCondition::default()
    }
}

fn unready(list: &[ContainerStatus]) -> Vec<String> {
    list.iter().filter(|s| !s.ready).map(|s| s.name.clone()).collect()
}
