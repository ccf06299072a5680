//! References to objects: kind, namespace and name.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::Value;

use crate::clusters::{ClusterName, HOME};

/// A kind of object in one cluster, with the server-side filters of its watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub resource: ApiResource,
    pub cluster: ClusterName,
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// Watched in all namespaces even when the loop looks after one: for kinds without
    /// namespaces, and for those of other clusters.
    pub everywhere: bool,
    /// Bears our marks but is made by others: never written.
    pub only_seen: bool,
}

impl Kind {
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        let mut kind = Kind::from(ApiResource::erase::<K>(&()));
        // Scopes are types without values; their name is all that can be asked without more bounds.
        kind.everywhere = std::any::type_name::<K::Scope>().ends_with("ClusterResourceScope");
        kind
    }

    pub fn in_cluster(mut self, name: impl Into<ClusterName>) -> Self {
        self.cluster = name.into();
        self
    }

    pub fn everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    pub fn only_seen(mut self) -> Self {
        self.only_seen = true;
        self
    }

    pub fn labelled(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    pub fn with_fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned());
        self
    }

    /// Whether the reference is to an object of this kind.
    pub fn is_of(&self, reference: &Reference) -> bool {
        reference.cluster == self.cluster && reference.kind == full_name(&self.resource)
    }

    /// Every object of this kind in a namespace, whatever its name: no object has an empty one.
    pub fn any_in(&self, namespace: Option<&str>) -> Reference {
        self.named(namespace, "")
    }

    /// An object of this kind; `None` for the namespace when the kind has none.
    pub fn named(&self, namespace: Option<&str>, name: &str) -> Reference {
        Reference {
            cluster: self.cluster.clone(),
            kind: full_name(&self.resource),
            key: Key::new(namespace, name),
        }
    }
}

impl From<ApiResource> for Kind {
    fn from(resource: ApiResource) -> Self {
        Kind {
            resource,
            cluster: HOME,
            labels: None,
            fields: None,
            everywhere: false,
            only_seen: false,
        }
    }
}

/// `Secret`, `Deployment.apps`, `SecretAggregate.c5c3.io`.
fn full_name(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.kind.clone()
    } else {
        format!("{}.{}", resource.kind, resource.group)
    }
}

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: Option<String>,
    pub name: String,
}

impl Key {
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Key {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Key::new(
            meta.namespace.as_deref(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }

    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Key::new(Some(namespace), name),
            None => Key::new(None, text),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// An object anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    pub cluster: ClusterName,
    pub kind: String,
    pub key: Key,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)?;
        if self.cluster != HOME {
            write!(f, " in cluster {}", self.cluster)?;
        }
        Ok(())
    }
}

/// The resource that an object's own `apiVersion` and `kind` name; the plural comes from `known`.
pub(crate) fn resource_of<'k>(object: &Value, known: &'k [Kind], cluster: &str) -> Option<&'k Kind> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(Cow::Borrowed);
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    known
        .iter()
        .find(|k| k.cluster == cluster && k.resource.api_version == version && k.resource.kind == kind)
}

pub(crate) fn api(
    client: &kube::Client,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Secret};

    #[test]
    fn references_read_like_kubectl() {
        let secret = Kind::of::<Secret>().named(Some("openstack"), "db");
        assert_eq!(secret.to_string(), "Secret openstack/db");
        let node = Kind::of::<Node>().in_cluster("hypervisor").named(None, "n1");
        assert_eq!(node.to_string(), "Node n1 in cluster hypervisor");
        assert_eq!(Kind::of::<Deployment>().named(None, "x").kind, "Deployment.apps");
    }

    #[test]
    fn kinds_without_namespaces_are_everywhere() {
        assert!(Kind::of::<Node>().everywhere);
        assert!(!Kind::of::<Secret>().everywhere);
    }

    #[test]
    fn a_key_survives_its_text() {
        for key in [Key::new(Some("a"), "b"), Key::new(None, "b")] {
            assert_eq!(Key::parse(&key.to_string()), key);
        }
    }
}
