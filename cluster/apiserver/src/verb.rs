//! What a request wants to do with a resource.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A verb as authorisation knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// `impersonate`, `bind`, `escalate` and whatever roles and reviews name; of paths that are no
    /// resource, the lower-case HTTP method.
    Other(String),
}

impl Verb {
    /// What is done to one object in its place.
    pub const OF_OBJECTS: [Verb; 4] = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];

    pub fn other(name: &str) -> Self {
        Verb::Other(name.to_owned())
    }

    pub fn as_str(&self) -> &str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Other(name) => name,
        }
    }

    pub fn reads(&self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// No verb: no role allows it.
impl Default for Verb {
    fn default() -> Self {
        Verb::Other(String::new())
    }
}

impl From<&str> for Verb {
    fn from(name: &str) -> Self {
        match name {
            "get" => Verb::Get,
            "list" => Verb::List,
            "watch" => Verb::Watch,
            "create" => Verb::Create,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            "delete" => Verb::Delete,
            "deletecollection" => Verb::DeleteCollection,
            other => Verb::other(other),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Verb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Verb {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| name.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_as_the_verb_that_is_written_so() {
        for name in [
            "get",
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ] {
            let verb = Verb::from(name);
            assert!(!matches!(verb, Verb::Other(_)), "{name}");
            assert_eq!(verb.as_str(), name);
        }
        assert_eq!(Verb::from("Get"), Verb::other("Get"), "verbs are lower-case");
    }
}
