//! The cluster of the test, and how it is asked.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;
use serde_json::Value;

use crate::READ;

pub(crate) const NAMESPACE: &str = "rook-ceph";

/// What a person applies: the cluster, its pools and users, and the way of their keys to OpenStack.
const QUICKSTART: &str = include_str!("../../../../deploy/quickstart/storage.yaml");

pub(crate) fn until<T>(
    seconds: u64,
    what: &str,
    attempt: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    until_ok(what, Duration::from_secs(patient(seconds)), attempt)
}

/// On a machine that has much else to do everything takes longer: C5C3_PATIENCE says how many times.
pub(crate) fn patient(seconds: u64) -> u64 {
    let times = std::env::var("C5C3_PATIENCE").ok();
    seconds * times.and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// In the network of pods; the cloud that `c5c3 up` makes has it in that of nodes.
pub(crate) fn quickstart() -> anyhow::Result<String> {
    let host = "  network: { provider: host }\n";
    ensure!(QUICKSTART.contains(host), "{host} is gone");
    Ok(QUICKSTART.replace(host, ""))
}

pub(crate) struct Storage(pub Cloud);

impl Storage {
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(&[&["-n", NAMESPACE], arguments].concat(), "")
    }

    pub(crate) fn apply(&self, objects: &str) -> anyhow::Result<()> {
        self.0.kubectl(&["apply", "-f", "-"], objects).map(drop)
    }

    pub(crate) fn field(&self, object: &str, path: &str) -> anyhow::Result<String> {
        self.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    pub(crate) fn wait(&self, object: &str, seconds: u64) -> anyhow::Result<()> {
        let limit = format!("--timeout={}s", patient(seconds));
        let waited = self.kubectl(&["wait", "--for=jsonpath={.status.phase}=Ready", object, &limit]);
        waited.map(drop).or_else(|error| {
            let state = self.kubectl(&["get", object, "-o", "yaml"])?;
            let pods = self.kubectl(&["get", "pods", "-o", "wide"])?;
            Err(error.context(format!("{state}\n{pods}")))
        })
    }

    /// The only pod of a daemon.
    pub(crate) fn pod(&self, selector: &str) -> anyhow::Result<String> {
        let path = "jsonpath={.items[*].metadata.name}";
        let names = self.kubectl(&["get", "pods", "-l", selector, "-o", path])?;
        let mut names = names.split_whitespace();
        let name = names.next().with_context(|| format!("no pod {selector}"))?;
        ensure!(names.next().is_none(), "several pods {selector}");
        Ok(name.to_owned())
    }

    /// Runs a script where the client's key is.
    pub(crate) fn guest(&self, script: &str) -> anyhow::Result<String> {
        let limit = patient(90).to_string();
        let exec = [
            "-n",
            "openstack",
            "exec",
            "guest",
            "--",
            "timeout",
            &limit,
            "bash",
            "-ec",
            script,
        ];
        Ok(self.0.kubectl(&exec, "")?.trim().to_owned())
    }

    /// What the same script says when it fails.
    pub(crate) fn refused(&self, script: &str) -> anyhow::Result<String> {
        match self.guest(script) {
            Ok(said) => anyhow::bail!("it worked: {script}: {said}"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }

    /// Ceph's own tool, as administrator beside the monitor.
    pub(crate) fn ceph(&self, words: &str) -> anyhow::Result<Value> {
        let pod = self.pod("app=rook-ceph-mon")?;
        let script = format!(
            "ceph --mon-host \"$ROOK_CEPH_MON_HOST\" --keyring /etc/ceph-keyring/keyring --connect-timeout 10 {words} -f json"
        );
        let said = self.kubectl(&["exec", &pod, "--", "sh", "-c", &script])?;
        Ok(serde_json::from_str(&said)?)
    }

    /// Reads it all and compares.
    pub(crate) fn same(&self, written: &str) -> anyhow::Result<()> {
        let read = self.guest(READ)?;
        ensure!(read == written, "written:\n{written}\nread:\n{read}");
        Ok(())
    }

    pub(crate) fn all_up(&self) -> anyhow::Result<()> {
        let status = self.ceph("status")?;
        ensure!(status["osdmap"]["num_up_osds"] == 2, "{}", status["osdmap"]);
        let states = &status["pgmap"]["pgs_by_state"];
        let clean = states
            .as_array()
            .is_some_and(|all| all.len() == 1 && all[0]["state_name"] == "active+clean");
        ensure!(clean, "{states}");
        Ok(())
    }
}
