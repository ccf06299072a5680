//! The passwords of service users, as K-ORC takes them.
//!
//! K-ORC sets a password when `passwordRef` has another name than last time; it does not look into
//! the Secret again. So each password is given to it in a copy whose name changes with the password.
//! (ARCHITECTURE.md tells this from the other things that are called rotation.)

use std::collections::BTreeMap;

use c5c3_api::services::SERVICES;
use sha2::{Digest, Sha256};

use super::secrets::service_user;

/// The Secret with the key of the names.
pub(crate) const NAMES: &str = "service-user-names";
pub(crate) const KEY: &str = "key";
pub(crate) const PASSWORD: &str = "password";

/// A copy of a service user's password.
pub(crate) struct Copy {
    pub service: &'static str,
    pub name: String,
    pub password: Vec<u8>,
}

/// The copies of all passwords that are known; none while the key is not.
pub(crate) fn copies(known: &BTreeMap<String, BTreeMap<String, Vec<u8>>>) -> Vec<Copy> {
    let value = |secret: &str, key: &str| known.get(secret)?.get(key).filter(|value| !value.is_empty());
    let Some(key) = value(NAMES, KEY) else {
        return Vec::new();
    };
    let copy = |service: &'static str| {
        let given = service_user(service);
        let password = value(&given, PASSWORD)?.clone();
        let name = format!("{given}-{}", mark(key, &given, &password));
        Some(Copy {
            service,
            name,
            password,
        })
    };
    SERVICES.iter().filter_map(|service| copy(service.name)).collect()
}

/// More people see the name of a Secret than its values. Without the key, which is random and only in
/// a Secret, nobody can try out passwords against a name.
fn mark(key: &[u8], given: &str, password: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in [key, given.as_bytes(), password] {
        // No two lists of parts read the same.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..5])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str, password: &str) -> Option<String> {
        let secret = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.as_bytes().to_vec())]);
        let known = [
            (NAMES.to_owned(), secret(KEY, key)),
            ("glance-service-user".to_owned(), secret(PASSWORD, password)),
        ];
        copies(&known.into()).pop().map(|copy| copy.name)
    }

    #[test]
    fn a_name_changes_with_the_password_and_tells_nothing_without_the_key() {
        let one = named("k", "one").expect("named");
        assert!(
            one.starts_with("glance-service-user-") && one.len() == 30,
            "{one}"
        );
        assert_eq!(named("k", "one"), Some(one.clone()));
        assert_ne!(named("k", "two"), Some(one.clone()));
        assert_ne!(named("other", "one"), Some(one));
        assert_eq!((named("", "one"), named("k", "")), (None, None));
    }
}
