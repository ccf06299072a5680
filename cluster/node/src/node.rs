//! A node seen from outside: start it, find it again, pull its plug.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout};

use crate::addresses::Addresses;
use crate::cgroups;
use crate::containerd::{self, Machine};
use crate::error::{Error, Result};
use crate::fabric;
use crate::init;
use crate::layout::NodeLayout;
use crate::netns::NetNs;
use crate::process::Process;

/// How a node is made.
#[derive(Clone, Debug)]
pub struct Blueprint {
    pub layout: NodeLayout,
    pub addresses: Addresses,
    pub machine: Machine,
    /// Machines are to run on it.
    pub hypervisor: bool,
    /// Directories every node sees at the same path.
    pub shared: Vec<PathBuf>,
    /// Names and indexes of all nodes, for /etc/hosts.
    pub all: Vec<(String, u8)>,
    /// Program and arguments that run [`init::main`].
    pub init: Vec<String>,
    /// What process 1 keeps running beside containerd.
    pub programs: Vec<init::Program>,
}

/// A running node.
#[derive(Clone)]
pub struct Node {
    pub layout: NodeLayout,
    pub init: Process,
    pub ns: NetNs,
}

const START_LIMIT: Duration = Duration::from_secs(30);

impl Node {
    /// Process 1 of the node, when it runs.
    pub fn running(layout: &NodeLayout) -> Option<Process> {
        let text = std::fs::read(layout.identity()).ok()?;
        let init: Process = serde_json::from_slice(&text).ok()?;
        init.alive().then_some(init)
    }

    /// The node that runs already, after this program or the machine's owner restarted.
    pub fn find(layout: &NodeLayout) -> Option<Self> {
        let init = Self::running(layout)?;
        let ns = NetNs::open(Path::new(&format!("/proc/{}/ns/net", init.pid))).ok()?;
        // The process might have ended while its namespace was opened.
        init.alive().then(|| Self {
            layout: layout.clone(),
            init,
            ns,
        })
    }

    /// Starts a node that does not run. What a dead one left is removed first.
    pub async fn start(blueprint: &Blueprint) -> Result<Self> {
        let layout = &blueprint.layout;
        clear(layout).await?;
        free_addresses(&layout.ipam());
        for directory in [
            layout.data.clone(),
            layout.cni(),
            layout.containerd_root(),
            layout.pods(),
            layout.logs(),
        ]
        .iter()
        .chain(&blueprint.shared)
        {
            std::fs::create_dir_all(directory).map_err(Error::file("make directory", directory))?;
        }
        write(
            &layout.containerd_config(),
            containerd::config(layout, &blueprint.machine),
        )?;
        write(
            &layout.cni().join("10-pods.conflist"),
            containerd::network(layout, &blueprint.addresses),
        )?;
        let containerd = init::Program {
            command: vec![
                "containerd".into(),
                "--config".into(),
                layout.containerd_config().to_string_lossy().into_owned(),
            ],
            log: layout.containerd_log(),
        };
        let programs = std::iter::once(&containerd).chain(&blueprint.programs);
        let spec = init::Spec {
            name: layout.name.clone(),
            data: layout.data.clone(),
            run: layout.run().into(),
            cgroup: layout.cgroup.clone(),
            hypervisor: blueprint.hypervisor,
            shared: blueprint.shared.clone(),
            hosts: hosts(&blueprint.all, &blueprint.addresses),
            programs: programs.cloned().collect(),
        };
        let file = layout.run().join("spec.json");
        let text = serde_json::to_string_pretty(&spec)
            .map_err(|e| Error::said(format!("node specification: {e}")))?;
        write(&file, &text)?;
        let init = spawn(blueprint, &file).await?;
        let identity =
            serde_json::to_string(&init).map_err(|e| Error::said(format!("node identity: {e}")))?;
        write(&layout.identity(), &identity)?;
        Self::find(layout).ok_or_else(|| {
            Error::said(format!(
                "node {} ended right after its start: see {}",
                layout.name,
                layout.init_log().display()
            ))
        })
    }

    pub fn alive(&self) -> bool {
        self.init.alive()
    }
}

/// Pulls the plug: kills process 1, and with it everything in the node.
pub async fn kill(layout: &NodeLayout) -> Result<()> {
    let init: Option<Process> = std::fs::read(layout.identity())
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    if let Some(init) = init {
        init.signal(Signal::KILL);
        let deadline = Instant::now() + Duration::from_secs(10);
        while init.alive() && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        if init.alive() {
            return Err(Error::said(format!(
                "process {} of node {} does not end after SIGKILL",
                init.pid, layout.name
            )));
        }
    }
    clear(layout).await
}

/// Nothing runs on the node yet: an address that is still taken was lost on the way between the
/// network plugin and the runtime. Which was given out last stays known, so that none comes back soon.
fn free_addresses(ipam: &Path) {
    let entries = |at: &Path| std::fs::read_dir(at).into_iter().flatten().flatten();
    for network in entries(ipam) {
        for entry in entries(&network.path()) {
            let name = entry.file_name();
            let address = name
                .to_str()
                .and_then(|name| name.parse::<std::net::IpAddr>().ok());
            if address.is_some() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Removes what a dead node leaves: cgroups and short-lived files.
async fn clear(layout: &NodeLayout) -> Result<()> {
    let cgroup = layout.cgroup.clone();
    tokio::task::spawn_blocking(move || {
        kill_leftovers(&cgroup);
        cgroups::remove(&cgroup, Duration::from_secs(10))
    })
    .await
    .map_err(|e| Error::said(e.to_string()))??;
    fabric::reset_run(layout)
}

/// Belt and braces: a start that broke off may have left processes in the cgroup.
fn kill_leftovers(cgroup: &str) {
    for hierarchy in cgroups::hierarchies().unwrap_or_default() {
        let directory = hierarchy.mount.join(cgroup);
        // Only version 2 kills by itself.
        let killed = hierarchy.unified() && std::fs::write(directory.join("cgroup.kill"), "1").is_ok();
        if !killed {
            cgroups::kill(&directory);
        }
    }
}

async fn spawn(blueprint: &Blueprint, spec: &Path) -> Result<Process> {
    let layout = &blueprint.layout;
    let [program, args @ ..] = blueprint.init.as_slice() else {
        return Err(Error::said("no program is named for the node's init"));
    };
    let log = std::fs::File::create(layout.init_log()).map_err(Error::file("make", layout.init_log()))?;
    let starting = tokio::process::Command::new(program)
        .args(args)
        .arg(spec)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(Error::system(format!("start {program}")))?;
    let output = timeout(START_LIMIT, starting.wait_with_output())
        .await
        .map_err(|_| Error::said(format!("node {} did not start in time", layout.name)))?
        .map_err(Error::system(format!("wait for {program}")))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    init::parse_answer(&answer)
        .and_then(Process::of)
        .ok_or_else(|| Error::said(format!("node {} did not start: {}", layout.name, answer.trim())))
}

fn hosts(all: &[(String, u8)], addresses: &Addresses) -> String {
    let mut text = String::from("127.0.0.1 localhost\n");
    for (name, index) in all {
        text.push_str(&format!("{} {name}\n", addresses.node(*index)));
    }
    text
}

/// Writes a file so that a crash, of the machine too, leaves the old or the new one.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let part = path.with_extension("part");
    std::fs::File::create(&part)
        .and_then(|mut file| {
            file.write_all(content.as_ref())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_dead_are_free() {
        let dir = tempfile::tempdir().unwrap();
        free_addresses(&dir.path().join("never made"));
        let pods = dir.path().join("pods");
        std::fs::create_dir(&pods).unwrap();
        for name in ["10.191.1.2", "10.191.1.3", "last_reserved_ip.0", "lock"] {
            std::fs::write(pods.join(name), "").unwrap();
        }
        free_addresses(dir.path());
        let left = std::fs::read_dir(&pods).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["last_reserved_ip.0", "lock"]);
    }
}
