//! The roles and bindings that every cluster has from the start.

use serde_json::Value;

use super::GROUP;
use crate::cluster::Cluster;

/// One object on each line.
const DEFAULTS: &str = include_str!("../../../data/default-roles.jsonl");

/// Default objects that the cluster lacks. One that is there, changed or not, is left alone.
pub fn bootstrap(cluster: &Cluster) -> Vec<(&'static str, Value)> {
    defaults()
        .filter(|(resource, object)| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            cluster.get(GROUP, resource, "", name).is_none()
        })
        .collect()
}

fn defaults() -> impl Iterator<Item = (&'static str, Value)> {
    DEFAULTS.lines().map(|line| {
        // The file is part of the program and the tests read it.
        let object: Value = serde_json::from_str(line).unwrap_or_default();
        let resource = match object["kind"].as_str() {
            Some("ClusterRole") => "clusterroles",
            _ => "clusterrolebindings",
        };
        (resource, object)
    })
}

#[cfg(test)]
pub(in crate::auth) fn all() -> Vec<Value> {
    defaults().map(|(_, object)| object).collect()
}
