//! Databases, users and grants: each is a few statements, sent to the server from inside its own pod.
//!
//! A statement is sent once after each start of ours, and when it or the server has changed. All of
//! them may be sent again at any time.

use std::marker::PhantomData;
use std::time::Duration;

use c5c3_api::foreign::mariadb::{MariaDb, User};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, Touch,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::CLIENT;
use super::server::place;
use super::statement::Statement;
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::messages::{self, Message, Messenger};
use crate::objects::{hash, is_ready, secret_value};

const DONE: &str = "Applied";

/// The controller of one kind of statement.
pub struct SqlObjects<S> {
    messenger: Messenger,
    kind: PhantomData<fn() -> S>,
}

impl<S> SqlObjects<S> {
    pub fn new(client: Client) -> Self {
        Self {
            messenger: Messenger::new(client),
            kind: PhantomData,
        }
    }
}

#[derive(Default)]
pub struct Facts {
    server: Option<MariaDb>,
    password: Option<String>,
    users: Vec<User>,
    told: Option<String>,
}

impl<S: Statement> Controller for SqlObjects<S> {
    type Kind = S;
    type Facts = Facts;
    /// Where to send the statements, or why they cannot be sent yet.
    type Plan = Result<ExecTarget, String>;
    type Action = Message;
    type Error = Error;

    const NAME: &'static str = S::CONTROLLER;
    const PARTS: &'static [Part] = &[Part::required(DONE)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: S::FINALIZER,
        within: Duration::from_secs(60),
    });

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<MariaDb>(), Kind::of::<Secret>(), Kind::of::<User>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched()]
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
        // A user's object usually has the name of the user or of the grant.
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
        facts.told = self.messenger.last(&object.uid().unwrap_or_default());
        Ok(facts)
    }

    fn plan(observed: &Observed<Self>) -> Self::Plan {
        ready_place(&observed.object, &observed.facts)
    }

    fn decide(observed: &Observed<Self>, plan: &Self::Plan) -> Result<Decision<Message>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        if observed.deleting() {
            return Ok(Decision::hold().act(farewell(object, facts)));
        }
        if facts.server.is_none() {
            return Err(Error::ServerMissing(object.server().to_owned()));
        }
        let Ok(place) = plan else {
            return Ok(Decision::hold());
        };
        let sql = object.sql(facts.password.as_deref().unwrap_or_default())?;
        let digest = digest(&sql, facts);
        let news = facts.told.as_ref() != Some(&digest);
        Ok(Decision::hold().act(news.then(|| Message {
            place: place.clone(),
            command: CLIENT,
            input: sql,
            uid: object.uid().unwrap_or_default(),
            digest: Some(digest),
            hidden: facts.password.clone().into_iter().collect(),
        })))
    }

    async fn act(&self, action: &Message) -> Result<(), Error> {
        Ok(self.messenger.send(action, is_gone).await?)
    }

    fn report(observed: &Observed<Self>, plan: &Self::Plan, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        if observed.deleting() {
            let left = cleans(object, facts).then(|| format!("{} on {}", S::kind(&()), object.server()));
            return messages::farewell_report(applied, left);
        }
        let ready = plan.as_ref().map(drop).map_err(Clone::clone);
        messages::report(DONE, applied, ready, "Failed", ("Created", "Created"))
    }
}

/// Includes when the server became ready: one that was down may have lost the statements.
fn digest(sql: &str, facts: &Facts) -> String {
    let server = facts.server.as_ref();
    let status = server.and_then(|server| server.status.as_ref());
    let since = status.and_then(|status| {
        let conditions = &status.common.conditions;
        conditions
            .iter()
            .find(|c| c.type_ == "Ready")
            .map(|c| &c.last_transition_time)
    });
    hash(&json!([sql, server.and_then(ResourceExt::uid), since]))
}

/// Where the statements can be sent to, or why not yet.
fn ready_place<S: Statement>(object: &S, facts: &Facts) -> Result<ExecTarget, String> {
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
            return Err(format!("waiting for User {}", user.name_any()));
        }
    }
    Ok(place)
}

fn server_place(facts: &Facts) -> Option<ExecTarget> {
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

fn farewell<S: Statement>(object: &S, facts: &Facts) -> Option<Message> {
    let place = server_place(facts).filter(|_| cleans(object, facts))?;
    Some(Message {
        place,
        command: CLIENT,
        input: object.drop_sql(),
        uid: object.uid().unwrap_or_default(),
        digest: None,
        hidden: Vec::new(),
    })
}

/// "No such grant" and "no such user": what should go is gone.
fn is_gone(said: &str) -> bool {
    ["ERROR 1141 ", "ERROR 1133 ", "ERROR 1269 ", "ERROR 1396 "]
        .iter()
        .any(|code| said.contains(code))
}
