//! The token cache: what is in it nobody else can read, and all pods find it at the same server.

use c5c3_kit::{Observed, Wanted};
use serde_json::{Value, json};

use crate::build;
use crate::reconcile::Services;
use crate::shape::Subject;
use crate::testing::*;

const KEY: &str = "OS_KEYSTONE_AUTHTOKEN__MEMCACHE_SECRET_KEY";

fn cached<S: Subject + serde::Serialize>(subject: &S) -> S {
    let mut object = serde_json::to_value(subject).expect("writes");
    object["spec"]["cache"] = json!({"clusterRef": {"name": "memcached"}});
    serde_json::from_value(object).expect("reads")
}

/// The configuration that names the cache, and the keys that its pods are given.
fn told<S: Subject>(seen: &Observed<Services<S>>) -> (String, Vec<Value>) {
    let all = objects(seen);
    let maps = all.iter().filter(|object| object["kind"] == "ConfigMap");
    let text: String = maps.map(|map| map["data"].to_string()).collect();
    let secrets = all.iter().filter(|object| object["kind"] == "Secret");
    let fields = |secret: &Value| [secret["data"][KEY].clone(), secret["stringData"][KEY].clone()];
    let keys = secrets.flat_map(fields).filter(|key| !key.is_null());
    (text, keys.collect())
}

fn is_encrypted<S: Subject + serde::Serialize>(subject: &S) {
    let service = S::SERVICE;
    let seen = observed(cached(subject), facts());
    let (text, keys) = told(&seen);
    assert!(
        text.contains("memcache_security_strategy = ENCRYPT"),
        "{service}: {text}"
    );
    assert!(!keys.is_empty(), "{service}: no key");
    assert!(keys.iter().all(|key| *key == keys[0]), "{service}: pods disagree");
    assert!(
        !text.contains(keys[0].as_str().expect("text")),
        "{service}: in a ConfigMap"
    );
    // It follows from the naming key, which lasts as long as the data.
    let decision = seen.decide().expect("decides");
    let is_source = |wanted: &&Wanted| {
        let name = wanted.object()["metadata"]["name"].as_str().unwrap_or_default();
        name.ends_with("-naming-key")
    };
    let source = decision.wanted().iter().find(is_source).expect("a naming key");
    assert!(source.is_lasting(), "{service}");
    let again = observed(cached(subject), facts());
    assert_eq!(told(&again).1, keys, "{service}: the same in every pass");
    let mut other = facts();
    other.naming = "another".to_owned();
    assert_ne!(told(&observed(cached(subject), other)).1, keys, "{service}");
}

#[test]
fn what_is_cached_of_tokens_is_encrypted_with_a_key_that_lasts() {
    is_encrypted(&glance(json!({"backend": "file"})));
    is_encrypted(&placement());
    is_encrypted(&nova(json!({})));
    is_encrypted(&neutron());
    is_encrypted(&cinder());
}

#[test]
fn without_a_cache_there_is_no_key() {
    let (text, keys) = told(&observed(glance(json!({"backend": "file"})), facts()));
    assert!(!text.contains("memcache"), "{text}");
    assert_eq!(keys, Vec::<Value>::new());
}

#[test]
fn every_server_that_the_operator_names_is_used() {
    let options = |list: &[&str]| {
        let mut facts = facts();
        let cache = facts.caches.get_mut("memcached").expect("there");
        cache.spec.replicas = Some(3);
        cache.status = serde_json::from_value(json!({"serverList": list})).ok();
        let service = keystone().shape();
        build::options(&service, &service.settings[0], &facts).expect("options")
    };
    let three = [
        "memcached-0.memcached:11211",
        "memcached-1.memcached:11211",
        "memcached-2.memcached:11211",
    ];
    let named = options(&three);
    assert_eq!(
        named.get("cache", "memcache_servers"),
        Some(three.join(",").as_str())
    );
    assert_eq!(
        named.get("revoke", "caching"),
        None,
        "what is revoked is revoked at all"
    );
    let shared = options(&[]);
    assert_eq!(
        shared.get("cache", "memcache_servers"),
        Some("memcached.openstack.svc:11211")
    );
    assert_eq!(shared.get("revoke", "caching"), Some("false"));
    assert_eq!(
        options(&three[..2]).get("revoke", "caching"),
        Some("false"),
        "one is still to come"
    );
}
