//! A stream of token requests from inside the cluster: it runs on whatever happens to the process
//! behind the cluster, and tells afterwards which requests failed and when.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// Asks for one token after another; every answer is a line `<seconds> ok|<why not>`.
const PROGRAM: &str = r#"
import json, os, sys, time, urllib.request
url = os.environ["URL"] + "/auth/tokens"
user = {"name": "admin", "domain": {"id": "default"}, "password": os.environ["PASSWORD"]}
scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
data = json.dumps(body).encode()
end = time.time() + float(os.environ["SECONDS"])
while time.time() < end and not os.path.exists("/tmp/stop"):
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            said = "ok" if answer.status == 201 else str(answer.status)
    except Exception as error:
        said = type(error).__name__ + ": " + str(error)
    print("%.2f %s" % (time.time(), said), flush=True)
    time.sleep(0.1)
print("end", flush=True)
"#;

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Outcome {
    pub good: usize,
    /// When, and why.
    pub failed: Vec<(f64, String)>,
    /// The longest time without a token, in seconds.
    pub longest_gap: f64,
}

pub struct Stream<'a> {
    cloud: &'a Cloud,
    namespace: String,
    name: String,
}

impl<'a> Stream<'a> {
    /// Starts a pod that asks for at most so long.
    pub fn start(cloud: &'a Cloud, namespace: &str, name: &str, most: Duration) -> anyhow::Result<Self> {
        let image = cloud
            .c5c3(&["image", "list", "-o", "json"])
            .and_then(|text| Ok(serde_json::from_str::<Value>(&text)?))?;
        let image = reference(&image).context("the image of the openstack client")?;
        let env = json!([
            {"name": "URL", "value": format!("http://keystone.{namespace}.svc:5000/v3")},
            {"name": "SECONDS", "value": most.as_secs().to_string()},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keystone-admin-credentials", "key": "password"}}},
        ]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
            "spec": {"restartPolicy": "Never", "containers": [
                {"name": "stream", "image": image, "command": ["python3", "-c", PROGRAM], "env": env}]},
        });
        cloud.kubectl(&["apply", "-f", "-"], &pod.to_string())?;
        let stream = Self {
            cloud,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        stream.until(1)?;
        Ok(stream)
    }

    fn said(&self) -> anyhow::Result<String> {
        self.cloud
            .kubectl(&["-n", &self.namespace, "logs", &self.name], "")
    }

    /// Waits until so many tokens were given.
    pub fn until(&self, tokens: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let said = self.said().unwrap_or_default();
            if outcome(&said).good >= tokens {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("no {tokens} tokens in time:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// So many more.
    pub fn more(&self, tokens: usize) -> anyhow::Result<()> {
        self.until(outcome(&self.said()?).good + tokens)
    }

    pub fn stop(self) -> anyhow::Result<Outcome> {
        let stop = [
            "-n",
            &self.namespace,
            "exec",
            &self.name,
            "--",
            "touch",
            "/tmp/stop",
        ];
        self.cloud.kubectl(&stop, "")?;
        let deadline = Instant::now() + Duration::from_secs(60);
        let said = loop {
            let said = self.said()?;
            if said.trim_end().ends_with("end") {
                break said;
            }
            if Instant::now() > deadline {
                bail!("the stream does not end:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        self.cloud
            .kubectl(&["-n", &self.namespace, "delete", "pod", &self.name], "")?;
        Ok(outcome(&said))
    }
}

fn reference(list: &Value) -> Option<String> {
    let images = list.get("images").unwrap_or(list).as_array()?;
    let names = images.iter().filter_map(|image| image["reference"].as_str());
    names
        .map(str::to_owned)
        .find(|name| name.contains("/openstackclient:"))
}

fn outcome(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut last: Option<f64> = None;
    for line in said.lines() {
        let Some((at, what)) = line.split_once(' ') else {
            continue;
        };
        let Ok(at) = at.parse::<f64>() else { continue };
        if what == "ok" {
            outcome.good += 1;
            outcome.longest_gap = outcome.longest_gap.max(last.map_or(0.0, |last| at - last));
            last = Some(at);
        } else {
            outcome.failed.push((at, what.to_owned()));
        }
    }
    outcome
}
