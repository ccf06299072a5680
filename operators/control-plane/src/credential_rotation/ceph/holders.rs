//! Pure: who may still be using the key of an older user.

use std::collections::{BTreeMap, BTreeSet};

/// What was seen in one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sighting {
    /// Workloads and pods that were started as an older user.
    pub workers: Vec<String>,
    /// Nodes on which keys of these users are handed on to guests.
    pub hosts: BTreeSet<String>,
    /// Users of Ceph that guests have, by hypervisor; `None` where that is not known.
    pub told: BTreeMap<String, Option<Vec<String>>>,
}

/// A guest keeps the user with whom it was started, and outlives the pods of its node.
pub(crate) fn holders(old: &[String], place: &Sighting) -> Vec<String> {
    let mut all: Vec<String> = place.workers.clone();
    let uses = |users: &Vec<String>| users.iter().any(|user| old.contains(user));
    for (host, users) in &place.told {
        if users.as_ref().is_some_and(uses) {
            all.push(format!("guests on {host}"));
        }
    }
    let silent = |host: &&String| !matches!(place.told.get(*host), Some(Some(_)));
    for host in place.hosts.iter().filter(silent) {
        all.push(format!(
            "possibly guests on {host} (its Hypervisor does not report status.cephUsers: run the node agent there)"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_held_by_whoever_may_work_with_it() {
        let strings = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>();
        let told = |host: &str, users: Option<&[&str]>| (host.to_owned(), users.map(strings));
        let place = |workers: &[&str], hosts: &[&str], all: Vec<(String, Option<Vec<String>>)>| Sighting {
            workers: strings(workers),
            hosts: strings(hosts).into_iter().collect(),
            told: all.into_iter().collect(),
        };
        for (what, place, expected) in [
            ("nobody", Sighting::default(), vec![]),
            ("a pod", place(&["Pod a"], &[], vec![]), vec!["Pod a"]),
            (
                "guests that moved on",
                place(&[], &["h"], vec![told("h", Some(&["cinder-3", "nova"]))]),
                vec![],
            ),
            (
                "a guest",
                place(&[], &["h"], vec![told("h", Some(&["cinder-1"]))]),
                vec!["guests on h"],
            ),
            (
                "a guest of a node that is away",
                place(&[], &[], vec![told("h", Some(&["cinder-2"]))]),
                vec!["guests on h"],
            ),
            (
                "a hypervisor of others",
                place(&[], &[], vec![told("h", None)]),
                vec![],
            ),
            (
                "no agent",
                place(&[], &["h"], vec![told("h", None)]),
                vec!["possibly guests on h"],
            ),
            (
                "no Hypervisor",
                place(&[], &["h"], vec![]),
                vec!["possibly guests on h"],
            ),
        ] {
            let found = holders(&strings(&["cinder-1", "cinder-2"]), &place);
            assert_eq!(found.len(), expected.len(), "{what}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{what}: {found}");
            }
        }
    }
}
