//! A whole cluster of its own, used with the real kubectl; gone when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use embedded_node::cri::{self, Cri};
use embedded_node::images::tiny;
use embedded_node::layout::NodeLayout;
use embedded_node::process::Process;
use embedded_node::{Layout, cgroups};
use machine::Settings;

use super::test_nodes::{BUSYBOX, NAMES, PATIENCE, Turn, require};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_embedded-cluster");

pub(crate) struct TestCluster {
    pub state: PathBuf,
    store: PathBuf,
    /// As our program takes it: `2`, `2,1` with a hypervisor, or `control-plane=1,hypervisor=1`.
    nodes: String,
    /// Program and arguments that start ours, for other limits.
    pub wrapper: Vec<String>,
    directory: Option<tempfile::TempDir>,
    _turn: Turn,
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

impl TestCluster {
    pub(crate) fn new(nodes: u8) -> Self {
        Self::of(&nodes.to_string())
    }

    pub(crate) fn of(nodes: &str) -> Self {
        require();
        let turn = Turn::wait();
        let directory = tempfile::Builder::new()
            .prefix("c5c3-cluster-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let store = directory.path().join("store");
        tiny::write_busybox(&store, BUSYBOX, Path::new("/usr/bin/busybox")).unwrap();
        Self {
            state: directory.path().join("state"),
            store,
            nodes: nodes.into(),
            wrapper: Vec::new(),
            directory: Some(directory),
            _turn: turn,
        }
    }

    fn program(&self, args: &[&str]) -> Output {
        let all: Vec<&str> = self
            .wrapper
            .iter()
            .map(String::as_str)
            .chain([PROGRAM])
            .chain(args.iter().copied())
            .collect();
        Command::new(all[0])
            .args(&all[1..])
            .env("RUST_LOG", "warn,embedded_node=info,machine=info")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub(crate) fn up(&self) -> String {
        let state = self.state.to_string_lossy();
        let store = self.store.to_string_lossy();
        let done = self.program(&["up", &state, &self.nodes, &store]);
        let text = both(&done);
        if !done.status.success() {
            let log = std::fs::read_to_string(self.state.join("c5c3.log")).unwrap_or_default();
            panic!("up: {text}\n{log}");
        }
        text
    }

    /// As a person does who is in the directory above: names that are not whole paths.
    pub(crate) fn up_from_beside(&self) {
        let done = Command::new(PROGRAM)
            .args(["up", "state", &self.nodes, "store"])
            .current_dir(self.state.parent().unwrap())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", both(&done));
    }

    pub(crate) fn down(&self, purge: bool) {
        let state = self.state.to_string_lossy().into_owned();
        let mut args = vec!["down", &state];
        if purge {
            args.push("--purge");
        }
        let done = self.program(&args);
        assert!(done.status.success(), "{}", both(&done));
    }

    pub(crate) fn node(&self, args: &[&str]) -> String {
        let state = self.state.to_string_lossy().into_owned();
        let mut all = vec!["node", &state];
        all.extend(args);
        let done = self.program(&all);
        assert!(done.status.success(), "{}", both(&done));
        both(&done)
    }

    pub(crate) fn daemon(&self) -> i32 {
        let text = std::fs::read_to_string(self.state.join("daemon.json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        i32::try_from(value["pid"].as_i64().unwrap()).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(kubectl_program());
        command
            .args(args)
            .env("KUBECONFIG", self.state.join("api/kubeconfig"));
        command
    }

    /// Output of kubectl, which must succeed.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
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

    pub(crate) fn try_kubectl(&self, args: &[&str]) -> (bool, String) {
        let done = self.command(args).stdin(Stdio::null()).output().unwrap();
        (done.status.success(), both(&done))
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn apply(&self, yaml: &str) {
        self.apply_with(&[], yaml);
    }

    /// To one of several clusters.
    pub(crate) fn apply_to(&self, cluster: &str, yaml: &str) {
        self.apply_with(&["--context", cluster], yaml);
    }

    fn apply_with(&self, options: &[&str], yaml: &str) {
        use std::io::Write;
        let mut child = self
            .command(&[options, &["apply", "-f", "-"]].concat())
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
    pub(crate) fn until(&self, what: &str, test: impl Fn() -> bool) {
        let start = Instant::now();
        while !test() {
            assert!(
                start.elapsed() < PATIENCE,
                "not {what} in {PATIENCE:?}\n{}",
                self.events()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(NAMES, &self.state).unwrap()
    }

    /// The first has the number 1.
    pub(crate) fn node_layout(&self, index: u8) -> NodeLayout {
        let (layout, settings) = Settings::existing(NAMES, &self.state).unwrap();
        let entry = settings.nodes.iter().find(|node| node.index == index).unwrap();
        layout.node(&entry.name, index)
    }

    /// Process 1 of a node.
    pub(crate) fn init(&self, index: u8) -> i32 {
        embedded_node::node::Node::running(&self.node_layout(index))
            .unwrap()
            .pid
    }

    /// Asks a node's runtime behind the cluster's back.
    pub(crate) fn runtime<T>(&self, index: u8, ask: impl AsyncFnOnce(Cri) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let socket = self.node_layout(index).socket();
        runtime.block_on(async { ask(Cri::new(cri::channel(&socket))).await })
    }

    /// Runs a program in a node's network namespace.
    pub(crate) fn inside(&self, index: u8, args: &[&str]) -> Output {
        Command::new("nsenter")
            .arg(format!("--net=/proc/{}/ns/net", self.init(index)))
            .args(args)
            .output()
            .unwrap()
    }

    /// No process, mount, namespace, interface, rule or cgroup of the cluster. Namespaces,
    /// and with them interfaces and rules, live as long as a process or a mount holds them.
    pub(crate) fn left_nothing(&self) {
        let state = self.state.to_string_lossy().into_owned();
        let layout = self.layout();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            // One that has ended and waits to be reaped holds nothing.
            let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
            if pid.and_then(Process::of).is_none() {
                continue;
            }
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            assert!(!line.contains(&state), "still runs: {line}");
            let groups = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            assert!(!groups.contains(layout.id()), "still runs: {line} {groups}");
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        for text in [state.as_str(), &layout.run().to_string_lossy()] {
            assert!(!mounts.contains(text), "still mounted: {text}");
        }
        assert!(!layout.run().exists());
        for hierarchy in cgroups::hierarchies().unwrap() {
            let nodes = hierarchy.mount.join("c5c3-nodes");
            let left: Vec<_> = std::fs::read_dir(nodes)
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.file_name().to_string_lossy().into_owned())
                .filter(|n| n.starts_with(layout.id()))
                .collect();
            assert!(left.is_empty(), "{left:?}");
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

pub(crate) fn both(done: &Output) -> String {
    let text = [done.stdout.clone(), done.stderr.clone()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let state = self.state.to_string_lossy().into_owned();
        let done = self.program(&["down", &state, "--purge"]);
        if !done.status.success() {
            eprintln!("clean-up: {}", both(&done));
        }
        drop(self.directory.take());
    }
}

/// A port of loopback, held until it is given up: nobody else gets it in between. A cluster
/// that finds it taken tries again.
pub(crate) fn hold_port() -> (std::net::TcpListener, u16) {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

pub(crate) fn get(port: u16, path: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
