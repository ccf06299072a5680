//! Databases, users and grants: each is a few statements, sent to the server from inside its own pod.
//!
//! A statement is sent once after each start of ours, and when it or the server has changed. All of
//! them may be sent again at any time.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use c5c3_api::foreign::mariadb::{MariaDb, User};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, States,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::client_command;
use super::server::place;
use super::statement::Statement;
use crate::error::Error;
use crate::exec::{self, ExecError, Place};
use crate::objects::{hash, is_ready, secret_value};

const DONE: &str = "Applied";
/// For what no watch tells: a user under another name than its grant.
const LOOK: Duration = Duration::from_secs(2);

/// The controller of one kind of statement.
pub struct SqlObjects<S> {
    client: Client,
    /// By uid of the object: a digest of what was sent last.
    sent: Mutex<HashMap<String, String>>,
    kind: PhantomData<fn() -> S>,
}

impl<S> SqlObjects<S> {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            sent: Mutex::default(),
            kind: PhantomData,
        }
    }
}

#[derive(Default)]
pub struct Facts {
    server: Option<MariaDb>,
    password: Option<String>,
    users: Vec<User>,
    sent: Option<String>,
}

/// Statements for the server in a pod.
pub struct Send {
    place: Place,
    sql: String,
    uid: String,
    /// `None`: the object goes, nothing has to be remembered.
    digest: Option<String>,
    /// A password that the server's complaint must not repeat.
    hidden: Option<String>,
}

impl std::fmt::Debug for Send {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "statements for {}", self.place.pod)
    }
}

impl<S: Statement> Controller for SqlObjects<S> {
    type Kind = S;
    type Facts = Facts;
    type Action = Send;
    type Error = Error;

    const NAME: &'static str = S::CONTROLLER;
    const PARTS: &'static [Part] = &[Part::required(DONE)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: S::FINALIZER,
        within: Duration::from_secs(60),
    });

    fn watches(&self) -> Vec<Kind> {
        vec![
            Kind::of::<MariaDb>(),
            Kind::of::<Secret>(),
            Kind::of::<User>(),
        ]
    }

    fn references(object: &S) -> Vec<Reference> {
        let namespace = object.namespace();
        let namespace = namespace.as_deref();
        let mut all = vec![Kind::of::<MariaDb>().named(namespace, object.server())];
        all.extend(
            object
                .secret()
                .map(|(name, _)| Kind::of::<Secret>().named(namespace, name)),
        );
        // A user's object is mostly called like the user or like the grant.
        for user in object.user().into_iter().chain([object.name_any().as_str()]) {
            if object.user().is_some() {
                all.push(Kind::of::<User>().named(namespace, user));
            }
        }
        all
    }

    async fn observe(&self, object: &S, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let mut facts = Facts {
            server: reader.get(&namespace, object.server()).await?,
            ..Facts::default()
        };
        if let Some((name, key)) = object.secret() {
            facts.password = secret_value(reader.get(&namespace, name).await?, key);
        }
        if object.user().is_some() {
            facts.users = reader.list(&namespace, "").await?;
        }
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        facts.sent = sent.get(&object.uid().unwrap_or_default()).cloned();
        Ok(facts)
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Send>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        if observed.deleting() {
            return Ok(Decision::hold().act(farewell(object, facts)));
        }
        if facts.server.is_none() {
            return Err(Error::ServerMissing(object.server().to_owned()));
        }
        let Ok(place) = ready_place(object, facts) else {
            return Ok(Decision::hold());
        };
        let sql = object.sql(facts.password.as_deref().unwrap_or_default())?;
        let digest = digest(&sql, facts);
        let news = facts.sent.as_ref() != Some(&digest);
        Ok(Decision::hold().act(news.then(|| Send {
            place,
            sql,
            uid: object.uid().unwrap_or_default(),
            digest: Some(digest),
            hidden: facts.password.clone(),
        })))
    }

    async fn act(&self, action: &Send) -> Result<(), Error> {
        let done = exec::run(&self.client, &action.place, &client_command(), &action.sql).await;
        match done {
            Ok(_) => {}
            Err(ExecError::Failed { said, .. }) if action.digest.is_none() && is_gone(&said) => {}
            Err(ExecError::Failed { pod, said }) => {
                let said = match &action.hidden {
                    Some(secret) if !secret.is_empty() => said.replace(secret.as_str(), "***"),
                    _ => said,
                };
                return Err(ExecError::Failed { pod, said }.into());
            }
            Err(error) => return Err(error.into()),
        }
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        match &action.digest {
            Some(digest) => sent.insert(action.uid.clone(), digest.clone()),
            None => sent.remove(&action.uid),
        };
        Ok(())
    }

    fn report(observed: &Observed<Self>, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        let failed = applied.outcomes().iter().find_map(|o| o.result.as_ref().err());
        if observed.deleting() {
            let wanted = cleans(object, facts);
            let done = applied.outcomes().iter().any(|o| o.result.is_ok());
            let left = (wanted && !done).then(|| format!("{} on {}", S::kind(&()), object.server()));
            return Report::new(States::default()).left(left);
        }
        let states = States::default();
        match (ready_place(object, facts), failed) {
            (Err(why), _) => Report::new(states.unmet(DONE, "Waiting", why)).again_in(LOOK),
            (Ok(_), Some(error)) => Report::new(states.unmet(DONE, "Failed", error.to_string())),
            (Ok(_), None) => Report::new(states.met(DONE, "Created", "Created")),
        }
    }
}

/// The server's own start belongs to it: one that was down may have lost what it was told.
fn digest(sql: &str, facts: &Facts) -> String {
    let server = facts.server.as_ref();
    let status = server.and_then(|server| server.status.as_ref());
    let since = status.and_then(|status| {
        let conditions = &status.common.conditions;
        conditions.iter().find(|c| c.type_ == "Ready").map(|c| &c.last_transition_time)
    });
    hash(&json!([sql, server.and_then(ResourceExt::uid), since]))
}

/// Where the statements can be sent to, or why not yet.
fn ready_place<S: Statement>(object: &S, facts: &Facts) -> Result<Place, String> {
    let place = server_place(facts).ok_or_else(|| format!("MariaDB {} is not ready", object.server()))?;
    if let Some((name, key)) = object.secret().filter(|_| facts.password.is_none()) {
        return Err(format!("Secret {name} has no key {key}"));
    }
    if let Some(name) = object.user() {
        let of_server = facts.users.iter().filter(|user| user.server() == object.server());
        let named = of_server
            .filter(|user| user.spec.name.clone().unwrap_or_else(|| user.name_any()) == name)
            .find(|user| !is_ready(user.status.as_ref()));
        if let Some(user) = named {
            return Err(format!("waits for User {}", user.name_any()));
        }
    }
    Ok(place)
}

fn server_place(facts: &Facts) -> Option<Place> {
    let server = facts.server.as_ref()?;
    let status = server.status.as_ref()?;
    // A cluster that lacks a member still takes statements.
    let primary = status.current_primary.as_deref()?;
    let once = is_ready(Some(&status.common)) || super::server::is_cluster(server);
    once.then(|| place(server, primary))
}

/// Whether the server is to forget the object.
fn cleans<S: Statement>(object: &S, facts: &Facts) -> bool {
    let server = facts.server.as_ref();
    let stays = server.is_some_and(|server| server.metadata.deletion_timestamp.is_none());
    stays && object.cleanup_policy() != Some("Skip")
}

fn farewell<S: Statement>(object: &S, facts: &Facts) -> Option<Send> {
    let place = server_place(facts).filter(|_| cleans(object, facts))?;
    Some(Send {
        place,
        sql: object.drop_sql(),
        uid: object.uid().unwrap_or_default(),
        digest: None,
        hidden: None,
    })
}

/// "No such grant" and "no such user": what should go is gone.
fn is_gone(said: &str) -> bool {
    ["ERROR 1141 ", "ERROR 1133 ", "ERROR 1269 ", "ERROR 1396 "]
        .iter()
        .any(|code| said.contains(code))
}
