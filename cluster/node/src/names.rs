//! What the program that embeds clusters is called.

use std::path::{Path, PathBuf};

/// The names under which a cluster's things are found on the machine and in its objects, and by which messages
/// tell how to go on. A cluster on disk is found by them again, so a program never changes its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Of the command and of what it makes on the machine.
    pub program: &'static str,
    /// Of annotations, provisioners and marks.
    pub domain: &'static str,
}

impl Names {
    /// Where the cluster with this id keeps what lives as long as the machine is up.
    pub(crate) fn run(&self, id: &str) -> PathBuf {
        PathBuf::from(format!("/run/{}-{id}", self.program))
    }

    /// The cgroup of all nodes, below the root of every hierarchy.
    pub fn cgroup(&self) -> String {
        format!("{}-nodes", self.program)
    }

    /// The daemon's log below the state directory.
    pub fn log(&self, state: &Path) -> PathBuf {
        state.join(self.log_name())
    }

    pub fn log_name(&self) -> String {
        format!("{}.log", self.program)
    }

    /// The sandbox image, imported into every node before its first pod.
    pub fn pause(&self) -> String {
        format!("{}.local/pause:1", self.program)
    }

    /// The annotation of a Service that is to be reached on loopback of the machine.
    pub fn expose(&self) -> String {
        format!("{}/expose", self.domain)
    }

    /// The provisioner of volumes that are directories.
    pub fn provisioner(&self) -> String {
        format!("{}/directory", self.domain)
    }

    /// Who manages the EndpointSlices of Services.
    pub fn slices(&self) -> String {
        format!("endpointslice-controller.{}", self.domain)
    }

    /// The kind of a settings file that belongs to a cluster.
    pub fn mark(&self) -> String {
        format!("{}/cluster", self.domain)
    }

    /// How to allow a registry.
    pub(crate) fn allow_registry(&self, host: &str) -> String {
        let program = self.program;
        format!("`{program} down`, then `{program} up --registry {host}`")
    }
}

#[cfg(test)]
pub(crate) const EXAMPLE: Names = Names {
    program: "example",
    domain: "example.org",
};
