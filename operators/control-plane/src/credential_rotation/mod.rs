//! CredentialRotation: the application credential of a service user is replaced before it expires; and so are,
//! in `ceph`, the keys of a service in Ceph. (ARCHITECTURE.md tells this rotation from the three others.)
//!
//! The secret of a credential is chosen here and given to K-ORC in a Secret of its own, and so is the
//! login of the user; K-ORC makes the credential as that user and tells its id. Consumers read one
//! Secret with a name that never changes, which has the credential to use.

mod ceph;
mod facts;
mod login;
mod report;
pub mod schedule;

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::c5c3::{CredentialRotation, CredentialRotationStatus};
use c5c3_api::common::{LocalRef, Time};
use c5c3_api::conditions::credential_rotation::ROTATION_SCHEDULED;
use c5c3_api::foreign::korc::{
    ApplicationCredential, ApplicationCredentialResource, ApplicationCredentialSpec, CloudCredentialsRef,
    ManagementPolicy, Project, RoleAssignment, User,
};
use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::{
    Applied, ClusterError, Clusters, Controller, Decision, Fault, Finalizer, HOME, Kind, OTHERS, Observed,
    Part, ReadError, Reader, Reference, Report, Retry, Touch, Wanted,
};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, ResourceExt};

use facts::{
    CREDENTIAL, ID_KEY, ROTATE_NOW, SECRET_KEY, SWITCHED, VALUE, credential_name, encoded, own_secret,
    stable_secret,
};
pub use facts::{Facts, Hidden, Stored};
use login::{Lack, Login, login_secret};
use schedule::{Current, Seen, Terms, Verdict, decide};

use crate::{clouds_yaml, orphans};

/// The clock of the machine may jump, so it is looked at now and then.
const LOOK: Duration = Duration::from_secs(900);
/// Characters of a request that are remembered.
const MAX_REQUEST: usize = 253;

/// The controller.
#[derive(Clone)]
pub struct CredentialRotations {
    client: Client,
}

impl CredentialRotations {
    pub fn new(clusters: &Clusters) -> Self {
        CredentialRotations {
            client: clusters.home().clone(),
        }
    }
}

/// Removes K-ORC's finalizer after K-ORC has had enough time to delete the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandon(pub Reference);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("User {0} of K-ORC is missing: create it, or correct targetServiceUser")]
    UserMissing(String),
    #[error(
        "User {0} has no passwordRef: set it; only the user itself can create its application credentials"
    )]
    PasswordMissing(String),
    #[error("User {0} has no defaultProjectRef: set it; an application credential belongs to one project")]
    ProjectMissing(String),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error("cephClient.clusterRef: {0}")]
    Unknown(#[from] ClusterError),
    #[error("cannot remove K-ORC's finalizer from {object}: {}", c5c3_kit::fault::plain(.source))]
    Held {
        object: Reference,
        source: Box<kube::Error>,
    },
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        Some(ROTATION_SCHEDULED)
    }

    fn retry(&self) -> Retry {
        match self {
            Error::UserMissing(_)
            | Error::PasswordMissing(_)
            | Error::ProjectMissing(_)
            | Error::Unknown(_) => Retry::OnChange,
            Error::Unreadable(_) | Error::Held { .. } => Retry::Backoff,
        }
    }

    fn blocker(&self) -> Option<Reference> {
        match self {
            Error::UserMissing(user) | Error::PasswordMissing(user) | Error::ProjectMissing(user) => {
                Some(Kind::of::<User>().named(None, user))
            }
            Error::Held { object, .. } => Some(object.clone()),
            Error::Unreadable(_) | Error::Unknown(_) => None,
        }
    }
}

/// The annotation's value when it is one that nothing was done about yet.
fn request(observed: &Observed<CredentialRotations>) -> Option<String> {
    let asked = asked(&observed.object)?;
    if let Some(facts) = &observed.facts.ceph {
        let honoured = ceph::is_honoured(&observed.object, facts, &asked);
        return (!honoured).then_some(asked);
    }
    let honoured = |stored: &Stored| stored.request.as_ref() == Some(&asked);
    let known =
        rotate_now(&observed.object) == Some(&asked) || observed.facts.credentials.iter().any(honoured);
    (!known).then_some(asked)
}

/// What was asked of one that K-ORC gave up on is asked of the next.
fn left_open(facts: &Facts, verdict: &Verdict) -> Option<String> {
    facts.find(verdict.stopped?)?.request.clone()
}

/// As long as the status takes it.
fn asked(object: &CredentialRotation) -> Option<String> {
    let value = object.annotations().get(ROTATE_NOW)?;
    let value: String = value.chars().take(MAX_REQUEST).collect();
    (!value.is_empty()).then_some(value)
}

fn rotate_now(object: &CredentialRotation) -> Option<&String> {
    object.status.as_ref()?.rotate_now.as_ref()
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
    let seen = Seen {
        credentials: &credentials,
        current: facts.current,
        last: last.unwrap_or(0),
        asked: request(observed).is_some(),
        behind: !facts.behind.is_empty(),
        followed: true,
    };
    decide(Terms::of(&object.spec), &seen, *now)
}

/// The user for whom a credential can be asked for now.
fn askable<'o>(
    observed: &'o Observed<CredentialRotations>,
    verdict: &Verdict,
) -> Result<Option<&'o User>, Error> {
    match verdict.make {
        Some(_) if obstacle(observed)?.is_none() => Ok(observed.facts.user.as_ref()),
        _ => Ok(None),
    }
}

/// What keeps a new credential from being made: K-ORC tries once, and what was missing then stays so.
fn obstacle(observed: &Observed<CredentialRotations>) -> Result<Option<&str>, Error> {
    let Observed { object, facts, .. } = observed;
    let user = || object.spec.target_service_user.clone();
    match &facts.login {
        None => Err(Error::UserMissing(user())),
        Some(Err(Lack::NoPassword)) => Err(Error::PasswordMissing(user())),
        Some(Err(Lack::NoProject)) => Err(Error::ProjectMissing(user())),
        Some(Err(Lack::Waits(words))) => Ok(Some(words)),
        Some(Ok(_)) => Ok(facts.missing_role.as_deref()),
    }
}

/// Why the credential that is due is not asked for.
fn held_back<'o>(observed: &'o Observed<CredentialRotations>, verdict: &Verdict) -> Option<&'o str> {
    verdict.make?;
    // What is an error never gets as far as a report.
    obstacle(observed).ok().flatten()
}

impl Controller for CredentialRotations {
    type Kind = CredentialRotation;
    type Facts = Facts;
    type Plan = Verdict;
    type Action = Abandon;
    type Error = Error;

    const BLOCKED_BY: bool = true;
    const NAME: &'static str = "credential-rotation";
    const PARTS: &'static [Part] = &[Part::required(ROTATION_SCHEDULED)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "c5c3.io/credential-rotation",
        within: Duration::from_secs(60),
    });

    fn owns() -> Vec<Kind> {
        let mut kinds = vec![Kind::of::<ApplicationCredential>()];
        kinds.extend(ceph::owns(HOME));
        kinds.extend(ceph::owns(OTHERS));
        kinds
    }

    fn watches() -> Vec<Kind> {
        vec![
            Kind::of::<User>(),
            Kind::of::<Project>(),
            Kind::of::<RoleAssignment>(),
            Kind::of::<Secret>(),
            // Pods of services, which use what is rotated.
            Kind::of::<Pod>().labelled("app.kubernetes.io/part-of=c5c3"),
        ]
    }

    /// Who may still use an older credential.
    fn touches() -> Vec<Touch> {
        let kinds = || {
            [
                Kind::of::<Pod>(),
                Kind::of::<Deployment>(),
                Kind::of::<StatefulSet>(),
                Kind::of::<DaemonSet>(),
                Kind::of::<Hypervisor>(),
            ]
        };
        let touch = |kind: Kind| Touch {
            kind,
            part: "",
            verbs: &["list"],
            at_home: false,
            names: &[],
        };
        let elsewhere = kinds().map(|kind| kind.in_cluster(OTHERS));
        kinds().into_iter().chain(elsewhere).map(touch).collect()
    }

    fn references(object: &CredentialRotation) -> Vec<Reference> {
        if ceph::target(object).is_some() {
            return Vec::new();
        }
        let namespace = object.namespace();
        let namespace = namespace.as_deref();
        vec![Kind::of::<User>().named(namespace, &object.spec.target_service_user)]
    }

    fn found(facts: &Facts) -> Vec<Reference> {
        facts.references.clone()
    }

    async fn observe(&self, object: &CredentialRotation, reader: &Reader) -> Result<Facts, Error> {
        facts::observe(object, reader).await
    }

    fn plan(observed: &Observed<Self>) -> Verdict {
        match &observed.facts.ceph {
            Some(facts) => ceph::verdict(observed, facts),
            None => verdict(observed),
        }
    }

    fn decide(observed: &Observed<Self>, verdict: &Verdict) -> Result<Decision<Abandon>, Error> {
        let Observed { object, facts, .. } = observed;
        if let (Some(target), Some(facts)) = (ceph::target(object), &facts.ceph) {
            return Ok(ceph::decision(observed, target, facts, verdict));
        }
        let (name, namespace) = (object.name_any(), object.namespace());
        let secret = |name: &str| Kind::of::<Secret>().named(namespace.as_deref(), name);
        if observed.deleting() {
            // K-ORC deletes the credentials with the login that made them.
            let needed = (!facts.credentials.is_empty()).then(|| secret(&login_secret(&name)));
            let held = facts.owned.iter().filter(|_| observed.overdue()).cloned();
            let decision = needed.into_iter().fold(Decision::want([]), Decision::keep);
            return Ok(decision.act(held.map(Abandon)));
        }
        let mut wanted = Vec::new();
        let mut kept = Vec::new();
        let stay = |stored: &&Stored| !verdict.delete.contains(&stored.seen.number);
        for stored in facts.credentials.iter().filter(stay) {
            let number = stored.seen.number;
            let own = credential_name(&name, number);
            kept.push(Kind::of::<ApplicationCredential>().named(namespace.as_deref(), &own));
            match &stored.secret {
                // K-ORC needs it to make the credential again.
                Some(value) if !stored.has_secret => wanted.push(Wanted::of(&chosen(object, number, value))),
                _ => kept.push(secret(&own_secret(&name, number))),
            }
        }
        match verdict.using.and_then(|current| stable(observed, current)) {
            Some(body) => wanted.push(Wanted::of(&body)),
            None => kept.push(secret(&stable_secret(&name))),
        }
        match &facts.login {
            Some(Ok(login)) => wanted.push(Wanted::of(&own_login(object, login))),
            _ => kept.push(secret(&login_secret(&name))),
        }
        if let (Some((number, expires)), Some(user)) = (verdict.make, askable(observed, verdict)?) {
            // One that was chosen before a crash may be in use already.
            let fresh = || Hidden(hex::encode(facts.random));
            let value = facts.chosen.get(&number).cloned().unwrap_or_else(fresh);
            wanted.push(Wanted::of(&chosen(object, number, &value)));
            let request = request(observed).or_else(|| left_open(facts, verdict));
            let credential = application_credential(object, user, number, expires, request);
            wanted.push(Wanted::of(&credential));
        }
        Ok(kept.into_iter().fold(Decision::want(wanted), Decision::keep))
    }

    async fn act(&self, Abandon(held): &Abandon) -> Result<(), Error> {
        let kinds = Self::owns();
        let Some(kind) = kinds.iter().find(|kind| kind.is_of(held)) else {
            return Ok(());
        };
        let done = orphans::abandon(&self.client, kind, held).await;
        done.map_err(|source| Error::Held {
            object: held.clone(),
            source: Box::new(source),
        })
    }

    fn report(observed: &Observed<Self>, verdict: &Verdict, applied: &Applied<Self>) -> Report {
        let Observed { object, facts, now } = observed;
        if let Some(facts) = &facts.ceph {
            return ceph::report(observed, facts, verdict);
        }
        if observed.deleting() {
            let report = Report::default().left(facts.owned.iter().map(ToString::to_string));
            let orphans = applied.outcomes().iter().map(|outcome| &outcome.action.0);
            return match orphans::note(orphans) {
                Some(note) => report.note(note),
                None => report,
            };
        }
        let name = object.name_any();
        let current = verdict.using.and_then(|current| facts.find(current.number));
        let waits = held_back(observed, verdict).is_some();
        let states = report::states(observed, verdict)
            .because_of(ROTATION_SCHEDULED, report::behind(observed, verdict));
        let before = object.status.clone().unwrap_or_default();
        let report = Report::new(states).status(&CredentialRotationStatus {
            last_rotation: current.map(|current| Time(current.seen.created)),
            next_rotation: if waits {
                before.next_rotation
            } else {
                Some(Time(whole_second(verdict.next)))
            },
            current_credential_ref: current
                .map(|current| LocalRef::new(credential_name(&name, current.seen.number))),
            // By now what was asked for is made, unless it waits.
            rotate_now: asked(object).filter(|_| !waits).or(before.rotate_now),
            ..CredentialRotationStatus::default()
        });
        // One that waits for something is woken by it, not by the clock.
        let due = (!waits).then_some(verdict.next);
        again(report, &[due, verdict.next_deletion], *now)
    }
}

/// Looks again when the first of these times has come.
fn again(report: Report, times: &[Option<Timestamp>], now: Timestamp) -> Report {
    let at = times.iter().flatten().min();
    let wait = at.map_or(LOOK, |at| {
        Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
    });
    report.again_in(wait.clamp(Duration::from_secs(1), LOOK))
}

impl Facts {
    fn find(&self, number: u64) -> Option<&Stored> {
        self.credentials
            .iter()
            .find(|stored| stored.seen.number == number)
    }
}

/// Kubernetes keeps whole seconds; a fraction would look like a change in every pass.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn metadata(object: &CredentialRotation, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: object.namespace(),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn secret<const N: usize>(metadata: ObjectMeta, data: [(&str, ByteString); N]) -> Secret {
    Secret {
        type_: Some("Opaque".to_owned()),
        metadata,
        data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
        ..Secret::default()
    }
}

/// The marks on the Secret that consumers read: the credential in it, and since when.
fn marks(name: String, since: Timestamp) -> BTreeMap<String, String> {
    let since = whole_second(since).to_string();
    [(CREDENTIAL, name), (SWITCHED, since)]
        .map(|(mark, value)| (mark.to_owned(), value))
        .into()
}

/// The mark on what was made for a request.
fn requested(request: Option<String>) -> Option<BTreeMap<String, String>> {
    request.map(|request| [(ROTATE_NOW.to_owned(), request)].into())
}

/// The Secret from which K-ORC takes the secret of a credential.
fn chosen(object: &CredentialRotation, number: u64, value: &Hidden) -> Secret {
    let metadata = metadata(object, &own_secret(&object.name_any(), number));
    secret(metadata, [(VALUE, encoded(&value.0))])
}

/// The Secret with which K-ORC logs in as the user.
fn own_login(object: &CredentialRotation, login: &Login) -> Secret {
    Secret {
        data: Some(login::data(login)),
        ..secret(metadata(object, &login_secret(&object.name_any())), [])
    }
}

/// The Secret that consumers read; `None` while not all of it is known.
fn stable(observed: &Observed<CredentialRotations>, current: Current) -> Option<Secret> {
    let Observed { object, facts, .. } = observed;
    let name = object.name_any();
    let stored = facts.find(current.number).filter(|stored| stored.seen.complete)?;
    let (Some(id), Some(Hidden(value)), Some(Ok(cloud))) = (&stored.id, &stored.secret, &facts.cloud) else {
        return None;
    };
    let metadata = ObjectMeta {
        annotations: Some(marks(credential_name(&name, current.number), current.since)),
        ..metadata(object, &stable_secret(&name))
    };
    let clouds = clouds_yaml::of_credential(cloud, id, value);
    Some(secret(
        metadata,
        [
            (ID_KEY, encoded(id)),
            (SECRET_KEY, encoded(value)),
            (clouds_yaml::KEY, encoded(&clouds)),
        ],
    ))
}

/// Another one than that of an earlier rotation of this name: K-ORC would take over what that left
/// behind in Keystone, and its secret is not ours.
fn in_keystone(object: &CredentialRotation, number: u64) -> String {
    let own = credential_name(&object.name_any(), number);
    match object.uid().as_deref().and_then(|uid| uid.split('-').next()) {
        Some(mark) => format!("{own}-{mark}"),
        None => own,
    }
}

fn application_credential(
    object: &CredentialRotation,
    user: &User,
    number: u64,
    expires: Timestamp,
    request: Option<String>,
) -> ApplicationCredential {
    let name = object.name_any();
    let roles = login::roles(user);
    ApplicationCredential {
        metadata: ObjectMeta {
            annotations: requested(request),
            ..metadata(object, &credential_name(&name, number))
        },
        spec: ApplicationCredentialSpec {
            cloud_credentials_ref: CloudCredentialsRef {
                cloud_name: clouds_yaml::OPENSTACK.to_owned(),
                secret_name: login_secret(&name),
            },
            management_policy: ManagementPolicy::Managed,
            resource: Some(ApplicationCredentialResource {
                name: Some(in_keystone(object, number)),
                description: Some(format!("Made by CredentialRotation {name}")),
                user_ref: object.spec.target_service_user.clone(),
                role_refs: roles.into_iter().map(str::to_owned).collect(),
                expires_at: Some(Time(whole_second(expires))),
                unrestricted: Some(false),
                secret_ref: own_secret(&name, number),
            }),
            import: None,
        },
        status: None,
    }
}

#[cfg(test)]
mod tests;
