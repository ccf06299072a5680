//! CredentialRotation: the application credential of a service user is replaced before it expires.
//!
//! K-ORC makes credentials and writes each into a Secret of its own. Consumers read one Secret with a
//! name that never changes; this controller copies the credential to use into it.

mod facts;
pub mod schedule;

use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::c5c3::{CredentialRotation, CredentialRotationStatus};
use c5c3_api::common::{LocalRef, Time};
use c5c3_api::conditions::{credential_rotation::ROTATION_SCHEDULED, reason};
use c5c3_api::foreign::korc::{ApplicationCredential, User};
use c5c3_kit::{
    Applied, Controller, Decision, Fault, Finalizer, Kind, Observed, Part, ReadError, Reader, Reference,
    Report, Retry, States, Wanted,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use facts::{CREDENTIAL, SWITCHED, credential_name, own_secret, stable_secret};
pub use facts::{Facts, Stored};
use schedule::{Current, Terms, Verdict, decide};

/// The clock of the machine may jump, so it is looked at now and then.
const LOOK: Duration = Duration::from_secs(900);
/// The roles of a service user that names none.
const DEFAULT_ROLES: &str = "service";

/// The controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct CredentialRotations;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("User {0} of K-ORC is missing: create it, or correct targetServiceUser")]
    UserMissing(String),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        Some(ROTATION_SCHEDULED)
    }

    fn retry(&self) -> Retry {
        match self {
            Error::UserMissing(_) => Retry::OnChange,
            Error::Unreadable(_) => Retry::Backoff,
        }
    }
}

fn verdict(observed: &Observed<CredentialRotations>) -> Verdict {
    let Observed { object, facts, now } = observed;
    let credentials: Vec<_> = facts
        .credentials
        .iter()
        .map(|stored| stored.seen.clone())
        .collect();
    let status = object.status.as_ref();
    let last = status
        .and_then(|status| status.current_credential_ref.as_ref())
        .and_then(|reference| facts::number(&object.name_any(), &reference.name));
    decide(
        Terms::of(&object.spec),
        &credentials,
        facts.current,
        last.unwrap_or(0),
        *now,
    )
}

impl Controller for CredentialRotations {
    type Kind = CredentialRotation;
    type Facts = Facts;
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "credential-rotation";
    const PARTS: &'static [Part] = &[Part::required(ROTATION_SCHEDULED)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "c5c3.io/credential-rotation",
        within: Duration::from_secs(60),
    });

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<ApplicationCredential>(), Kind::of::<Secret>()]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<User>(), Kind::of::<Secret>()]
    }

    fn references(object: &CredentialRotation) -> Vec<Reference> {
        let (namespace, name) = (object.namespace(), object.name_any());
        let namespace = namespace.as_deref();
        let status = object.status.as_ref();
        let current = status
            .and_then(|status| status.current_credential_ref.as_ref())
            .and_then(|reference| facts::number(&name, &reference.name))
            .map(|number| Kind::of::<Secret>().named(namespace, &own_secret(&name, number)));
        let user = Kind::of::<User>().named(namespace, &object.spec.target_service_user);
        [user].into_iter().chain(current).collect()
    }

    async fn observe(&self, object: &CredentialRotation, reader: &Reader) -> Result<Facts, Error> {
        Ok(facts::observe(object, reader).await?)
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Infallible>, Error> {
        let Observed { object, facts, .. } = observed;
        if observed.deleting() {
            return Ok(Decision::want([]));
        }
        let (name, namespace) = (object.name_any(), object.namespace());
        let verdict = verdict(observed);
        let mut wanted = Vec::new();
        let mut kept: Vec<Reference> = facts
            .credentials
            .iter()
            .filter(|stored| !verdict.delete.contains(&stored.seen.number))
            .map(|stored| {
                let name = credential_name(&name, stored.seen.number);
                Kind::of::<ApplicationCredential>().named(namespace.as_deref(), &name)
            })
            .collect();
        match verdict.using {
            Some(current) => wanted.extend(stable(observed, current)),
            None => kept.push(Kind::of::<Secret>().named(namespace.as_deref(), &stable_secret(&name))),
        }
        if let Some((number, expires)) = verdict.make {
            let missing = || Error::UserMissing(object.spec.target_service_user.clone());
            let user = facts.user.as_ref().ok_or_else(missing)?;
            wanted.push(application_credential(object, user, number, expires));
        }
        let decision = Decision::want(wanted.into_iter().map(Wanted::raw));
        Ok(kept.into_iter().fold(decision, Decision::keep))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, _applied: &Applied<Self>) -> Report {
        let Observed { object, facts, now } = observed;
        if observed.deleting() {
            return Report::default().left(facts.owned.clone());
        }
        let verdict = verdict(observed);
        let name = object.name_any();
        let find = |number: u64| {
            facts
                .credentials
                .iter()
                .find(|stored| stored.seen.number == number)
        };
        let current = verdict.using.and_then(|current| find(current.number));
        let newest = facts.credentials.iter().max_by_key(|stored| stored.seen.number);
        let making = match (verdict.make, newest) {
            (Some((number, _)), _) => Some(format!("{} is being made", credential_name(&name, number))),
            (None, Some(newest)) if !newest.seen.complete => Some(format!(
                "{}: {}",
                credential_name(&name, newest.seen.number),
                newest.words
            )),
            _ => None,
        };
        let states = States::default();
        let states = match (current, making) {
            (Some(current), None) => {
                let text = format!(
                    "{} is valid until {}",
                    credential_name(&name, current.seen.number),
                    current.seen.expires
                );
                states.met(ROTATION_SCHEDULED, reason::CREDENTIAL_VALID, text)
            }
            (Some(current), Some(making)) => {
                let text = format!(
                    "{making}; until then the one that expires {} is used",
                    current.seen.expires
                );
                states.met(ROTATION_SCHEDULED, reason::ROTATING, text)
            }
            (None, making) => {
                let text = making.unwrap_or_else(|| "no credential can be used".to_owned());
                states.unmet(ROTATION_SCHEDULED, reason::ROTATING, text)
            }
        };
        let report = Report::new(states).status(&CredentialRotationStatus {
            last_rotation: current.map(|current| Time(current.seen.created)),
            next_rotation: Some(Time(whole_second(verdict.next))),
            current_credential_ref: current
                .map(|current| LocalRef::new(credential_name(&name, current.seen.number))),
            ..CredentialRotationStatus::default()
        });
        let at = verdict
            .next_deletion
            .map_or(verdict.next, |deletion| deletion.min(verdict.next));
        let wait = Duration::try_from(at.duration_since(*now)).unwrap_or(Duration::ZERO);
        report.again_in(wait.clamp(Duration::from_secs(1), LOOK))
    }
}

/// Kubernetes keeps whole seconds; a fraction would look like a change in every pass.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn metadata(object: &CredentialRotation, name: &str) -> Value {
    json!({"namespace": object.namespace(), "name": name})
}

/// The Secret that consumers read.
fn stable(observed: &Observed<CredentialRotations>, current: Current) -> Option<Value> {
    let object = &observed.object;
    let name = object.name_any();
    let stored = observed
        .facts
        .credentials
        .iter()
        .find(|stored| stored.seen.number == current.number)?;
    let mut metadata = metadata(object, &stable_secret(&name));
    metadata["annotations"] = json!({
        CREDENTIAL: credential_name(&name, current.number),
        SWITCHED: whole_second(current.since).to_string(),
    });
    Some(
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": stored.data}),
    )
}

fn application_credential(
    object: &CredentialRotation,
    user: &User,
    number: u64,
    expires: Timestamp,
) -> Value {
    let name = object.name_any();
    let roles = user
        .annotations()
        .get(crate::plan::ROLES)
        .map_or(DEFAULT_ROLES, String::as_str);
    let roles: Vec<&str> = roles
        .split(',')
        .map(str::trim)
        .filter(|role| !role.is_empty())
        .collect();
    let own = credential_name(&name, number);
    json!({
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "ApplicationCredential",
        "metadata": metadata(object, &own),
        "spec": {
            "cloudCredentialsRef": user.spec.cloud_credentials_ref,
            "managementPolicy": "managed",
            "resource": {
                "name": own,
                "description": format!("Made by CredentialRotation {name}"),
                "userRef": object.spec.target_service_user,
                "roleRefs": roles,
                "expiresAt": whole_second(expires).to_string(),
                "unrestricted": false,
                "secretRef": own_secret(&name, number),
            },
        },
    })
}

#[cfg(test)]
mod tests;
