//! Long-running processes of a service.

use std::collections::BTreeMap;

use c5c3_kit::HOME;
use c5c3_kit::clusters::ClusterName;

use super::Volume;

/// A long-running process.
#[derive(Debug, Clone)]
pub struct Process {
    pub name: String,
    /// Name of the [`Settings`](super::Settings) that it reads.
    pub settings: String,
    /// The image, where it is not that of the service.
    pub image: Option<String>,
    pub runs: Runs,
    pub workload: Workload,
    /// The other cluster that it runs in, by name.
    pub cluster: Option<String>,
    /// Processes whose new version must be up before this one is changed.
    pub after: Vec<String>,
    /// The same where another version takes over: a first start need not wait for so much.
    pub upgraded_after: Vec<String>,
    /// Processes whose version it asks for once and keeps to: it starts anew when all of them run another one.
    pub keeps_to: Vec<String>,
    /// Seconds in which it ends what it is at.
    pub grace: u32,
    /// The condition that tells whether enough of it runs.
    pub part: &'static str,
    pub environment: Vec<(String, Variable)>,
    pub volumes: Vec<Volume>,
    pub rights: Rights,
    /// What it is sure of where the spec says nothing.
    pub requests: Requests,
    /// The ServiceAccount by which it speaks to the API server; without one it has no way there. Whoever gives rights
    /// makes it.
    pub account: Option<&'static str>,
    pub tries: Option<Tries>,
}

#[derive(Debug, Clone)]
pub enum Runs {
    /// A WSGI application behind uwsgi. One request holds a thread until its end.
    Wsgi {
        module: &'static str,
        port: Port,
        processes: u32,
        threads: u32,
        extra: Vec<(&'static str, &'static str)>,
    },
    /// A program of its own.
    Program {
        command: Vec<String>,
        port: Option<Port>,
    },
    /// A program without a port: how it is asked whether it is healthy.
    Worker { command: Vec<String>, well: Worker },
}

/// How a program without a port shows that it is healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worker {
    /// It has a connection to one of these ports of others: its message bus, its database.
    Connected(Vec<u16>),
    /// This command succeeds.
    Answers(Vec<String>),
}

/// Where a process listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    pub number: u16,
    /// Asked whether the process is healthy; without one it is healthy when it listens.
    pub path: Option<&'static str>,
}

/// What runs the pods of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    Deployment {
        replicas: i32,
        update: Update,
    },
    /// Pods with lasting names, for programs that register under theirs.
    StatefulSet {
        replicas: i32,
    },
    /// One on each node with these labels, unless the node has that label with another value.
    DaemonSet {
        nodes: BTreeMap<String, String>,
        unless: Option<(&'static str, String)>,
    },
}

/// How pods of a new version take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// A new pod is up before an old one goes.
    Surge,
    /// All old pods go first: two versions must not run beside each other.
    Recreate,
}

/// What each pod tries before its program starts, with the program's own credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tries {
    /// Of the container that does it.
    pub name: &'static str,
    /// The condition that tells how it went.
    pub part: &'static str,
    /// In Python.
    pub script: &'static str,
    pub arguments: Vec<String>,
    /// For people: what it does.
    pub what: String,
}

/// A variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    Text(String),
    /// A field of the pod, as the downward API names it.
    Field(&'static str),
}

/// What a process may do on its node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rights {
    /// Not root, no capabilities, a network of its own.
    #[default]
    None,
    /// Root in the network of its node, with these capabilities alone.
    Host { capabilities: Vec<&'static str> },
    /// Root of its node.
    Privileged { host_pid: bool },
}

/// What a container asks for. Without a request a pod is the first to go when a node runs out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    pub cpu: &'static str,
    pub memory: &'static str,
}

impl Requests {
    /// Somebody waits for its answers.
    pub const API: Self = Requests {
        cpu: "25m",
        memory: "64Mi",
    };
    /// It waits for work most of the time.
    pub const WORKER: Self = Requests {
        cpu: "10m",
        memory: "64Mi",
    };
    /// A step of a job.
    pub const STEP: Self = Requests::API;
}

impl Process {
    /// One replica of a program that starts beside the others.
    pub fn new(name: &str, runs: Runs, part: &'static str) -> Self {
        let requests = match &runs {
            Runs::Worker { .. } => Requests::WORKER,
            Runs::Wsgi { .. } | Runs::Program { .. } => Requests::API,
        };
        Process {
            name: name.to_owned(),
            settings: String::new(),
            image: None,
            runs,
            workload: Workload::Deployment {
                replicas: 1,
                update: Update::Surge,
            },
            cluster: None,
            after: Vec::new(),
            upgraded_after: Vec::new(),
            keeps_to: Vec::new(),
            grace: 60,
            part,
            environment: Vec::new(),
            volumes: Vec::new(),
            rights: Rights::None,
            requests,
            account: None,
            tries: None,
        }
    }

    pub fn replicas(self, replicas: i32) -> Self {
        let update = Update::Surge;
        let workload = Workload::Deployment { replicas, update };
        Process { workload, ..self }
    }

    /// Its pods keep their names: each restart would leave a dead entry in the service's list otherwise.
    pub fn with_lasting_names(self, replicas: i32) -> Self {
        let workload = Workload::StatefulSet { replicas };
        Process { workload, ..self }
    }

    pub fn after(self, before: &[&str]) -> Self {
        let after = before.iter().map(ToString::to_string).collect();
        Process { after, ..self }
    }

    pub fn upgraded_after(self, before: &[&str]) -> Self {
        let upgraded_after = before.iter().map(ToString::to_string).collect();
        Process {
            upgraded_after,
            ..self
        }
    }

    pub fn in_cluster(self, cluster: Option<String>) -> Self {
        Process { cluster, ..self }
    }

    /// The cluster that it runs in.
    pub fn place(&self) -> ClusterName {
        self.cluster.clone().map_or(HOME, ClusterName::from)
    }

    pub fn with_settings(self, name: &str) -> Self {
        let settings = name.to_owned();
        Process { settings, ..self }
    }

    pub fn port(&self) -> Option<Port> {
        match &self.runs {
            Runs::Wsgi { port, .. } => Some(*port),
            Runs::Program { port, .. } => *port,
            Runs::Worker { .. } => None,
        }
    }

    /// It runs beside guests. Nodes come, go and fail: nothing of the control plane waits for all of them.
    pub fn is_on_nodes(&self) -> bool {
        matches!(self.workload, Workload::DaemonSet { .. })
    }

    /// How many there should be; none where the nodes decide.
    pub fn wanted(&self) -> Option<i32> {
        match &self.workload {
            Workload::Deployment { replicas, .. } | Workload::StatefulSet { replicas } => Some(*replicas),
            Workload::DaemonSet { .. } => None,
        }
    }
}

impl Runs {
    pub fn worker(command: &[&str], well: Worker) -> Self {
        let command = command.iter().map(ToString::to_string).collect();
        Runs::Worker { command, well }
    }

    /// An application with two processes of one thread each.
    pub fn wsgi(module: &'static str, number: u16, path: &'static str) -> Self {
        Runs::Wsgi {
            module,
            port: Port {
                number,
                path: Some(path),
            },
            processes: 2,
            threads: 1,
            extra: Vec::new(),
        }
    }

    /// Each worker loads the application itself. A thread that the application starts while it is loaded would be
    /// missing in workers that are forked from what was loaded, and whatever waits for it would wait forever.
    pub fn loaded_by_workers(mut self) -> Self {
        if let Runs::Wsgi { extra, .. } = &mut self {
            extra.push(("lazy-apps", "true"));
        }
        self
    }
}
