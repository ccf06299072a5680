//! Sessions with command-line programs against an embedded server.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, Command};

use crate::{Embedded, tools};

const PATIENCE: Duration = Duration::from_secs(60);

/// kubectl, helm or c5c3 with a server, and a home of its own: no settings or caches of the machine.
pub struct Session {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: tempfile::TempDir,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Session {
    pub fn new(program: &str, embedded: &Embedded) -> anyhow::Result<Self> {
        Ok(Self {
            program: if program == "c5c3" {
                tools::c5c3()?
            } else {
                tools::tool(program)?
            },
            kubeconfig: embedded.server.kubeconfig_path().to_path_buf(),
            home: tempfile::tempdir()?,
        })
    }

    /// A directory for manifests.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            // kubectl diff runs the system's diff.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end, whatever that is.
    pub async fn try_run(&self, arguments: &[&str], input: &str) -> anyhow::Result<Said> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| self.program.display().to_string())?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await?;
        }
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
            .await
            .with_context(|| format!("{arguments:?} did not end"))??;
        Ok(Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a command that must succeed; its output.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run_with(arguments, "").await
    }

    /// The same, with something on its standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let said = self.try_run(arguments, input).await?;
        anyhow::ensure!(
            said.code == 0,
            "{arguments:?} failed with {}:\n{}{}",
            said.code,
            said.out,
            said.err
        );
        Ok(said.out)
    }

    /// Runs a command that must fail; its complaint.
    pub async fn fails(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let said = self.try_run(arguments, "").await?;
        anyhow::ensure!(said.code != 0, "{arguments:?} did not fail:\n{}", said.out);
        Ok(said.out + &said.err)
    }

    /// The output of a command with `-o json`, as a tree.
    pub async fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let arguments = [arguments, &["-o", "json"]].concat();
        Ok(serde_json::from_str(&self.run(&arguments).await?)?)
    }

    /// Starts a command that goes on; what it prints comes line by line.
    pub fn stream(&self, arguments: &[&str]) -> anyhow::Result<Stream> {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("no output")?;
        Ok(Stream::of(child, Box::pin(out)))
    }

    /// The same with its log, which is beside the output.
    pub fn log(&self, arguments: &[&str]) -> anyhow::Result<Stream> {
        let mut child = self.command(arguments).stderr(Stdio::piped()).spawn()?;
        let log = child.stderr.take().context("no log")?;
        Ok(Stream::of(child, Box::pin(log)))
    }
}

/// A command under way; dropping it ends it.
pub struct Stream {
    child: Child,
    lines: Lines<BufReader<Words>>,
}

type Words = Pin<Box<dyn AsyncRead + Send>>;

impl Stream {
    fn of(child: Child, said: Words) -> Self {
        let lines = BufReader::new(said).lines();
        Self { child, lines }
    }

    /// Waits for a line that contains the text.
    pub async fn until(&mut self, text: &str) -> anyhow::Result<String> {
        let find = async {
            while let Some(line) = self.lines.next_line().await? {
                if line.contains(text) {
                    return Ok(line);
                }
            }
            anyhow::bail!("the output ended without {text:?}")
        };
        tokio::time::timeout(PATIENCE, find)
            .await
            .with_context(|| format!("{text:?} did not come"))?
    }

    /// Asks it to end, and waits until it has: as Kubernetes ends a container.
    pub async fn terminate(mut self) -> anyhow::Result<ExitStatus> {
        let id = self.child.id().context("it has ended")?;
        let asked = Command::new("kill").arg(id.to_string()).status().await?;
        anyhow::ensure!(asked.success(), "kill {id}: {asked}");
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        Ok(ended.with_context(|| format!("it did not end in {PATIENCE:?}"))??)
    }

    pub async fn end(mut self) -> anyhow::Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}
