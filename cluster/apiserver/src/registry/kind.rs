//! A served resource as data.

use apimachinery::openapi::ObjectType;
use serde::Deserialize;

use crate::store::Collection;
use crate::verb::Verb;

/// One resource at one API version.
#[derive(Clone, Debug)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<Verb>,
    pub subresources: Vec<Subresource>,
    /// Table columns; empty means the default ones (name and age).
    pub columns: Vec<Column>,
    pub schema: Schema,
    /// The version that is written to the store.
    pub storage_version: String,
    /// Fields that the endpoint of each subresource (`""`: the main one) puts back to the old value.
    pub reset_fields: Vec<(String, Vec<String>)>,
    /// Paths, beside `metadata.name` and `metadata.namespace`, that field selectors may use.
    pub selectable: Vec<String>,
    /// The warning that users of this version get.
    pub deprecated: Option<String>,
    /// Types of all served versions by API version, for field ownership.
    pub types: Vec<(String, ObjectType)>,
}

/// Where the structure of a kind is written down.
#[derive(Clone, Debug)]
pub enum Schema {
    /// A definition of [`apimachinery::openapi::builtin_definitions`].
    Builtin(String),
    Custom(std::sync::Arc<super::CustomSchema>),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Subresource {
    pub name: String,
    /// Group and version of what it reads and writes; empty means that of the resource.
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    pub version: String,
    pub kind: String,
    pub verbs: Vec<Verb>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(default)]
    pub format: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub priority: i32,
    /// Of custom resources; built-in kinds compute their cells in code.
    #[serde(default, rename = "jsonPath")]
    pub json_path: String,
}

impl Kind {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn storage_api_version(&self) -> String {
        api_version(&self.group, &self.storage_version)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn allows(&self, verb: &Verb) -> bool {
        self.verbs.contains(verb)
    }

    /// Where its objects are kept in `cluster`. Events of both groups are the same objects.
    pub fn collection(&self, cluster: &str) -> Collection {
        let group = if self.is_event() { "" } else { &self.group };
        Collection::new(cluster, group, &self.plural)
    }

    pub fn is_event(&self) -> bool {
        self.plural == "events" && (self.group.is_empty() || self.group == "events.k8s.io")
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.schema, Schema::Custom(_))
    }

    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub fn reset_fields_of(&self, subresource: &str) -> &[String] {
        self.reset_fields
            .iter()
            .find(|(name, _)| name == subresource)
            .map_or(&[], |(_, fields)| fields.as_slice())
    }
}

pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}
