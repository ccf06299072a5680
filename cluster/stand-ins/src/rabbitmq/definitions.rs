//! Commands to a node, as Erlang text. Whatever comes from an object is passed as Base64 or JSON.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::objects::encode;

fn binary(value: &str) -> String {
    format!("base64:decode(<<\"{}\">>)", encode(value))
}

/// Makes or changes everything that the definitions name, and nothing else.
pub(crate) fn import(definitions: &Value) -> String {
    format!(
        "rabbit_definitions:import_raw({}).\n",
        binary(&definitions.to_string())
    )
}

/// What a complaint about these definitions must not repeat.
pub(crate) fn secrets(definitions: &Value, password: &str) -> Vec<String> {
    let users = definitions["users"].as_array().into_iter().flatten();
    let hashes = users.filter_map(|user| user["password_hash"].as_str().map(str::to_owned));
    let text = encode(&definitions.to_string());
    hashes.chain([password.to_owned(), text]).collect()
}

pub(crate) fn delete_vhost(name: &str) -> String {
    format!("rabbit_vhost:delete({}, <<\"c5c3\">>).\n", binary(name))
}

pub(crate) fn delete_user(name: &str) -> String {
    format!(
        "rabbit_auth_backend_internal:delete_user({}, <<\"c5c3\">>).\n",
        binary(name)
    )
}

pub(crate) fn clear_permissions(user: &str, vhost: &str) -> String {
    format!(
        "rabbit_auth_backend_internal:clear_permissions({}, {}, <<\"c5c3\">>).\n",
        binary(user),
        binary(vhost)
    )
}

pub(crate) fn vhost(name: &str, queue_type: Option<&str>) -> Value {
    let mut vhost = json!({"name": name});
    if let Some(queue_type) = queue_type {
        vhost["default_queue_type"] = queue_type.into();
        vhost["metadata"] = json!({"default_queue_type": queue_type});
    }
    json!({"vhosts": [vhost]})
}

/// The node gets a salted hash, never the password.
pub(crate) fn user(name: &str, password: &str, tags: &[String]) -> Value {
    json!({"users": [{
        "name": name, "password_hash": password_hash(name, password),
        "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": tags.join(","),
    }]})
}

pub(crate) fn permission(user: &str, vhost: &str, configure: &str, write: &str, read: &str) -> Value {
    json!({"permissions": [{"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read}]})
}

/// Base64 of the salt and SHA-256(salt, password). The salt follows from both names, so that the
/// same password gives the same text.
fn password_hash(name: &str, password: &str) -> String {
    use base64::Engine;
    let seed = Sha256::new()
        .chain_update(name)
        .chain_update([0])
        .chain_update(password)
        .finalize();
    let salt = &seed[..4];
    let hash = Sha256::new().chain_update(salt).chain_update(password).finalize();
    let mut bytes = salt.to_vec();
    bytes.extend_from_slice(&hash);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// "No such user" and "no such virtual host": what should go is gone.
pub(crate) fn is_gone(said: &str) -> bool {
    said.contains("no_such_user") || said.contains("no_such_vhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;

    #[test]
    fn hashes_are_as_rabbitmq_checks_them() {
        let text = password_hash("nova", "secret");
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(&text)
            .expect("base64");
        let (salt, hash) = bytes.split_at(4);
        let expected = Sha256::new().chain_update(salt).chain_update("secret").finalize();
        assert_eq!(hash, expected.as_slice());
        assert_eq!(text, password_hash("nova", "secret"));
        assert_ne!(text, password_hash("glance", "secret"));
    }

    #[test]
    fn what_is_secret_is_known() {
        let wanted = user("nova", "hunter2", &[]);
        let hidden = secrets(&wanted, "hunter2");
        assert_eq!(hidden.len(), 3);
        assert!(hidden.contains(&password_hash("nova", "hunter2")));
        assert!(hidden.iter().any(|text| import(&wanted).contains(text)));
    }

    #[test]
    fn names_cannot_break_out() {
        let evil = "x\">>), init:stop(), (<<\"";
        let text = delete_user(evil);
        assert!(!text.contains("init:stop"), "{text}");
        assert_eq!(text.matches('"').count(), 4);
    }

    #[test]
    fn queue_types_are_named_only_when_wished() {
        assert_eq!(vhost("nova", None), json!({"vhosts": [{"name": "nova"}]}));
        assert_eq!(
            vhost("nova", Some("quorum"))["vhosts"][0]["default_queue_type"],
            "quorum"
        );
    }
}
