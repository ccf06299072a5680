//! Settings of a group of processes, and the secrets that they may read.

use super::CephLogin;
use crate::config::Ini;

/// A ConfigMap and its Secrets. Processes with different rights read different settings: the
/// password of a database stays where the database is used.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Part of its objects' names; empty for the main one.
    pub name: String,
    /// The configuration file below `/etc/<service>/`; empty for programs that read none.
    pub file: &'static str,
    pub options: Ini,
    /// Options whose values are not in the spec: group, option, and what they follow from.
    pub facts: Vec<(&'static str, &'static str, Fact)>,
    /// Further files beside it.
    pub files: Vec<(String, String)>,
    /// Databases: the group of options, and the name of the database.
    pub databases: Vec<(String, String)>,
    /// Message buses: the group of options, and the name of the bus.
    pub buses: Vec<(String, String)>,
    /// Groups of options by which it logs in to other services.
    pub logins: Vec<Login>,
    /// Options whose values are in Secrets.
    pub secret_options: Vec<SecretOption>,
    /// Options that follow from the keyring of a Secret.
    pub ceph: Vec<CephOption>,
    /// Other settings whose secrets its processes find in a database, where a step put them: they
    /// restart when those change.
    pub follows: Option<String>,
}

/// What is known only when the cluster was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The servers of the cache, with commas between.
    CacheServers,
    /// `false` where two workers may ask two servers of the cache: what must hold at once is not
    /// cached then. Left out otherwise.
    CachesAgree,
    OvnNorthbound,
    OvnSouthbound,
    /// This file of the certificates for OVN, in this directory. Left out without TLS.
    OvnFile(&'static str, &'static str),
}

/// The application credential by which a group of options logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub group: &'static str,
    /// The Secret of the credential.
    pub secret: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretOption {
    pub group: &'static str,
    pub option: &'static str,
    pub secret: String,
    pub key: &'static str,
}

/// An option that tells who a process is in Ceph: the keyring has the last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephOption {
    pub group: String,
    pub option: &'static str,
    pub login: CephLogin,
    pub value: CephValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CephValue {
    User,
    /// The name under which libvirt knows the user's key.
    SecretUuid,
}

impl Settings {
    pub fn new(file: &'static str) -> Self {
        Settings {
            file,
            ..Settings::default()
        }
    }

    pub fn with(mut self, options: &[(&str, &str, &str)]) -> Self {
        for (group, option, value) in options {
            self.options.set(group, option, *value);
        }
        self
    }

    pub fn database(mut self, group: &str, name: &str) -> Self {
        self.databases.push((group.to_owned(), name.to_owned()));
        self
    }

    pub fn bus(mut self, group: &str, name: &str) -> Self {
        self.buses.push((group.to_owned(), name.to_owned()));
        self
    }

    pub fn fact(mut self, group: &'static str, option: &'static str, fact: Fact) -> Self {
        self.facts.push((group, option, fact));
        self
    }

    pub fn secret(mut self, option: SecretOption) -> Self {
        self.secret_options.push(option);
        self
    }

    /// What stands before the kind in names of its objects: nothing for the main settings.
    pub fn prefix(&self) -> String {
        if self.name.is_empty() {
            String::new()
        } else {
            format!("{}-", self.name)
        }
    }
}
