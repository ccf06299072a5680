//! Control groups: one directory for each node in every hierarchy that the machine has,
//! whether version 1, hybrid or version 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal;
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// One hierarchy as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// As in /proc/self/cgroup: `cpu,cpuacct`, `name=systemd`, or nothing for version 2.
    pub controllers: String,
    pub mount: PathBuf,
}

impl Hierarchy {
    pub fn unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Directory name below /sys/fs/cgroup.
    pub fn directory(&self) -> &str {
        match self.controllers.strip_prefix("name=") {
            Some(name) => name,
            None if self.unified() => "unified",
            None => &self.controllers,
        }
    }
}

/// The hierarchies that are mounted here.
pub fn hierarchies() -> Result<Vec<Hierarchy>> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(Error::file("read", "/proc/self/cgroup"))?;
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").map_err(Error::file("read", "/proc/self/mountinfo"))?;
    let found = match_mounts(&own, &mounts);
    if found.is_empty() {
        return Err(Error::said(
            "no cgroup hierarchy is mounted: mount cgroup2 on /sys/fs/cgroup first",
        ));
    }
    Ok(found)
}

/// Whether version 2 is the only one.
pub fn only_unified(hierarchies: &[Hierarchy]) -> bool {
    hierarchies.iter().all(Hierarchy::unified)
}

fn match_mounts(own: &str, mountinfo: &str) -> Vec<Hierarchy> {
    let mounts: Vec<(PathBuf, &str, Vec<&str>)> = mountinfo
        .lines()
        .filter_map(|line| {
            let (head, tail) = line.split_once(" - ")?;
            let point = head.split(' ').nth(4)?;
            let mut tail = tail.split(' ');
            let kind = tail.next()?;
            let options = tail.nth(1).unwrap_or_default().split(',').collect();
            matches!(kind, "cgroup" | "cgroup2").then(|| (point.into(), kind, options))
        })
        .collect();
    own.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers) = (fields.next()?, fields.next()?);
            let (mount, _, _) = mounts.iter().find(|(_, kind, options)| {
                if controllers.is_empty() {
                    *kind == "cgroup2"
                } else {
                    *kind == "cgroup" && controllers.split(',').all(|c| options.contains(&c))
                }
            })?;
            Some(Hierarchy {
                controllers: controllers.into(),
                mount: mount.clone(),
            })
        })
        .collect()
}

/// Moves the calling process into `path` of every hierarchy, which is made first.
pub fn join(path: &str) -> Result<()> {
    let all = hierarchies()?;
    // Another cluster that goes takes the empty parent of both with it: then again.
    let mut tries = 0;
    loop {
        match join_all(&all, path) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound && tries < 10 => {
                tries += 1;
            }
            done => return done,
        }
    }
}

fn join_all(all: &[Hierarchy], path: &str) -> Result<()> {
    for hierarchy in all {
        let mut directory = hierarchy.mount.clone();
        for part in Path::new(path) {
            let parent = directory.clone();
            directory.push(part);
            make(&directory)?;
            if hierarchy.controllers == "cpuset" {
                inherit_cpuset(&parent, &directory)?;
            }
            if hierarchy.unified() && only_unified(all) {
                delegate(&parent);
            }
        }
        let procs = directory.join("cgroup.procs");
        fs::write(&procs, "0").map_err(Error::file("join cgroup", &procs))?;
    }
    Ok(())
}

/// On version 2 a cgroup with controllers for its children holds no process itself: moves
/// the caller to the leaf `system` and hands the controllers on. `root` is the node's own
/// cgroup, seen from inside its cgroup namespace.
pub fn settle(root: &Path) -> Result<()> {
    make_room(root)?;
    delegate(root);
    Ok(())
}

/// Moves the caller out of a node's cgroup, into the leaf `system`.
fn make_room(root: &Path) -> Result<()> {
    let leaf = root.join("system");
    make(&leaf)?;
    let procs = leaf.join("cgroup.procs");
    fs::write(&procs, "0").map_err(Error::file("join cgroup", &procs))
}

/// Where version 2 is the only one, whoever starts a node must not stay in its cgroup
/// either: the kernel would refuse to hand controllers on.
pub fn step_aside(path: &str) -> Result<()> {
    let all = hierarchies()?;
    match all.iter().find(|h| h.unified()) {
        Some(hierarchy) if only_unified(&all) => make_room(&hierarchy.mount.join(path)),
        _ => Ok(()),
    }
}

/// Hands every controller on to the children. One that is refused is missing for pods
/// and no reason to fail.
fn delegate(directory: &Path) {
    let available = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    for controller in available.split_ascii_whitespace() {
        let _ = fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

fn make(directory: &Path) -> Result<()> {
    match fs::create_dir(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(Error::file("make cgroup", directory)(e)),
        _ => Ok(()),
    }
}

/// A new cpuset is empty and takes no process until it has processors and memory.
fn inherit_cpuset(parent: &Path, child: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let to = child.join(file);
        let has = fs::read_to_string(&to).unwrap_or_default();
        if has.trim().is_empty() {
            let value =
                fs::read_to_string(parent.join(file)).map_err(Error::file("read", parent.join(file)))?;
            fs::write(&to, value.trim()).map_err(Error::file("write", &to))?;
        }
    }
    Ok(())
}

/// Kills every process in a directory of a hierarchy and below it.
pub fn kill(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            kill(&entry.path());
        }
    }
    let list = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let own = std::process::id().cast_signed();
    // A zero stands for a process that this one cannot see.
    for pid in list.lines().filter_map(|l| l.parse::<i32>().ok()) {
        if pid > 1 && pid != own {
            let _ = signal::kill(Pid::from_raw(pid), signal::Signal::SIGKILL);
        }
    }
}

/// Removes `path` and what is below it in every hierarchy, once its processes are gone.
pub fn remove(path: &str, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    for hierarchy in hierarchies()? {
        let directory = hierarchy.mount.join(path);
        loop {
            match remove_tree(&directory) {
                Ok(()) => break,
                // Dying processes stay in their cgroup for a moment.
                Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(20)),
                Err(e) => return Err(Error::file("remove cgroup", &directory)(e)),
            }
        }
    }
    Ok(())
}

/// Removes the parent of all nodes when the last one is gone.
pub fn remove_if_empty(path: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let _ = fs::remove_dir(hierarchy.mount.join(path));
    }
    Ok(())
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/systemd rw shared:3 - cgroup cgroup rw,xattr,name=systemd
";

    #[test]
    fn hybrid_and_unified() {
        let own = "9:name=systemd:/\n3:freezer:/\n2:cpu,cpuacct:/a\n0::/user.slice\n";
        let found = match_mounts(own, HYBRID);
        let names: Vec<_> = found.iter().map(Hierarchy::directory).collect();
        // The freezer is not mounted: it can be neither joined nor shown.
        assert_eq!(names, ["systemd", "cpu,cpuacct", "unified"]);
        assert!(!only_unified(&found));

        let v2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = match_mounts("0::/init.scope\n", v2);
        assert!(only_unified(&found));
        assert_eq!(found[0].mount, Path::new("/sys/fs/cgroup"));
        assert!(match_mounts("nonsense", "more nonsense\n").is_empty());
    }
}
