//! Databases, users and grants: each is a few statements that a Job sends to the server.

use std::convert::Infallible;
use std::marker::PhantomData;

use c5c3_api::foreign::mariadb::{Database, Grant, MariaDb, User};
use c5c3_kit::controller::Object;
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States, Wanted,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::server::root_secret;
use super::{SERVER, UID, statements};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{container_security, encode, hash, pod_security};

const DONE: &str = "Applied";

/// An object that is a few statements.
pub trait Statement: Object + Resource<Scope = NamespaceResourceScope> {
    const CONTROLLER: &'static str;
    fn server(&self) -> &str;
    /// The Secret and key of a password that the statement needs.
    fn secret(&self) -> Option<(&str, &str)> {
        None
    }
    /// Other objects that must be there first, by kind.
    fn after(&self, world: &World) -> Result<(), String>;
    fn sql(&self, password: &str) -> String;
}

/// What of the same server is there already.
#[derive(Debug, Default)]
pub struct World {
    databases: Vec<Database>,
    users: Vec<User>,
}

fn is_ready(status: Option<&c5c3_api::foreign::ConditionsStatus>) -> bool {
    status.is_some_and(|status| {
        status
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    })
}

impl Statement for Database {
    const CONTROLLER: &'static str = "stand-in-database";
    fn server(&self) -> &str {
        &self.spec.maria_db_ref.name
    }
    fn after(&self, _world: &World) -> Result<(), String> {
        Ok(())
    }
    fn sql(&self, _password: &str) -> String {
        let own = self.spec.name.clone().unwrap_or_else(|| self.name_any());
        statements::database(
            &own,
            self.spec.character_set.as_deref(),
            self.spec.collate.as_deref(),
        )
    }
}

impl Statement for User {
    const CONTROLLER: &'static str = "stand-in-user";
    fn server(&self) -> &str {
        &self.spec.maria_db_ref.name
    }
    fn secret(&self) -> Option<(&str, &str)> {
        self.spec
            .password_secret_key_ref
            .as_ref()
            .map(|reference| (reference.name.as_str(), reference.key.as_str()))
    }
    fn after(&self, _world: &World) -> Result<(), String> {
        Ok(())
    }
    fn sql(&self, password: &str) -> String {
        let own = self.spec.name.clone().unwrap_or_else(|| self.name_any());
        statements::user(&own, self.spec.host.as_deref().unwrap_or("%"), password)
    }
}

impl Statement for Grant {
    const CONTROLLER: &'static str = "stand-in-grant";
    fn server(&self) -> &str {
        &self.spec.maria_db_ref.name
    }
    fn after(&self, world: &World) -> Result<(), String> {
        let server = self.server();
        let named = |own: &Option<String>, object: String| own.clone().unwrap_or(object);
        let user = world
            .users
            .iter()
            .filter(|user| user.server() == server)
            .find(|user| named(&user.spec.name, user.name_any()) == self.spec.username);
        match user {
            Some(user) if !is_ready(user.status.as_ref()) => {
                return Err(format!("waits for User {}", user.name_any()));
            }
            _ => {}
        }
        let wanted = self.spec.database.as_deref().unwrap_or("*");
        let database = world
            .databases
            .iter()
            .filter(|database| database.server() == server)
            .find(|database| named(&database.spec.name, database.name_any()) == wanted);
        match database {
            Some(database) if !is_ready(database.status.as_ref()) => {
                Err(format!("waits for Database {}", database.name_any()))
            }
            _ => Ok(()),
        }
    }
    fn sql(&self, _password: &str) -> String {
        let spec = &self.spec;
        let part = |value: &Option<String>| value.clone().unwrap_or_else(|| "*".to_owned());
        statements::grant(
            &spec.privileges,
            &part(&spec.database),
            &part(&spec.table),
            &spec.username,
            spec.host.as_deref().unwrap_or("%"),
        )
    }
}

/// The controller of one kind of statement.
#[derive(Debug)]
pub struct SqlObjects<S>(PhantomData<fn() -> S>);

impl<S> Default for SqlObjects<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

#[derive(Debug, Default)]
pub struct Facts {
    server: Option<MariaDb>,
    root: Option<String>,
    password: Option<String>,
    world: World,
    jobs: Vec<Job>,
}

fn secret_value(secret: Option<Secret>, key: &str) -> Option<String> {
    String::from_utf8(secret?.data?.remove(key)?.0).ok()
}

impl<S: Statement> Controller for SqlObjects<S> {
    type Kind = S;
    type Facts = Facts;
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = S::CONTROLLER;
    const PARTS: &'static [Part] = &[Part::required(DONE)];

    fn owns(&self) -> Vec<Kind> {
        vec![Kind::of::<Secret>(), Kind::of::<Job>()]
    }

    fn watches(&self) -> Vec<Kind> {
        vec![
            Kind::of::<MariaDb>(),
            Kind::of::<Secret>(),
            Kind::of::<Database>(),
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
        // Our operators give the three objects of a service one name.
        if S::CONTROLLER == Grant::CONTROLLER {
            all.push(Kind::of::<Database>().named(namespace, &object.name_any()));
            all.push(Kind::of::<User>().named(namespace, &object.name_any()));
        }
        all
    }

    async fn observe(&self, object: &S, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let server: Option<MariaDb> = reader.get(&namespace, object.server()).await?;
        let mut facts = Facts::default();
        if let Some(server) = &server {
            let (name, key) = root_secret(server);
            facts.root = secret_value(reader.get(&namespace, &name).await?, &key);
        }
        if let Some((name, key)) = object.secret() {
            facts.password = secret_value(reader.get(&namespace, name).await?, key);
        }
        facts.server = server;
        facts.world.databases = reader.list(&namespace, "").await?;
        facts.world.users = reader.list(&namespace, "").await?;
        facts.jobs = reader
            .list(
                &namespace,
                &format!("{}={}", c5c3_kit::ownership::CONTROLLER, S::CONTROLLER),
            )
            .await?;
        Ok(facts)
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Infallible>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        let server = facts
            .server
            .as_ref()
            .ok_or_else(|| Error::ServerMissing(object.server().to_owned()))?;
        if waits(object, facts).is_some() {
            return Ok(Decision::hold());
        }
        let Some(root) = &facts.root else {
            return Ok(Decision::hold());
        };
        let (secret, job) = objects(object, server, root, facts)?;
        Ok(Decision::want([secret, job].map(Wanted::raw)))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        if let Some(why) = waits(object, facts) {
            return Report::new(States::default().unmet(DONE, "Waiting", why));
        }
        let wanted = applied
            .objects()
            .iter()
            .find(|applied| applied.live["kind"] == "Job");
        let name = wanted
            .and_then(|job| job.live.pointer("/metadata/name"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let job = facts.jobs.iter().find(|job| job.name_any() == name);
        let conditions = job
            .and_then(|job| job.status.as_ref())
            .and_then(|status| status.conditions.as_ref());
        let holds = |kind: &str| {
            conditions.is_some_and(|all| all.iter().any(|c| c.type_ == kind && c.status == "True"))
        };
        let states = States::default();
        Report::new(if holds("Complete") {
            states.met(DONE, "Created", "Created")
        } else if holds("Failed") {
            states.unmet(DONE, "Failed", format!("Job {name} failed: see its pod"))
        } else {
            states.unmet(DONE, "Running", "the statements are being sent")
        })
    }
}

/// Why the statements cannot be sent yet.
fn waits<S: Statement>(object: &S, facts: &Facts) -> Option<String> {
    let server = facts.server.as_ref()?;
    if !is_ready(server.status.as_ref().map(|status| &status.common)) {
        return Some(format!("MariaDB {} is not ready", server.name_any()));
    }
    if let Some((name, key)) = object.secret().filter(|_| facts.password.is_none()) {
        return Some(format!("Secret {name} has no key {key}"));
    }
    object.after(&facts.world).err()
}

/// The Secret with the statements and the root password, and the Job that sends them. Their name
/// is what they say: other statements make another Job.
fn objects<S: Statement>(
    object: &S,
    server: &MariaDb,
    root: &str,
    facts: &Facts,
) -> Result<(Value, Value), Error> {
    let namespace = object.namespace().unwrap_or_default();
    let sql = object.sql(facts.password.as_deref().unwrap_or_default());
    let client = format!(
        "[client]\nhost={}\nuser=root\npassword={root}\nconnect-timeout=5\n",
        object.server()
    );
    let image = server_image(SERVER, server.spec.image.as_deref())?;
    let kind = S::kind(&()).to_lowercase();
    let name = format!(
        "{}-{kind}-{}",
        object.name_any(),
        hash(&json!([sql, client, image, server.uid()]))
    );
    let metadata = json!({"namespace": namespace, "name": name});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true, "metadata": metadata,
        "data": {"statements.sql": encode(&sql), "client.cnf": encode(&client)},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"backoffLimit": 6, "template": {"metadata": {"labels": {"c5c3.io/statement": kind}}, "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": pod_security(UID),
            "containers": [{
                "name": "sql", "image": image, "terminationMessagePolicy": "FallbackToLogsOnError",
                "command": ["sh", "-c", "exec mariadb --defaults-file=/etc/c5c3/client.cnf < /etc/c5c3/statements.sql"],
                "securityContext": container_security(),
                "volumeMounts": [{"name": "statements", "mountPath": "/etc/c5c3", "readOnly": true}],
            }],
            "volumes": [{"name": "statements", "secret": {"secretName": name, "defaultMode": 0o440}}],
        }}},
    });
    Ok((secret, job))
}
