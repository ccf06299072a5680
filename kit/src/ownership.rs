//! Marks by which a controller knows its own objects, and the refusal to touch any other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Map, Value, json};

use crate::kinds::Key;

pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label: the controller that made the object. Watches of owned objects select by it.
pub const CONTROLLER: &str = "c5c3.io/controller";
/// Label: uid of the owner. It also serves where an owner reference cannot: across namespaces and clusters.
pub const OWNER_UID: &str = "c5c3.io/owner-uid";
/// Annotation: `namespace/name` of the owner.
pub const OWNER: &str = "c5c3.io/owner";

/// The owner of what a pass makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    pub controller: &'static str,
    pub key: Key,
    pub uid: String,
    reference: OwnerReference,
}

impl Owner {
    /// `None` for an object that no API server has stored.
    pub fn of<K: Resource<DynamicType = ()>>(controller: &'static str, object: &K) -> Option<Self> {
        let reference = object.controller_owner_ref(&())?;
        Some(Owner {
            controller,
            key: Key::of(object),
            uid: reference.uid.clone(),
            reference: OwnerReference {
                block_owner_deletion: Some(true),
                ..reference
            },
        })
    }

    /// Marks a wanted object as ours. `home`: it lives in the cluster of its owner.
    pub fn mark(&self, object: &mut Value, home: bool) {
        self.sign(object);
        let Some(meta) = metadata(object) else {
            return;
        };
        put(meta, "labels", OWNER_UID, &self.uid);
        let namespace = meta.get("namespace").and_then(Value::as_str);
        let reachable = self.key.namespace.is_none() || self.key.namespace.as_deref() == namespace;
        if home && reachable {
            meta.insert("ownerReferences".to_owned(), json!([self.reference]));
        }
    }

    /// Marks a wanted object as made by us and belonging to the owner's name alone: nothing ties it
    /// to this very owner, so neither garbage collection nor pruning takes it.
    pub fn sign(&self, object: &mut Value) {
        let Some(meta) = metadata(object) else {
            return;
        };
        put(meta, "labels", MANAGED_BY, "c5c3");
        put(meta, "labels", CONTROLLER, self.controller);
        put(meta, "annotations", OWNER, &self.key.to_string());
    }

    fn signed(&self, live: &Value) -> bool {
        let mark = |map: &str, key: &str| {
            live.pointer(map)
                .and_then(|all| all.get(key))
                .and_then(Value::as_str)
        };
        mark("/metadata/labels", OWNER_UID).is_none()
            && mark("/metadata/labels", CONTROLLER) == Some(self.controller)
            && mark("/metadata/annotations", OWNER).is_some_and(|owner| Key::parse(owner) == self.key)
    }

    /// Who a live object belongs to when it is not ours; `None` when it is.
    pub fn stranger(&self, live: &Value) -> Option<String> {
        let label = |key: &str| {
            live.pointer("/metadata/labels")
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        };
        let owners = live
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let controller = owners
            .into_iter()
            .flatten()
            .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        match controller {
            Some(owner) if text(owner, "uid") == self.uid => None,
            Some(owner) => Some(format!("{} {}", text(owner, "kind"), text(owner, "name"))),
            None if label(OWNER_UID) == Some(&self.uid) || self.signed(live) => None,
            None => Some(match label(MANAGED_BY) {
                Some(by) if by != "c5c3" => format!("no owner of ours (managed by {by})"),
                _ => "no owner of ours".to_owned(),
            }),
        }
    }
}

fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .as_object_mut()?
        .entry("metadata")
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn put(meta: &mut Map<String, Value>, map: &str, key: &str, value: &str) {
    let entry = meta.entry(map.to_owned()).or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    entry[key] = json!(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn owner() -> Owner {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("agg".into());
        object.metadata.namespace = Some("ns".into());
        object.metadata.uid = Some("u1".into());
        Owner::of("tests", &object).expect("it has a uid")
    }

    #[test]
    fn what_we_mark_is_ours() {
        let mut child = json!({"metadata": {"name": "c", "namespace": "ns", "labels": {"a": "b"}}});
        owner().mark(&mut child, true);
        assert_eq!(child["metadata"]["labels"]["a"], "b");
        assert_eq!(child["metadata"]["ownerReferences"][0]["uid"], "u1");
        assert_eq!(owner().stranger(&child), None);
    }

    #[test]
    fn across_namespaces_and_clusters_only_labels_mark() {
        for (namespace, home) in [("elsewhere", true), ("ns", false)] {
            let mut child = json!({"metadata": {"name": "c", "namespace": namespace}});
            owner().mark(&mut child, home);
            assert!(child["metadata"].get("ownerReferences").is_none());
            assert_eq!(owner().stranger(&child), None);
        }
    }

    #[test]
    fn what_lasts_is_tied_to_the_name_of_its_owner() {
        let mut child = json!({"metadata": {"name": "c", "namespace": "ns"}});
        owner().sign(&mut child);
        assert!(child["metadata"].get("ownerReferences").is_none());
        assert!(child["metadata"]["labels"].get(OWNER_UID).is_none());
        let anew = Owner {
            uid: "u9".into(),
            ..owner()
        };
        assert_eq!(anew.stranger(&child), None, "the next owner takes it over");
        let other = Owner {
            key: Key::new(Some("ns"), "other"),
            ..owner()
        };
        assert!(other.stranger(&child).is_some());
        let another = Owner {
            controller: "others",
            ..owner()
        };
        assert!(another.stranger(&child).is_some());
    }

    #[test]
    fn another_owner_and_no_owner_are_strangers() {
        let theirs = json!({"metadata": {"ownerReferences": [
            {"kind": "Deployment", "name": "web", "uid": "u2", "controller": true}]}});
        assert_eq!(owner().stranger(&theirs).as_deref(), Some("Deployment web"));
        let helm = json!({"metadata": {"labels": {MANAGED_BY: "Helm"}}});
        assert_eq!(
            owner().stranger(&helm).as_deref(),
            Some("no owner of ours (managed by Helm)")
        );
        assert!(owner().stranger(&json!({"metadata": {}})).is_some());
    }

    #[test]
    fn a_copied_label_does_not_outweigh_another_controller() {
        let copied = json!({"metadata": {"labels": {OWNER_UID: "u1"}, "ownerReferences": [
            {"kind": "X", "name": "y", "uid": "u2", "controller": true}]}});
        assert_eq!(owner().stranger(&copied).as_deref(), Some("X y"));
    }
}
