//! Where a layer is built: an overlay of the layers below and a fresh one, in a mount namespace of
//! its own. Nothing outside sees the mounts, and nothing has to be cleaned up after a kill.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::build::failure;
use crate::error::{Context, Error, Result};

/// Kills everything in the process namespace when the builder is gone: the builder holds the other
/// end of standard input. The machine's name stays hidden.
const WATCH: &str = "exec 3<&0 </dev/null\n( read -r _ <&3 || kill -9 -1 ) &\nexec 3<&-\n\
    echo localhost > /proc/sys/kernel/hostname || :\n";

/// The directory for everything that a build step needs and an image must not have.
pub(crate) const INSIDE: &str = "/run/c5c3";

/// The layers below (lowest first) and where the new one goes.
pub(crate) struct Sandbox<'a> {
    pub layer: &'a str,
    pub lower: &'a [PathBuf],
    pub work: &'a Path,
    pub log: &'a Path,
    /// The store, to tell how full its disk is.
    pub store: &'a Path,
}

/// The sandbox from within: `root` is the merged tree.
pub(crate) struct Inside<'a> {
    pub root: PathBuf,
    sandbox: &'a Sandbox<'a>,
}

impl Sandbox<'_> {
    /// The directory that becomes the layer.
    pub(crate) fn upper(&self) -> PathBuf {
        self.work.join("upper")
    }

    /// Runs `job` on a thread that alone sees the mounts.
    pub(crate) fn enter<T: Send>(&self, job: impl FnOnce(&Inside<'_>) -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let handle = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNS)
                    .map_err(|error| refused("a private mount namespace", error))?;
                let root = self.mounts()?;
                let result = job(&Inside {
                    root: root.clone(),
                    sandbox: self,
                });
                // The namespace ends with this thread; detaching first makes it happen now.
                let _ = umount2(&root, MntFlags::MNT_DETACH);
                result
            });
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn mounts(&self) -> Result<PathBuf> {
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .map_err(|error| refused("a private mount namespace", error))?;
        let (upper, work, root) = (self.upper(), self.work.join("overlay"), self.work.join("root"));
        for directory in [&upper, &work, &root] {
            fs::create_dir_all(directory).context("creating", directory)?;
        }
        if self.lower.is_empty() {
            mount(Some(&upper), &root, none, MsFlags::MS_BIND, none)
                .map_err(|error| refused("a bind mount", error))?;
        } else {
            let lower: Vec<String> = self
                .lower
                .iter()
                .rev()
                .map(|path| path.display().to_string())
                .collect();
            let options = format!(
                "lowerdir={},upperdir={},workdir={},redirect_dir=off,metacopy=off",
                lower.join(":"),
                upper.display(),
                work.display()
            );
            mount(
                Some("overlay"),
                &root,
                Some("overlay"),
                MsFlags::empty(),
                Some(options.as_str()),
            )
            .map_err(|error| refused("an overlay mount", error))?;
        }
        Ok(root)
    }

    fn failed(&self, step: &str, status: ExitStatus) -> Error {
        failure::explain(self.layer, step, &status.to_string(), self.log, self.store)
    }
}

fn refused(what: &str, error: nix::Error) -> Error {
    match error {
        nix::Error::EPERM | nix::Error::EACCES => Error::Privilege {
            what: what.to_owned(),
        },
        nix::Error::ENODEV => Error::Request(format!(
            "{what}: the kernel has no overlayfs; run `modprobe overlay`"
        )),
        other => Error::Io {
            what: what.to_owned(),
            source: other.into(),
        },
    }
}

impl Inside<'_> {
    /// Makes the tree a place in which programs run: devices, /run and /tmp that are not part of it,
    /// and the machine's name service.
    pub(crate) fn furnish(&self) -> Result<()> {
        for directory in ["dev", "proc", "run", "tmp"] {
            let path = self.root.join(directory);
            fs::create_dir_all(&path).context("creating", &path)?;
        }
        for (directory, options) in [("dev", "mode=0755"), ("run", "mode=0755"), ("tmp", "mode=1777")] {
            let path = self.root.join(directory);
            mount(
                Some("tmpfs"),
                &path,
                Some("tmpfs"),
                MsFlags::MS_NOSUID,
                Some(options),
            )
            .map_err(|error| refused("a tmpfs mount", error))?;
        }
        for device in ["full", "null", "random", "tty", "urandom", "zero"] {
            let own = Path::new("/dev").join(device);
            if own.exists() {
                self.bind(&own, &format!("/dev/{device}"))?;
            }
        }
        for (link, to) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "fd/0"),
            ("stdout", "fd/1"),
            ("stderr", "fd/2"),
        ] {
            let path = self.root.join("dev").join(link);
            std::os::unix::fs::symlink(to, &path).context("linking", &path)?;
        }
        let shm = self.root.join("dev/shm");
        fs::create_dir(&shm).context("creating", &shm)?;
        let names = Path::new("/etc/resolv.conf");
        if names.exists() && self.root.join("etc/resolv.conf").is_file() {
            self.bind(names, "/etc/resolv.conf")?;
        }
        let own = self.path(INSIDE);
        fs::create_dir_all(&own).context("creating", &own)
    }

    /// A path of the tree as seen from outside.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside.trim_start_matches('/'))
    }

    /// Shows a file or directory of the machine inside.
    pub(crate) fn bind(&self, source: &Path, inside: &str) -> Result<()> {
        self.bound(source, inside, MsFlags::MS_BIND)
    }

    /// The same with all that is mounted below it.
    pub(crate) fn bind_all(&self, source: &Path, inside: &str) -> Result<()> {
        self.bound(source, inside, MsFlags::MS_BIND | MsFlags::MS_REC)
    }

    fn bound(&self, source: &Path, inside: &str, flags: MsFlags) -> Result<()> {
        let target = self.path(inside);
        if source.is_dir() {
            fs::create_dir_all(&target).context("creating", &target)?;
        } else if !target.exists() {
            File::create(&target).context("creating", &target)?;
        }
        mount(Some(source), &target, None::<&str>, flags, None::<&str>)
            .map_err(|error| refused("a bind mount", error))
    }

    /// Writes a file below `/run/c5c3`; it is gone with the sandbox.
    pub(crate) fn note(&self, name: &str, content: &str) -> Result<String> {
        let inside = format!("{INSIDE}/{name}");
        let path = self.path(&inside);
        fs::write(&path, content).context("writing", &path)?;
        Ok(inside)
    }

    /// Runs a shell script inside the tree.
    pub(crate) fn run(&self, step: &str, script: &str, variables: &BTreeMap<String, String>) -> Result<()> {
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--uts", "--fork", "--kill-child"])
            .arg(format!("--mount-proc={}", self.root.join("proc").display()))
            .arg("chroot")
            .arg(&self.root);
        self.finish(step, command, script, variables)
    }

    /// Runs a shell script on the machine, in the sandbox's mount namespace.
    pub(crate) fn run_outside(
        &self,
        step: &str,
        script: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<()> {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]);
        self.finish(step, command, script, variables)
    }

    fn finish(
        &self,
        step: &str,
        mut command: Command,
        script: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<()> {
        let log = self.sandbox.log;
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .context("opening", log)?;
        let errors = output.try_clone().context("opening", log)?;
        let mut child = command
            // The trailing colon keeps the shell as process 1 until the last command is done.
            .args(["/bin/sh", "-ec", &format!("{WATCH}{script}\n:\n")])
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", "/root")
            .env("LC_ALL", "C.UTF-8")
            .envs(variables)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| missing("unshare", "util-linux", error))?;
        // Held open until the end: see WATCH.
        let _watched = child.stdin.take();
        let status = child.wait().context("waiting for", Path::new("unshare"))?;
        if status.success() {
            Ok(())
        } else {
            Err(self.sandbox.failed(step, status))
        }
    }
}

/// A program that could not be started.
pub(crate) fn missing(program: &str, package: &str, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::Program {
            program: program.to_owned(),
            package: package.to_owned(),
        };
    }
    Error::Io {
        what: format!("starting {program}"),
        source: error,
    }
}
