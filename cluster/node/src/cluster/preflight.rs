//! Everything that is missing, found before anything is started, and said plainly.

use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::machine::program;
use crate::cgroups;
use crate::containerd::plugin_directory;
use crate::error::{Error, Result};

/// Programs and the Debian package of each.
const PROGRAMS: [(&str, &str); 3] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("nft", "nftables"),
];
const PLUGINS: &str = "containernetworking-plugins";

/// Debian packages of programs that are not installed.
pub fn missing_packages() -> Vec<&'static str> {
    let mut missing: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|(name, _)| program(name).is_none())
        .map(|(_, package)| package)
        .collect();
    if plugin_directory().is_none() {
        missing.push(PLUGINS);
    }
    missing
}

/// Installs what is missing with one run of apt; says what to do where there is none.
pub fn install(say: &mut dyn FnMut(&str)) -> Result<()> {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if program("apt-get").is_none() {
        return Err(Error::said(format!(
            "these are missing and this machine has no apt-get to install them: {list}"
        )));
    }
    say(&format!("installs {list}"));
    let run = |args: &[&str]| {
        Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=300", "-y"])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output()
            .map_err(Error::system("run apt-get"))
    };
    let mut command = vec!["install", "--no-install-recommends"];
    command.extend(&missing);
    let mut done = run(&command)?;
    if !done.status.success() {
        // The list of packages may be old or empty.
        run(&["update"])?;
        done = run(&command)?;
    }
    match done.status.success() {
        true => Ok(()),
        false => Err(Error::said(format!(
            "apt-get install {list} failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
    }
}

/// What the kernel or the user's rights do not allow. Empty when all is well.
pub fn problems(state: &Path) -> Vec<String> {
    let mut found = Vec::new();
    if !nix::unistd::geteuid().is_root() {
        found.push("embedded nodes make namespaces and containers: run this as root".into());
        return found;
    }
    for (flag, name) in [
        (CloneFlags::CLONE_NEWNET, "network"),
        (CloneFlags::CLONE_NEWNS, "mount"),
        (CloneFlags::CLONE_NEWUTS, "UTS"),
        (CloneFlags::CLONE_NEWIPC, "IPC"),
        (CloneFlags::CLONE_NEWPID, "PID"),
        (CloneFlags::CLONE_NEWCGROUP, "cgroup"),
    ] {
        // On a thread of its own: the caller stays where it is.
        let tried = std::thread::spawn(move || unshare(flag)).join();
        if let Ok(Err(e)) = tried {
            found.push(format!(
                "this user or container may not make {name} namespaces ({e}): CAP_SYS_ADMIN is needed"
            ));
        }
    }
    if let Err(e) = cgroups::hierarchies() {
        found.push(e.to_string());
    }
    if let Err(e) = std::fs::create_dir_all(state) {
        found.push(format!(
            "the state directory {} cannot be made: {e}",
            state.display()
        ));
    }
    found
}
