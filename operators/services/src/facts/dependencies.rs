//! Objects that a service waits for before it starts.

use c5c3_api::common::Dependency;
use c5c3_api::foreign::mariadb::MariaDb;
use c5c3_api::foreign::memcached::Memcached;
use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use c5c3_api::foreign::valkey::Valkey;
use c5c3_api::health;
use c5c3_api::ovn::OvnCluster;
use c5c3_kit::{Kind, ReadError, Reader, Reference};
use kube::Resource;
use serde_json::Value;

use super::Trouble;

/// Services, and what they stand on.
macro_rules! with_backends {
    ($($service:ty),*) => {
        kinds! { $($service,)* OvnCluster, MariaDb, RabbitmqCluster, Memcached, Valkey }
    };
}

macro_rules! kinds {
    ($($kind:ty),*) => {
        /// Every kind that `dependsOn` can name.
        pub(crate) fn kinds() -> Vec<Kind> {
            vec![$(Kind::of::<$kind>()),*]
        }

        fn kind(name: &str) -> Option<Kind> {
            $(if name == <$kind>::kind(&()) {
                return Some(Kind::of::<$kind>());
            })*
            None
        }

        async fn read(reader: &Reader, namespace: &str, kind: &str, name: &str) -> Result<Option<Value>, ReadError> {
            $(if kind == <$kind>::kind(&()) {
                let object = reader.get::<$kind>(namespace, name).await?;
                return Ok(object.map(|object| serde_json::to_value(object).unwrap_or_default()));
            })*
            Ok(None)
        }
    };
}

c5c3_api::each_service!(with_backends);

pub(crate) fn reference(dependency: &Dependency, namespace: Option<&str>) -> Option<Reference> {
    Some(kind(&dependency.kind)?.named(namespace, &dependency.name))
}

/// The first dependency that is not met.
pub(crate) async fn unmet(
    reader: &Reader,
    namespace: &str,
    dependencies: &[Dependency],
) -> Result<Option<Trouble>, ReadError> {
    for dependency in dependencies {
        let object = read(reader, namespace, &dependency.kind, &dependency.name).await?;
        if let Some(text) = lack(dependency, object.as_ref()) {
            let blocker = reference(dependency, Some(namespace));
            return Ok(Some(Trouble { text, blocker }));
        }
    }
    Ok(None)
}

fn lack(dependency: &Dependency, object: Option<&Value>) -> Option<String> {
    let Dependency {
        kind,
        name,
        condition,
    } = dependency;
    let Some(object) = object else {
        return Some(format!("waiting for {kind} {name}, which is missing"));
    };
    match health::condition(object, condition) {
        Some(found) if found["status"] == "True" => None,
        Some(found) => {
            let why = found["message"].as_str().filter(|text| !text.is_empty());
            let why = why.map(|text| format!(": {text}")).unwrap_or_default();
            Some(format!("waiting for {kind} {name} to be {condition}{why}"))
        }
        None => Some(format!(
            "waiting for {kind} {name}, which does not report {condition}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dependency_says_what_it_lacks() {
        let dependency = Dependency {
            kind: "Keystone".into(),
            name: "keystone".into(),
            condition: "Ready".into(),
        };
        let with = |status: &str, message: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": message}]}});
        let cases = [
            (None, Some("waiting for Keystone keystone, which is missing")),
            (
                Some(json!({})),
                Some("waiting for Keystone keystone, which does not report Ready"),
            ),
            (
                Some(with("False", "db-sync running")),
                Some("waiting for Keystone keystone to be Ready: db-sync running"),
            ),
            (Some(with("True", "")), None),
        ];
        for (object, expected) in cases {
            assert_eq!(lack(&dependency, object.as_ref()).as_deref(), expected);
        }
        assert!(reference(&dependency, Some("openstack")).is_some());
    }
}
