//! The merge itself: no cluster, no clock. Messages name Secrets and keys, never values.

use std::collections::BTreeMap;

use c5c3_api::c5c3::SecretSource;
use k8s_openapi::ByteString;

pub type Data = BTreeMap<String, ByteString>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Names of Secrets that are not there.
    #[error("not found: {}; the target is left unchanged until they exist", secrets(.0))]
    Secrets(Vec<String>),
    /// Secret and key.
    #[error("{}; the target is left unchanged", keys(.0))]
    Keys(Vec<(String, String)>),
    /// Key and the two Secrets that have it.
    #[error("{}; list the keys to take from each Secret in sources[].keys", duplicates(.0))]
    Duplicates(Vec<(String, String, String)>),
}

fn secrets(names: &[String]) -> String {
    let named: Vec<_> = names.iter().map(|name| format!("Secret {name}")).collect();
    named.join(", ")
}

fn keys(missing: &[(String, String)]) -> String {
    let named: Vec<_> = missing
        .iter()
        .map(|(secret, key)| format!("Secret {secret} has no key {key}"))
        .collect();
    named.join(", ")
}

fn duplicates(found: &[(String, String, String)]) -> String {
    let named: Vec<_> = found
        .iter()
        .map(|(key, first, second)| format!("key {key} is in Secret {first} and in Secret {second}"))
        .collect();
    named.join(", ")
}

/// Merges all keys of all sources, or says why that is not possible. All problems of the first kind
/// found are named, so that one edit can fix them.
pub fn merge(sources: &[SecretSource], found: &BTreeMap<String, Data>) -> Result<Data, MergeError> {
    let mut missing = Vec::new();
    let mut present = Vec::new();
    for source in sources {
        match found.get(&source.secret_ref.name) {
            Some(data) => present.push((source, data)),
            None => missing.push(source.secret_ref.name.clone()),
        }
    }
    if !missing.is_empty() {
        return Err(MergeError::Secrets(missing));
    }

    let lacking: Vec<_> = present
        .iter()
        .flat_map(|(source, data)| {
            let name = &source.secret_ref.name;
            let lacks = source.keys.iter().filter(|key| !data.contains_key(*key));
            lacks.map(|key| (name.clone(), key.clone()))
        })
        .collect();
    if !lacking.is_empty() {
        return Err(MergeError::Keys(lacking));
    }

    let mut merged = Data::new();
    let mut taken_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut twice = Vec::new();
    for (source, data) in present {
        let name = source.secret_ref.name.as_str();
        let taken = data
            .iter()
            .filter(|(key, _)| source.keys.is_empty() || source.keys.contains(key));
        for (key, value) in taken {
            match taken_from.insert(key, name) {
                Some(first) => twice.push((key.clone(), first.to_owned(), name.to_owned())),
                None => {
                    merged.insert(key.clone(), value.clone());
                }
            }
        }
    }
    if twice.is_empty() {
        Ok(merged)
    } else {
        Err(MergeError::Duplicates(twice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::common::LocalRef;
    use proptest::prelude::*;

    fn source(name: &str, keys: &[&str]) -> SecretSource {
        SecretSource {
            secret_ref: LocalRef::new(name),
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        }
    }

    fn found(secrets: &[(&str, &[&str])]) -> BTreeMap<String, Data> {
        let data = |name: &str, keys: &[&str]| -> Data {
            keys.iter()
                .map(|k| ((*k).to_owned(), ByteString(format!("{name}/{k}").into_bytes())))
                .collect()
        };
        secrets
            .iter()
            .map(|(name, keys)| ((*name).to_owned(), data(name, keys)))
            .collect()
    }

    #[test]
    fn takes_all_keys_or_the_listed_ones() {
        let there = found(&[("a", &["user", "extra"]), ("b", &["password"])]);
        let all = merge(&[source("a", &[]), source("b", &[])], &there).expect("merges");
        assert_eq!(all.keys().collect::<Vec<_>>(), ["extra", "password", "user"]);
        let some = merge(&[source("a", &["user"]), source("b", &[])], &there).expect("merges");
        assert_eq!(some.keys().collect::<Vec<_>>(), ["password", "user"]);
        assert_eq!(some["user"].0, b"a/user");
    }

    #[test]
    fn every_trouble_is_named() {
        let there = found(&[("a", &["k", "l"]), ("b", &["k"]), ("c", &["k"])]);
        let table: &[(&[SecretSource], &str)] = &[
            (
                &[source("x", &[]), source("a", &[]), source("y", &[])],
                "not found: Secret x, Secret y; the target is left unchanged until they exist",
            ),
            (
                &[source("a", &["m", "k"]), source("b", &["n"])],
                "Secret a has no key m, Secret b has no key n; the target is left unchanged",
            ),
            (
                &[source("a", &[]), source("b", &[]), source("c", &[])],
                "key k is in Secret a and in Secret b, key k is in Secret b and in Secret c; list the keys to take from each Secret in sources[].keys",
            ),
        ];
        for (sources, message) in table {
            let error = merge(sources, &there).expect_err("must not merge");
            assert_eq!(error.to_string(), *message);
        }
    }

    #[test]
    fn listing_keys_settles_a_conflict() {
        let there = found(&[("a", &["k", "l"]), ("b", &["k"])]);
        assert!(merge(&[source("a", &["l"]), source("b", &[])], &there).is_ok());
    }

    proptest! {
        #[test]
        fn a_merge_loses_nothing_and_invents_nothing(
            contents in prop::collection::btree_map("[a-d]", prop::collection::btree_set("[k-p]", 0..4), 1..5),
        ) {
            let sources: Vec<_> = contents.keys().map(|name| source(name, &[])).collect();
            let there: BTreeMap<String, Data> = contents
                .iter()
                .map(|(name, keys)| {
                    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                    (name.clone(), found(&[(name.as_str(), keys.as_slice())]).remove(name).unwrap_or_default())
                })
                .collect();
            let total: usize = contents.values().map(std::collections::BTreeSet::len).sum();
            let distinct: std::collections::BTreeSet<_> = contents.values().flatten().collect();
            match merge(&sources, &there) {
                Ok(merged) => {
                    prop_assert_eq!(merged.len(), total);
                    for (name, data) in &there {
                        for (key, value) in data {
                            prop_assert_eq!(merged.get(key), Some(value), "{}", name);
                        }
                    }
                }
                Err(MergeError::Duplicates(found)) => prop_assert_eq!(found.len(), total - distinct.len()),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
