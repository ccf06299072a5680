//! Many servers at once, asked for from inside the cluster: no packet of these calls goes through the process behind the
//! cluster, as it would not on a stack that was started by hand.

use std::time::Duration;

use anyhow::{Context, ensure};
use openstack_client::{Placement, ServerDraft};
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::patience::until;
use crate::stream::client_image;
use crate::world::{NAMESPACE, PATIENCE, World};

const POD: &str = "crowd";

/// As many times what a host has may be promised to servers.
const RATIO: f64 = 16.0;
const PROMISED: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];

/// Asks for so many servers, looks at each every half second until all are ACTIVE, and deletes them. The last line tells
/// the seconds until all were ACTIVE, or what went wrong.
const PROGRAM: &str = r#"
import json, os, time, urllib.error, urllib.request
count, draft = int(os.environ["COUNT"]), json.loads(os.environ["DRAFT"])
nova = os.environ["NOVA"] + "/servers"
user = {"name": "admin", "domain": {"id": "default"}, "password": os.environ["PASSWORD"]}
scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
login = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}

def ask(method, url, body=None, token=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["X-Auth-Token"] = token
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None

def gone(server):
    try:
        ask("GET", nova + "/" + server, token=token)
        return False
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return True

try:
    token = ask("POST", os.environ["KEYSTONE"] + "/auth/tokens", login)[0]["X-Subject-Token"]
    start, waiting, made = time.time(), [], []
    for number in range(count):
        body = {"server": dict(draft, name="inside-%d" % number)}
        made.append(ask("POST", nova, body, token)[1]["server"]["id"])
    waiting = list(made)
    while waiting:
        for server in list(waiting):
            status = ask("GET", nova + "/" + server, token=token)[1]["server"]["status"]
            if status == "ERROR":
                raise RuntimeError("server %s is ERROR" % server)
            if status == "ACTIVE":
                waiting.remove(server)
        time.sleep(0.5 if waiting else 0)
    took = time.time() - start
    for server in made:
        ask("DELETE", nova + "/" + server, token=token)
    while not all(gone(server) for server in made):
        time.sleep(0.5)
    print("took %.2f" % took, flush=True)
except Exception as error:
    print("failed %s: %s" % (type(error).__name__, error), flush=True)
"#;

/// The time until so many servers like this one were ACTIVE. They are gone afterwards.
pub fn made_from_inside(cloud: &Cloud, draft: &ServerDraft, count: usize) -> anyhow::Result<Duration> {
    cloud.kubectl(
        &["apply", "-f", "-"],
        &pod(&client_image(cloud)?, draft, count).to_string(),
    )?;
    let said = until("the servers came and went", 8 * PATIENCE, || {
        let said = cloud.kubectl(&["-n", NAMESPACE, "logs", POD], "");
        let said = said.unwrap_or_else(|error| error.to_string());
        Ok(if outcome(&said).is_some() {
            Ok(said)
        } else {
            Err(said)
        })
    });
    cloud.kubectl(&["-n", NAMESPACE, "delete", "pod", POD], "")?;
    outcome(&said?).context("an outcome")?.map_err(anyhow::Error::msg)
}

fn pod(image: &str, draft: &ServerDraft, count: usize) -> Value {
    let body = json!({
        "flavorRef": draft.flavour, "imageRef": draft.image, "key_name": draft.key,
        "networks": [{"uuid": draft.network}], "security_groups": [{"name": draft.security_group}],
    });
    let env = json!([
        {"name": "KEYSTONE", "value": format!("http://keystone.{NAMESPACE}.svc:5000/v3")},
        {"name": "NOVA", "value": format!("http://nova.{NAMESPACE}.svc:8774/v2.1")},
        {"name": "COUNT", "value": count.to_string()},
        {"name": "DRAFT", "value": body.to_string()},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keystone-admin-credentials", "key": "password"}}},
    ]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": NAMESPACE, "name": POD},
        "spec": {"restartPolicy": "Never", "containers": [
            {"name": POD, "image": image, "command": ["python3", "-c", PROGRAM], "env": env}]},
    })
}

/// None as long as it is at it.
fn outcome(said: &str) -> Option<Result<Duration, String>> {
    let last = said.trim_end().lines().next_back()?;
    match last.split_once(' ')? {
        ("took", seconds) => seconds
            .parse()
            .ok()
            .map(|seconds| Ok(Duration::from_secs_f64(seconds))),
        ("failed", why) => Some(Err(why.to_owned())),
        _ => None,
    }
}

/// Lets Nova make so many servers at once: the project may, and the hosts take more than they have, as guests that only
/// boot do next to nothing.
pub fn make_room(world: &World<'_>) -> anyhow::Result<()> {
    let quota = [
        "quota",
        "set",
        "--instances",
        "-1",
        "--cores",
        "-1",
        "--ram",
        "-1",
        "admin",
    ];
    world.cloud.c5c3_here("openstack", &quota)?;
    let providers = world.run(world.session.resource_providers(None))?;
    ensure!(!providers.is_empty(), "Placement knows no host");
    for provider in providers {
        until("Placement takes the ratios", PATIENCE, || {
            let (generation, mut all) = world.run(world.session.inventories(&provider.uuid))?;
            for (class, inventory) in &mut all {
                if PROMISED.contains(&class.as_str()) {
                    inventory.allocation_ratio = RATIO;
                }
            }
            let taken = world.session.set_inventories(&provider.uuid, generation, &all);
            // Nova may have written since it was read.
            Ok(world
                .run(taken)
                .map_err(|error| format!("{}: {error:#}", provider.name)))
        })?;
    }
    Ok(())
}

#[test]
fn the_last_line_is_the_outcome() {
    assert_eq!(outcome(""), None);
    assert_eq!(outcome("pod is not there yet"), None);
    assert_eq!(outcome("took 2.5\n"), Some(Ok(Duration::from_millis(2500))));
    assert_eq!(
        outcome("x\nfailed OSError: gone\n"),
        Some(Err("OSError: gone".to_owned()))
    );
}
