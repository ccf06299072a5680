//! Detects the properties of this machine.

use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use embedded_node::containerd::{Machine, plugin_directory};
use embedded_node::error::{Error, Result};
use embedded_node::process::program;

pub fn machine(state: &Path) -> Result<Machine> {
    let missing = |what: &str| Error::said(format!("{what} is missing"));
    let runc = program("runc").ok_or_else(|| missing("runc"))?;
    let apparmor =
        std::fs::read_to_string("/sys/module/apparmor/parameters/enabled").is_ok_and(|t| t.trim() == "Y");
    Ok(Machine {
        plugins: plugin_directory()
            .ok_or_else(|| missing("a directory with CNI plugins"))?
            .into(),
        runc: runc.to_string_lossy().into_owned(),
        apparmor,
        snapshotter: if overlay_works(state) {
            "overlayfs".into()
        } else {
            // Slower and larger, but it works on every file system.
            "native".into()
        },
    })
}

/// Tries an overlay mount on the file system that will hold the layers. In a mount
/// namespace of its own thread: the machine never sees it.
pub fn overlay_works(state: &Path) -> bool {
    let base = state.join(format!(".overlay-{}", std::process::id()));
    let at = base.clone();
    let tried = std::thread::spawn(move || -> std::io::Result<()> {
        use nix::sched::{CloneFlags, unshare};
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            None::<&str>,
        )?;
        for d in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir_all(at.join(d))?;
        }
        let path = |d: &str| at.join(d).to_string_lossy().into_owned();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            path("lower"),
            path("upper"),
            path("work")
        );
        mount(
            Some("overlay"),
            &at.join("merged"),
            Some("overlay"),
            MsFlags::empty(),
            Some(options.as_str()),
        )?;
        std::fs::write(at.join("merged/file"), "x")?;
        umount2(&at.join("merged"), MntFlags::MNT_DETACH)?;
        Ok(())
    })
    .join();
    let _ = std::fs::remove_dir_all(&base);
    matches!(tried, Ok(Ok(())))
}

pub fn cpus() -> i64 {
    std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1))
}

/// Bytes of memory.
pub fn memory() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<i64>().ok());
    kib.unwrap_or(1 << 20) * 1024
}
