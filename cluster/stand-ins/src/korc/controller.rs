//! The one controller of all kinds.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use c5c3_api::conditions::korc::{AVAILABLE, PROGRESSING};
use c5c3_kit::controller::Outcome;
use c5c3_kit::fault::pause;
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Key, Kind, Note, Observed, Part, Reader, Reference, Report,
};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use openstack_client::{Assignment, Class, Entity, Fields, Identity, Kind as Collection};
use serde_json::{Value, json};

use super::assignment;
use super::decide::{Action, Call, Plan, Seen};
use super::observe;
use super::resource::{Miss, Resource, Target, import_needs};
use super::sessions::Sessions;
use super::trouble::{Failure, Trouble, states};

/// The interval between checks of a resource that is as it should be: drift is repaired within it.
pub const LOOK: Duration = Duration::from_secs(60);
/// The next step of an object that is made in several.
const AT_ONCE: Duration = Duration::from_millis(1);
/// The interval between checks of an import that does not exist yet.
const IMPORT_LOOK: Duration = Duration::from_secs(5);

/// Looks after all objects of one kind.
pub(crate) struct Resources<R> {
    sessions: Sessions,
    tell: UnboundedSender<Key>,
    attempts: Mutex<HashMap<Key, u32>>,
    look: Duration,
    kind: PhantomData<fn() -> R>,
}

impl<R: Resource> Resources<R> {
    /// The stream names objects that waited for a cloud which answers now.
    pub(crate) fn new(sessions: Sessions, look: Duration) -> (Self, UnboundedReceiver<Key>) {
        let (tell, told) = unbounded();
        let resources = Self {
            sessions,
            tell,
            attempts: Mutex::default(),
            look,
            kind: PhantomData,
        };
        (resources, told)
    }

    /// Failures in a row of looking at this object.
    fn count(&self, key: Key, failed: bool) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if !failed {
            attempts.remove(&key);
            return 0;
        }
        let count = attempts.entry(key).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

pub(crate) struct Facts<R: Resource> {
    pub seen: Result<Seen<R>, Trouble>,
    /// When to look again.
    pub again: Duration,
}

impl<R: Resource> Controller for Resources<R> {
    type Kind = R;
    type Facts = Facts<R>;
    type Plan = Plan;
    type Action = Action;
    type Error = Failure;

    const NAME: &'static str = R::CONTROLLER;
    const PARTS: &'static [Part] = &[Part::required(AVAILABLE), Part::informative(PROGRESSING)];
    const READY: bool = false;
    const FINALIZER: Option<Finalizer> = Some(R::FINALIZER);

    fn owns() -> Vec<Kind> {
        R::owns()
    }

    fn watches() -> Vec<Kind> {
        let targets = R::watches().into_iter().map(Target::kind);
        std::iter::once(Kind::of::<Secret>()).chain(targets).collect()
    }

    fn references(object: &R) -> Vec<Reference> {
        let (namespace, _) = object.namespaced();
        let namespace = Some(namespace.as_str());
        let head = object.head();
        let filter = head.import.and_then(|import| import.filter.as_ref());
        let mut needs = filter.map(import_needs).unwrap_or_default();
        if head.has_resource {
            needs.extend(object.needs());
        }
        let mut all = vec![Kind::of::<Secret>().named(namespace, &head.credentials.secret_name)];
        all.extend(
            needs
                .iter()
                .map(|need| need.target.kind().named(namespace, &need.name)),
        );
        all.extend(object.references());
        all
    }

    async fn observe(&self, object: &R, reader: &Reader) -> Result<Facts<R>, Failure> {
        let deleting = object.meta().deletion_timestamp.is_some();
        let looked = observe::look(object, deleting, reader, &self.sessions).await;
        let key = Key::of(object);
        let seen = match looked.seen {
            Ok(seen) => {
                self.count(key, false);
                return Ok(Facts {
                    seen: Ok(seen),
                    again: self.look,
                });
            }
            Err(Miss::Failure(failure)) => return Err(failure),
            Err(Miss::Trouble(trouble)) => trouble,
            Err(Miss::OpenStack(error)) => {
                if let Some(cloud) = looked.cloud
                    && (error.unreachable() || shut_out(&*cloud, &error).await)
                {
                    let tell = self.tell.clone();
                    self.sessions.wake(cloud, R::CONTROLLER, key.clone(), tell);
                }
                let trouble = Trouble::from(&error);
                match error.class() {
                    Class::Unauthorized => Trouble::Transient(format!(
                        "{error}. Check Secret/{}",
                        object.head().credentials.secret_name
                    )),
                    _ => trouble,
                }
            }
        };
        let transient = matches!(seen, Trouble::Transient(_));
        let count = self.count(key, transient);
        let again = match &seen {
            Trouble::Transient(_) => pause(count + 1, 0.0).min(self.look),
            Trouble::Waits(_) if !object.head().managed() => IMPORT_LOOK.min(self.look),
            _ => self.look,
        };
        Ok(Facts {
            seen: Err(seen),
            again,
        })
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        plan(observed)
    }

    fn decide(_: &Observed<Self>, plan: &Plan) -> Result<Decision<Action>, Failure> {
        let decision = if plan.wanted.is_empty() {
            Decision::hold()
        } else {
            Decision::want(plan.wanted.clone())
        };
        Ok(decision.act(plan.actions.clone()))
    }

    async fn act(&self, action: &Action) -> Result<(), Failure> {
        let cloud = &*action.cloud;
        match &action.call {
            Call::Create {
                kind,
                fields,
                proof,
                made,
            } => {
                let entity = cloud.create(kind, fields).await?;
                if let Some(proof) = proof {
                    self.sessions.prove(&proof.user, &proof.version);
                }
                let _ = made.0.set(entity);
            }
            Call::Update {
                kind,
                id,
                changes,
                proof,
                made,
            } => {
                let entity = cloud.update(kind, id, changes).await?;
                if let Some(proof) = proof {
                    self.sessions.prove(&proof.user, &proof.version);
                }
                let _ = made.0.set(entity);
            }
            Call::Delete { kind, id } => delete(cloud, kind, id).await?,
            Call::Assign(assignment) => cloud.assign(assignment).await?,
            Call::Revoke(assignment) => cloud.revoke(assignment).await?,
        }
        Ok(())
    }

    fn report(observed: &Observed<Self>, plan: &Plan, applied: &Applied<Self>) -> Report {
        let head = observed.object.head();
        let failed = applied
            .outcomes()
            .iter()
            .find_map(|outcome| match &outcome.result {
                Err(Failure::OpenStack(error)) => Some(Trouble::from(error)),
                Err(failure) => Some(Trouble::Transient(failure.to_string())),
                Ok(()) => None,
            });
        if observed.deleting() {
            return deletion(observed, failed.as_ref());
        }
        let live = thing(observed, applied);
        let unfinished = plan
            .unfinished
            .then(|| Trouble::Waits("OpenStack resource is being created".to_owned()));
        let looked = observed.facts.seen.as_ref().err().cloned();
        let trouble = looked.or(failed).or(plan.trouble.clone()).or(unfinished.clone());
        let there = live.is_some() && unfinished.is_none() && !matches!(trouble, Some(Trouble::Invalid(_)));
        let id = live.as_ref().map(|live| live.id.as_str());
        let id = id.filter(|id| !id.is_empty()).or(head.id);
        let resource = match &live {
            Some(live) => {
                let mut shown = R::shown(live);
                shown.extend(observed.object.marks(trouble.is_none()));
                Some(Value::Object(shown))
            }
            None => head.shown.cloned().map(Value::Object),
        };
        let known = id.is_some() || resource.is_some();
        let report = Report::new(states(trouble.as_ref(), there, known))
            .status(&json!({"id": id, "resource": resource}));
        let made = applied.outcomes().iter().filter_map(made::<R>);
        let notes = made.chain(trouble.as_ref().and_then(Trouble::note));
        let report = notes.fold(report, Report::note);
        report.again_in(if unfinished.is_some() {
            AT_ONCE
        } else {
            observed.facts.again
        })
    }
}

/// What an event reports about a write that worked.
fn made<R: Resource>(outcome: &Outcome<Resources<R>>) -> Option<Note> {
    outcome.result.as_ref().ok()?;
    match &outcome.action.call {
        Call::Create { kind, made, .. } => {
            let id = &made.0.get()?.id;
            Some(Note::normal("Created", format!("created {} {id}", kind.thing())))
        }
        Call::Update { id, changes, .. } => {
            let names: Vec<&str> = changes.0.keys().map(String::as_str).collect();
            Some(Note::normal(
                "Updated",
                format!("set {} of {id}", names.join(", ")),
            ))
        }
        Call::Assign(Assignment { role, user, .. }) => Some(Note::normal(
            "RoleAssigned",
            format!("gave role {role} to user {user}"),
        )),
        Call::Delete { .. } | Call::Revoke(_) => None,
    }
}

fn plan<R: Resource>(observed: &Observed<Resources<R>>) -> Plan {
    let Ok(seen) = &observed.facts.seen else {
        return Plan::default();
    };
    if observed.deleting() {
        let cloud = seen.cloud.clone();
        let removal = observed.object.removal(seen);
        return Plan {
            actions: removal.map(|call| Action { cloud, call }).into_iter().collect(),
            ..Plan::default()
        };
    }
    if !observed.object.head().managed() {
        return Plan::default();
    }
    observed.object.plan(seen, observed.now)
}

/// The thing after this pass.
fn thing<R: Resource>(observed: &Observed<Resources<R>>, applied: &Applied<Resources<R>>) -> Option<Entity> {
    let mut live = observed.facts.seen.as_ref().ok()?.live.clone();
    for outcome in applied.outcomes() {
        match &outcome.action.call {
            Call::Create { made, .. } | Call::Update { made, .. } => {
                live = made.0.get().cloned().or(live);
            }
            Call::Assign(made) if outcome.result.is_ok() => live = Some(assignment::entity(made)),
            Call::Assign(_) => {}
            Call::Delete { .. } | Call::Revoke(_) => live = None,
        }
    }
    live
}

fn deletion<R: Resource>(observed: &Observed<Resources<R>>, failed: Option<&Trouble>) -> Report {
    let looked = observed.facts.seen.as_ref().err();
    let trouble = looked.or(failed);
    let head = observed.object.head();
    let report = Report::new(states(trouble, false, false)).status(&json!({
        "id": head.id, "resource": head.shown,
    }));
    // Without a login nothing is known of a resource that was never created.
    let untouched = head.id.is_none()
        && head.shown.is_none()
        && matches!(looked, Some(Trouble::Waits(_) | Trouble::Invalid(_)));
    match trouble {
        Some(trouble) if head.managed() && !untouched => {
            let kind = R::kind(&());
            let name = observed.object.name_any();
            report.left([format!("{kind} {name} in OpenStack: {}", trouble.text())])
        }
        _ => report,
    }
}

/// Whether the login itself is refused, not only this call.
async fn shut_out(cloud: &dyn Identity, error: &openstack_client::Error) -> bool {
    error.class() == Class::Unauthorized && cloud.identify().await.is_err()
}

/// A domain is deleted only when it is disabled.
async fn delete(cloud: &dyn Identity, kind: &Collection, id: &str) -> Result<(), Failure> {
    if *kind == Collection::Domain {
        let off = Fields::new().with("enabled", false);
        match cloud.update(kind, id, &off).await {
            Err(error) if error.class() == Class::NotFound => return Ok(()),
            done => drop(done?),
        }
    }
    Ok(cloud.delete(kind, id).await?)
}
