//! Marks by which a controller knows its own objects, and the refusal to touch any other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
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
/// Annotation: `namespace/name` of the object itself, where no owner reference is possible. A copy
/// of the object under another name carries the marks of the original, but not its name.
pub const MADE_AS: &str = "c5c3.io/made-as";

/// The uid of the owner by whose wish an object exists. Copied marks do not count: an object that
/// another controller or nobody holds is never pruned.
pub(crate) fn owner_of(meta: &ObjectMeta, home: bool) -> Option<&str> {
    let uid = meta.labels.as_ref()?.get(OWNER_UID)?;
    let mut references = meta.owner_references.iter().flatten();
    if let Some(holder) = references.find(|owner| owner.controller == Some(true)) {
        return (holder.uid == *uid).then_some(uid);
    }
    let annotation = |name: &str| meta.annotations.as_ref()?.get(name).map(|text| Key::parse(text));
    let owner = annotation(OWNER)?;
    let itself = Key::new(
        meta.namespace.as_deref(),
        meta.name.as_deref().unwrap_or_default(),
    );
    let tied = home && referable(&owner, meta.namespace.as_deref());
    (!tied && annotation(MADE_AS) == Some(itself)).then_some(uid)
}

/// Whether an owner reference reaches from an object in this namespace to its owner.
fn referable(owner: &Key, namespace: Option<&str>) -> bool {
    owner.namespace.is_none() || owner.namespace.as_deref() == namespace
}

/// The owner of the objects that a pass creates.
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
        if home && referable(&self.key, namespace) {
            meta.insert("ownerReferences".to_owned(), json!([self.reference]));
        } else {
            let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
            let itself = Key::new(namespace, name).to_string();
            put(meta, "annotations", MADE_AS, &itself);
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
                Some(by) if by != "c5c3" => format!("somebody else (managed by {by})"),
                _ => "somebody else".to_owned(),
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
            Some("somebody else (managed by Helm)")
        );
        assert!(owner().stranger(&json!({"metadata": {}})).is_some());
    }

    #[test]
    fn a_copy_is_not_what_its_marks_say() {
        let meta = |object: &Value| -> ObjectMeta {
            serde_json::from_value(object["metadata"].clone()).expect("metadata")
        };
        for (namespace, home) in [("ns", true), ("elsewhere", true), ("ns", false)] {
            let mut child = json!({"metadata": {"name": "c", "namespace": namespace}});
            owner().mark(&mut child, home);
            assert_eq!(owner_of(&meta(&child), home), Some("u1"), "{child}");
            // As a backup or a replicator makes it.
            for place in [("backup", namespace), ("c", "third")] {
                let mut copy = child.clone();
                copy["metadata"]["name"] = json!(place.0);
                copy["metadata"]["namespace"] = json!(place.1);
                copy["metadata"]["ownerReferences"] = json!([]);
                assert_eq!(owner_of(&meta(&copy), home), None, "{copy}");
            }
            child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "X", "name": "y",
                "uid": "u2", "controller": true}]);
            assert_eq!(owner_of(&meta(&child), home), None, "{child}");
        }
    }

    #[test]
    fn a_copied_label_does_not_outweigh_another_controller() {
        let copied = json!({"metadata": {"labels": {OWNER_UID: "u1"}, "ownerReferences": [
            {"kind": "X", "name": "y", "uid": "u2", "controller": true}]}});
        assert_eq!(owner().stranger(&copied).as_deref(), Some("X y"));
    }
}
