//! Cells of pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{Fields, condition, deleting, is_true, or};
use super::duration::since;

pub(super) fn cell(column: &str, pod: &Value, now: Timestamp) -> Option<Value> {
    Some(match column {
        "Ready" => {
            let state = State::of(pod);
            json!(format!("{}/{}", state.ready, state.total))
        }
        "Status" => json!(State::of(pod).reason),
        "Restarts" => json!(State::of(pod).restarts(now)),
        "IP" => json!(or(pod.text("/status/podIPs/0/ip"), "<none>")),
        "Node" => json!(or(pod.text("/spec/nodeName"), "<none>")),
        "Nominated Node" => json!(or(pod.text("/status/nominatedNodeName"), "<none>")),
        "Readiness Gates" => json!(readiness_gates(pod)),
        _ => return None,
    })
}

/// Pods that have ended are marked, so that a client can leave them out.
pub(super) fn row_condition(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.text("/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.items("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_string();
    }
    let open = gates
        .iter()
        .filter(|gate| is_true(pod, gate.text("/conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

/// What the containers of a pod add up to.
#[derive(Default)]
struct State {
    ready: usize,
    total: usize,
    reason: String,
    restart_count: i64,
    last_restart: Option<Timestamp>,
}

impl State {
    fn of(pod: &Value) -> Self {
        let restartable = |name: &str| {
            pod.items("/spec/initContainers").iter().any(|container| {
                container.text("/name") == name && container.text("/restartPolicy") == "Always"
            })
        };
        let sidecars = pod
            .items("/spec/initContainers")
            .iter()
            .filter(|container| container.text("/restartPolicy") == "Always")
            .count();
        let mut state = Self {
            total: pod.items("/spec/containers").len() + sidecars,
            reason: or(pod.text("/status/reason"), pod.text("/status/phase")).to_string(),
            ..Self::default()
        };
        let gated = |c: &Value| c.text("/reason") == "SchedulingGated";
        if condition(pod, "PodScheduled").is_some_and(gated) {
            state.reason = "SchedulingGated".to_string();
        }
        let initializing = state.initialize(pod, &restartable);
        if !initializing || is_true(pod, "Initialized") {
            state.run(pod, &restartable);
        }
        let phase = pod.text("/status/phase");
        if deleting(pod) && pod.text("/status/reason") == "NodeLost" {
            state.reason = "Unknown".to_string();
        } else if deleting(pod) && phase != "Succeeded" && phase != "Failed" {
            state.reason = "Terminating".to_string();
        }
        state
    }

    /// Counts the init containers; true while one of them holds the pod up.
    fn initialize(&mut self, pod: &Value, restartable: &impl Fn(&str) -> bool) -> bool {
        for (i, status) in pod.items("/status/initContainerStatuses").iter().enumerate() {
            self.count_restarts(status);
            let terminated = status.at("/state/terminated");
            if !terminated.is_null() && terminated.number("/exitCode") == 0 {
                continue;
            }
            if restartable(status.text("/name")) && status.flag("/started") {
                self.ready += usize::from(status.flag("/ready"));
                continue;
            }
            let waiting = status.text("/state/waiting/reason");
            self.reason = if !terminated.is_null() {
                format!("Init:{}", ended(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{i}/{}", pod.items("/spec/initContainers").len())
            };
            return true;
        }
        false
    }

    /// Counts the containers, and the init containers that keep running.
    fn run(&mut self, pod: &Value, restartable: &impl Fn(&str) -> bool) {
        self.restart_count = 0;
        self.last_restart = None;
        for status in pod.items("/status/initContainerStatuses") {
            if restartable(status.text("/name")) {
                self.count_restarts(status);
            }
        }
        let mut running = false;
        let mut error = None;
        for status in pod.items("/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let terminated = status.at("/state/terminated");
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_string();
            } else if !terminated.is_null() {
                self.reason = ended(terminated);
                if terminated.number("/exitCode") != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status.flag("/ready") && !status.at("/state/running").is_null() {
                running = true;
                self.ready += 1;
            }
        }
        // One container that runs outweighs another that has completed.
        if self.reason == "Completed" {
            if running && is_true(pod, "Ready") {
                self.reason = "Running".to_string();
            } else if let Some(error) = error {
                self.reason = error;
            } else if running {
                self.reason = "NotReady".to_string();
            }
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restart_count += status.number("/restartCount");
        let ended = status.text("/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(ended);
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(time) if self.restart_count != 0 => {
                let ago = since(Some(&time.to_string()), now);
                format!("{} ({ago} ago)", self.restart_count)
            }
            _ => self.restart_count.to_string(),
        }
    }
}

fn ended(terminated: &Value) -> String {
    match (terminated.text("/reason"), terminated.number("/signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.number("/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_string(),
    }
}
