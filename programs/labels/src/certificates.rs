//! The webhook's own certificate, and whom the API server trusts for it.

use std::future::ready;
use std::time::Duration;

use c5c3_authority::{Data, Holder};
use c5c3_kit::fault::{pause, plain};
use c5c3_kit::watching;
use c5c3_webhook::Held;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use serde_json::{Value, json};

use crate::{NAME, Settings};

/// The keys of the authority, which only this program reads.
pub(crate) const AUTHORITY: &str = "c5c3-labels-injector-authority";
pub(crate) const CERTIFICATE: &str = "c5c3-labels-injector-certificate";
/// Without a change, so often it is looked whether something is due.
const LOOK: Duration = Duration::from_secs(12 * 3600);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{what}: {}", plain(.why))]
    Api { what: String, why: Box<kube::Error> },
    #[error("certificates cannot be made: {0}")]
    Uncertified(#[from] c5c3_authority::Error),
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] std::io::Error),
    #[error("another replica was faster")]
    Raced,
}

pub(crate) struct Certificates {
    pub client: Client,
    pub settings: Settings,
    pub held: Held,
}

impl Certificates {
    /// For ever: what is missing or due is made, and who is to be trusted is told.
    pub(crate) async fn tend(&self) {
        let mut changes = self.changes();
        let mut failures = 0;
        loop {
            let wait = match self.pass().await {
                Ok(()) => {
                    failures = 0;
                    LOOK
                }
                Err(error) => {
                    failures += 1;
                    // Replicas that start together meet once.
                    if !matches!(error, Error::Raced) || failures > 3 {
                        tracing::warn!("{error}");
                    }
                    pause(failures, rand::random())
                }
            };
            tokio::select! {
                _ = changes.next() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Changes of what it writes, by others too.
    fn changes(&self) -> BoxStream<'static, ()> {
        let named = |name: &str| Config::default().fields(&format!("metadata.name={name}"));
        let secrets: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.client.clone(), &self.settings.namespace);
        let secrets = watching(secrets, &ApiResource::erase::<Secret>(&()), named(CERTIFICATE));
        let hooks: Api<PartialObjectMeta<MutatingWebhookConfiguration>> = Api::all(self.client.clone());
        let resource = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        let hooks = watching(hooks, &resource, named(NAME));
        let of_secrets = secrets.filter_map(|event| {
            let changed = matches!(event, Ok(Event::Apply(_) | Event::Delete(_)));
            ready(changed.then_some(()))
        });
        let of_hooks = hooks.filter_map(|event| ready(matches!(event, Ok(Event::Apply(_))).then_some(())));
        stream::select(of_secrets, of_hooks).boxed()
    }

    async fn pass(&self) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let now = Timestamp::now();
        let stored = read(&secrets, AUTHORITY).await?;
        let authority = c5c3_authority::authority(NAME, data(stored.as_ref()), now)?;
        write(&secrets, AUTHORITY, stored, &authority).await?;
        let stored = read(&secrets, CERTIFICATE).await?;
        let holder = Holder {
            file: "tls".to_owned(),
            organization: None,
            common_name: NAME.to_owned(),
            names: self.settings.names.clone(),
            addresses: self.settings.addresses.clone(),
        };
        let before = data(stored.as_ref());
        let made = c5c3_authority::certificates(NAME, &authority, &[holder], &before, now)?;
        write(&secrets, CERTIFICATE, stored, &made).await?;
        let part = |key: &str| made.get(key).map(|part| part.0.as_slice()).unwrap_or_default();
        self.held.put(part("tls.crt"), part("tls.key"))?;
        self.tell(&ByteString(part("ca.crt").to_vec())).await
    }

    /// Names the authorities in the webhook's configuration, which is not ours to make: it goes with whoever
    /// installed it.
    async fn tell(&self, trusted: &ByteString) -> Result<(), Error> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let failed = |why| Error::Api {
            what: format!("MutatingWebhookConfiguration {NAME}"),
            why: Box::new(why),
        };
        let Some(configuration) = api.get_opt(NAME).await.map_err(failed)? else {
            tracing::info!(
                "MutatingWebhookConfiguration {NAME} is missing: without it the API server does not call this webhook"
            );
            return Ok(());
        };
        let patch = distrusting(configuration.webhooks.as_deref().unwrap_or_default(), trusted);
        if patch.is_empty() {
            return Ok(());
        }
        // It is one, so it is read as one.
        let Ok(patch) = serde_json::from_value(Value::Array(patch)) else {
            return Ok(());
        };
        let params = PatchParams {
            field_manager: Some(NAME.to_owned()),
            ..PatchParams::default()
        };
        api.patch(NAME, &params, &Patch::<()>::Json(patch))
            .await
            .map_err(failed)?;
        Ok(())
    }
}

/// The patch that makes every webhook trust these authorities, and them alone.
fn distrusting(hooks: &[MutatingWebhook], trusted: &ByteString) -> Vec<Value> {
    let differs = hooks
        .iter()
        .enumerate()
        .filter(|(_, hook)| hook.client_config.ca_bundle.as_ref() != Some(trusted));
    differs
        .flat_map(|(index, hook)| {
            [
                // Somebody may have put another one in its place.
                json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": hook.name}),
                json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": trusted}),
            ]
        })
        .collect()
}

fn data(secret: Option<&Secret>) -> Data {
    secret.and_then(|secret| secret.data.clone()).unwrap_or_default()
}

async fn read(secrets: &Api<Secret>, name: &str) -> Result<Option<Secret>, Error> {
    secrets.get_opt(name).await.map_err(|why| Error::Api {
        what: format!("Secret {name}"),
        why: Box::new(why),
    })
}

/// Writes what differs, on top of what was read.
async fn write(
    secrets: &Api<Secret>,
    name: &str,
    stored: Option<Secret>,
    wanted: &Data,
) -> Result<(), Error> {
    if stored.as_ref().and_then(|secret| secret.data.as_ref()) == Some(wanted) {
        return Ok(());
    }
    let params = PostParams {
        field_manager: Some(NAME.to_owned()),
        ..PostParams::default()
    };
    let fresh = stored.is_none();
    let mut secret = stored.unwrap_or_else(|| Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("app.kubernetes.io/part-of".to_owned(), "c5c3".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    });
    secret.data = Some(wanted.clone());
    let written = if fresh {
        secrets.create(&params, &secret).await
    } else {
        secrets.replace(name, &params, &secret).await
    };
    match written {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Raced),
        Err(why) => Err(Error::Api {
            what: format!("Secret {name}"),
            why: Box::new(why),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let trusted = ByteString(b"new".to_vec());
        let hook = |name: &str, bundle: Option<&[u8]>| {
            let mut hook = MutatingWebhook {
                name: name.to_owned(),
                ..MutatingWebhook::default()
            };
            hook.client_config.ca_bundle = bundle.map(|bundle| ByteString(bundle.to_vec()));
            hook
        };
        let hooks = [hook("a", Some(b"new")), hook("b", Some(b"old")), hook("c", None)];
        let patch = distrusting(&hooks, &trusted);
        let paths: Vec<&str> = patch.iter().filter_map(|step| step["path"].as_str()).collect();
        let expected = [1, 2].map(|index| {
            [
                format!("/webhooks/{index}/name"),
                format!("/webhooks/{index}/clientConfig/caBundle"),
            ]
        });
        assert_eq!(paths, expected.concat());
        assert!(distrusting(&hooks[..1], &trusted).is_empty());
    }
}
