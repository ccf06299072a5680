//! What a cluster is, as it is kept in its state directory.

use std::path::{Path, PathBuf};

use apimachinery::names::dns1123_label;
use serde::{Deserialize, Serialize};

use super::mark;
use crate::addresses::{Addresses, MAX_NODES};
use crate::error::{Error, Result};
use crate::layout::Layout;

pub const DEFAULT_STATE: &str = "/var/lib/c5c3";
pub const DOMAIN: &str = "cluster.local";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    pub name: String,
    pub index: u8,
    /// Machines are to run on it: it gets the devices for that.
    #[serde(default)]
    pub hypervisor: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Logical clusters of the API; nodes belong to the first.
    pub clusters: Vec<String>,
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
            clusters: vec!["default".into()],
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
                Ok(settings) => return Ok(Some(settings)),
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

    /// The nodes that run or ran since the machine started, when nothing else tells.
    pub fn salvage(layout: &Layout) -> Self {
        let mut settings = Self::default();
        for entry in std::fs::read_dir(layout.run()).into_iter().flatten().flatten() {
            let index = entry
                .file_name()
                .to_str()
                .and_then(|n| n.strip_prefix('n')?.parse().ok());
            let spec = std::fs::read(entry.path().join("spec.json")).unwrap_or_default();
            let spec: Result<crate::init::Spec, _> = serde_json::from_slice(&spec);
            if let (Some(index), Ok(spec)) = (index, spec) {
                settings.nodes.push(NodeEntry {
                    name: spec.name,
                    index,
                    hypervisor: spec.hypervisor,
                });
            }
        }
        settings
    }

    pub fn store(&self, layout: &Layout) -> Result<()> {
        let text = mark::text(self, layout.state()).map_err(|e| Error::said(format!("settings: {e}")))?;
        for path in files(layout) {
            crate::node::write(&path, &text)?;
        }
        Ok(())
    }

    /// Adds nodes until there are `count`. Nodes are never taken away by this.
    pub fn grow(&mut self, count: u8) -> Result<()> {
        if count == 0 || count > MAX_NODES {
            return Err(Error::said(format!(
                "nodes: {count} is not between 1 and {MAX_NODES}"
            )));
        }
        while self.nodes.len() < usize::from(count) {
            let index = (1..=MAX_NODES)
                .find(|i| self.nodes.iter().all(|n| n.index != *i))
                .ok_or_else(|| Error::said("every node number is taken"))?;
            self.nodes.push(NodeEntry {
                name: format!("node-{index}"),
                index,
                hypervisor: false,
            });
        }
        Ok(())
    }

    pub fn node(&self, name: &str) -> Result<&NodeEntry> {
        self.nodes.iter().find(|n| n.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.nodes.iter().map(|n| n.name.as_str()).collect();
            Error::said(format!("no node {name:?}; there are: {}", known.join(", ")))
        })
    }

    /// The cluster that must exist in this directory.
    pub fn existing(state: &Path) -> Result<(Layout, Self)> {
        let missing = || {
            Error::said(format!(
                "no cluster in {}: start one with `c5c3 up` or name its --state-dir",
                state.display()
            ))
        };
        if !state.exists() {
            return Err(missing());
        }
        let layout = Layout::new(state)?;
        let settings = Self::load(&layout)?.ok_or_else(missing)?;
        Ok((layout, settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
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
            hypervisor: false,
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
}
