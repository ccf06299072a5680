//! The settings of a cluster, as stored in its state directory.

use std::path::{Path, PathBuf};

use apimachinery::names::dns1123_label;
use serde::{Deserialize, Serialize};

use crate::mark;
use embedded_node::addresses::{Addresses, MAX_NODES};
use embedded_node::error::{Error, Result};
use embedded_node::layout::Layout;
use embedded_node::names::Names;
use embedded_node::traits::Traits;

pub const DOMAIN: &str = "cluster.local";
/// Name of the only cluster, when several were not requested.
pub const SINGLE: &str = "default";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// No other node of the machine has it.
    pub name: String,
    /// The same goes for its number.
    pub index: u8,
    /// Its logical cluster; files of earlier versions do not say it.
    #[serde(default)]
    pub cluster: String,
    #[serde(default)]
    pub traits: Traits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Logical clusters of the API; a path that names none is the first one's.
    pub clusters: Vec<String>,
    /// Of the first; those of the others follow from it.
    pub addresses: Addresses,
    pub nodes: Vec<NodeEntry>,
    /// Registries that may be asked for images, beside those on this machine.
    #[serde(default)]
    pub registries: Vec<String>,
    /// Port of the API on loopback; the same after a restart.
    pub port: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clusters: vec![SINGLE.into()],
            addresses: Addresses::default(),
            nodes: Vec::new(),
            registries: Vec::new(),
            port: 0,
        }
    }
}

/// Two copies: one that a failing disk cut short does not stop the cluster.
pub const FILES: [&str; 2] = ["cluster.json", "cluster.json.copy"];

fn files(layout: &Layout) -> [PathBuf; 2] {
    FILES.map(|name| layout.state().join(name))
}

impl Settings {
    /// What is stored, or nothing for a new cluster. Damage of both copies is named, not
    /// guessed at.
    pub fn load(layout: &Layout) -> Result<Option<Self>> {
        let mut damage = None;
        for path in files(layout) {
            let text = match std::fs::read(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::file("read", path)(e)),
            };
            match serde_json::from_slice::<Self>(&text) {
                // A name becomes part of paths.
                Ok(settings) if settings.nodes.iter().any(|n| !dns1123_label(&n.name).is_empty()) => {
                    damage = Some(format!("{} is damaged (the name of a node)", path.display()));
                }
                Ok(settings) => return settings.complete().map(Some),
                Err(e) => damage = Some(format!("{} is damaged ({e})", path.display())),
            }
        }
        match damage {
            None => Ok(None),
            Some(what) => Err(Error::said(format!(
                "{what}, and so is its copy: remove both to start with new settings; objects and volumes stay"
            ))),
        }
    }

    /// Fills in what earlier versions did not write, and refuses what cannot be.
    fn complete(mut self) -> Result<Self> {
        let first = self.first().to_owned();
        for node in self.nodes.iter_mut().filter(|node| node.cluster.is_empty()) {
            node.cluster.clone_from(&first);
        }
        for node in &self.nodes {
            self.addresses_of(&node.cluster)?;
        }
        Ok(self)
    }

    /// The cluster that is meant when none is named.
    pub fn first(&self) -> &str {
        self.clusters.first().map_or(SINGLE, String::as_str)
    }

    /// One cluster for everything, whose nodes are counted together.
    pub fn is_single(&self) -> bool {
        self.clusters == [SINGLE]
    }

    /// The address plan of a logical cluster.
    pub fn addresses_of(&self, cluster: &str) -> Result<Addresses> {
        let position = self.clusters.iter().position(|name| name == cluster);
        let plan = position.and_then(|position| self.addresses.nth(position));
        plan.ok_or_else(|| {
            let known = self.clusters.join(", ");
            Error::said(format!(
                "there are no addresses for cluster {cluster:?}; clusters: {known}"
            ))
        })
    }

    /// The nodes that run or ran since the machine started, when nothing else tells.
    pub fn salvage(layout: &Layout) -> Self {
        let mut settings = Self::default();
        for entry in std::fs::read_dir(layout.run()).into_iter().flatten().flatten() {
            let index = entry
                .file_name()
                .to_str()
                .and_then(|n| n.strip_prefix('n')?.parse().ok());
            let spec = std::fs::read(entry.path().join("spec.json")).unwrap_or_default();
            let spec: Result<embedded_node::init::Spec, _> = serde_json::from_slice(&spec);
            if let (Some(index), Ok(spec)) = (index, spec) {
                settings.nodes.push(NodeEntry {
                    name: spec.name,
                    index,
                    cluster: SINGLE.into(),
                    traits: Traits {
                        hypervisor: spec.hypervisor,
                        ..Traits::default()
                    },
                });
            }
        }
        settings
    }

    pub fn store(&self, layout: &Layout) -> Result<()> {
        let text = mark::text(layout.names(), self, layout.state())
            .map_err(|e| Error::said(format!("settings: {e}")))?;
        for path in files(layout) {
            embedded_node::node::write(&path, &text)?;
        }
        Ok(())
    }

    /// Adds nodes to the first cluster until it has `count`. Nodes are never taken away by this.
    pub fn grow(&mut self, count: u8) -> Result<()> {
        if count == 0 || count > MAX_NODES {
            return Err(Error::said(format!(
                "nodes: {count} is not between 1 and {MAX_NODES}"
            )));
        }
        let first = self.first().to_owned();
        while self.nodes.iter().filter(|n| n.cluster == first).count() < usize::from(count) {
            self.add(&first, Traits::default())?;
        }
        Ok(())
    }

    /// Makes nodes hypervisors until there are `count`, the last first: what else runs in the
    /// cluster is on the first ones.
    pub fn make_hypervisors(&mut self, count: u8) -> Result<()> {
        let count = usize::from(count);
        let known = self.nodes.iter().filter(|n| n.traits.hypervisor).count();
        let missing = count.saturating_sub(known);
        let plain = self.nodes.iter_mut().rev().filter(|n| !n.traits.hypervisor);
        let mut made = 0;
        for node in plain.take(missing) {
            node.traits.hypervisor = true;
            made += 1;
        }
        if made == missing {
            Ok(())
        } else {
            Err(Error::Refused(format!(
                "hypervisors: {count} are more than the {} nodes of the cluster; raise the number of nodes",
                self.nodes.len()
            )))
        }
    }

    pub fn node(&self, name: &str) -> Result<&NodeEntry> {
        self.nodes.iter().find(|n| n.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.nodes.iter().map(|n| n.name.as_str()).collect();
            Error::said(format!("no node {name:?}; there are: {}", known.join(", ")))
        })
    }

    /// The cluster that must exist in this directory.
    pub fn existing(names: Names, state: &Path) -> Result<(Layout, Self)> {
        let missing = || {
            Error::said(format!(
                "no cluster in {}: start one with `{} up` or name its --state-dir",
                state.display(),
                names.program
            ))
        };
        if !state.exists() {
            return Err(missing());
        }
        let layout = Layout::new(names, state)?;
        let settings = Self::load(&layout)?.ok_or_else(missing)?;
        Ok((layout, settings))
    }
}

#[cfg(test)]
pub(crate) const EXAMPLE: Names = Names {
    program: "example",
    domain: "example.org",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(EXAMPLE, dir.path()).unwrap();
        assert_eq!(Settings::load(&layout).unwrap(), None);
        let mut settings = Settings::default();
        settings.grow(2).unwrap();
        settings.store(&layout).unwrap();
        assert_eq!(Settings::load(&layout).unwrap(), Some(settings.clone()));
        assert_eq!(settings.node("node-2").unwrap().index, 2);
        let said = settings.node("x").unwrap_err().to_string();
        assert_eq!(said, "no node \"x\"; there are: node-1, node-2");
        let [first, second] = files(&layout);
        std::fs::write(&first, "{ half").unwrap();
        assert_eq!(Settings::load(&layout).unwrap(), Some(settings.clone()));
        std::fs::remove_file(&first).unwrap();
        assert_eq!(Settings::load(&layout).unwrap(), Some(settings.clone()));
        let way = NodeEntry {
            name: "../../x".into(),
            index: 1,
            cluster: SINGLE.into(),
            traits: Traits::default(),
        };
        let mut bad = settings.clone();
        bad.nodes.push(way);
        bad.store(&layout).unwrap();
        let said = Settings::load(&layout).unwrap_err().to_string();
        assert!(said.contains("the name of a node"), "{said}");
        std::fs::remove_file(&first).unwrap();
        std::fs::write(&second, "").unwrap();
        let said = Settings::load(&layout).unwrap_err().to_string();
        assert!(said.contains("is damaged"), "{said}");
        assert!(settings.grow(0).is_err());
    }

    #[test]
    fn the_last_nodes_become_hypervisors() {
        let mut settings = Settings::default();
        settings.grow(3).unwrap();
        settings.make_hypervisors(2).unwrap();
        let hypervisors =
            |s: &Settings| -> Vec<bool> { s.nodes.iter().map(|n| n.traits.hypervisor).collect() };
        assert_eq!(hypervisors(&settings), [false, true, true]);
        settings.make_hypervisors(1).unwrap();
        assert_eq!(hypervisors(&settings), [false, true, true], "none is taken away");
        let said = settings.make_hypervisors(4).unwrap_err().to_string();
        assert!(said.contains("more than the 3 nodes"), "{said}");
    }

    #[test]
    fn settings_of_earlier_versions_are_read() {
        let text = r#"{"clusters": ["default"], "port": 1, "nodes": [{"name": "node-1", "index": 1}],
            "addresses": {"nodes": [10, 190], "pods": [10, 191], "services": [10, 192]}}"#;
        let settings: Settings = serde_json::from_str(text).unwrap();
        let settings = settings.complete().unwrap();
        assert_eq!(settings.addresses, Addresses::default());
        assert_eq!(settings.nodes[0].traits, Traits::default());
        assert_eq!(settings.nodes[0].cluster, "default");
        let text = text.replace("\"index\": 1", "\"index\": 1, \"cluster\": \"other\"");
        let settings: Settings = serde_json::from_str(&text).unwrap();
        let said = settings.complete().unwrap_err().to_string();
        assert!(said.contains("no addresses for cluster \"other\""), "{said}");
    }
}
