//! Stores: where their secrets are, and whether they can be used.

use std::convert::Infallible;

use c5c3_api::foreign::external_secrets::{ClusterSecretStore, ClusterSecretStoreSpec, StoreRef};
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::conditions;
use crate::error::Error;
use crate::objects::hash;

/// The namespace in which paths of `vault` stores are kept.
pub(crate) const VAULT: &str = "openbao-system";
/// The cluster that keeps the contents of stores, if it is another one.
pub const BANK: &str = "openbao";
/// The path that a Secret of a `vault` store stands for.
pub(crate) const PATH: &str = "c5c3.io/path";
const VALID: &str = "Validated";
const CLUSTER_STORE: &str = "ClusterSecretStore";

/// Where a store's secrets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreLocation {
    pub namespace: String,
    /// Keys are paths of this mount, not names of Secrets.
    mount: Option<String>,
}

impl StoreLocation {
    pub(crate) fn of(spec: &ClusterSecretStoreSpec) -> Result<StoreLocation, Error> {
        let invalid = |reason: String| Error::Invalid {
            field: "spec.provider",
            reason,
        };
        let mut providers = spec.provider.iter();
        let (Some((name, settings)), None) = (providers.next(), providers.next()) else {
            return Err(invalid(format!("has {} entries: name one", spec.provider.len())));
        };
        let text = |field: &str| settings.get(field).and_then(Value::as_str);
        match name.as_str() {
            "kubernetes" => Ok(StoreLocation {
                namespace: text("remoteNamespace").unwrap_or("default").to_owned(),
                mount: None,
            }),
            "vault" => Ok(StoreLocation {
                namespace: VAULT.to_owned(),
                mount: Some(text("path").unwrap_or("secret").to_owned()),
            }),
            other => Err(invalid(format!(
                "{other:?} is not supported here: use kubernetes or vault"
            ))),
        }
    }

    /// Who reads it. One OpenBao serves all clusters; other places are in the cluster of the object.
    pub(crate) fn reader(&self, reader: &Reader) -> Reader {
        let bank = self.mount.as_ref().and_then(|_| reader.in_cluster(BANK).ok());
        bank.unwrap_or_else(|| reader.clone())
    }

    /// The Secret that keeps a key.
    pub(crate) fn secret(&self, key: &str) -> Result<String, Error> {
        let Some(mount) = &self.mount else {
            return if is_name(key) {
                Ok(key.to_owned())
            } else {
                Err(Error::Invalid {
                    field: "remoteRef.key",
                    reason: format!("{key:?} is not the name of a Secret, which this store uses as keys"),
                })
            };
        };
        let path = format!("{mount}/{key}");
        let readable: String = path
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(200)
            .collect();
        let readable = readable.trim_matches('-');
        // The hash keeps apart what the readable part does not.
        Ok(format!("kv-{readable}-{}", hash(&json!(path))))
    }

    /// The path to note on a Secret, for people who look.
    pub(crate) fn path(&self, key: &str) -> Option<String> {
        self.mount.as_ref().map(|mount| format!("{mount}/{key}"))
    }
}

/// A DNS subdomain: safe as a name and as a part of a URL.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// The store that an object names, for the watch.
pub(crate) fn reference(store: &StoreRef) -> Reference {
    Kind::of::<ClusterSecretStore>().named(None, &store.name)
}

/// What every controller of this group watches of stores.
pub(crate) fn watched() -> Kind {
    Kind::of::<ClusterSecretStore>().everywhere()
}

/// What every controller of this group watches of namespaces: their labels open stores to them.
pub(crate) fn watched_namespaces() -> Kind {
    Kind::of::<Namespace>().everywhere()
}

/// The namespace of an object, for the watch.
pub(crate) fn own_namespace(namespace: Option<String>) -> Option<Reference> {
    namespace.map(|name| Kind::of::<Namespace>().named(None, &name))
}

/// Where the named store keeps its secrets, if `namespace` may use it.
pub(crate) async fn find(store: &StoreRef, namespace: &str, reader: &Reader) -> Result<StoreLocation, Error> {
    // Namespaced stores are the default in External Secrets and not served here.
    if store.kind.as_deref() != Some(CLUSTER_STORE) {
        return Err(Error::Invalid {
            field: "secretStoreRef.kind",
            reason: format!("only {CLUSTER_STORE} is supported here"),
        });
    }
    let found: Option<ClusterSecretStore> = reader.get_global(&store.name).await?;
    let found = found.ok_or_else(|| Error::StoreMissing(store.name.clone()))?;
    if !found.spec.conditions.is_empty() {
        let user: Option<Namespace> = reader.get_global(namespace).await?;
        let labels = user.and_then(|user| user.metadata.labels).unwrap_or_default();
        if !conditions::admit(&found.spec.conditions, namespace, &labels)? {
            return Err(Error::StoreRefuses {
                store: store.name.clone(),
                namespace: namespace.to_owned(),
            });
        }
    }
    StoreLocation::of(&found.spec)
}

/// The controller of stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stores;

impl Controller for Stores {
    type Kind = ClusterSecretStore;
    type Facts = ();
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "stand-in-secret-store";
    const PARTS: &'static [Part] = &[Part::required(VALID)];

    async fn observe(&self, _object: &ClusterSecretStore, _reader: &Reader) -> Result<(), Error> {
        Ok(())
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        StoreLocation::of(&observed.object.spec)?;
        conditions::check(&observed.object.spec.conditions)?;
        Ok(Decision::hold())
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(_observed: &Observed<Self>, (): &(), _applied: &Applied<Self>) -> Report {
        Report::new(States::default().met(VALID, "Valid", "store validated"))
            .status(&json!({"capabilities": "ReadWrite"}))
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn place(provider: Value) -> Result<StoreLocation, Error> {
        let spec = ClusterSecretStoreSpec {
            provider: serde_json::from_value(provider).expect("a map"),
            ..ClusterSecretStoreSpec::default()
        };
        StoreLocation::of(&spec)
    }

    #[test]
    fn keys_become_names_of_secrets() {
        let kubernetes = place(json!({"kubernetes": {"remoteNamespace": "keys"}})).expect("known");
        assert_eq!(kubernetes.namespace, "keys");
        assert_eq!(kubernetes.secret("glance.app").expect("a name"), "glance.app");
        for wrong in ["a/b", "", "A", "-a", "../x", "a..b", "a?b"] {
            assert!(kubernetes.secret(wrong).is_err(), "{wrong}");
        }

        let vault = place(json!({"vault": {"path": "kv-v2"}})).expect("known");
        let names: Vec<String> = [
            "openstack/glance/app",
            "openstack-glance/app",
            "OpenStack/glance/app",
            "",
        ]
        .iter()
        .map(|key| vault.secret(key).expect("any path"))
        .collect();
        for (i, name) in names.iter().enumerate() {
            assert!(is_name(name), "{name}");
            assert!(!names[..i].contains(name), "{name} stands for two paths");
        }
        assert!(is_name(&vault.secret(&"é/".repeat(300)).expect("any path")));
        assert_eq!(vault.path("a").as_deref(), Some("kv-v2/a"));
    }

    #[test]
    fn one_known_provider() {
        for (provider, says) in [
            (json!({}), "0 entries"),
            (json!({"vault": {}, "kubernetes": {}}), "2 entries"),
            (json!({"aws": {}}), "\"aws\" is not supported here"),
        ] {
            let error = place(provider).expect_err("refused").to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
