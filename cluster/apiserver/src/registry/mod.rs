//! What a cluster serves: built-in kinds and those of its CRDs, as an immutable snapshot that is
//! replaced when a CRD changes.

mod builtin;
mod custom;
mod kind;

use crate::verb::Verb;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

pub use custom::{CustomSchema, ScalePaths, custom_kinds};
pub use kind::{Column, Kind, Schema, Subresource, api_version};

/// One snapshot. Discovery, OpenAPI and tables are pure functions of it.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: Vec<Arc<Kind>>,
    index: HashMap<(String, String, String), usize>,
    /// Grows with every change: a cheap cache key for what is derived from the registry.
    pub generation: u64,
    /// Documents derived from this snapshot, made when first asked for.
    pub(crate) openapi: OnceLock<Arc<crate::openapi::Documents>>,
}

impl Registry {
    pub fn new(kinds: Vec<Arc<Kind>>, generation: u64) -> Self {
        let index = kinds
            .iter()
            .enumerate()
            .map(|(i, k)| ((k.group.clone(), k.version.clone(), k.plural.clone()), i))
            .collect();
        Self {
            kinds,
            index,
            generation,
            openapi: OnceLock::new(),
        }
    }

    /// The built-in kinds alone.
    pub fn builtin() -> Self {
        Self::new(builtin::kinds(), 0)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.index.get(&key).map(|&i| &self.kinds[i])
    }

    /// By kind, as objects name it.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.kinds
            .iter()
            .find(|k| k.group == group && k.version == version && k.kind == kind)
    }

    /// All, in the order in which they were registered.
    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// One kind for each resource (the storage version's), for controllers that visit everything.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds
            .iter()
            .filter(|k| k.version == k.storage_version && k.allows(&Verb::List) && k.group != "events.k8s.io")
    }

    /// Groups with their versions, preferred first: the most stable, then the highest.
    pub fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for kind in &self.kinds {
            let versions = groups.entry(kind.group.clone()).or_default();
            if !versions.contains(&kind.version) {
                versions.push(kind.version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        groups
    }
}

/// Order of API versions: v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > anything else.
pub fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return other;
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, tail) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return other };
    let (stability, minor) = match tail {
        "" => (3, Ok(0)),
        _ => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor.parse()),
            (_, Some(minor)) => (1, minor.parse()),
            _ => return other,
        },
    };
    match minor {
        Ok(minor) => (stability, major, minor, std::cmp::Reverse(String::new())),
        Err(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rank_as_in_kubernetes() {
        let mut versions = [
            "foo1",
            "v1alpha1",
            "v10",
            "v2",
            "v11beta2",
            "v1",
            "v3beta1",
            "foo10",
            "v11alpha2",
            "v10beta3",
        ];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v11alpha2",
                "v1alpha1",
                "foo1",
                "foo10"
            ]
        );
    }

    #[test]
    fn built_in_kinds_are_served() {
        let registry = Registry::builtin();
        let deployments = registry.find("apps", "v1", "deployments").unwrap();
        assert_eq!(deployments.kind, "Deployment");
        assert!(deployments.has_status());
        assert!(registry.find("apps", "v1beta1", "deployments").is_none());
        assert_eq!(registry.groups()[""], ["v1"]);
        let events = registry.find("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(
            events.collection("c"),
            registry.find("", "v1", "events").unwrap().collection("c")
        );
    }
}
