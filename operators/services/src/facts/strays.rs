//! Nodes whose label tells a group that there is not: of the hypervisors, a cell. Nothing of ours runs there, and nobody
//! else would say why.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_kit::clusters::ClusterName;
use c5c3_kit::{HOME, ReadError, Reader};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{Facts, elsewhere};
use crate::shape::{Service, Workload};

/// A node, and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    pub node: String,
    pub label: &'static str,
    pub value: String,
    pub known: Vec<String>,
    /// The condition that tells it.
    pub part: &'static str,
}

/// Nodes of a cluster that are divided into groups by a label.
struct Division {
    /// The nodes, as a selector of labels.
    selector: String,
    label: &'static str,
    known: BTreeSet<String>,
    part: &'static str,
}

fn divisions(service: &Service) -> BTreeMap<ClusterName, Division> {
    let mut all: BTreeMap<ClusterName, Division> = BTreeMap::new();
    // The group that takes the rest knows the label; the others ask for a value of it.
    for process in &service.processes {
        if let Workload::DaemonSet {
            nodes,
            unless: Some((label, value)),
        } = &process.workload
        {
            let pairs = nodes.iter().map(|(key, value)| format!("{key}={value}"));
            let division = Division {
                selector: pairs.collect::<Vec<_>>().join(","),
                label,
                known: BTreeSet::from([value.clone()]),
                part: process.part,
            };
            all.insert(process.place(), division);
        }
    }
    for process in &service.processes {
        if let (Workload::DaemonSet { nodes, .. }, Some(division)) =
            (&process.workload, all.get_mut(&process.place()))
        {
            division.known.extend(nodes.get(division.label).cloned());
        }
    }
    all
}

pub(super) async fn read(service: &Service, reader: &Reader, facts: &mut Facts) -> Result<(), ReadError> {
    for (place, division) in divisions(service) {
        if !facts.reaches(&place) {
            continue;
        }
        let nodes = if place == HOME {
            reader.list_all::<Node>(&division.selector).await?
        } else {
            let list = |there: Reader| async move { there.list_all::<Node>(&division.selector).await };
            match elsewhere::ask(reader, &place, list).await {
                Ok(nodes) => nodes,
                Err(why) => {
                    facts.elsewhere.insert(place.to_string(), Err(why));
                    continue;
                }
            }
        };
        let (label, known, part) = (division.label, division.known, division.part);
        facts.strays.extend(strays(&nodes, label, &known, part));
    }
    Ok(())
}

fn strays(nodes: &[Node], label: &'static str, known: &BTreeSet<String>, part: &'static str) -> Vec<Stray> {
    let staying = nodes
        .iter()
        .filter(|node| node.metadata.deletion_timestamp.is_none());
    let mut found: Vec<Stray> = staying
        .filter_map(|node| {
            let value = node.labels().get(label)?;
            (!known.contains(value)).then(|| Stray {
                node: node.name_any(),
                label,
                value: value.clone(),
                known: known.iter().cloned().collect(),
                part,
            })
        })
        .collect();
    found.sort_by(|one, other| one.node.cmp(&other.node));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Subject;
    use crate::testing::nova;
    use serde_json::json;

    #[test]
    fn a_node_with_a_label_that_nobody_knows_is_a_stray() {
        let node = |name: &str, labels: serde_json::Value| {
            let node = json!({"metadata": {"name": name, "labels": labels}});
            serde_json::from_value::<Node>(node).expect("a node")
        };
        let nodes = [
            node("d", json!({"cell": "cell9"})),
            node("a", json!({})),
            node("b", json!({"cell": "cell1"})),
            node("c", json!({"cell": ""})),
        ];
        let known = BTreeSet::from(["cell1".to_owned()]);
        let found = strays(&nodes, "cell", &known, "Part");
        let told: Vec<(&str, &str)> = found
            .iter()
            .map(|one| (one.node.as_str(), one.value.as_str()))
            .collect();
        assert_eq!(told, [("c", ""), ("d", "cell9")]);
    }

    #[test]
    fn cells_divide_the_hypervisors_of_each_cluster() {
        let known = |cells: serde_json::Value| -> Vec<(String, Vec<String>)> {
            let all = divisions(&nova(json!({"cells": cells})).shape());
            let told = all.into_iter();
            told.map(|(place, one)| (place.to_string(), one.known.into_iter().collect()))
                .collect()
        };
        let far = |name: &str| {
            json!({"name": name, "computeRef": {"name": "far"},
                "messaging": {"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "cell2-bus"}}})
        };
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = known(json!([{"name": "cell1"}, far("cell2"), far("cell3")]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found.contains(&("far".to_owned(), of(&["cell2", "cell3"]))),
            "{found:?}"
        );
        assert!(
            found.iter().any(|(_, names)| *names == of(&["cell1"])),
            "{found:?}"
        );
    }
}
