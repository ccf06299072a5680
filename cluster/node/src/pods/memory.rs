//! What is known of a pod beyond the runtime's view. None of it is needed to be right
//! after a restart of this program; losing it costs a retry.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Work that runs for a pod now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    Sandbox,
    /// Making and starting a container, by name.
    Start(String),
    /// Ending or removing a container, by id.
    End(String),
    /// Giving a stop that runs less time, by container id.
    Hurry(String),
    /// Ending or removing a sandbox, by id.
    EndSandbox(String),
    Finish,
}

/// Why something could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub message: String,
    pub count: u32,
    pub retry_at: Timestamp,
}

/// What the probes of one container instance found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    pub started: bool,
    pub ready: bool,
    /// Liveness or startup failed too often: restart it.
    pub unhealthy: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub running: BTreeSet<Task>,
    /// By container name; the sandbox has the empty name.
    pub failures: BTreeMap<String, Failure>,
    /// By container id.
    pub probes: BTreeMap<String, Probed>,
    /// When a stop that runs has killed at the latest, by container id.
    pub stopping: BTreeMap<String, Timestamp>,
    /// Consecutive short runs by container name.
    pub streaks: BTreeMap<String, u32>,
    /// Sandboxes that were stopped: their processes are gone, their address is free.
    pub stopped: BTreeSet<String>,
    /// Reason and message when the node itself ended the pod.
    pub ended: Option<(String, String)>,
    /// Everything of the pod is gone from the node.
    pub cleaned: bool,
}

impl Memory {
    pub fn is_running(&self, task: &Task) -> bool {
        self.running.contains(task)
    }
}
