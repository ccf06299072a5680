//! Which labels of its node a pod lacks. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub type Labels = BTreeMap<String, String>;

/// Annotation of a pod: which of its labels are its node's, with commas. What a pod has from others, under the same
/// name, is left alone: it may be what its owner is looking for.
pub const MARK: &str = "c5c3.io/node-labels";

/// What has to be written. Nothing where all is as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub set: Labels,
    pub remove: BTreeSet<String>,
    /// The new value of the annotation; empty: it goes.
    pub mark: Option<String>,
    /// Labels that differ and are not ours to change.
    pub foreign: BTreeSet<String>,
}

/// The labels of a node that its pods are to have. An empty value says nothing of a node.
pub fn of_node(keys: &[String], labels: Option<&Labels>) -> Labels {
    let of = |key: &String| Some((key.clone(), labels?.get(key)?.clone()));
    let there = keys.iter().filter_map(of);
    there.filter(|(_, value)| !value.is_empty()).collect()
}

/// From what its node has to what the pod lacks.
pub fn change(keys: &[String], node: &Labels, pod: Option<&Labels>, mark: Option<&str>) -> Change {
    let none = Labels::new();
    let pod = pod.unwrap_or(&none);
    let named = mark.unwrap_or_default().split(',').filter(|key| !key.is_empty());
    let before: BTreeSet<&str> = named.collect();
    let mut after = before.clone();
    let mut change = Change::default();
    for key in keys {
        let (wanted, there) = (node.get(key), pod.get(key));
        let ours = before.contains(key.as_str());
        match (wanted, there) {
            (Some(wanted), Some(there)) if wanted == there => {}
            (Some(_), Some(_)) if !ours => {
                change.foreign.insert(key.clone());
            }
            (Some(wanted), _) => {
                change.set.insert(key.clone(), wanted.clone());
                after.insert(key);
            }
            (None, there) if ours => {
                after.remove(key.as_str());
                if there.is_some() {
                    change.remove.insert(key.clone());
                }
            }
            (None, _) => {}
        }
    }
    if after != before {
        let text: Vec<&str> = after.into_iter().collect();
        change.mark = Some(text.join(","));
    }
    change
}

impl Change {
    pub fn is_nothing(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty() && self.mark.is_none()
    }

    /// For the pod itself. The uid keeps it from another pod of the same name.
    pub fn merge_patch(&self, uid: Option<&str>) -> Value {
        let set = self.set.iter().map(|(key, value)| (key.clone(), json!(value)));
        let gone = self.remove.iter().map(|key| (key.clone(), Value::Null));
        let labels: Map<String, Value> = set.chain(gone).collect();
        let mut patch = json!({"metadata": {"labels": labels}});
        if let Some(mark) = &self.mark {
            let value = (!mark.is_empty()).then_some(mark);
            patch["metadata"]["annotations"] = json!({MARK: value});
        }
        if let Some(uid) = uid {
            patch["metadata"]["uid"] = uid.into();
        }
        patch
    }

    /// For what is on its way to the server, a pod or the Binding of one. Of a Binding nothing can be taken away.
    pub fn json_patch(&self, object: &Value) -> Vec<Value> {
        let mark = self.mark.as_ref().filter(|mark| !mark.is_empty());
        let mark: Labels = mark
            .map(|mark| (MARK.to_owned(), mark.clone()))
            .into_iter()
            .collect();
        let mut patch = Vec::new();
        for (field, values) in [("labels", &self.set), ("annotations", &mark)] {
            if !values.is_empty() && !object["metadata"][field].is_object() {
                patch.push(json!({"op": "add", "path": format!("/metadata/{field}"), "value": {}}));
            }
            for (key, value) in values {
                // As RFC 6901 has it.
                let key = key.replace('~', "~0").replace('/', "~1");
                let path = format!("/metadata/{field}/{key}");
                patch.push(json!({"op": "add", "path": path, "value": value}));
            }
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(text: &str) -> Labels {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    fn keys() -> Vec<String> {
        ["name", "region", "zone"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_pod_gets_what_it_lacks_and_no_more() {
        for (node, pod, mark, set, remove, marked, foreign) in [
            (
                "zone=a region=r",
                "app=x",
                "",
                "zone=a region=r",
                "",
                Some("region,zone"),
                "",
            ),
            ("zone=a", "zone=a", "", "", "", None, ""),
            ("zone=b", "zone=a", "zone", "zone=b", "", None, ""),
            ("zone=b", "zone=a", "", "", "", None, "zone"),
            ("", "zone=a", "zone", "", "zone", Some(""), ""),
            ("", "zone=a", "", "", "", None, ""),
            ("", "", "zone", "", "", Some(""), ""),
            ("rack=7", "", "", "", "", None, ""),
            // The server kept the annotation of a Binding and dropped its labels.
            ("zone=a", "", "zone", "zone=a", "", None, ""),
            (
                "name=m zone=a",
                "name=x zone=b",
                "zone",
                "zone=a",
                "",
                None,
                "name",
            ),
        ] {
            let node = of_node(&keys(), Some(&labels(node)));
            let found = change(&keys(), &node, Some(&labels(pod)), Some(mark));
            let list = |text: &str| {
                text.split(' ')
                    .filter(|key| !key.is_empty())
                    .map(str::to_owned)
                    .collect()
            };
            let expected = Change {
                set: labels(set),
                remove: list(remove),
                mark: marked.map(str::to_owned),
                foreign: list(foreign),
            };
            assert_eq!(found, expected, "{node:?} {pod} {mark}");
        }
    }

    #[test]
    fn empty_values_say_nothing() {
        let node = Labels::from([("zone".to_owned(), String::new())]);
        assert!(of_node(&keys(), Some(&node)).is_empty());
        assert!(of_node(&keys(), None).is_empty());
    }

    #[test]
    fn patches_say_the_same_in_both_ways() {
        let key = "topology.kubernetes.io/zone".to_owned();
        let change = change(
            std::slice::from_ref(&key),
            &Labels::from([(key.clone(), "a".into())]),
            None,
            None,
        );
        assert_eq!(
            change.merge_patch(Some("u")),
            json!({"metadata": {"labels": {&key: "a"}, "annotations": {MARK: &key}, "uid": "u"}})
        );
        let paths = |object: Value| -> Vec<String> {
            let patch = change.json_patch(&object);
            patch
                .iter()
                .map(|step| step["path"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        let label = "/metadata/labels/topology.kubernetes.io~1zone";
        let mark = "/metadata/annotations/c5c3.io~1node-labels";
        assert_eq!(
            paths(json!({"metadata": {"labels": {}, "annotations": {}}})),
            [label, mark]
        );
        assert_eq!(
            paths(json!({"metadata": {}})),
            ["/metadata/labels", label, "/metadata/annotations", mark]
        );
    }

    fn some_labels() -> impl Strategy<Value = Labels> {
        let keys = prop::sample::select(vec!["name", "region", "zone", "app"]);
        prop::collection::btree_map(keys.prop_map(str::to_owned), "[ab]?", 0..4)
    }

    proptest! {
        /// Once written, nothing differs; what is not asked for stays; no label is ever empty because of us.
        #[test]
        fn one_write_is_enough(node in some_labels(), pod in some_labels(), mark in "(zone)?(,name)?") {
            let node = of_node(&keys(), Some(&node));
            let first = change(&keys(), &node, Some(&pod), Some(&mark));
            prop_assert!(first.set.values().all(|value| !value.is_empty()));
            let mut after = pod.clone();
            after.extend(first.set.clone());
            after.retain(|key, _| !first.remove.contains(key));
            let marked = first.mark.clone().unwrap_or(mark);
            let second = change(&keys(), &node, Some(&after), Some(&marked));
            prop_assert!(second.is_nothing(), "{second:?}");
            prop_assert_eq!(after.get("app"), pod.get("app"));
        }
    }
}
