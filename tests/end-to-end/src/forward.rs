//! A port of this machine that leads to a port of a pod, until it is dropped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context;

use crate::tools;

pub struct Forward {
    child: Child,
    /// It reports every connection, and ends when nobody listens.
    _output: BufReader<ChildStdout>,
    pub port: u16,
}

impl Forward {
    pub fn start(kubeconfig: &Path, namespace: &str, pod: &str, port: u16) -> anyhow::Result<Self> {
        let mut child = Command::new(tools::tool("kubectl")?)
            .args(["-n", namespace, "port-forward", pod, &format!(":{port}")])
            .env("KUBECONFIG", kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.take().context("a pipe")?);
        output.read_line(&mut said)?;
        let mut forward = Forward {
            child,
            _output: output,
            port: 0,
        };
        // Forwarding from 127.0.0.1:40123 -> 6641
        let port = said
            .split(" -> ")
            .next()
            .and_then(|front| front.rsplit(':').next());
        let port = port.and_then(|port| port.parse().ok());
        forward.port = port.with_context(|| format!("no port: {said}"))?;
        Ok(forward)
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
