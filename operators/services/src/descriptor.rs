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
    /// How the programs find their configuration.
    pub environment: &'static [(&'static str, &'static str)],
    /// Options that are the same in every cloud: group, option, value.
    pub defaults: &'static [(&'static str, &'static str, &'static str)],
    /// Steps that bring the database to the shape of this version, in order.
    pub schema: &'static [Step],
    /// The processes start without a schema, so on a first install they need not wait for it.
    pub starts_early: bool,
    pub processes: &'static [Process],
    /// Conditions beside Ready, in order of importance.
    pub parts: &'static [Part],
}

/// A command that runs to its end: a console script of the image with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    pub command: &'static [&'static str],
}

/// A program that runs for ever.
#[derive(Debug)]
pub struct Process {
    pub name: &'static str,
    pub runs: Runs,
    /// The condition that tells whether enough of it runs.
    pub part: &'static str,
}

#[derive(Debug)]
pub enum Runs {
    /// A WSGI application behind uwsgi: asked on `path` whether it is well.
    Wsgi {
        module: &'static str,
        port: u16,
        path: &'static str,
        extra: &'static [(&'static str, &'static str)],
    },
    /// A program of its own.
    Program { command: &'static [&'static str] },
}

impl Descriptor {
    /// The port of the API, if there is one.
    pub fn port(&self) -> Option<u16> {
        self.processes.iter().find_map(|process| match process.runs {
            Runs::Wsgi { port, .. } => Some(port),
            Runs::Program { .. } => None,
        })
    }
}
