//! Three of everything: parts are killed and credentials rotated during a stream of requests.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_true;
use end_to_end::stream::Stream;
use serde_json::Value;

use crate::objects::identities;

pub(crate) const NAMESPACE: &str = "openstack";
/// Longer than any failover takes here: a dead pod leaves its Services within seconds.
const FAILOVER: f64 = 30.0;
/// Services that check each token with credentials of their own.
pub(crate) const CHECKERS: [&str; 2] = [
    "http://glance.openstack.svc:9292/v2/images",
    "http://placement.openstack.svc:8778/resource_providers",
];
/// What dies, and the program that it is. The first member of a database is its primary.
const MORTALS: [(&str, &str); 6] = [
    ("mariadb", "mariadbd"),
    ("rabbitmq", "beam.smp"),
    ("keystone", "uwsgi"),
    ("memcached", "memcached"),
    ("glance", "uwsgi"),
    ("placement", "uwsgi"),
];

#[test]
fn three_of_everything_outlive_the_death_of_one() -> anyhow::Result<()> {
    let cloud = crate::up(crate::THREE, 3)?;
    members_are_spread(&cloud)?;
    let before = (identities(&cloud, NAMESPACE)?, catalogue(&cloud)?);
    parts_die(&cloud)?;
    let after = (identities(&cloud, NAMESPACE)?, catalogue(&cloud)?);
    ensure!(
        after.0 == before.0,
        "made anew or missing: {:?}",
        differences(&before.0, &after.0)
    );
    ensure!(
        after.1 == before.1,
        "Keystone holds other things:\n{}\n{}",
        before.1,
        after.1
    );
    credentials_rotate(&cloud)
}

fn members_are_spread(cloud: &Cloud) -> anyhow::Result<()> {
    for part in ["mariadb", "rabbitmq", "memcached", "keystone"] {
        let pods = running(cloud, part)?;
        let nodes: std::collections::BTreeSet<_> = pods
            .iter()
            .map(|pod| pod["spec"]["nodeName"].to_string())
            .collect();
        ensure!(nodes.len() == 3, "{part} is on {nodes:?}");
    }
    Ok(())
}

fn parts_die(cloud: &Cloud) -> anyhow::Result<()> {
    let stream = Stream::start(cloud, NAMESPACE, "tokens", Duration::from_secs(1200), &CHECKERS)?;
    let mut incidents = Vec::new();
    for (part, program) in MORTALS {
        let pods = running(cloud, part)?;
        let pod = pods.first().and_then(|pod| pod["metadata"]["name"].as_str());
        let pod = pod.with_context(|| format!("no pod of {part} runs"))?;
        incidents.push((now(), part));
        cloud.kill_containers(NAMESPACE, &[pod], program)?;
        stream.more(10)?;
        settled(cloud)?;
    }

    // The process behind the cluster dies: nothing that is served needs it.
    incidents.push((now(), "c5c3"));
    cloud.crash()?;
    std::thread::sleep(Duration::from_secs(10));
    cloud.start()?;
    stream.more(10)?;
    settled(cloud)?;

    let outcome = stream.stop()?;
    println!(
        "{} turns, {} failed, longest gap {:.1} s",
        outcome.good,
        outcome.failed.len(),
        outcome.longest_gap
    );
    for (part, count, last) in tally(&incidents, &outcome.failed) {
        println!("  {part}: {count} failed, the last after {last:.1} s");
    }
    ensure!(outcome.longest_gap < FAILOVER, "{outcome:?}");
    Ok(())
}

/// For each incident how many requests failed until the next one, and when the last of them did.
fn tally<'a>(incidents: &[(f64, &'a str)], failed: &[(f64, String)]) -> Vec<(&'a str, usize, f64)> {
    let ends = incidents.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
    let one = |((from, part), to): (&(f64, &'a str), f64)| {
        let times: Vec<f64> = failed
            .iter()
            .map(|(at, _)| *at)
            .filter(|at| (*from..to).contains(at))
            .collect();
        let last = times.iter().copied().fold(*from, f64::max);
        (*part, times.len(), last - from)
    };
    incidents.iter().zip(ends).map(one).collect()
}

/// Every service gets another credential while it is used: nobody is turned away.
fn credentials_rotate(cloud: &Cloud) -> anyhow::Result<()> {
    let stream = Stream::start(cloud, NAMESPACE, "rotation", Duration::from_secs(900), &CHECKERS)?;
    for service in ["glance", "placement"] {
        let rotation = format!("credentialrotation/{service}");
        let current = ["-n", NAMESPACE, "get", &rotation, "-o", "json"];
        let now = "c5c3.io/rotate-now=drill";
        cloud.kubectl(&["-n", NAMESPACE, "annotate", &rotation, now], "")?;
        until(&format!("{service} moves"), || {
            let object: Value = serde_json::from_str(&cloud.kubectl(&current, "")?)?;
            let uses = object["status"]["currentCredentialRef"]["name"] == format!("{service}-2");
            let said = object["status"]["conditions"].to_string();
            Ok(uses && said.contains(&format!("no pod uses {service}-1 any more")))
        })?;
        // As after a leak: the old one goes at once, with its use.
        let old = format!("applicationcredential/{service}-1");
        cloud.kubectl(&["-n", NAMESPACE, "delete", &old], "")?;
        stream.more(20)?;
    }
    settled(cloud)?;
    let outcome = stream.stop()?;
    println!(
        "{} turns during rotations, {} failed",
        outcome.good,
        outcome.failed.len()
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    Ok(())
}

fn until(what: &str, look: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    until_true(what, Duration::from_secs(240), look)
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// Running pods of a program, by name.
fn running(cloud: &Cloud, part: &str) -> anyhow::Result<Vec<Value>> {
    let labels = format!("app.kubernetes.io/name={part}");
    let phase = "--field-selector=status.phase=Running";
    let list = cloud.kubectl(
        &["-n", NAMESPACE, "get", "pods", "-l", &labels, phase, "-o", "json"],
        "",
    )?;
    let list: Value = serde_json::from_str(&list)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// What our controllers made inside Keystone.
fn catalogue(cloud: &Cloud) -> anyhow::Result<String> {
    let mut all = String::new();
    for what in ["service", "endpoint", "user", "project", "domain", "role"] {
        let said = cloud.c5c3_here("openstack", &[what, "list", "-f", "csv"])?;
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        all.push_str(&lines.join("\n"));
        all.push('\n');
    }
    Ok(all)
}

fn differences<'a>(
    before: &'a BTreeMap<String, String>,
    after: &'a BTreeMap<String, String>,
) -> Vec<&'a String> {
    let changed = |(name, id): &(&'a String, &'a String), other: &BTreeMap<String, String>| {
        other.get(*name) != Some(*id)
    };
    let gone = before.iter().filter(|entry| changed(entry, after));
    let new = after.iter().filter(|entry| changed(entry, before));
    gone.chain(new).map(|(name, _)| name).collect()
}

fn settled(cloud: &Cloud) -> anyhow::Result<()> {
    // It takes a moment until the loss is seen.
    std::thread::sleep(Duration::from_secs(5));
    let wait = [
        "-n",
        NAMESPACE,
        "wait",
        "--for=condition=Ready",
        "controlplane/cloud",
        "--timeout=300s",
    ];
    cloud
        .kubectl(&wait, "")
        .map(drop)
        .map_err(|error| error.context(cloud.c5c3_here("explain", &[]).unwrap_or_default()))
}
