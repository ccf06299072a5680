//! Configuration: release defaults ← spec ← extraConfig, checked, rendered, named by content.

mod check;
mod ini;

pub use check::{ConfigError, check, refuse_secrets};
pub use ini::Ini;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A short name for content: equal content, equal name.
pub fn hash(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // Lengths keep ("ab", "c") apart from ("a", "bc").
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    hex::encode(&digest.finalize()[..5])
}

/// The name for an object's content; maps are sorted, so equal objects have equal text.
pub fn hash_value(value: &Value) -> String {
    hash(&[&value.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
        assert_eq!(hash(&["x"]).len(), 10);
    }
}
