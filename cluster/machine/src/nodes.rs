//! `node list | kill | start`: drills on single nodes.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::daemon;
use crate::power;
use crate::settings::Settings;
use embedded_node::error::{Error, Result};
use embedded_node::names::Names;
use embedded_node::node::{self, Node};

/// A node as `node list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    pub name: String,
    pub cluster: String,
    pub address: String,
    /// `Running`, `Off`, or `Down` when it should run and does not.
    pub state: &'static str,
    /// Process 1 of the node, seen from the machine.
    pub pid: Option<i32>,
}

pub fn list(names: Names, state: &Path) -> Result<Vec<Listed>> {
    let (layout, settings) = Settings::existing(names, state)?;
    Ok(settings
        .nodes
        .iter()
        .map(|entry| {
            let layout = layout.node(&entry.name, entry.index);
            let pid = Node::running(&layout).map(|p| p.pid);
            let state = match (pid, power::is_off(&layout)) {
                (Some(_), _) => "Running",
                (None, true) => "Off",
                (None, false) => "Down",
            };
            Listed {
                name: entry.name.clone(),
                cluster: entry.cluster.clone(),
                address: settings.addresses.node(entry.index).to_string(),
                state,
                pid,
            }
        })
        .collect())
}

/// Cuts a node's power. It stays off until [`start`].
pub async fn kill(names: Names, state: &Path, name: &str) -> Result<()> {
    let (layout, settings) = Settings::existing(names, state)?;
    let entry = settings.node(name)?;
    let layout = layout.node(&entry.name, entry.index);
    power::set_off(&layout)?;
    node::kill(&layout).await
}

/// Restores a node's power and waits until it runs.
pub async fn start(names: Names, state: &Path, name: &str) -> Result<()> {
    let (layout, settings) = Settings::existing(names, state)?;
    let entry = settings.node(name)?;
    let node = layout.node(&entry.name, entry.index);
    power::set_on(&node)?;
    if daemon::running(&layout).is_none() {
        return Err(Error::said(format!(
            "node {name} is switched on now and starts with the cluster: run `{} up`",
            names.program
        )));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while Node::running(&node).is_none() {
        if Instant::now() > deadline {
            return Err(Error::said(format!(
                "node {name} did not start in time: see {}",
                node.init_log().display()
            )));
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
