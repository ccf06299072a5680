//! Commands that run to completion.

use serde_json::Value;

use super::Volume;

/// The steps that bring the databases into shape.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Name of the [`Settings`](super::Settings) that the steps read.
    pub settings: String,
    /// In order; a service that does so itself has none.
    pub steps: Vec<Step>,
    /// What runs in their place when another version is installed and still serves: steps after
    /// which both versions can use the database. Empty: `steps` are so already.
    pub expand: Vec<Step>,
    /// Steps of an upgrade that wait until no pod of the old version is left.
    pub contract: Vec<Step>,
    /// Runs after the steps.
    pub task: Option<Task>,
    /// The processes start without a schema, so on a first install they need not wait for it.
    pub starts_early: bool,
}

/// A command that runs to its end: a console script of the image, or a file of the settings, with its
/// arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    pub command: Vec<String>,
    /// Variables that take the value of another for this step: each cell's database in turn, say.
    pub variables: Vec<(String, String)>,
    /// It needs what the processes log in with, not the databases alone.
    pub credentials: bool,
}

impl Step {
    pub fn new(name: &str, command: &[&str]) -> Self {
        Step {
            name: name.to_owned(),
            command: command.iter().map(ToString::to_string).collect(),
            variables: Vec::new(),
            credentials: false,
        }
    }

    /// `variable` has the value of `other` while the step runs.
    pub fn taking(mut self, variable: &str, other: &str) -> Self {
        self.variables.push((variable.to_owned(), other.to_owned()));
        self
    }

    pub fn with_credentials(self) -> Self {
        Step {
            credentials: true,
            ..self
        }
    }

    /// As the runner of the steps reads it.
    pub fn words(&self) -> Vec<String> {
        let variables = self.variables.iter();
        variables
            .map(|(variable, other)| format!("@{variable}={other}"))
            .chain(self.command.iter().cloned())
            .collect()
    }
}

/// A step with values of its own.
#[derive(Debug, Clone)]
pub struct Task {
    pub step: Step,
    pub part: &'static str,
    pub environment: Vec<(String, String)>,
    /// Variable, Secret and key.
    pub secrets: Vec<(String, String, String)>,
}

/// Steps on a schedule, or once for each set of inputs.
#[derive(Debug, Clone, Default)]
pub struct Recurring {
    pub steps: Vec<Step>,
    /// As cron, in UTC.
    pub schedule: Option<String>,
    /// The names of the nodes on which these processes are up are put behind the last step: another
    /// node, another run.
    pub nodes_of: Vec<String>,
    /// A run that failed is tried again until it succeeds.
    pub again: bool,
    /// The condition that holds when the last run succeeded, where there is one.
    pub part: Option<&'static str>,
    /// The status tells when it ran last, for how long and with what results, as it is what the service
    /// is for. This is what it told before. Each version of the image is run once, whatever the schedule.
    pub told: Option<Value>,
    /// A run that somebody asked for, beside the others.
    pub asked: Option<Asked>,
    /// What is mounted into its pod.
    pub volumes: Vec<Volume>,
    /// So many seconds it may take.
    pub longest: Option<u32>,
}

/// A run that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Another mark is another run.
    pub mark: String,
    /// What is put behind the last step.
    pub arguments: Vec<String>,
}

/// Keys that the operator makes and rotates.
#[derive(Debug, Clone)]
pub struct KeySet {
    /// Suffix of the Secret's name.
    pub name: &'static str,
    pub path: &'static str,
    pub part: &'static str,
    pub schedule: String,
    pub most: usize,
    /// So many seconds must what a key encrypted be readable.
    pub readable: Option<u64>,
    /// So many seconds more it may be read, where its key is still there.
    pub lingers: u64,
    /// The field of the status that reports the last rotation.
    pub status: Option<&'static str>,
    /// Brings what the old primary key encrypted under the new one. The next rotation waits for it.
    pub migrate: Option<Step>,
}
