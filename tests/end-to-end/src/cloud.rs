//! A cluster of our own for a test, with the real programs. Needs root.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{elsewhere, process, tools};

/// The kubeconfig of a cluster that has our operators: clouds of the tests are made there.
pub const GIVEN: &str = "C5C3_CLOUD_KUBECONFIG";

/// The state directory of a cloud of this machine that is used as it is, and stays: for one scenario again and again.
pub const KEPT: &str = "C5C3_CLOUD_STATE";

/// A cluster that is gone with the test, however that ends; or a cloud on the one that [`GIVEN`] names, or that of
/// [`KEPT`].
pub struct Cloud {
    program: PathBuf,
    directory: tempfile::TempDir,
    given: Option<PathBuf>,
    kept: Option<PathBuf>,
    _turn: MutexGuard<'static, ()>,
}

/// Two clouds at a time are too much for a small machine.
static TURN: Mutex<()> = Mutex::new(());

impl Cloud {
    /// A place for a cluster; nothing runs yet.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            program: tools::c5c3()?,
            directory: tempfile::tempdir()?,
            given: std::env::var_os(GIVEN).map(PathBuf::from),
            kept: std::env::var_os(KEPT).map(PathBuf::from),
            // A test that failed leaves nothing behind that the next one could see.
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// Builds the images that are missing and starts an empty cluster with our operators.
    pub fn up(images: &[&str]) -> anyhow::Result<Self> {
        let cloud = Self::new()?;
        cloud.c5c3(&[&["image", "build"], images].concat())?;
        cloud.start()?;
        Ok(cloud)
    }

    /// The cluster is another one than those that `c5c3 up` makes.
    pub fn is_elsewhere(&self) -> bool {
        self.given.is_some()
    }

    /// It was there before the test.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    fn kubeconfig(&self) -> PathBuf {
        let own = || self.state().join("api/kubeconfig");
        self.given.clone().unwrap_or_else(own)
    }

    pub fn state(&self) -> PathBuf {
        let own = || self.directory.path().join("state");
        self.kept.clone().unwrap_or_else(own)
    }

    pub fn start(&self) -> anyhow::Result<()> {
        self.c5c3_here("up", &["--profile", "none"]).map(drop)
    }

    /// The same for a command that takes `--state-dir`: `up`, `node kill`.
    pub fn c5c3_here(&self, command: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(command, arguments).stdin(Stdio::null()).output()?;
        said(output, &format!("{command} {}", arguments.join(" ")))
    }

    /// The same, whatever comes of it: exit code, output and complaint.
    pub fn tried(&self, command: &str, arguments: &[&str]) -> anyhow::Result<(i32, String, String)> {
        let output = self.command(command, arguments).stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().context("an exit code")?;
        Ok((code, text(&output.stdout), text(&output.stderr)))
    }

    pub fn c5c3(&self, arguments: &[&str]) -> anyhow::Result<String> {
        said(
            Command::new(&self.program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()?,
            &arguments.join(" "),
        )
    }

    pub fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut command = Command::new(tools::tool("kubectl")?);
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.directory.path());
        said(fed(command, input)?, &arguments.join(" "))
    }

    /// Counts of writes so far, as the API server keeps them: those with one of these parts, or all.
    /// Nodes say that they live and what they see, and renew their pods' tokens: of events, those
    /// of our operators count.
    pub fn writes(&self, of: &[&str]) -> anyhow::Result<Vec<String>> {
        let mut lines = counted(&self.kubectl(&["get", "--raw", "/metrics"], "")?);
        lines.retain(|line| of.is_empty() || of.iter().any(|part| line.contains(part)));
        ensure!(!lines.is_empty(), "nothing is counted");
        Ok(lines)
    }

    /// Fails when something was written since these counts were read.
    pub fn nothing_written_since(&self, before: &[String], of: &[&str]) -> anyhow::Result<()> {
        let now = self.writes(of)?;
        let more: Vec<&String> = now.iter().filter(|line| !before.contains(line)).collect();
        ensure!(more.is_empty(), "written while nothing was asked for: {more:#?}");
        Ok(())
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A command for this cluster, not started yet.
    pub fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(name.split(' '));
        match &self.given {
            Some(kubeconfig) => command.arg("--kubeconfig").arg(kubeconfig),
            None => command.arg("--state-dir").arg(self.state()),
        };
        command.args(arguments);
        command
    }

    /// The id of the process behind the cluster.
    pub fn daemon(&self) -> anyhow::Result<u32> {
        let text = std::fs::read_to_string(self.state().join("daemon.json"))?;
        let process: Value = serde_json::from_str(&text)?;
        Ok(u32::try_from(process["pid"].as_u64().context("a process id")?)?)
    }

    /// Ends the daemon as a crash would.
    pub fn crash(&self) -> anyhow::Result<()> {
        process::kill(&[self.daemon()?])
    }

    /// Ends a program in these pods as a crash would, in all of them at once. It gets no word before:
    /// process 1 of a container takes no such signal from inside, so it is sent from the machine.
    pub fn kill_containers(&self, namespace: &str, pods: &[&str], program: &str) -> anyhow::Result<()> {
        self.kill_programs(&["-n", namespace], pods, program)
    }

    /// The same, where `place` are kubectl's words for cluster and namespace.
    pub fn kill_programs(&self, place: &[&str], pods: &[&str], program: &str) -> anyhow::Result<()> {
        self.signal_programs(place, pods, program, "KILL")
    }

    /// Sends a signal to a program in these pods, in all of them at once.
    pub fn signal_programs(
        &self,
        place: &[&str],
        pods: &[&str],
        program: &str,
        signal: &str,
    ) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for pod in pods {
            let uid = ["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"];
            let group = format!("pods/{}", self.kubectl(&[place, &uid].concat(), "")?);
            let processes = process::find_processes(program, &group)?;
            ensure!(!processes.is_empty(), "no {program} runs in pod {pod}");
            found.extend(processes);
        }
        process::signal(&found, signal)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        if self.is_kept() {
            return;
        }
        if self.is_elsewhere() {
            let _ = elsewhere::remove(self);
            return;
        }
        let state = self.state();
        let _ = Command::new(&self.program)
            .args(["down", "--purge", "--state-dir"])
            .arg(state)
            .output();
    }
}

/// Lines of an API server's metrics that count writes.
fn counted(metrics: &str) -> Vec<String> {
    let passing = [
        "resource=\"events\"",
        "resource=\"leases\"",
        "resource=\"nodes\"",
        "subresource=\"token\"",
        "verb=\"get\"",
        "verb=\"list\"",
        "verb=\"watch\"",
    ];
    let request = |line: &str| {
        line.starts_with("apiserver_request_total{") && !passing.iter().any(|part| line.contains(part))
    };
    let event = |line: &str| {
        ["apiserver_writes_total{", "kind=\"Event\"", "serviceaccount"]
            .iter()
            .all(|part| line.contains(part))
    };
    let counted = metrics.lines().filter(|line| request(line) || event(line));
    counted.map(str::to_owned).collect()
}

/// Runs it with this on its standard input.
pub fn fed(mut command: Command, input: &str) -> anyhow::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("a pipe")?
        .write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

/// What it printed, or why it failed.
pub fn said(output: Output, what: &str) -> anyhow::Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{what}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

/// Answer of Keystone: status line and headers, then the body.
pub fn ask(url: &str, headers: &[&str], body: Option<&Value>) -> anyhow::Result<String> {
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "-m", "30", url]);
    // Headers and body come by standard input: they hold secrets.
    let mut config: String = headers
        .iter()
        .map(|header| format!("header = \"{header}\"\n"))
        .collect();
    if let Some(body) = body {
        let text = body.to_string().replace('\\', "\\\\").replace('"', "\\\"");
        config.push_str(&format!(
            "header = \"Content-Type: application/json\"\ndata = \"{text}\"\n"
        ));
    }
    command.args(["-K", "-"]);
    said(fed(command, &config)?, url)
}

/// A token of the admin, or the status line of the refusal.
pub fn token(url: &str, password: &str) -> anyhow::Result<Result<String, String>> {
    let user = json!({"name": "admin", "domain": {"id": "default"}, "password": password});
    let scope = json!({"project": {"name": "admin", "domain": {"id": "default"}}});
    let body =
        json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}});
    let answer = ask(&format!("{url}/auth/tokens"), &[], Some(&body))?;
    let header = answer
        .lines()
        .find_map(|line| line.strip_prefix("X-Subject-Token: "));
    Ok(header
        .map(|token| token.trim().to_owned())
        .ok_or_else(|| answer.lines().next().unwrap_or_default().to_owned()))
}
