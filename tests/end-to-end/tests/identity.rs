//! From objects to a real token: `c5c3 up`, a database, a cache and Keystone in real containers.
//!
//! Needs root. The images are built first; that takes minutes once, then nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};
use end_to_end::{process, tools};
use serde_json::{Value, json};

/// A cluster that is gone with the test, however that ends.
struct Cloud {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Cloud {
    fn up() -> anyhow::Result<Self> {
        // target/<profile>/deps/identity-… lies beside target/<profile>/c5c3.
        let own = std::env::current_exe()?;
        let profile = own
            .parent()
            .and_then(Path::parent)
            .context("a target directory")?;
        let program = profile.join("c5c3");
        ensure!(
            program.is_file(),
            "{} is missing: run 'cargo build -p c5c3'",
            program.display()
        );
        let cloud = Self {
            program,
            directory: tempfile::tempdir()?,
        };
        cloud.c5c3(&["image", "build", "keystone", "mariadb", "memcached"])?;
        cloud.start()?;
        Ok(cloud)
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn start(&self) -> anyhow::Result<()> {
        self.c5c3(&["up", "--state-dir", &self.state().to_string_lossy()])
            .map(drop)
    }

    fn c5c3(&self, arguments: &[&str]) -> anyhow::Result<String> {
        said(
            Command::new(&self.program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()?,
            &arguments.join(" "),
        )
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut command = Command::new(tools::tool("kubectl")?);
        command
            .args(arguments)
            .env("KUBECONFIG", self.state().join("api/kubeconfig"))
            .env("HOME", self.directory.path());
        said(fed(command, input)?, &arguments.join(" "))
    }

    /// Ends the daemon as a crash would.
    fn crash(&self) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(self.state().join("daemon.json"))?;
        let process: Value = serde_json::from_str(&text)?;
        let pid = process["pid"].as_i64().context("a process id")?;
        said(
            Command::new("kill").args(["-9", &pid.to_string()]).output()?,
            "kill",
        )
        .map(drop)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let state = self.state();
        let _ = Command::new(&self.program)
            .args(["down", "--purge", "--state-dir"])
            .arg(state)
            .output();
    }
}

fn fed(mut command: Command, input: &str) -> anyhow::Result<Output> {
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

fn said(output: Output, what: &str) -> anyhow::Result<String> {
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
fn ask(url: &str, headers: &[&str], body: Option<&Value>) -> anyhow::Result<String> {
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

fn token(url: &str, password: &str) -> anyhow::Result<Result<String, String>> {
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

#[test]
fn objects_become_a_keystone_that_gives_tokens_and_survives_a_crash() -> anyhow::Result<()> {
    let cloud = Cloud::up()?;
    let port = process::free_port()?;
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/quickstart/identity.yaml");
    let objects = std::fs::read_to_string(quickstart)?
        .replace("c5c3.io/expose: \"5000\"", &format!("c5c3.io/expose: \"{port}\""))
        .replace("http://127.0.0.1:5000/v3", &format!("http://127.0.0.1:{port}/v3"));
    cloud.kubectl(&["apply", "-f", "-"], &objects)?;
    let ready = [
        "-n",
        "openstack",
        "wait",
        "--for=condition=Ready",
        "keystone/keystone",
        "--timeout=300s",
    ];
    cloud.kubectl(&ready, "").or_else(|error| {
        let status = cloud.kubectl(
            &["-n", "openstack", "get", "keystone,mariadb,pods", "-o", "wide"],
            "",
        )?;
        Err(error.context(status))
    })?;

    let url = format!("http://127.0.0.1:{port}/v3");
    let first = token(&url, "try-me-admin")?.expect("a token");
    let wrong = token(&url, "guess")?.expect_err("no token");
    assert!(wrong.contains("401"), "{wrong}");

    // Nothing secret in what anybody may read.
    let open = cloud.kubectl(
        &[
            "-n",
            "openstack",
            "get",
            "configmaps,pods,keystones,events",
            "-o",
            "yaml",
        ],
        "",
    )?;
    for secret in ["try-me-admin", "try-me-database"] {
        let applied = open.lines().filter(|line| line.contains(secret)).count();
        assert_eq!(applied, 0, "{secret} is open");
    }

    // The process behind the cluster crashes: pods run on, and the next `up` finds them.
    let before = cloud.kubectl(&["-n", "openstack", "get", "pods", "-o", "name"], "")?;
    cloud.crash()?;
    cloud.start()?;
    cloud.kubectl(&ready, "")?;
    assert_eq!(
        cloud.kubectl(&["-n", "openstack", "get", "pods", "-o", "name"], "")?,
        before,
        "no pod was made anew"
    );
    let subject = format!("X-Subject-Token: {first}");
    let own = format!("X-Auth-Token: {first}");
    let valid = ask(&format!("{url}/auth/tokens"), &[&own, &subject], None)?;
    assert!(
        valid.starts_with("HTTP/1.1 200"),
        "{}",
        valid.lines().next().unwrap_or_default()
    );
    Ok(())
}
