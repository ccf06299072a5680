//! Everything that is missing, found before anything is started, and said plainly.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use embedded_node::cgroups;
use embedded_node::containerd::plugin_directory;
use embedded_node::error::{Error, Result};
use embedded_node::limits;
use embedded_node::process::program;

/// Programs and the Debian package of each.
const PROGRAMS: [(&str, &str); 4] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("nft", "nftables"),
    // The plugin behind hostPort calls it.
    ("iptables", "iptables"),
];
const PLUGINS: &str = "containernetworking-plugins";

/// Debian packages of programs that are not there.
fn missing(installed: impl Fn(&str) -> bool, plugins: bool) -> Vec<&'static str> {
    let mut missing: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|(name, _)| !installed(name))
        .map(|(_, package)| package)
        .collect();
    if !plugins {
        missing.push(PLUGINS);
    }
    missing
}

/// What to do about missing packages.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    Nothing,
    /// Arguments of apt-get.
    Install(Vec<String>),
    Refuse(String),
}

fn remedy(missing: &[&str], apt: bool, archives: &Path) -> Remedy {
    if missing.is_empty() {
        return Remedy::Nothing;
    }
    let list = missing.join(" ");
    if !apt {
        return Remedy::Refuse(format!(
            "these are missing and this machine has no apt-get to install them: {list}"
        ));
    }
    let mut command: Vec<String> = [
        "-y",
        // Another run of apt, perhaps the machine's own at boot, may hold the lock.
        "-o",
        "DPkg::Lock::Timeout=300",
        // Two runs delete each other's downloads.
        "-o",
        &format!("Dir::Cache::archives={}", archives.display()),
        "--no-install-recommends",
        "install",
    ]
    .map(String::from)
    .into();
    command.extend(missing.iter().map(|p| (*p).to_owned()));
    Remedy::Install(command)
}

/// Installs what is missing with one run of apt; says what to do where there is none.
pub fn install(state: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    let missing = missing(|name| program(name).is_some(), plugin_directory().is_some());
    // apt takes other paths for parts of its own.
    let archives = std::path::absolute(state)
        .map_err(Error::file("resolve", state))?
        .join(".packages");
    let command = match remedy(&missing, program("apt-get").is_some(), &archives) {
        Remedy::Nothing => return Ok(()),
        Remedy::Refuse(why) => return Err(Error::said(why)),
        Remedy::Install(command) => command,
    };
    let list = missing.join(" ");
    say(&format!("installing {list}"));
    let partial = archives.join("partial");
    std::fs::create_dir_all(&partial).map_err(Error::file("make directory", &partial))?;
    let said = archives.join("apt.log");
    // A group and a file of its own: Ctrl-C must not leave packages half set up. The next run waits
    // for this one.
    let run = |args: &[String]| {
        let log = std::fs::File::create(&said).map_err(Error::file("make", &said))?;
        let errors = log.try_clone().map_err(Error::file("open", &said))?;
        Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .status()
            .map_err(Error::system("run apt-get"))
    };
    let mut done = run(&command)?;
    if !done.success() {
        // The list of packages may be old or empty.
        say("fetching the package lists");
        run(&["-o", "DPkg::Lock::Timeout=300", "update"].map(String::from))?;
        done = run(&command)?;
    }
    let words = std::fs::read(&said).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&archives);
    if done.success() {
        Ok(())
    } else {
        Err(Error::said(format!(
            "apt-get install {list} failed: {}",
            String::from_utf8_lossy(&words).trim()
        )))
    }
}

/// What the kernel or the user's rights do not allow. Empty when all is healthy.
pub fn problems(state: &Path) -> Vec<String> {
    let mut found = Vec::new();
    if !nix::unistd::geteuid().is_root() {
        found.push("embedded nodes need namespaces and containers: run this as root".into());
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
                "this user or container is not allowed to create {name} namespaces ({e}): CAP_SYS_ADMIN is needed"
            ));
        }
    }
    let files = limits::files();
    if files < limits::LEAST_FILES {
        found.push(format!(
            "only {files} files may be open at once, {} are needed: raise the limit (`ulimit -Hn`)",
            limits::LEAST_FILES
        ));
    }
    if let Err(e) = cgroups::hierarchies() {
        found.push(e.to_string());
    }
    if let Err(e) = std::fs::create_dir_all(state) {
        found.push(format!(
            "cannot create the state directory {}: {e}",
            state.display()
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        let none = |_: &str| false;
        for (installed, plugins, expected) in [
            (&(|_: &str| true) as &dyn Fn(&str) -> bool, true, vec![]),
            (&|_| true, false, vec![PLUGINS]),
            (&|name| name != "runc", true, vec!["runc"]),
            (
                &none,
                false,
                vec!["containerd", "runc", "nftables", "iptables", PLUGINS],
            ),
        ] {
            assert_eq!(missing(installed, plugins), expected);
        }
    }

    #[test]
    fn the_list_of_packages_has_what_is_asked_for() {
        let list = include_str!("../../../scripts/packages.txt");
        let packages: Vec<&str> = list
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for package in PROGRAMS.map(|(_, package)| package).into_iter().chain([PLUGINS]) {
            assert!(packages.contains(&package), "{package}");
        }
    }

    #[test]
    fn apt_is_used_where_it_is() {
        let at = Path::new("/s/.packages");
        assert_eq!(remedy(&[], false, at), Remedy::Nothing);
        let Remedy::Install(command) = remedy(&["runc", "nftables"], true, at) else {
            panic!("apt is there");
        };
        assert_eq!(command[command.len() - 3..], ["install", "runc", "nftables"]);
        assert!(command.contains(&"Dir::Cache::archives=/s/.packages".to_owned()));
        assert_eq!(
            remedy(&["runc"], false, at),
            Remedy::Refuse("these are missing and this machine has no apt-get to install them: runc".into())
        );
    }
}
