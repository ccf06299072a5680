//! Where a cluster keeps its files.
//!
//! State survives a reboot and lies below the directory the user names. What lives as
//! long as the machine is up (sockets, identities, the fabric's handle) lies below a
//! short path in `/run`: the path of a UNIX socket has at most 107 bytes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::names::Names;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    names: Names,
    state: PathBuf,
    run: PathBuf,
    id: String,
}

impl Layout {
    /// The layout of the cluster in `state`, a directory that is made when missing.
    pub fn new(names: Names, state: &Path) -> Result<Self> {
        std::fs::create_dir_all(state).map_err(Error::file("make directory", state))?;
        let state = state.canonicalize().map_err(Error::file("resolve", state))?;
        let id = format!("{:08x}", fnv(state.as_os_str().as_encoded_bytes()));
        let run = names.run(&id);
        Ok(Self {
            names,
            state,
            run,
            id,
        })
    }

    /// What the program is called that the cluster belongs to.
    pub fn names(&self) -> Names {
        self.names
    }

    /// Short name of this cluster on the machine, from the state directory's path.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Handle of the fabric's network namespace.
    pub fn fabric(&self) -> PathBuf {
        self.run.join("fabric")
    }

    /// Directories of volumes that outlive pods; every node sees them.
    pub fn volumes(&self) -> PathBuf {
        self.state.join("volumes")
    }

    /// Directories of the nodes, with what their pods hold.
    fn nodes(&self) -> PathBuf {
        self.state.join("nodes")
    }

    /// Closes what pods keep to the machine's other users, also where an earlier version left it
    /// open. Pods get the directories below bound one by one: they pass no door above them.
    pub fn close_to_others(&self) -> Result<()> {
        for path in [self.nodes(), self.volumes()] {
            std::fs::create_dir_all(&path).map_err(Error::file("make directory", &path))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
                .map_err(Error::file("close directory", &path))?;
        }
        Ok(())
    }

    pub fn node(&self, name: &str, index: u8) -> NodeLayout {
        NodeLayout {
            name: name.into(),
            index,
            data: self.nodes().join(name),
            run: self.run.join(format!("n{index}")),
            cgroup: format!("{}/{}-{name}", self.names.cgroup(), self.id),
            names: self.names,
        }
    }
}

/// Where one node keeps its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    pub names: Names,
    pub name: String,
    pub index: u8,
    /// Persistent; bound at the same path inside the node.
    pub data: PathBuf,
    run: PathBuf,
    /// Below the root of every cgroup hierarchy.
    pub cgroup: String,
}

impl NodeLayout {
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// The node's `/run`, seen from the machine.
    pub fn inner_run(&self) -> PathBuf {
        self.run.join("run")
    }

    pub fn identity(&self) -> PathBuf {
        self.run.join("identity.json")
    }

    pub fn socket(&self) -> PathBuf {
        self.inner_run().join("containerd/containerd.sock")
    }

    pub fn containerd_root(&self) -> PathBuf {
        self.data.join("containerd")
    }

    pub fn containerd_config(&self) -> PathBuf {
        self.data.join("containerd.toml")
    }

    pub fn containerd_log(&self) -> PathBuf {
        self.data.join("containerd.log")
    }

    pub fn init_log(&self) -> PathBuf {
        self.data.join("init.log")
    }

    pub fn cni(&self) -> PathBuf {
        self.data.join("cni")
    }

    pub fn ipam(&self) -> PathBuf {
        self.data.join("ipam")
    }

    pub fn pods(&self) -> PathBuf {
        self.data.join("pods")
    }

    pub fn logs(&self) -> PathBuf {
        self.data.join("logs")
    }
}

/// FNV-1a: stable between versions, and two state directories rarely meet.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EXAMPLE;

    #[test]
    fn sockets_stay_short_whatever_the_state_directory() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a".repeat(120)).join("b".repeat(120));
        let layout = Layout::new(EXAMPLE, &deep).unwrap();
        let node = layout.node(&"n".repeat(63), 250);
        assert!(node.socket().as_os_str().len() < 107);
        assert_ne!(layout.id(), Layout::new(EXAMPLE, base.path()).unwrap().id());
        assert_eq!(layout, Layout::new(EXAMPLE, &deep).unwrap());
    }

    #[test]
    fn what_pods_keep_is_closed_to_other_users() {
        let base = tempfile::tempdir().unwrap();
        let layout = Layout::new(EXAMPLE, base.path()).unwrap();
        std::fs::create_dir(layout.volumes()).unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(layout.volumes(), open).unwrap();
        layout.close_to_others().unwrap();
        for path in [layout.nodes(), layout.volumes()] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "{}", path.display());
        }
    }
}
