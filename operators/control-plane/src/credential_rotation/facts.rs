//! What is read before a rotation decides.

use std::collections::BTreeMap;

use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::conditions::korc::{AVAILABLE, PROGRESSING};
use c5c3_api::foreign::is_true;
use c5c3_api::foreign::korc::{ApplicationCredential, User};
use c5c3_kit::ownership::OWNER_UID;
use c5c3_kit::{Kind, Reader, Reference};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;

use super::Error;
use super::ceph;
use super::login::{self, Lack, Login};
use super::schedule::{Credential, Current, replaced_on_request};
use crate::clouds_yaml::Cloud;

/// Annotation of the consumers' Secret: the ApplicationCredential that it holds.
pub(crate) const CREDENTIAL: &str = "c5c3.io/credential";
/// Annotation: since when.
pub(crate) const SWITCHED: &str = "c5c3.io/switched-at";
/// Annotation of a CredentialRotation: a new value asks for a rotation now. The credential that was
/// made for it has the same one.
pub(crate) const ROTATE_NOW: &str = "c5c3.io/rotate-now";
/// The key under which K-ORC reads the secret of a credential.
pub(crate) const VALUE: &str = "value";
pub(crate) const ID_KEY: &str = "application_credential_id";
pub(crate) const SECRET_KEY: &str = "application_credential_secret";
/// The label of a service's pods that has the name of its rotation.
const INSTANCE: &str = "app.kubernetes.io/instance";
const SECRET_BYTES: usize = 24;

pub(crate) fn credential_name(rotation: &str, number: u64) -> String {
    format!("{rotation}-{number}")
}

/// The inverse.
pub(crate) fn number(rotation: &str, credential: &str) -> Option<u64> {
    credential.strip_prefix(rotation)?.strip_prefix('-')?.parse().ok()
}

/// The Secret from which K-ORC takes the secret of one credential.
pub(crate) fn own_secret(rotation: &str, number: u64) -> String {
    format!("{rotation}-app-credential-{number}")
}

/// The Secret that consumers read.
pub(crate) fn stable_secret(rotation: &str) -> String {
    format!("{rotation}-app-credential")
}

/// A secret: it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

/// A credential with what is known of it.
#[derive(Clone)]
pub struct Stored {
    pub seen: Credential,
    pub id: Option<String>,
    pub secret: Option<Hidden>,
    /// The Secret that K-ORC reads is there.
    pub has_secret: bool,
    /// The request for which it was made.
    pub request: Option<String>,
    /// What K-ORC says about it.
    pub words: String,
}

#[derive(Clone, Default)]
pub struct Facts {
    pub user: Option<User>,
    pub credentials: Vec<Stored>,
    /// Secrets that were chosen, by number; their credentials may not be there yet.
    pub chosen: BTreeMap<u64, Hidden>,
    pub current: Option<Current>,
    /// Where the user's Keystone is, or why that is not known.
    pub cloud: Option<Result<Cloud, String>>,
    /// How the user itself logs in, or what is missing.
    pub login: Option<Result<Login, Lack>>,
    /// A role that the user has not got yet.
    pub missing_role: Option<String>,
    /// What the User refers to, and pods while some of them are behind.
    pub references: Vec<Reference>,
    /// Pods that started before they could have read the current credential.
    pub behind: Vec<String>,
    pub owned: Vec<Reference>,
    /// Of a rotation of keys of Ceph, which needs nothing of the others.
    pub ceph: Option<ceph::Facts>,
    /// For the secret of a new credential.
    pub random: [u8; SECRET_BYTES],
}

pub(crate) async fn observe(object: &CredentialRotation, reader: &Reader) -> Result<Facts, Error> {
    if let Some(ceph) = ceph::target(object) {
        let ceph = Some(ceph::observe(object, ceph, reader).await?);
        return Ok(Facts {
            ceph,
            ..Facts::default()
        });
    }
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let labels = format!("{OWNER_UID}={}", object.uid().unwrap_or_default());
    let stable_name = stable_secret(&name);
    let (user, found, secrets, stable) = futures::try_join!(
        reader.get::<User>(&namespace, &object.spec.target_service_user),
        reader.list::<ApplicationCredential>(&namespace, &labels),
        reader.list::<Secret>(&namespace, &labels),
        reader.get::<Secret>(&namespace, &stable_name),
    )?;
    let sources = match &user {
        Some(user) => login::read(user, &namespace, reader).await?,
        None => login::Sources::default(),
    };
    let cloud = user.as_ref().map(|user| login::cloud(user, &sources));
    let current = stable.as_ref().and_then(|secret| current(&name, secret));
    let mut chosen = chosen(&name, &secrets);
    // The consumers' Secret still knows the secret of the current one.
    if let (Some(current), Some(stable)) = (current, &stable)
        && let Some(secret) = value(stable, SECRET_KEY)
    {
        chosen.entry(current.number).or_insert(secret);
    }
    let known = matches!(cloud, Some(Ok(_)));
    let mut credentials = Vec::new();
    for credential in &found {
        let Some(number) = number(&name, &credential.name_any()) else {
            continue;
        };
        let own = own_secret(&name, number);
        let has_secret = secrets.iter().any(|secret| secret.name_any() == own)
            || reader.get::<Secret>(&namespace, &own).await?.is_some();
        let secret = chosen.get(&number).cloned();
        credentials.push(Stored {
            secret,
            has_secret,
            ..stored(number, credential, chosen.contains_key(&number), known)
        });
    }
    let behind = match current {
        Some(current) if may_go_early(&credentials, current) => {
            let pods = reader
                .list::<Pod>(&namespace, &format!("{INSTANCE}={name}"))
                .await?;
            behind(&pods, current.since)
        }
        _ => Vec::new(),
    };
    let of_user = user.as_ref();
    let mut references = of_user.map(login::references).unwrap_or_default();
    if !behind.is_empty() {
        references.push(Kind::of::<Pod>().any_in(Some(&namespace)));
    }
    Ok(Facts {
        login: of_user.map(|user| login::login(user, &sources)),
        missing_role: of_user.and_then(|user| login::missing_role(user, &sources.assignments)),
        references,
        user,
        credentials,
        chosen,
        current,
        cloud,
        behind,
        ceph: None,
        owned: reader.owned().into_iter().map(|(own, _)| own).collect(),
        random: rand::random(),
    })
}

/// An older one was replaced on request: whoever still uses it has to be known.
fn may_go_early(credentials: &[Stored], current: Current) -> bool {
    let seen: Vec<Credential> = credentials.iter().map(|stored| stored.seen.clone()).collect();
    seen.iter()
        .filter(|old| old.number < current.number)
        .any(|old| replaced_on_request(&seen, old.number, current.number))
}

fn behind(pods: &[Pod], since: Timestamp) -> Vec<String> {
    let running = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let older = |pod: &&Pod| {
        let created = pod.metadata.creation_timestamp.as_ref();
        created.is_none_or(|created| created.0 < since)
    };
    pods.iter()
        .filter(running)
        .filter(older)
        .map(ResourceExt::name_any)
        .collect()
}

/// The value of a key, if it has one.
pub(crate) fn value(secret: &Secret, key: &str) -> Option<Hidden> {
    let bytes = secret.data.as_ref()?.get(key)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    (!text.is_empty()).then_some(Hidden(text))
}

fn chosen(rotation: &str, secrets: &[Secret]) -> BTreeMap<u64, Hidden> {
    let prefix = stable_secret(rotation);
    let one = |secret: &Secret| Some((number(&prefix, &secret.name_any())?, value(secret, VALUE)?));
    secrets.iter().filter_map(one).collect()
}

pub(crate) fn current(rotation: &str, secret: &Secret) -> Option<Current> {
    let annotations = secret.annotations();
    Some(Current {
        number: number(rotation, annotations.get(CREDENTIAL)?)?,
        since: annotations.get(SWITCHED)?.parse().ok()?,
    })
}

fn stored(number: u64, credential: &ApplicationCredential, secret_known: bool, cloud_known: bool) -> Stored {
    let status = credential.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    let id = status
        .and_then(|status| status.id.clone())
        .filter(|id| !id.is_empty());
    let available = is_true(conditions, AVAILABLE) && id.is_some();
    let progressing = conditions.iter().find(|condition| condition.type_ == PROGRESSING);
    // K-ORC does not come back to it. What it said of an older spec does not count.
    let stopped = progressing.is_some_and(|condition| {
        let newest = condition.observed_generation.is_none()
            || condition.observed_generation >= credential.metadata.generation;
        condition.status == "False" && newest && !is_true(conditions, AVAILABLE)
    });
    let said = progressing
        .and_then(|condition| condition.message.clone())
        .filter(|words| !words.is_empty() && !available);
    let created = credential.metadata.creation_timestamp.as_ref();
    let resource = credential.spec.resource.as_ref();
    let expires = resource.and_then(|resource| resource.expires_at.as_ref());
    let request = credential.annotations().get(ROTATE_NOW).cloned();
    Stored {
        seen: Credential {
            number,
            created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            expires: expires.map_or(Timestamp::MAX, |time| time.0),
            complete: available && secret_known && cloud_known,
            deleting: credential.metadata.deletion_timestamp.is_some(),
            lost: !secret_known,
            on_request: request.is_some(),
            stopped,
            made: id.is_some(),
        },
        id,
        secret: None,
        has_secret: false,
        request,
        words: said.unwrap_or_else(|| "K-ORC has not created it yet".to_owned()),
    }
}

/// As it stands in a Secret.
pub(crate) fn encoded(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, created: i64, phase: &str) -> Pod {
        let at = Timestamp::from_second(created).expect("a time").to_string();
        let pod = json!({"metadata": {"name": name, "creationTimestamp": at}, "status": {"phase": phase}});
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn a_pod_that_started_before_the_switch_is_behind() {
        let pods = [
            pod("old", 99, "Running"),
            pod("going", 98, "Pending"),
            pod("new", 100, "Running"),
            pod("job", 1, "Succeeded"),
        ];
        let since = Timestamp::from_second(100).expect("a time");
        assert_eq!(behind(&pods, since), ["old", "going"]);
    }

    #[test]
    fn only_what_has_all_of_it_is_complete() {
        let credential = |id: Option<&str>, available: &str| -> ApplicationCredential {
            let object = json!({
                "metadata": {"name": "glance-1"},
                "spec": {"cloudCredentialsRef": {"cloudName": "a", "secretName": "b"},
                    "resource": {"userRef": "glance", "secretRef": "s", "expiresAt": "2026-01-01T00:00:00Z"}},
                "status": {"id": id, "conditions": [
                    {"type": "Available", "status": available, "message": ""},
                    {"type": "Progressing", "status": "True", "message": "Keystone does not answer"},
                ]},
            });
            serde_json::from_value(object).expect("an ApplicationCredential")
        };
        let complete =
            |id, available, secret, cloud| stored(1, &credential(id, available), secret, cloud).seen.complete;
        assert!(complete(Some("7"), "True", true, true));
        assert!(!complete(None, "True", true, true) && !complete(Some("7"), "False", true, true));
        assert!(!complete(Some("7"), "True", false, true) && !complete(Some("7"), "True", true, false));
        let away = stored(1, &credential(Some("7"), "False"), true, true);
        assert_eq!(away.words, "Keystone does not answer");
        assert!(!away.seen.lost && stored(1, &credential(None, "False"), false, true).seen.lost);
    }

    #[test]
    fn what_k_orc_does_not_come_back_to_has_stopped() {
        let credential = |available: &str, progressing: &str, observed: i64| -> ApplicationCredential {
            let object = json!({
                "metadata": {"name": "glance-1", "generation": 2},
                "spec": {"cloudCredentialsRef": {"cloudName": "a", "secretName": "b"},
                    "resource": {"userRef": "glance", "secretRef": "s"}},
                "status": {"conditions": [
                    {"type": "Available", "status": available, "observedGeneration": observed},
                    {"type": "Progressing", "status": progressing, "reason": "InvalidConfiguration",
                        "message": "no such role", "observedGeneration": observed},
                ]},
            });
            serde_json::from_value(object).expect("an ApplicationCredential")
        };
        for (available, progressing, observed, expected) in [
            ("False", "False", 2, true),
            ("Unknown", "False", 2, true),
            ("False", "True", 2, false),
            ("True", "False", 2, false),
            ("False", "False", 1, false),
        ] {
            let stored = stored(1, &credential(available, progressing, observed), true, true);
            assert_eq!(
                stored.seen.stopped, expected,
                "{available} {progressing} {observed}"
            );
            assert!(!stored.seen.made);
        }
    }
}
