//! A stream of requests from inside the cluster: it runs on whatever happens to the process
//! behind the cluster, and tells afterwards which requests failed and when.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::patience::until;

/// Asks for one token after another, and lets Keystone and the other services check them; every
/// turn is a line `<seconds> ok|<why not>`. Two ask at a time.
const PROGRAM: &str = r#"
import json, os, threading, time, urllib.request
tokens = os.environ["URL"] + "/auth/tokens"
also = os.environ["ALSO"].split()
user = {"name": "admin", "domain": {"id": "default"}, "password": os.environ["PASSWORD"]}
scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
data = json.dumps(body).encode()
end = time.time() + float(os.environ["SECONDS"])

def ask(url, headers, data=None):
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.headers
    except Exception as error:
        raise RuntimeError("%s: %s: %s" % (url, type(error).__name__, error))

def turns():
    before = None
    while time.time() < end and not os.path.exists("/tmp/stop"):
        try:
            token = ask(tokens, {"Content-Type": "application/json"}, data)["X-Subject-Token"]
            # The one of the last turn may have been made by another pod, or with another key.
            ask(tokens, {"X-Auth-Token": token, "X-Subject-Token": before or token})
            for url in also:
                ask(url, {"X-Auth-Token": token})
            before, said = token, "ok"
        except Exception as error:
            said = str(error)
        print("%.2f %s\n" % (time.time(), said), end="", flush=True)
        time.sleep(0.2)

askers = [threading.Thread(target=turns) for _ in range(2)]
[asker.start() for asker in askers]
[asker.join() for asker in askers]
print("end", flush=True)
"#;

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Outcome {
    pub good: usize,
    /// When, and why.
    pub failed: Vec<(f64, String)>,
    /// The longest time without a good turn, in seconds.
    pub longest_gap: f64,
}

pub struct Stream<'a> {
    cloud: &'a Cloud,
    namespace: String,
    name: String,
}

impl<'a> Stream<'a> {
    /// Starts a pod that asks for at most so long, `also` at other services, with each token.
    pub fn start(
        cloud: &'a Cloud,
        namespace: &str,
        name: &str,
        most: Duration,
        also: &[&str],
    ) -> anyhow::Result<Self> {
        let image = client_image(cloud)?;
        let env = json!([
            {"name": "URL", "value": format!("http://keystone.{namespace}.svc:5000/v3")},
            {"name": "ALSO", "value": also.join(" ")},
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
        until(&format!("{tokens} tokens"), Duration::from_secs(120), || {
            let said = self.said().unwrap_or_default();
            Ok(if outcome(&said).good >= tokens {
                Ok(())
            } else {
                Err(said)
            })
        })
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
        let said = until("the stream ends", Duration::from_secs(60), || {
            let said = self.said()?;
            Ok(if said.trim_end().ends_with("end") {
                Ok(said)
            } else {
                Err(said)
            })
        })?;
        self.cloud
            .kubectl(&["-n", &self.namespace, "delete", "pod", &self.name], "")?;
        Ok(outcome(&said))
    }
}

/// The image with Python and the OpenStack client.
pub(crate) fn client_image(cloud: &Cloud) -> anyhow::Result<String> {
    let list: Value = serde_json::from_str(&cloud.c5c3(&["image", "list", "-o", "json"])?)?;
    reference(&list).context("the image of the openstack client")
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
