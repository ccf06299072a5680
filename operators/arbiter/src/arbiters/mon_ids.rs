//! Names of monitors, reserved in the CephCluster itself: in one write that rests on what was read, so
//! that no two arbiters have the same, with a mark of whose it is. Pure.

use c5c3_api::foreign::rook::CephCluster;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Annotation of a CephCluster: `mon.ceph.c5c3.io/ext-a: <uid of the RemoteArbiter> <namespace>/<name>`.
const MARK: &str = "mon.ceph.c5c3.io/";

/// A change of the reserved names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub namespace: String,
    pub cluster: String,
    /// What it rests on: when the cluster has changed since, nothing is written.
    version: String,
    /// Name that comes, with its mark.
    comes: Option<(String, String)>,
    goes: Option<String>,
    list: Vec<String>,
}

pub(super) fn listed(ceph: &CephCluster) -> &[String] {
    ceph.spec
        .mon
        .as_ref()
        .map_or(&[], |mon| mon.external_mon_ids.as_slice())
}

/// The name that bears the mark of this arbiter.
pub(super) fn held(ceph: &CephCluster, uid: &str) -> Option<String> {
    let mut marks = ceph.annotations().iter();
    marks.find_map(|(key, value)| {
        let id = key.strip_prefix(MARK)?;
        (value.split(' ').next() == Some(uid)).then(|| id.to_owned())
    })
}

/// The first letter that is free, beginning after that of `last`: a name that was given back may still be
/// in Ceph's own map. `known` are monitors of any kind.
pub(super) fn free(ceph: &CephCluster, prefix: &str, known: &[String], last: Option<&str>) -> Option<String> {
    let letters: Vec<String> = ('a'..='z').map(|letter| format!("{prefix}{letter}")).collect();
    let start = last.and_then(|last| letters.iter().position(|id| id == last));
    let start = start.map_or(0, |at| at + 1);
    let taken = |id: &String| {
        listed(ceph).contains(id)
            || known.contains(id)
            || ceph.annotations().contains_key(&format!("{MARK}{id}"))
    };
    let (before, after) = letters.split_at(start);
    after.iter().chain(before).find(|id| !taken(id)).cloned()
}

fn change(ceph: &CephCluster, comes: Option<(String, String)>, goes: Option<String>) -> Change {
    let mut list = listed(ceph).to_vec();
    list.retain(|id| Some(id) != goes.as_ref());
    if let Some((id, _)) = &comes
        && !list.contains(id)
    {
        list.push(id.clone());
    }
    Change {
        namespace: ceph.namespace().unwrap_or_default(),
        cluster: ceph.name_any(),
        version: ceph.resource_version().unwrap_or_default(),
        comes,
        goes,
        list,
    }
}

/// Takes a name, in place of another if there is one.
pub(super) fn reserve(ceph: &CephCluster, id: &str, mark: String, goes: Option<String>) -> Change {
    change(ceph, Some((id.to_owned(), mark)), goes)
}

pub(super) fn release(ceph: &CephCluster, id: &str) -> Change {
    change(ceph, None, Some(id.to_owned()))
}

impl Change {
    /// As a merge patch.
    pub(crate) fn patch(&self) -> Value {
        let mut marks = serde_json::Map::new();
        if let Some(goes) = &self.goes {
            marks.insert(format!("{MARK}{goes}"), Value::Null);
        }
        if let Some((comes, mark)) = &self.comes {
            marks.insert(format!("{MARK}{comes}"), mark.clone().into());
        }
        let list = if self.list.is_empty() {
            Value::Null
        } else {
            json!(self.list)
        };
        json!({
            "metadata": {"resourceVersion": self.version, "annotations": marks},
            "spec": {"mon": {"externalMonIDs": list}},
        })
    }

    /// `+ext-b -ext-a`.
    pub(crate) fn told(&self) -> String {
        let comes = self.comes.as_ref().map(|(id, _)| format!("+{id}"));
        let goes = self.goes.as_ref().map(|id| format!("-{id}"));
        let words: Vec<String> = comes.into_iter().chain(goes).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceph(ids: &[&str], marks: &[(&str, &str)]) -> CephCluster {
        let marks: serde_json::Map<String, Value> = marks
            .iter()
            .map(|(id, uid)| (format!("{MARK}{id}"), json!(format!("{uid} ns/name"))))
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"namespace": "rook-ceph", "name": "c", "resourceVersion": "7", "annotations": marks},
            "spec": {"mon": {"count": 3, "externalMonIDs": ids}},
        }))
        .expect("a CephCluster")
    }

    #[test]
    fn a_name_is_known_by_its_mark() {
        let ceph = ceph(&["ext-a", "ext-b"], &[("ext-a", "u1"), ("ext-b", "u2")]);
        assert_eq!(held(&ceph, "u2").as_deref(), Some("ext-b"));
        assert_eq!(held(&ceph, "u"), None);
    }

    #[test]
    fn the_first_free_letter_is_taken_and_one_given_back_comes_last() {
        let known = ["ext-b".to_owned()];
        let free = |ids: &[&str], marks: &[(&str, &str)], last: Option<&str>| {
            super::free(&ceph(ids, marks), "ext-", &known, last)
        };
        assert_eq!(free(&[], &[], None).as_deref(), Some("ext-a"));
        assert_eq!(free(&["ext-a"], &[], None).as_deref(), Some("ext-c"));
        assert_eq!(
            free(&["ext-a"], &[("ext-c", "u")], None).as_deref(),
            Some("ext-d")
        );
        assert_eq!(free(&[], &[], Some("ext-y")).as_deref(), Some("ext-z"));
        assert_eq!(free(&[], &[], Some("ext-z")).as_deref(), Some("ext-a"));
        let all: Vec<String> = ('a'..='z').map(|letter| format!("ext-{letter}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(free(&all, &[], None), None);
    }

    #[test]
    fn a_change_rests_on_what_was_read_and_leaves_names_of_others() {
        let there = ceph(&["other"], &[]);
        assert_eq!(
            reserve(&there, "ext-a", "u n/a".to_owned(), None).patch(),
            json!({"metadata": {"resourceVersion": "7", "annotations": {"mon.ceph.c5c3.io/ext-a": "u n/a"}},
                "spec": {"mon": {"externalMonIDs": ["other", "ext-a"]}}})
        );
        let there = ceph(&["ext-a"], &[("ext-a", "u")]);
        assert_eq!(
            release(&there, "ext-a").patch(),
            json!({"metadata": {"resourceVersion": "7", "annotations": {"mon.ceph.c5c3.io/ext-a": null}},
                "spec": {"mon": {"externalMonIDs": null}}})
        );
        let moved = reserve(&there, "ext-b", "u n/a".to_owned(), Some("ext-a".to_owned()));
        assert_eq!(moved.told(), "+ext-b -ext-a");
        assert_eq!(moved.patch()["spec"]["mon"]["externalMonIDs"], json!(["ext-b"]));
    }
}
