//! PushSecrets: from a Secret into stores.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use c5c3_api::foreign::external_secrets::{PushSecret, PushSecretData};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::store::{self, PATH, StoreLocation};
use super::values::Data;
use crate::error::Error;

const SYNCED: &str = "Synced";

/// The controller.
pub struct PushSecrets {
    client: Client,
    /// Of the cluster that keeps the paths of `vault` stores.
    bank: Client,
}

impl PushSecrets {
    pub fn new(client: Client, bank: Client) -> Self {
        Self { client, bank }
    }
}

/// A Secret of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept {
    namespace: String,
    name: String,
    path: Option<String>,
}

/// One Secret of a store and all that changes in it, so that no reader sees half of it.
pub struct Change {
    kept: Kept,
    /// `None` for a value: the entry goes.
    entries: BTreeMap<String, Option<ByteString>>,
    /// Nothing would be left in it.
    empties: bool,
}

impl std::fmt::Debug for Change {
    /// Without the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.entries.keys().map(String::as_str).collect();
        write!(
            f,
            "{}/{}: {}",
            self.kept.namespace,
            self.kept.name,
            keys.join(", ")
        )
    }
}

#[derive(Default)]
pub struct Facts {
    source: Option<Data>,
    places: BTreeMap<String, StoreLocation>,
    /// What is in the stores.
    kept: BTreeMap<Kept, Data>,
}

type Entries = BTreeMap<(Kept, String), ByteString>;

impl Controller for PushSecrets {
    type Kind = PushSecret;
    type Facts = Facts;
    type Plan = ();
    type Action = Change;
    type Error = Error;

    const NAME: &'static str = "stand-in-push-secret";
    const PARTS: &'static [Part] = &[Part::required(SYNCED)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "pushsecret.externalsecrets.io/finalizer",
        within: Duration::from_secs(60),
    });

    fn watches() -> Vec<Kind> {
        vec![
            store::watched(),
            store::watched_namespaces(),
            Kind::of::<Secret>(),
        ]
    }

    fn touches() -> Vec<Touch> {
        vec![
            Touch::of::<Secret>(&["create", "patch", "delete"]),
            Touch::of::<Namespace>(&["get", "create"]),
        ]
    }

    fn references(object: &PushSecret) -> Vec<Reference> {
        let stores = object.spec.secret_store_refs.iter().map(store::reference);
        let source =
            source(object).map(|name| Kind::of::<Secret>().named(object.namespace().as_deref(), name));
        let own = store::own_namespace(object.namespace());
        stores.chain(source).chain(own).collect()
    }

    async fn observe(&self, object: &PushSecret, reader: &Reader) -> Result<Facts, Error> {
        let mut facts = Facts::default();
        if object.metadata.deletion_timestamp.is_some() && !removes(object) {
            return Ok(facts);
        }
        if let Some(name) = source(object) {
            let secret: Option<Secret> = reader.get(&object.namespace().unwrap_or_default(), name).await?;
            facts.source = secret.map(|secret| secret.data.unwrap_or_default());
        }
        for named in &object.spec.secret_store_refs {
            let place = store::find(named, &object.namespace().unwrap_or_default(), reader).await?;
            facts.places.insert(named.name.clone(), place);
        }
        let wanted = wanted(object, &facts).unwrap_or_default();
        let entries = wanted.into_keys().chain(pushed(object, &facts));
        for kept in entries.map(|(kept, _)| kept).collect::<BTreeSet<_>>() {
            let found = facts
                .places
                .values()
                .find(|place| place.namespace == kept.namespace);
            let reader = found.map_or_else(|| reader.clone(), |place| place.reader(reader));
            let secret: Option<Secret> = reader.get(&kept.namespace, &kept.name).await?;
            if let Some(secret) = secret {
                facts.kept.insert(kept, secret.data.unwrap_or_default());
            }
        }
        Ok(facts)
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Change>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        let wanted = if observed.deleting() {
            Entries::new()
        } else {
            wanted(object, facts)?
        };
        let mut changes: BTreeMap<Kept, BTreeMap<String, Option<ByteString>>> = BTreeMap::new();
        let there = |kept: &Kept, key: &str| facts.kept.get(kept).and_then(|data| data.get(key));
        if removes(object) {
            let gone = pushed(object, facts)
                .into_iter()
                .filter(|entry| !wanted.contains_key(entry));
            for (kept, key) in gone.filter(|(kept, key)| there(kept, key).is_some()) {
                changes.entry(kept).or_default().insert(key, None);
            }
        }
        let once = object.spec.update_policy.as_deref() == Some("IfNotExists");
        for ((kept, key), value) in wanted {
            let before = there(&kept, &key);
            if before != Some(&value) && !(once && before.is_some()) {
                changes.entry(kept).or_default().insert(key, Some(value));
            }
        }
        Ok(Decision::hold().act(changes.into_iter().map(|(kept, entries)| {
            let before = facts.kept.get(&kept).map_or(0, Data::len);
            let empties = entries.values().all(Option::is_none) && entries.len() == before;
            Change {
                kept,
                entries,
                empties,
            }
        })))
    }

    async fn act(&self, change: &Change) -> Result<(), Error> {
        self.carry_out(change).await.map_err(|source| Error::Store {
            secret: format!("{}/{}", change.kept.namespace, change.kept.name),
            source: Box::new(source),
        })
    }

    fn report(observed: &Observed<Self>, (): &(), applied: &Applied<Self>) -> Report {
        let object = &observed.object;
        let synced = synced(object, &observed.facts);
        let before = object
            .status
            .as_ref()
            .and_then(|status| status.refresh_time.clone());
        let time = before
            .filter(|_| applied.outcomes().is_empty())
            .unwrap_or_else(|| observed.now.to_string());
        let failed: Vec<String> = applied
            .outcomes()
            .iter()
            .filter_map(|outcome| {
                Some(format!(
                    "{:?}: {}",
                    outcome.action,
                    outcome.result.as_ref().err()?
                ))
            })
            .collect();
        let report = if failed.is_empty() {
            Report::new(States::default().met(SYNCED, "Synced", "PushSecret synced successfully"))
        } else {
            Report::new(States::default().unmet(SYNCED, "Errored", failed.join("; ")))
        };
        report.left(failed).status(&json!({
            "refreshTime": time,
            "syncedPushSecrets": synced,
            "syncedResourceVersion": object.metadata.generation.unwrap_or(0).to_string(),
        }))
    }
}

impl PushSecrets {
    async fn carry_out(&self, change: &Change) -> kube::Result<()> {
        let Kept {
            namespace,
            name,
            path,
        } = &change.kept;
        let client = if path.is_some() { &self.bank } else { &self.client };
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        if change.empties {
            let deleted = api.delete(name, &DeleteParams::default()).await;
            return absent_is_fine(deleted.map(drop));
        }
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            annotations: path.as_ref().map(|path| [(PATH.to_owned(), path.clone())].into()),
            ..ObjectMeta::default()
        };
        // An entry without a value is null here, which removes it.
        let body = json!({"metadata": metadata, "data": change.entries});
        match api
            .patch(name, &PatchParams::default(), &Patch::Merge(&body))
            .await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => return other.map(drop),
        }
        if change.entries.values().all(Option::is_none) {
            return Ok(());
        }
        self.make_namespace(namespace).await?;
        let entries = change.entries.clone().into_iter();
        let secret = Secret {
            metadata,
            data: Some(entries.filter_map(|(key, value)| Some((key, value?))).collect()),
            ..Secret::default()
        };
        api.create(&PostParams::default(), &secret).await.map(drop)
    }

    /// Of all namespaces only that of the `vault` stores is ours to make.
    async fn make_namespace(&self, name: &str) -> kube::Result<()> {
        let api: Api<Namespace> = Api::all(self.bank.clone());
        if name != store::VAULT || api.get_opt(name).await?.is_some() {
            return Ok(());
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        match api.create(&PostParams::default(), &namespace).await {
            // Another writer was faster.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            other => other.map(drop),
        }
    }
}

fn absent_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}

fn source(object: &PushSecret) -> Option<&str> {
    object
        .spec
        .selector
        .secret
        .as_ref()
        .map(|secret| secret.name.as_str())
}

/// What was pushed goes when it is no longer asked for.
fn removes(object: &PushSecret) -> bool {
    object.spec.deletion_policy.as_deref() == Some("Delete")
}

/// Every entry that should be in a store. Without a `secretKey` all of the Secret is meant.
fn wanted(object: &PushSecret, facts: &Facts) -> Result<Entries, Error> {
    let name = source(object).unwrap_or_default();
    let source = facts
        .source
        .as_ref()
        .ok_or_else(|| Error::SourceMissing(name.to_owned()))?;
    let mut entries = Entries::new();
    for place in facts.places.values() {
        for PushSecretData { match_ } in &object.spec.data {
            let remote = &match_.remote_ref;
            let kept = kept(place, &remote.remote_key)?;
            let Some(key) = &match_.secret_key else {
                let all = source
                    .iter()
                    .map(|(key, value)| ((kept.clone(), key.clone()), value.clone()));
                entries.extend(all);
                continue;
            };
            let value = source.get(key).ok_or_else(|| Error::SecretMissing {
                name: name.to_owned(),
                key: key.clone(),
            })?;
            let property = remote.property.as_ref().unwrap_or(key);
            entries.insert((kept, property.clone()), value.clone());
        }
    }
    Ok(entries)
}

/// What an earlier pass wrote, read off the status.
fn pushed(object: &PushSecret, facts: &Facts) -> Vec<(Kept, String)> {
    let Some(status) = &object.status else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    for (store, synced) in &status.synced_push_secrets {
        let name = store.rsplit('/').next().unwrap_or(store);
        let Some(place) = facts.places.get(name) else {
            continue;
        };
        for PushSecretData { match_ } in synced.values() {
            let remote = &match_.remote_ref;
            let property = remote.property.as_ref().or(match_.secret_key.as_ref());
            if let (Some(property), Ok(kept)) = (property, kept(place, &remote.remote_key)) {
                entries.push((kept, property.clone()));
            }
        }
    }
    entries
}

/// What is in the stores now, in the shape that [`pushed`] reads: an entry for each property.
fn synced(object: &PushSecret, facts: &Facts) -> BTreeMap<String, BTreeMap<String, PushSecretData>> {
    let all = facts.source.iter().flat_map(Data::keys);
    let keys: Vec<&String> = all.collect();
    let entries = object.spec.data.iter().flat_map(|data| {
        let remote = &data.match_.remote_ref;
        let meant: Vec<(&String, &String)> = match &data.match_.secret_key {
            Some(key) => vec![(key, remote.property.as_ref().unwrap_or(key))],
            None => keys.iter().map(|key| (*key, *key)).collect(),
        };
        meant.into_iter().map(|(key, property)| {
            let mut one = data.clone();
            one.match_.secret_key = Some(key.clone());
            one.match_.remote_ref.property = Some(property.clone());
            (format!("{}/{property}", remote.remote_key), one)
        })
    });
    let entries: BTreeMap<String, PushSecretData> = entries.collect();
    let stores = object.spec.secret_store_refs.iter();
    stores
        .map(|store| (format!("ClusterSecretStore/{}", store.name), entries.clone()))
        .collect()
}

fn kept(place: &StoreLocation, key: &str) -> Result<Kept, Error> {
    Ok(Kept {
        namespace: place.namespace.clone(),
        name: place.secret(key)?,
        path: place.path(key),
    })
}
