//! The logical clusters that `up` is asked for, with their nodes.

use serde::{Deserialize, Serialize};

use crate::settings::{NodeEntry, SINGLE, Settings};
use embedded_node::addresses::{MAX_CLUSTERS, MAX_NODES};
use embedded_node::error::{Error, Result};
use embedded_node::names::Names;
use embedded_node::traits::Traits;

/// The cluster whose nodes run guests unless the plan says otherwise.
const HYPERVISORS: &str = "hypervisor";
/// With the number of a node it is still a host's name.
const LONGEST: usize = 50;

/// The least clusters and nodes that there must be; a plan never removes any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    #[serde(default)]
    pub clusters: Vec<ClusterPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPlan {
    pub name: String,
    #[serde(default)]
    pub nodes: Vec<Group>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    #[serde(default = "one")]
    pub count: u8,
    /// `None` leaves existing nodes as they are.
    #[serde(default)]
    pub traits: Option<Traits>,
}

fn one() -> u8 {
    1
}

impl std::str::FromStr for ClusterPlan {
    type Err = String;

    /// `hypervisor=2`: a name and a number of nodes.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not NAME=NODES, for example hypervisor=2");
        let (name, count) = text.split_once('=').ok_or_else(wrong)?;
        let count = count.parse().map_err(|_| wrong())?;
        check_name(name).map_err(|e| e.to_string())?;
        let nodes = vec![Group { count, traits: None }];
        Ok(Self {
            name: name.into(),
            nodes: nodes.into_iter().filter(|group| group.count > 0).collect(),
        })
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let good = !name.is_empty()
        && name.len() <= LONGEST
        && name.bytes().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if good {
        Ok(())
    } else {
        Err(Error::Refused(format!(
            "{name:?} is not the name of a cluster: use lower-case letters, digits and '-', at most {LONGEST}"
        )))
    }
}

impl Settings {
    /// Adds what the plan asks for. `new`: nothing is stored yet, so the plan's clusters are all.
    pub fn follow(&mut self, names: Names, plan: &Plan, new: bool) -> Result<()> {
        if plan.clusters.is_empty() {
            return Ok(());
        }
        if new {
            self.clusters.clear();
        }
        let foreign = plan.clusters.iter().find(|cluster| cluster.name != SINGLE);
        if let (Some(foreign), [single]) = (foreign, self.clusters.as_slice())
            && single == SINGLE
        {
            return Err(Error::Refused(format!(
                "cluster {:?}: this state directory has one cluster for everything, {SINGLE:?}; \
                 clusters of their own need a new --state-dir, or `{} down --purge` first",
                foreign.name, names.program
            )));
        }
        for cluster in &plan.clusters {
            check_name(&cluster.name)?;
            if !self.clusters.contains(&cluster.name) {
                self.clusters.push(cluster.name.clone());
            }
            let wishes = cluster.nodes.iter();
            let wishes = wishes.flat_map(|group| (0..group.count).map(|_| &group.traits));
            for (position, traits) in wishes.enumerate() {
                self.settle(&cluster.name, position, traits.as_ref())?;
            }
        }
        if self.clusters.len() > MAX_CLUSTERS {
            return Err(Error::Refused(format!(
                "clusters: {} are more than the {MAX_CLUSTERS} that one machine can run",
                self.clusters.len()
            )));
        }
        Ok(())
    }

    /// Makes sure that the node at this position of a cluster exists and is as it should be.
    fn settle(&mut self, cluster: &str, position: usize, traits: Option<&Traits>) -> Result<()> {
        let mut own = self.nodes.iter_mut().filter(|node| node.cluster == cluster);
        if let Some(node) = own.nth(position) {
            if let Some(traits) = traits {
                traits.check(&node.name)?;
                node.traits = traits.clone();
            }
            return Ok(());
        }
        let usual = || Traits {
            hypervisor: cluster == HYPERVISORS,
            ..Traits::default()
        };
        self.add(cluster, traits.cloned().unwrap_or_else(usual))
    }

    /// One more node.
    pub(super) fn add(&mut self, cluster: &str, traits: Traits) -> Result<()> {
        let index = (1..=MAX_NODES)
            .find(|i| self.nodes.iter().all(|n| n.index != *i))
            .ok_or_else(|| Error::Refused(format!("nodes: all {MAX_NODES} numbers are taken")))?;
        let prefix = if cluster == SINGLE { "node" } else { cluster };
        let names = (1..=MAX_NODES).map(|number| format!("{prefix}-{number}"));
        let name = names
            .into_iter()
            .find(|name| self.nodes.iter().all(|n| n.name != *name))
            .ok_or_else(|| Error::Refused(format!("nodes: all names of {cluster} are taken")))?;
        traits.check(&name)?;
        self.nodes.push(NodeEntry {
            name,
            index,
            cluster: cluster.into(),
            traits,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EXAMPLE;

    fn plan(texts: &[&str]) -> Plan {
        let clusters = texts.iter().map(|text| text.parse().unwrap()).collect();
        Plan { clusters }
    }

    fn names(settings: &Settings) -> Vec<String> {
        settings
            .nodes
            .iter()
            .map(|n| format!("{} {}", n.index, n.name))
            .collect()
    }

    #[test]
    fn clusters_and_their_nodes_are_added() {
        let mut settings = Settings::default();
        settings
            .follow(
                EXAMPLE,
                &plan(&["control-plane=2", "hypervisor=1", "arbiter=0"]),
                true,
            )
            .unwrap();
        assert_eq!(settings.clusters, ["control-plane", "hypervisor", "arbiter"]);
        assert_eq!(
            names(&settings),
            ["1 control-plane-1", "2 control-plane-2", "3 hypervisor-1"]
        );
        let hypervisors: Vec<bool> = settings.nodes.iter().map(|n| n.traits.hypervisor).collect();
        assert_eq!(hypervisors, [false, false, true]);
        // More of them later; what is there keeps its number.
        let before = settings.clone();
        settings
            .follow(EXAMPLE, &plan(&["control-plane=1", "hypervisor=1"]), false)
            .unwrap();
        assert_eq!(settings, before, "nothing is taken away");
        settings
            .follow(EXAMPLE, &plan(&["control-plane=3", "storage=1"]), false)
            .unwrap();
        assert_eq!(names(&settings)[3..], ["4 control-plane-3", "5 storage-1"]);
        assert_eq!(
            settings
                .addresses_of("storage")
                .unwrap()
                .pod_network(5)
                .to_string(),
            "10.221.5.0/24"
        );
    }

    #[test]
    fn traits_are_those_of_the_plan() {
        let text = r#"{"clusters": [{"name": "hypervisor", "nodes": [
            {"traits": {"hypervisor": true, "zone": "a"}}, {"count": 2, "traits": {"dataLink": true}}, {}]}]}"#;
        let plan: Plan = serde_json::from_str(text).unwrap();
        let mut settings = Settings::default();
        settings.follow(EXAMPLE, &plan, true).unwrap();
        let of = |i: usize| &settings.nodes[i].traits;
        assert_eq!(of(0).zone.as_deref(), Some("a"));
        assert!(!of(1).hypervisor && of(2).has_data_link() && of(3).hypervisor);
    }

    #[test]
    fn a_single_cluster_stays_single() {
        let mut settings = Settings::default();
        settings.grow(1).unwrap();
        let said = settings
            .follow(EXAMPLE, &plan(&["hypervisor=1"]), false)
            .unwrap_err();
        assert!(matches!(said, Error::Refused(_)), "{said}");
        assert!(said.to_string().contains("new --state-dir"), "{said}");
        settings.follow(EXAMPLE, &plan(&["default=2"]), false).unwrap();
        assert_eq!(names(&settings), ["1 node-1", "2 node-2"]);
    }

    #[test]
    fn bad_plans_are_refused() {
        for text in ["hypervisor", "a=x", "A=1", "=1", "-a=1"] {
            assert!(text.parse::<ClusterPlan>().is_err(), "{text}");
        }
        let mut settings = Settings::default();
        let many = plan(&["a=0", "b=0", "c=0", "d=0", "e=0", "f=0", "g=0"]);
        let said = settings.follow(EXAMPLE, &many, true).unwrap_err().to_string();
        assert!(said.contains("7 are more than the 6"), "{said}");
        let crowd = plan(&["a=200", "b=200"]);
        let said = Settings::default()
            .follow(EXAMPLE, &crowd, true)
            .unwrap_err()
            .to_string();
        assert!(said.contains("all 250 numbers are taken"), "{said}");
    }
}
