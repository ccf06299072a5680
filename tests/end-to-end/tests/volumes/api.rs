//! Cinder and Glance, asked over HTTP: a client in Python takes longer to start than they take to answer.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::{Cloud, fed, said};
use serde_json::Value;

/// A volume that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) struct Api {
    token: String,
    root: String,
}

impl Api {
    /// As the admin. `port` is that of the service on this machine.
    pub(crate) fn of(cloud: &Cloud, port: u16) -> anyhow::Result<Self> {
        let words = ["token", "issue", "-f", "value", "-c", "id"];
        Ok(Api {
            token: cloud.c5c3_here("openstack", &words)?.trim().to_owned(),
            root: format!("http://127.0.0.1:{port}"),
        })
    }

    /// The status and the body of an answer.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, String)> {
        let url = format!("{}{path}", self.root);
        let mut command = Command::new("curl");
        command.args([
            "-sS",
            "-m",
            "60",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
            "-K",
            "-",
            &url,
        ]);
        // By standard input: the token is secret.
        let mut config = format!("header = \"X-Auth-Token: {}\"\n", self.token);
        config.push_str("header = \"OpenStack-API-Version: volume 3.60\"\n");
        if let Some(body) = body {
            let text = body.to_string().replace('\\', "\\\\").replace('"', "\\\"");
            config.push_str(&format!(
                "header = \"Content-Type: application/json\"\ndata = \"{text}\"\n"
            ));
        }
        let answer = said(fed(command, &config)?, &url)?;
        let (body, status) = answer.rsplit_once('\n').context("a status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// Sends a file.
    pub(crate) fn upload(&self, path: &str, file: &str) -> anyhow::Result<()> {
        self.transfer(
            path,
            &[
                "-X",
                "PUT",
                "-H",
                "Content-Type: application/octet-stream",
                "-T",
                file,
            ],
        )
    }

    /// Keeps an answer in a file.
    pub(crate) fn download(&self, path: &str, file: &str) -> anyhow::Result<()> {
        self.transfer(path, &["-o", file])
    }

    fn transfer(&self, path: &str, words: &[&str]) -> anyhow::Result<()> {
        let url = format!("{}{path}", self.root);
        let mut command = Command::new("curl");
        command
            .args(["-sS", "-f", "-m", "300", "-K", "-"])
            .args(words)
            .arg(&url);
        let config = format!("header = \"X-Auth-Token: {}\"\n", self.token);
        said(fed(command, &config)?, &url).map(drop)
    }

    /// What must be answered well.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, text) = self.ask(method, path, body)?;
        ensure!((200..300).contains(&status), "{method} {path}: {status} {text}");
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).with_context(|| text.clone())
    }

    /// Makes something at `/v3/<plural>` and waits until it is there.
    pub(crate) fn make(&self, plural: &str, one: &str, spec: &Value) -> anyhow::Result<String> {
        let body = serde_json::json!({one: spec});
        let made = self.call("POST", &format!("/v3/{plural}"), Some(&body))?;
        let id = made[one]["id"]
            .as_str()
            .with_context(|| made.to_string())?
            .to_owned();
        self.becomes(plural, one, &id, "available")?;
        Ok(id)
    }

    pub(crate) fn show(&self, plural: &str, one: &str, id: &str) -> anyhow::Result<Value> {
        Ok(self.call("GET", &format!("/v3/{plural}/{id}"), None)?[one].take())
    }

    pub(crate) fn becomes(&self, plural: &str, one: &str, id: &str, wanted: &str) -> anyhow::Result<Value> {
        let start = Instant::now();
        loop {
            let seen = self.show(plural, one, id)?;
            let status = seen["status"].as_str().unwrap_or_default();
            if status == wanted {
                return Ok(seen);
            }
            ensure!(!status.starts_with("error"), "{one} {id} is {seen}");
            ensure!(start.elapsed() < PATIENCE, "{one} {id} is not {wanted}: {seen}");
            std::thread::sleep(Duration::from_millis(400));
        }
    }

    pub(crate) fn remove(&self, plural: &str, one: &str, id: &str) -> anyhow::Result<()> {
        self.call("DELETE", &format!("/v3/{plural}/{id}"), None)?;
        let start = Instant::now();
        loop {
            let (status, text) = self.ask("GET", &format!("/v3/{plural}/{id}"), None)?;
            if status == 404 {
                return Ok(());
            }
            ensure!(
                status == 200 && !text.contains("\"error"),
                "{one} {id}: {status} {text}"
            );
            ensure!(start.elapsed() < PATIENCE, "{one} {id} stays: {text}");
            std::thread::sleep(Duration::from_millis(400));
        }
    }
}
