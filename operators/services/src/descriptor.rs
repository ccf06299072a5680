//! What a service is, as data. One reconciler serves them all.

use c5c3_kit::Part;

/// The user of every OpenStack image.
pub const OPENSTACK_UID: i64 = 42424;

/// One OpenStack service.
#[derive(Debug)]
pub struct Descriptor {
    /// Name of the image, of the option catalogue and of the configuration directory.
    pub name: &'static str,
    /// What follows host and port in the catalogue.
    pub endpoint_path: &'static str,
    /// The main configuration file below `/etc/<name>/`.
    pub config_file: &'static str,
    /// How the programs read it.
    pub format: Format,
    /// How the programs find their configuration.
    pub environment: &'static [(&'static str, &'static str)],
    /// Options that are the same in every cloud: group, option, value.
    pub defaults: &'static [(&'static str, &'static str, &'static str)],
    /// Steps that bring the database to the shape of this version, in order; a service that does so
    /// itself has none.
    pub schema: &'static [Step],
    /// What runs in their place when another version is installed and still serves: steps after
    /// which both versions can use the database. Empty: `schema` is so already.
    pub expand: &'static [Step],
    /// Steps of an upgrade that wait until no pod of the old version is left.
    pub contract: &'static [Step],
    /// The processes start without a schema, so on a first install they need not wait for it.
    pub starts_early: bool,
    pub processes: &'static [Process],
    /// Conditions beside Ready, in order of importance.
    pub parts: &'static [Part],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// INI as oslo.config reads it, with the options that all OpenStack services share.
    Oslo,
    /// YAML: group → option → value. The options are the service's own.
    Yaml,
}

/// A command that runs to its end: a console script of the image with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    pub command: &'static [&'static str],
    /// It needs what the processes log in with, not the database alone.
    pub credentials: bool,
}

impl Step {
    pub const fn new(name: &'static str, command: &'static [&'static str]) -> Self {
        Step {
            name,
            command,
            credentials: false,
        }
    }
}

/// A program that runs for ever.
#[derive(Debug)]
pub struct Process {
    pub name: &'static str,
    pub runs: Runs,
    /// Processes whose new version must be up before this one is changed.
    pub after: &'static [&'static str],
    /// Seconds in which it ends what it is at.
    pub grace: u32,
    /// The condition that tells whether enough of it runs.
    pub part: &'static str,
}

#[derive(Debug)]
pub enum Runs {
    /// A WSGI application behind uwsgi. One request holds a thread until its end.
    Wsgi {
        module: &'static str,
        port: Port,
        processes: u32,
        threads: u32,
        extra: &'static [(&'static str, &'static str)],
    },
    /// A program of its own.
    Program {
        command: &'static [&'static str],
        port: Option<Port>,
    },
}

/// Where a process listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    pub number: u16,
    /// Asked whether the process is well; without one it is well when it listens.
    pub path: Option<&'static str>,
}

impl Process {
    pub fn port(&self) -> Option<Port> {
        match self.runs {
            Runs::Wsgi { port, .. } => Some(port),
            Runs::Program { port, .. } => port,
        }
    }
}

impl Descriptor {
    /// The API: the first process with a port. It bears the name of the service.
    pub fn api(&self) -> Option<&Process> {
        self.processes.iter().find(|process| process.port().is_some())
    }

    pub fn is_api(&self, process: &Process) -> bool {
        self.api().is_some_and(|api| api.name == process.name)
    }
}
