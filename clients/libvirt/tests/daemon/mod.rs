//! A libvirtd of a test's own: no privileges, own directories, ended with the test. The tests of the
//! node agent use it too.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// libvirt's user mode needs no rights: as root it becomes nobody.
const NOBODY: u32 = 65534;
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Libvirtd {
    process: Option<Child>,
    // Dropped after the process that writes to it.
    directory: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Libvirtd {
    /// Listens on [`socket`](Self::socket).
    pub(crate) fn start() -> Self {
        Self::start_with("", &[])
    }

    /// With settings of libvirtd.conf, and arguments.
    pub(crate) fn start_with(settings: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        for name in ["run", "home"] {
            std::fs::create_dir(path.join(name)).expect("a directory");
            if is_root() {
                chown(path.join(name), Some(NOBODY), Some(NOBODY)).expect("its owner");
            }
        }
        std::fs::write(path.join("libvirtd.conf"), settings).expect("its settings");
        let mut daemon = Libvirtd {
            process: None,
            directory,
            arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        };
        daemon.up();
        daemon
    }

    /// Starts it again after [`kill`](Self::kill).
    pub(crate) fn up(&mut self) {
        let path = self.directory.path();
        let log = std::fs::File::create(path.join("log")).expect("a log");
        let mut command = Command::new("libvirtd");
        command
            .args(["--config", &path.join("libvirtd.conf").to_string_lossy()])
            .args(&self.arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", path.join("home"))
            .env("XDG_RUNTIME_DIR", path.join("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let process = command
            .spawn()
            .expect("libvirtd starts; scripts/install-packages test installs it");
        self.process = Some(process);
        let since = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            let log = std::fs::read_to_string(path.join("log")).unwrap_or_default();
            assert!(since.elapsed() < PATIENCE, "libvirtd does not listen:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // One that has ended by itself is what was wanted.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("run/libvirt/libvirt-sock")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// libvirt's test driver: a host and its guests in memory, private to the daemon.
    pub(crate) fn test_driver(&self) -> String {
        format!("test+unix:///default?socket={}", self.socket().display())
    }
}

impl Drop for Libvirtd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_root() -> bool {
    let own = std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    own.is_ok_and(|uid| uid == 0)
}
