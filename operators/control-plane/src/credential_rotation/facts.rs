//! What is read before a rotation decides.

use std::collections::BTreeMap;

use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::conditions::korc::{AVAILABLE, PROGRESSING};
use c5c3_api::foreign::is_true;
use c5c3_api::foreign::korc::{ApplicationCredential, User};
use c5c3_kit::ownership::OWNER_UID;
use c5c3_kit::{ReadError, Reader};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::schedule::{Credential, Current};

/// Annotation of the consumers' Secret: the ApplicationCredential that it holds.
pub const CREDENTIAL: &str = "c5c3.io/credential";
/// Annotation: since when.
pub const SWITCHED: &str = "c5c3.io/switched-at";
/// What K-ORC writes of a credential.
const KEYS: [&str; 3] = [
    "application_credential_id",
    "application_credential_secret",
    "clouds.yaml",
];

pub fn credential_name(rotation: &str, number: u64) -> String {
    format!("{rotation}-{number}")
}

/// The inverse.
pub fn number(rotation: &str, credential: &str) -> Option<u64> {
    credential.strip_prefix(rotation)?.strip_prefix('-')?.parse().ok()
}

/// The Secret into which K-ORC writes one credential.
pub fn own_secret(rotation: &str, number: u64) -> String {
    format!("{rotation}-app-credential-{number}")
}

/// The Secret that consumers read.
pub fn stable_secret(rotation: &str) -> String {
    format!("{rotation}-app-credential")
}

/// A credential with what its Secret holds.
#[derive(Clone)]
pub struct Stored {
    pub seen: Credential,
    pub data: BTreeMap<String, ByteString>,
    /// What K-ORC says about it.
    pub words: String,
}

#[derive(Clone, Default)]
pub struct Facts {
    pub user: Option<User>,
    pub credentials: Vec<Stored>,
    pub current: Option<Current>,
    pub owned: Vec<String>,
}

pub async fn observe(object: &CredentialRotation, reader: &Reader) -> Result<Facts, ReadError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let labels = format!("{OWNER_UID}={}", object.uid().unwrap_or_default());
    let stable_name = stable_secret(&name);
    let (user, found, stable) = futures::try_join!(
        reader.get::<User>(&namespace, &object.spec.target_service_user),
        reader.list::<ApplicationCredential>(&namespace, &labels),
        reader.get::<Secret>(&namespace, &stable_name),
    )?;
    let numbered: Vec<(u64, ApplicationCredential)> = found
        .into_iter()
        .filter_map(|credential| Some((number(&name, &credential.name_any())?, credential)))
        .collect();
    let secrets = numbered.iter().map(|(number, _)| {
        let secret = own_secret(&name, *number);
        let namespace = &namespace;
        async move { reader.get::<Secret>(namespace, &secret).await }
    });
    let secrets = try_join_all(secrets).await?;
    Ok(Facts {
        user,
        credentials: numbered
            .into_iter()
            .zip(secrets)
            .map(|((number, credential), secret)| stored(number, &credential, secret))
            .collect(),
        current: stable.as_ref().and_then(|secret| current(&name, secret)),
        owned: reader
            .owned()
            .iter()
            .map(|(reference, _)| reference.to_string())
            .collect(),
    })
}

fn current(rotation: &str, secret: &Secret) -> Option<Current> {
    let annotations = secret.annotations();
    Some(Current {
        number: number(rotation, annotations.get(CREDENTIAL)?)?,
        since: annotations.get(SWITCHED)?.parse().ok()?,
    })
}

fn stored(number: u64, credential: &ApplicationCredential, secret: Option<Secret>) -> Stored {
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let data: BTreeMap<String, ByteString> = data
        .into_iter()
        .filter(|(key, _)| KEYS.contains(&key.as_str()))
        .collect();
    let conditions = credential
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    let whole = KEYS
        .iter()
        .all(|key| data.get(*key).is_some_and(|value| !value.0.is_empty()));
    let available = is_true(conditions, AVAILABLE);
    let words = conditions
        .iter()
        .find(|condition| condition.type_ == PROGRESSING)
        .and_then(|condition| condition.message.clone())
        .filter(|words| !words.is_empty() && !available);
    let words = words.unwrap_or_else(|| {
        if available {
            "K-ORC has made it, its Secret is not complete".to_owned()
        } else {
            "K-ORC has not made it yet".to_owned()
        }
    });
    let created = credential.metadata.creation_timestamp.as_ref();
    let resource = credential.spec.resource.as_ref();
    let expires = resource.and_then(|resource| resource.expires_at.as_ref());
    Stored {
        seen: Credential {
            number,
            created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            expires: expires.map_or(Timestamp::MAX, |time| time.0),
            complete: available && whole,
            deleting: credential.metadata.deletion_timestamp.is_some(),
        },
        data,
        words,
    }
}
