use crate::schema::{self, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// An object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}

impl LocalRef {
    /// Refers to `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// An object, by default in the same namespace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Namespace of the object, if it is another one.
    #[serde(default)]
    #[schemars(schema_with = "schema::label")]
    pub namespace: Option<String>,
}

/// An object that keeps another one from being ready.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// Its API group; none for the core of Kubernetes.
    pub group: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it is another one.
    pub namespace: Option<String>,
    /// Its cluster, if it is another one.
    pub cluster: Option<String>,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Key in the Secret.
    #[serde(default = "SecretKeyRef::password")]
    #[schemars(schema_with = "schema::data_key")]
    pub key: String,
}

impl SecretKeyRef {
    fn password() -> String {
        "password".to_owned()
    }
}

/// A container image, pinned by tag or by digest.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.tag) != has(self.digest)",
    "image: set exactly one of tag and digest",
)])))]
pub struct Image {
    /// Registry and path, without tag.
    #[schemars(regex(pattern = r"^[a-z0-9][a-zA-Z0-9._:/-]*[a-z0-9]$"), length(max = 255))]
    pub repository: String,
    /// Tag, such as 28.0.0 or 28.0.0-p1.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"), length(max = 128))]
    pub tag: Option<String>,
    /// Digest, such as sha256:….
    #[schemars(regex(pattern = r"^sha256:[a-f0-9]{64}$"), length(max = 71))]
    pub digest: Option<String>,
}

impl Image {
    /// What a container's `image` field takes.
    pub fn reference(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}@{digest}", self.repository),
            (None, Some(tag)) => format!("{}:{tag}", self.repository),
            (None, None) => self.repository.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_pinned_by_digest_or_tag() {
        let mut image = Image {
            repository: "ghcr.io/c5c3/keystone".into(),
            tag: Some("28.0.0".into()),
            digest: None,
        };
        assert_eq!(image.reference(), "ghcr.io/c5c3/keystone:28.0.0");
        image.tag = None;
        image.digest = Some("sha256:ab".into());
        assert_eq!(image.reference(), "ghcr.io/c5c3/keystone@sha256:ab");
    }
}
