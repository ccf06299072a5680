//! A whole cluster of its own, used with the real kubectl; gone when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use embedded_node::images::tiny;

use super::bed::{BUSYBOX, require};

const PROGRAM: &str = env!("CARGO_BIN_EXE_embedded-node");

pub struct Town {
    pub state: PathBuf,
    store: PathBuf,
    nodes: u8,
    directory: Option<tempfile::TempDir>,
}

fn kubectl_program() -> PathBuf {
    let tools = std::env::var("C5C3_TOOLS").unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    let found = std::iter::once(tools.as_str())
        .chain(path.split(':'))
        .map(|d| Path::new(d).join("kubectl"))
        .find(|p| p.is_file());
    found.expect("kubectl is missing: run scripts/install-tools")
}

impl Town {
    pub fn new(nodes: u8) -> Self {
        require();
        let directory = tempfile::Builder::new()
            .prefix("c5c3-town-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let store = directory.path().join("store");
        tiny::write_busybox(&store, BUSYBOX, Path::new("/usr/bin/busybox")).unwrap();
        Self {
            state: directory.path().join("state"),
            store,
            nodes,
            directory: Some(directory),
        }
    }

    fn program(&self, args: &[&str]) -> Output {
        Command::new(PROGRAM)
            .args(args)
            .env("RUST_LOG", "warn,embedded_node=info")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub fn up(&self) -> String {
        let (state, count) = (self.state.to_string_lossy(), self.nodes.to_string());
        let store = self.store.to_string_lossy();
        let done = self.program(&["up", &state, &count, &store]);
        let text = both(&done);
        if !done.status.success() {
            let log = std::fs::read_to_string(self.state.join("c5c3.log")).unwrap_or_default();
            panic!("up: {text}\n{log}");
        }
        text
    }

    pub fn down(&self, purge: bool) {
        let state = self.state.to_string_lossy().into_owned();
        let mut args = vec!["down", &state];
        if purge {
            args.push("--purge");
        }
        let done = self.program(&args);
        assert!(done.status.success(), "{}", both(&done));
    }

    pub fn node(&self, args: &[&str]) -> String {
        let state = self.state.to_string_lossy().into_owned();
        let mut all = vec!["node", &state];
        all.extend(args);
        let done = self.program(&all);
        assert!(done.status.success(), "{}", both(&done));
        both(&done)
    }

    pub fn daemon(&self) -> i32 {
        let text = std::fs::read_to_string(self.state.join("daemon.json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        i32::try_from(value["pid"].as_i64().unwrap()).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(kubectl_program());
        command
            .args(args)
            .env("KUBECONFIG", self.state.join("api/kubeconfig"));
        command
    }

    /// Output of kubectl, which must succeed.
    pub fn kubectl(&self, args: &[&str]) -> String {
        let done = self.command(args).stdin(Stdio::null()).output().unwrap();
        assert!(
            done.status.success(),
            "kubectl {}: {}{}",
            args.join(" "),
            both(&done),
            self.events()
        );
        String::from_utf8(done.stdout).unwrap()
    }

    pub fn try_kubectl(&self, args: &[&str]) -> (bool, String) {
        let done = self.command(args).stdin(Stdio::null()).output().unwrap();
        (done.status.success(), both(&done))
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub fn apply(&self, yaml: &str) {
        use std::io::Write;
        let mut child = self
            .command(&["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", both(&done));
    }

    /// Asks again until the answer is right.
    pub fn until(&self, what: &str, seconds: u64, test: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        while !test() {
            assert!(
                Instant::now() < deadline,
                "not {what} in {seconds} s\n{}",
                self.events()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn events(&self) -> String {
        let (_, pods) = self.try_kubectl(&["get", "pods,nodes", "-A", "-o", "wide"]);
        let (_, events) = self.try_kubectl(&["get", "events", "-A"]);
        let log = std::fs::read_to_string(self.state.join("c5c3.log")).unwrap_or_default();
        let start = log.len().saturating_sub(4000);
        let log = log.get(start..).unwrap_or_default();
        format!("\n{pods}\n{events}\n{log}")
    }
}

pub fn both(done: &Output) -> String {
    let text = [done.stdout.clone(), done.stderr.clone()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for Town {
    fn drop(&mut self) {
        let state = self.state.to_string_lossy().into_owned();
        let done = self.program(&["down", &state, "--purge"]);
        if !done.status.success() {
            eprintln!("clean-up: {}", both(&done));
        }
        drop(self.directory.take());
    }
}
