//! Child processes that end with the test, however it ends.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A started program. Dropping it kills that very process.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `command` with its output in `log`.
    pub fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            child,
            log: log.to_path_buf(),
        })
    }

    /// The last lines of the log, for a message.
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// An error with its last words once it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => anyhow::bail!("ended with {status}:\n{}", self.tail()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
