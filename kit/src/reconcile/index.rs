//! Which objects refer to which: the way from a changed object back to those that depend on it.

use std::collections::{BTreeSet, HashMap};

use crate::kinds::{Key, Reference};

#[derive(Debug, Default)]
pub(crate) struct Index {
    dependents: HashMap<Reference, BTreeSet<Key>>,
    references: HashMap<Key, References>,
}

#[derive(Debug, Default)]
struct References {
    /// What the object itself names.
    stated: Vec<Reference>,
    /// What observing it brought to light.
    found: Vec<Reference>,
}

impl References {
    fn all(&self) -> impl Iterator<Item = &Reference> {
        self.stated.iter().chain(&self.found)
    }
}

impl Index {
    /// What was found stays until the next look.
    pub(crate) fn set(&mut self, key: &Key, stated: Vec<Reference>) {
        let found = self.take(key).found;
        self.insert(key, References { stated, found });
    }

    /// `true` when one of them is new: a change of it before now went unseen.
    pub(crate) fn learn(&mut self, key: &Key, found: Vec<Reference>) -> bool {
        // An object that is gone meanwhile depends on nothing.
        let Some(known) = self.references.get(key) else {
            return false;
        };
        if known.found == found {
            return false;
        }
        let new = found.iter().any(|one| known.all().all(|other| other != one));
        let stated = self.take(key).stated;
        self.insert(key, References { stated, found });
        new
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.take(key);
    }

    fn insert(&mut self, key: &Key, references: References) {
        for reference in references.all() {
            self.dependents
                .entry(reference.clone())
                .or_default()
                .insert(key.clone());
        }
        self.references.insert(key.clone(), references);
    }

    fn take(&mut self, key: &Key) -> References {
        let references = self.references.remove(key).unwrap_or_default();
        for reference in references.all() {
            if let Some(keys) = self.dependents.get_mut(reference) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(reference);
                }
            }
        }
        references
    }

    pub(crate) fn dependents(&self, reference: &Reference) -> impl Iterator<Item = &Key> {
        self.dependents.get(reference).into_iter().flatten()
    }

    /// Those with a reference that the test holds for.
    pub(crate) fn keys_with(&self, test: impl Fn(&Reference) -> bool) -> BTreeSet<Key> {
        let held = self.dependents.iter().filter(|(to, _)| test(to));
        held.flat_map(|(_, keys)| keys).cloned().collect()
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.references.contains_key(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.references.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use k8s_openapi::api::core::v1::Secret;
    use proptest::prelude::*;

    fn secret(name: &str) -> Reference {
        Kind::of::<Secret>().named(Some("ns"), name)
    }

    #[test]
    fn finds_dependents_and_forgets_them() {
        let mut index = Index::default();
        let (a, b) = (Key::new(Some("ns"), "a"), Key::new(Some("ns"), "b"));
        index.set(&a, vec![secret("x"), secret("y")]);
        index.set(&b, vec![secret("x")]);
        assert_eq!(index.dependents(&secret("x")).collect::<Vec<_>>(), [&a, &b]);
        index.set(&a, vec![secret("z")]);
        assert_eq!(index.dependents(&secret("x")).collect::<Vec<_>>(), [&b]);
        assert_eq!(index.dependents(&secret("y")).count(), 0);
        index.remove(&a);
        index.remove(&b);
        assert!(index.dependents.is_empty() && index.references.is_empty());
    }

    #[test]
    fn what_was_found_is_told_apart_from_what_is_stated() {
        let mut index = Index::default();
        let a = Key::new(Some("ns"), "a");
        assert!(!index.learn(&a, vec![secret("x")]), "nobody knows it");
        index.set(&a, vec![secret("x")]);
        for (found, new) in [
            (vec![secret("x")], false),
            (vec![secret("x"), secret("y")], true),
            (vec![secret("y")], false),
            (vec![secret("z")], true),
        ] {
            assert_eq!(index.learn(&a, found.clone()), new, "{found:?}");
        }
        // The object changed; what was found stays, and what was found before is forgotten.
        index.set(&a, vec![secret("w")]);
        let depends = |name: &str| index.dependents(&secret(name)).count();
        assert_eq!(["w", "x", "y", "z"].map(depends), [1, 0, 0, 1]);
        index.remove(&a);
        assert!(index.dependents.is_empty() && index.references.is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_a_scan(steps in prop::collection::vec((0u8..5, prop::collection::vec(0u8..5, 0..4)), 0..40)) {
            let mut index = Index::default();
            let mut model: HashMap<Key, Vec<Reference>> = HashMap::new();
            for (object, references) in steps {
                let key = Key::new(None, &object.to_string());
                let references: Vec<_> = references.iter().map(|r| secret(&r.to_string())).collect();
                if references.is_empty() {
                    index.remove(&key);
                    model.remove(&key);
                } else {
                    index.set(&key, references.clone());
                    model.insert(key, references);
                }
            }
            for name in 0..5u8 {
                let reference = secret(&name.to_string());
                let found: BTreeSet<_> = index.dependents(&reference).cloned().collect();
                let scanned: BTreeSet<_> = model
                    .iter()
                    .filter(|(_, r)| r.contains(&reference))
                    .map(|(k, _)| k.clone())
                    .collect();
                prop_assert_eq!(found, scanned);
            }
        }
    }
}
