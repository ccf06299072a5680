//! The memory that a cloud of this machine takes, by part, and the processor time of our own processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::cloud::Cloud;

/// The name of our processes: the daemon, the first process of each node, and agents in pods.
pub const OURS: &str = "c5c3";

/// Ticks per second in which Linux tells programs of processor time.
const TICKS: u64 = 100;

/// A process of the machine.
struct Process {
    parent: u32,
    name: String,
    /// The pod in whose control group it is.
    pod: Option<String>,
}

/// MiB by part: the owner of a pod, or the program of a process outside of pods. A page that several processes share
/// counts in parts, so that the parts add up to what is used.
pub fn by_part(cloud: &Cloud, contexts: &[&str]) -> anyhow::Result<BTreeMap<String, f64>> {
    let owners = owners(cloud, contexts)?;
    let processes = processes()?;
    let mut parts = BTreeMap::new();
    for id in descendants(&processes, cloud.daemon()?) {
        let Some(process) = processes.get(&id) else {
            continue;
        };
        let owner = process.pod.as_ref().and_then(|pod| owners.get(pod));
        // One that has ended takes nothing.
        let taken = proportional(id).unwrap_or_default();
        *parts.entry(owner.unwrap_or(&process.name).clone()).or_default() += taken;
    }
    Ok(parts)
}

/// Processor time that our own processes of the cloud have taken so far. The time of one that has ended is not in it.
pub fn own_time(cloud: &Cloud) -> anyhow::Result<Duration> {
    let processes = processes()?;
    let all = descendants(&processes, cloud.daemon()?).into_iter();
    let ours = all.filter(|id| processes.get(id).is_some_and(|process| process.name == OURS));
    let ticks: u64 = ours
        .filter_map(|id| ticks(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?))
        .sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// Of a process, in user space and in the kernel. Its name may hold anything but is in brackets.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11);
    Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
}

/// Names of the sets to which pods belong, by their UIDs.
fn owners(cloud: &Cloud, contexts: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for context in contexts {
        let list = ["--context", context, "get", "pods", "-A", "-o", "json"];
        let list: Value = serde_json::from_str(&cloud.kubectl(&list, "")?)?;
        for pod in list["items"].as_array().context("a list of pods")? {
            let metadata = &pod["metadata"];
            let uid = metadata["uid"].as_str().context("a pod's uid")?;
            let owner = &metadata["ownerReferences"][0];
            let name = owner["name"].as_str().or(metadata["name"].as_str());
            let name = name.context("a pod's name")?;
            // A ReplicaSet is its Deployment's name and a hash.
            let name = match (owner["kind"].as_str(), name.rsplit_once('-')) {
                (Some("ReplicaSet"), Some((deployment, _))) => deployment,
                _ => name,
            };
            found.insert(uid.to_owned(), name.to_owned());
        }
    }
    Ok(found)
}

fn processes() -> anyhow::Result<BTreeMap<u32, Process>> {
    let all = std::fs::read_dir("/proc")?.flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One that ends meanwhile is left out.
    Ok(ids.filter_map(|id| Some((id, process(id)?))).collect())
}

fn process(id: u32) -> Option<Process> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).ok();
    let status = read("status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned())
    };
    let group = read("cgroup")?;
    let pod = group.split_once("pods/").map(|(_, rest)| rest);
    let pod = pod.and_then(|rest| rest.split(['/', '\n']).next());
    Some(Process {
        parent: field("PPid:")?.parse().ok()?,
        name: field("Name:")?,
        pod: pod.map(str::to_owned),
    })
}

/// The process and all below it.
fn descendants(processes: &BTreeMap<u32, Process>, root: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    loop {
        let more = processes
            .iter()
            .filter(|(id, process)| found.contains(&process.parent) && !found.contains(id))
            .map(|(id, _)| *id);
        let more: Vec<u32> = more.collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// MiB of a process.
fn proportional(id: u32) -> Option<f64> {
    let sums = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let line = sums.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[test]
fn all_below_a_process_are_found() {
    let process = |parent| Process {
        parent,
        name: String::new(),
        pod: None,
    };
    let processes = BTreeMap::from([(2, process(1)), (3, process(2)), (9, process(3)), (4, process(1))]);
    assert_eq!(descendants(&processes, 2), BTreeSet::from([2, 3, 9]));
}

#[test]
fn processor_time_is_read_behind_any_name() {
    let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 200 3 4 250 150 9 9 20 0 8 0 100 1000 10";
    assert_eq!(ticks(stat), Some(400));
    assert_eq!(ticks("7 (a) S"), None);
}
