//! `down`: nothing of the cluster stays but its files, and with `purge` not even those.

use std::path::Path;
use std::time::Duration;

use k8s_cri::v1::PodSandbox;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::settings::{NodeEntry, Settings};
use crate::{claim, daemon};
use embedded_node::cgroups;
use embedded_node::cri::{self, Cri};
use embedded_node::error::{Error, Result};
use embedded_node::fabric;
use embedded_node::layout::Layout;
use embedded_node::names::Names;
use embedded_node::node::{self, Node};
use embedded_node::pods::start::names as annotations;

/// Time that programs get to end by themselves.
const GRACE: Duration = Duration::from_secs(20);

pub async fn down(names: Names, state: &Path, purge: bool, say: &mut dyn FnMut(&str)) -> Result<()> {
    if !state.exists() {
        say(&format!("there is no cluster in {}", state.display()));
        return Ok(());
    }
    let layout = Layout::new(names, state)?;
    if purge {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        claim::check_purge(names, layout.state(), home.as_deref())?;
    }
    // Settings that cannot be read must not keep a person from cleaning up.
    let settings = match Settings::load(&layout) {
        Ok(Some(settings)) => settings,
        Ok(None) => Settings::salvage(&layout),
        Err(e) => {
            say(&e.to_string());
            Settings::salvage(&layout)
        }
    };
    stop_daemon(&layout, say).await?;
    let nodes = settings.nodes.iter().map(|entry| stop_node(&layout, entry));
    if !settings.nodes.is_empty() {
        say("stopping the nodes");
    }
    for stopped in futures::future::join_all(nodes).await {
        stopped?;
    }
    fabric::remove(&layout)?;
    cgroups::remove_if_empty(&names.cgroup())?;
    if purge {
        say("removing the state directory");
        let stays = claim::purge(names, layout.state())?;
        if !stays.is_empty() {
            let (place, stays) = (layout.state().display(), stays.join(", "));
            say(&format!(
                "{place} is kept: {stays} in it does not belong to the cluster"
            ));
        }
    }
    Ok(())
}

async fn stop_daemon(layout: &Layout, say: &mut dyn FnMut(&str)) -> Result<()> {
    let Some(process) = daemon::running(layout) else {
        return Ok(());
    };
    say("stopping the API server and the controllers");
    process.signal(Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while process.alive() {
        if Instant::now() > deadline {
            process.signal(Signal::KILL);
        }
        if Instant::now() > deadline + GRACE {
            return Err(Error::said(format!("process {} does not exit", process.pid)));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Asks the programs to end, then kills the node.
async fn stop_node(layout: &Layout, entry: &NodeEntry) -> Result<()> {
    let layout = layout.node(&entry.name, entry.index);
    if Node::running(&layout).is_some() {
        let runtime = Cri::new(cri::channel(&layout.socket()));
        if let Ok((containers, sandboxes)) = tokio::try_join!(runtime.containers(&[]), runtime.sandboxes(&[]))
        {
            let stops = containers.iter().map(|c| {
                let sandbox = sandboxes.iter().find(|s| s.id == c.pod_sandbox_id);
                runtime.stop_container(&c.id, sandbox.map_or(GRACE, own_grace))
            });
            for stopped in futures::future::join_all(stops).await {
                if let Err(e) = stopped {
                    tracing::debug!("{e}");
                }
            }
        }
    }
    node::kill(&layout).await
}

/// What the pod asked for, within reason.
fn own_grace(sandbox: &PodSandbox) -> Duration {
    let asked = sandbox.annotations.get(annotations::GRACE);
    let seconds = asked.and_then(|text| text.parse().ok());
    seconds.map_or(GRACE, Duration::from_secs).min(GRACE)
}
