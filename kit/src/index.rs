//! Which objects refer to which: the way from a changed object back to those that depend on it.

use std::collections::{BTreeSet, HashMap};

use crate::kinds::{Key, Reference};

#[derive(Debug, Default)]
pub(crate) struct Index {
    dependents: HashMap<Reference, BTreeSet<Key>>,
    references: HashMap<Key, Vec<Reference>>,
}

impl Index {
    pub fn set(&mut self, key: &Key, references: Vec<Reference>) {
        self.remove(key);
        for reference in &references {
            self.dependents
                .entry(reference.clone())
                .or_default()
                .insert(key.clone());
        }
        self.references.insert(key.clone(), references);
    }

    pub fn remove(&mut self, key: &Key) {
        for reference in self.references.remove(key).unwrap_or_default() {
            if let Some(keys) = self.dependents.get_mut(&reference) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&reference);
                }
            }
        }
    }

    pub fn dependents(&self, reference: &Reference) -> impl Iterator<Item = &Key> {
        self.dependents.get(reference).into_iter().flatten()
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
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
