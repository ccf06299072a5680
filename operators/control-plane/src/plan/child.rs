//! The state of an object that the plan created: is it healthy, at its newest generation?

use std::collections::BTreeMap;

use c5c3_api::health;
pub use c5c3_api::health::Health;
use c5c3_kit::kinds::{Key, Reference};
use c5c3_kit::{HOME, Wanted};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::completion::COMPLETED;

#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub health: Health,
    /// `spec.image` of a service.
    pub image: Option<Value>,
    /// The version whose schema is in its database.
    pub installed: Option<String>,
    /// The version whose last schema steps have begun: from there no way leads back.
    pub contracting: Option<String>,
    /// Further images, by field.
    pub images: BTreeMap<String, Value>,
    /// Of K-ORC: what it is in Keystone, and what was set there beside K-ORC.
    pub id: Option<String>,
    pub completed: Option<String>,
}

impl Child {
    /// From the object as the API server has it.
    pub fn of(live: &Value) -> Self {
        Child {
            health: health::of_resource(live),
            image: live.pointer("/spec/image").cloned(),
            installed: text(live, "/status/installedRelease").map(str::to_owned),
            contracting: text(live, "/status/contracting").map(str::to_owned),
            images: images(live),
            id: text(live, "/status/id")
                .filter(|id| !id.is_empty())
                .map(str::to_owned),
            completed: live
                .pointer("/metadata/annotations")
                .and_then(|all| all.get(COMPLETED)?.as_str())
                .map(str::to_owned),
        }
    }
}

/// The fields of a spec that name an image, beside `image` itself.
pub(super) fn images(object: &Value) -> BTreeMap<String, Value> {
    let fields = object.get("spec").and_then(Value::as_object);
    let libvirt = object.pointer("/spec/compute/libvirtImage");
    fields
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.ends_with("Image"))
        .map(|(name, image)| (name.clone(), image.clone()))
        .chain(libvirt.map(|image| ("libvirtImage".to_owned(), image.clone())))
        .collect()
}

/// An object as the plan looks at it: by kind, name and image, whatever its type.
pub(super) fn whole<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    Wanted::of(object).into_object()
}

/// Kind with its group, namespace and name, as the kit writes it.
pub fn reference(object: &Value) -> Reference {
    let kind = text(object, "/kind").unwrap_or_default();
    let group = text(object, "/apiVersion").and_then(|version| version.split_once('/'));
    Reference {
        cluster: HOME,
        kind: group.map_or_else(|| kind.to_owned(), |(group, _)| format!("{kind}.{group}")),
        key: Key::new(
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name").unwrap_or_default(),
        ),
    }
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_read_as_the_kit_writes_them() {
        let keystone = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
            "metadata": {"name": "x", "namespace": "ns"}});
        assert_eq!(
            reference(&keystone).to_string(),
            "Keystone.keystone.openstack.c5c3.io ns/x"
        );
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}});
        assert_eq!(reference(&secret).to_string(), "Secret ns/s");
    }
}
