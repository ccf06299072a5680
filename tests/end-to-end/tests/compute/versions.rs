//! Which versions of Nova run beside each other while it is updated, and to which version of messages its conductors
//! keep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use serde_json::Value;

use crate::{NAMESPACE, PATIENCE};

const PACE: Duration = Duration::from_secs(2);
const IMAGE: &str = "c5c3.io/image";
/// What a conductor logs when it speaks to a nova-compute for the first time.
const PINNED: &str = "from minimum service version ";

/// A pod of Nova.
#[derive(Clone, Debug)]
struct Pod {
    uid: String,
    name: String,
    component: String,
    /// As the API server says it: later is greater.
    created: String,
    image: String,
}

/// What was seen of the pods since the update began.
pub(crate) struct Versions {
    old: BTreeSet<String>,
    /// Pods of the new version, by their UIDs.
    new: BTreeMap<String, Pod>,
    /// Conductors of the new version and what they kept to while some nova-compute was old, by UID.
    mixed: BTreeMap<String, u64>,
}

impl Versions {
    /// Before the update.
    pub(crate) fn of(cloud: &Cloud) -> anyhow::Result<Self> {
        let pods = pods(cloud)?;
        ensure!(!pods.is_empty(), "no pod of Nova");
        Ok(Versions {
            old: pods.into_iter().map(|pod| pod.image).collect(),
            new: BTreeMap::new(),
            mixed: BTreeMap::new(),
        })
    }

    /// Looks until it is done.
    pub(crate) fn watch(&mut self, cloud: &Cloud, done: &AtomicBool) -> anyhow::Result<()> {
        while !done.load(Ordering::Relaxed) {
            self.look(cloud)?;
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    fn look(&mut self, cloud: &Cloud) -> anyhow::Result<()> {
        let pods = pods(cloud)?;
        let is_old = |pod: &&Pod| self.old.contains(&pod.image);
        let mixed = pods.iter().filter(is_old).any(|pod| pod.is("compute-"));
        let new: Vec<&Pod> = pods.iter().filter(|pod| !is_old(pod)).collect();
        for pod in new.iter().filter(|pod| mixed && pod.is("conductor")) {
            if !self.mixed.contains_key(&pod.uid) {
                // One that has only just been made has no log yet.
                let pinned = pinned(cloud, &pod.name).ok().flatten();
                self.mixed
                    .extend(pinned.map(|version| (pod.uid.clone(), version)));
            }
        }
        let new: Vec<Pod> = new.into_iter().cloned().collect();
        for pod in new {
            self.new.entry(pod.uid.clone()).or_insert(pod);
        }
        Ok(())
    }

    /// The first pods of each part were made in this order.
    pub(crate) fn conductors_went_first_and_computes_last(&self) -> anyhow::Result<()> {
        let first = |part: &str| {
            let of_part = self.new.values().filter(|pod| pod.is(part));
            let first = of_part.map(|pod| pod.created.as_str()).min();
            first.with_context(|| format!("no new pod of {part} was seen: {:?}", self.new))
        };
        let (conductor, compute) = (first("conductor")?, first("compute-")?);
        for part in ["scheduler", "api"] {
            let made = first(part)?;
            println!("first conductor {conductor}, {part} {made}, nova-compute {compute}");
            ensure!(
                conductor <= made && made <= compute,
                "conductor {conductor}, {part} {made}, nova-compute {compute}"
            );
        }
        Ok(())
    }

    /// While hypervisors of both versions ran, conductors of the new one kept to what those before them kept to.
    pub(crate) fn messages_were_of_the_oldest_version(
        &self,
        before: &BTreeMap<String, u64>,
    ) -> anyhow::Result<()> {
        println!("before {before:?}, while versions were mixed {:?}", self.mixed);
        ensure!(
            !self.mixed.is_empty(),
            "no new conductor spoke to a nova-compute while one was old"
        );
        let oldest = before.values().min().context("what was kept to before")?;
        for version in self.mixed.values() {
            ensure!(version == oldest, "{version}, not {oldest}: {:?}", self.mixed);
        }
        Ok(())
    }

    /// Waits until none is left that began to speak while versions were mixed.
    pub(crate) fn all_start_anew(&self, cloud: &Cloud) -> anyhow::Result<()> {
        until("conductors start anew", PATIENCE, || {
            let mut keep = pods(cloud)?;
            keep.retain(|pod| self.mixed.contains_key(&pod.uid));
            Ok(if keep.is_empty() {
                Ok(())
            } else {
                Err(format!("{keep:?}"))
            })
        })
    }

    /// Images of the version before.
    pub(crate) fn old(&self) -> &BTreeSet<String> {
        &self.old
    }
}

impl Pod {
    fn is(&self, part: &str) -> bool {
        self.component.starts_with(part)
    }
}

/// Waits until no pod of Nova has one of these images.
pub(crate) fn all_have_moved(cloud: &Cloud, old: &BTreeSet<String>) -> anyhow::Result<()> {
    until("no pod of Nova is of the version before", 3 * PATIENCE, || {
        let mut left = pods(cloud)?;
        left.retain(|pod| old.contains(&pod.image));
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    })
}

/// To what each conductor keeps that has spoken to a nova-compute, by UID.
pub(crate) fn pins(cloud: &Cloud) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for pod in pods(cloud)?.iter().filter(|pod| pod.is("conductor")) {
        found.extend(pinned(cloud, &pod.name)?.map(|version| (pod.uid.clone(), version)));
    }
    Ok(found)
}

fn pinned(cloud: &Cloud, conductor: &str) -> anyhow::Result<Option<u64>> {
    let log = cloud.kubectl(&["-n", NAMESPACE, "logs", conductor], "")?;
    Ok(version_in(&log))
}

/// The last one: a program that starts again in the same pod asks again.
fn version_in(log: &str) -> Option<u64> {
    let mut lines = log.lines().rev();
    lines.find_map(|line| {
        let (_, rest) = line.split_once(PINNED)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

fn pods(cloud: &Cloud) -> anyhow::Result<Vec<Pod>> {
    let mut found = Vec::new();
    for context in ["control-plane", "hypervisor"] {
        let list = [
            "--context",
            context,
            "-n",
            NAMESPACE,
            "get",
            "pods",
            "-l",
            "app.kubernetes.io/name=nova",
            "-o",
            "json",
        ];
        let list: Value = serde_json::from_str(&cloud.kubectl(&list, "")?)?;
        found.extend(list["items"].as_array().into_iter().flatten().filter_map(read));
    }
    Ok(found)
}

/// None of a pod that is on its way out, and of Jobs and programs that are no part of Nova's versions.
fn read(pod: &Value) -> Option<Pod> {
    let metadata = &pod["metadata"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let component = text(&metadata["labels"]["app.kubernetes.io/component"])?;
    let parts = ["conductor", "scheduler", "api", "compute-"];
    let is_part = parts.iter().any(|part| component.starts_with(part)) && !component.starts_with("api-db");
    (is_part && metadata["deletionTimestamp"].is_null()).then_some(())?;
    Some(Pod {
        uid: text(&metadata["uid"])?,
        name: text(&metadata["name"])?,
        component,
        created: text(&metadata["creationTimestamp"])?,
        image: text(&metadata["annotations"][IMAGE])?,
    })
}

#[test]
fn the_last_word_on_versions_counts() {
    let line = |version| format!("Automatically selected compute RPC version 6.4 {PINNED}{version}\n");
    assert_eq!(version_in(""), None);
    assert_eq!(version_in(&format!("{}x\n{}", line(68), line(70))), Some(70));
}
