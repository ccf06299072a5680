//! Checks whether a cluster can run a cloud, before one is created on it.
//!
//! `read` looks once; `findings` judges what was seen, purely.

pub(crate) mod findings;
#[cfg(test)]
mod findings_tests;
pub(crate) mod read;

use std::collections::{BTreeMap, BTreeSet};

/// What was seen of a cluster. `None` where nobody lets us look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub version: String,
    /// `Kind.group`
    pub kinds: BTreeSet<String>,
    pub classes: Option<Vec<Class>>,
    /// Labels of namespaces, by name.
    pub namespaces: Option<BTreeMap<String, Labels>>,
    /// The cloud's namespace, and that of the operators.
    pub cloud: String,
    pub home: String,
    pub nodes: Option<Vec<Node>>,
    /// Operators of ours in any namespace, and whether each has a replica that serves.
    pub operators: Option<BTreeMap<String, bool>>,
    /// Pods of both namespaces that cannot get their image.
    pub pulls: Vec<String>,
    /// Seconds by which the server's clock is ahead of ours.
    pub skew: Option<i64>,
    /// The registry that was asked about, and why it cannot be reached.
    pub registry: Option<(String, Result<(), String>)>,
}

pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub name: String,
    pub is_default: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub name: String,
    pub labels: Labels,
    pub ready: bool,
    /// Seconds by which its last sign of life is after the server's clock.
    pub ahead: Option<i64>,
}
