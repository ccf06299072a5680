//! ExternalSecrets: from a store into a Secret.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::common::parse_duration;
use c5c3_api::foreign::external_secrets::ExternalSecret;
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States, Wanted,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::json;

use super::store;
use super::values::{self, Data};
use crate::error::Error;

const SYNCED: &str = "Synced";
/// How often a store is read when the object does not say: the default of External Secrets.
const HOURLY: Duration = Duration::from_secs(3600);

/// The controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalSecrets;

impl Controller for ExternalSecrets {
    type Kind = ExternalSecret;
    /// What is in the store, by key.
    type Facts = BTreeMap<String, Data>;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "stand-in-external-secret";
    const PARTS: &'static [Part] = &[Part::required(SYNCED)];

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    fn watches() -> Vec<Kind> {
        vec![store::watched(), store::watched_namespaces()]
    }

    fn references(object: &ExternalSecret) -> Vec<Reference> {
        object
            .spec
            .secret_store_ref
            .iter()
            .map(store::reference)
            .chain(store::own_namespace(object.namespace()))
            .collect()
    }

    async fn observe(&self, object: &ExternalSecret, reader: &Reader) -> Result<Self::Facts, Error> {
        let store = object
            .spec
            .secret_store_ref
            .as_ref()
            .ok_or_else(|| Error::Invalid {
                field: "spec.secretStoreRef",
                reason: "is missing: name a store".to_owned(),
            })?;
        let place = store::find(store, &object.namespace().unwrap_or_default(), reader).await?;
        let reader = place.reader(reader);
        let mut found = BTreeMap::new();
        for key in values::keys(&object.spec) {
            let kept: Option<Secret> = reader.get(&place.namespace, &place.secret(key)?).await?;
            if let Some(secret) = kept {
                found.insert(key.to_owned(), secret.data.unwrap_or_default());
            }
        }
        Ok(found)
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        let object = &observed.object;
        refresh(object)?;
        let data = values::collect(&object.spec, &observed.facts).map_err(Error::SecretSyncedError)?;
        if data.is_empty() {
            return Ok(Decision::want([]));
        }
        let target = object.spec.target.as_ref();
        let kind = target
            .and_then(|target| target.template.as_ref()?.type_.clone())
            .unwrap_or_else(|| "Opaque".to_owned());
        let secret = Wanted::of(&Secret {
            metadata: ObjectMeta {
                namespace: object.namespace(),
                name: Some(target_name(object)),
                ..ObjectMeta::default()
            },
            type_: Some(kind),
            data: Some(data),
            ..Secret::default()
        });
        match target.and_then(|target| target.creation_policy.as_deref()) {
            None | Some("Owner") => Ok(Decision::want([secret])),
            Some("Orphan") => Ok(Decision::want([secret.lasting()])),
            Some("None") => Ok(Decision::want([])),
            Some(other) => Err(Error::Invalid {
                field: "spec.target.creationPolicy",
                reason: format!("{other} is not supported here: use Owner, Orphan or None"),
            }),
        }
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), applied: &Applied<Self>) -> Report {
        let object = &observed.object;
        let target = target_name(object);
        let states = if applied.objects().is_empty() {
            States::default().met(SYNCED, "SecretDeleted", "there is nothing to keep in a Secret")
        } else {
            States::default().met(SYNCED, "SecretSynced", "secret synced")
        };
        let before = object
            .status
            .as_ref()
            .and_then(|status| status.refresh_time.clone());
        let written = applied.written::<Secret>(object.namespace().as_deref(), &target);
        let time = before
            .filter(|_| !written)
            .unwrap_or_else(|| observed.now.to_string());
        let report = Report::new(states).status(&json!({
            "refreshTime": time,
            "syncedResourceVersion": object.metadata.generation.unwrap_or(0).to_string(),
            "binding": {"name": target},
        }));
        match refresh(object) {
            Ok(Some(interval)) => report.again_in(interval),
            _ => report,
        }
    }
}

fn target_name(object: &ExternalSecret) -> String {
    let named = object.spec.target.as_ref().and_then(|target| target.name.clone());
    named.unwrap_or_else(|| object.name_any())
}

/// `None`: read once. A store is not asked more than once in a second.
fn refresh(object: &ExternalSecret) -> Result<Option<Duration>, Error> {
    let interval = match object.spec.refresh_interval.as_deref() {
        None => HOURLY,
        Some("0") => return Ok(None),
        Some(text) => parse_duration(text).map_err(|e| Error::Invalid {
            field: "spec.refreshInterval",
            reason: e.to_string(),
        })?,
    };
    Ok((!interval.is_zero()).then(|| interval.max(Duration::from_secs(1))))
}
