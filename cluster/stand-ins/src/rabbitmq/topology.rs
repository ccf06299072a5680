//! Virtual hosts, users and permissions, told to a node of the cluster as definitions.

use std::marker::PhantomData;
use std::time::Duration;

use c5c3_api::foreign::rabbitmq::{RabbitmqCluster, User, Vhost};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, Touch, Wanted,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::cluster::ready_pods;
use super::topology_objects::{Conditioned, Credentials, Parts, Piece, credentials_secret};
use super::{SERVER, TELL, definitions, place};
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::messages::{self, Message, Messenger};
use crate::objects::{Instance, hash, is_ready, secret_value};
use crate::random::password;

const DONE: &str = "Applied";

/// The controller of one kind of piece.
pub struct TopologyObjects<P> {
    messenger: Messenger,
    kind: PhantomData<fn() -> P>,
}

impl<P> TopologyObjects<P> {
    pub fn new(client: Client) -> Self {
        Self {
            messenger: Messenger::new(client),
            kind: PhantomData,
        }
    }
}

#[derive(Default)]
pub struct Facts {
    cluster: Option<RabbitmqCluster>,
    /// A node that answers.
    place: Option<ExecTarget>,
    parts: Parts,
    /// Why a part is missing.
    missing: Option<String>,
    /// The objects that the definitions depend on: when one was recreated, they must be sent again.
    ground: Vec<String>,
    told: Option<String>,
}

fn cluster_namespace<P: Piece>(object: &P) -> String {
    let own = || object.namespace().unwrap_or_default();
    object.cluster().namespace.clone().unwrap_or_else(own)
}

fn cluster_name<P: Piece>(object: &P) -> &str {
    object.cluster().name.as_deref().unwrap_or_default()
}

impl<P: Piece> Controller for TopologyObjects<P> {
    type Kind = P;
    type Facts = Facts;
    /// Where to send the definitions, and what they say; or why nothing can be sent yet.
    type Plan = Result<(ExecTarget, Value), String>;
    type Action = Message;
    type Error = Error;

    const NAME: &'static str = P::CONTROLLER;
    const PARTS: &'static [Part] = &[Part::required(DONE)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: P::FINALIZER,
        within: Duration::from_secs(60),
    });

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    fn watches() -> Vec<Kind> {
        vec![
            Kind::of::<RabbitmqCluster>(),
            Kind::of::<Secret>(),
            Kind::of::<Vhost>(),
            Kind::of::<User>(),
        ]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched()]
    }

    fn references(object: &P) -> Vec<Reference> {
        let namespace = object.namespace();
        let namespace = namespace.as_deref();
        let mut all =
            vec![Kind::of::<RabbitmqCluster>().named(Some(&cluster_namespace(object)), cluster_name(object))];
        let secret = object.credentials().flatten();
        all.extend(secret.map(|name| Kind::of::<Secret>().named(namespace, name)));
        let (vhost, user) = object.needs();
        all.extend(user.map(|name| Kind::of::<User>().named(namespace, name)));
        // A virtual host's object usually has the name of the host or of the permission.
        for name in vhost
            .into_iter()
            .flat_map(|name| [name.to_owned(), object.name_any()])
        {
            all.push(Kind::of::<Vhost>().named(namespace, &name));
        }
        all
    }

    async fn observe(&self, object: &P, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let mut facts = Facts {
            told: self.messenger.last(&object.uid().unwrap_or_default()),
            ..Facts::default()
        };
        let (at, name) = (cluster_namespace(object), cluster_name(object));
        facts.cluster = reader.get(&at, name).await?;
        if let Some(cluster) = &facts.cluster {
            facts.ground.push(available_since(cluster));
            let pods = ready_pods(&at, name, reader).await?;
            facts.place = pods.first().map(|pod| place(&at, pod));
        }
        if let Some(wished) = object.credentials() {
            let own = credentials_secret(object);
            let secret: Option<Secret> = reader.get(&namespace, wished.unwrap_or(&own)).await?;
            let username = secret_value(secret.clone(), "username");
            facts.parts.credentials = username
                .zip(secret_value(secret, "password"))
                .map(|(username, password)| Credentials { username, password });
            if let (Some(name), None) = (wished, &facts.parts.credentials) {
                facts.missing = Some(format!("Secret {name} has no keys username and password"));
            } else if facts.parts.credentials.is_none() {
                facts.parts.credentials = Some(Credentials {
                    username: password(&rand::random())[..24].to_owned(),
                    password: password(&rand::random()),
                });
            }
        }
        let (vhost, user) = object.needs();
        if let Some(vhost) = vhost {
            let all: Vec<Vhost> = reader.list(&namespace, "").await?;
            let of_cluster = all.iter().filter(|v| v.cluster() == object.cluster());
            for found in of_cluster.filter(|v| v.spec.name == vhost) {
                facts.rest_on("Vhost", found);
            }
        }
        if let Some(user) = user {
            let found: Option<User> = reader.get(&namespace, user).await?;
            match found {
                Some(found) => {
                    facts.rest_on("User", &found);
                    facts.parts.username = found.status.and_then(|status| status.username);
                }
                None => facts.missing = Some(format!("waiting for User {user}")),
            }
        }
        Ok(facts)
    }

    fn plan(observed: &Observed<Self>) -> Self::Plan {
        ready(&observed.object, &observed.facts)
    }

    fn decide(observed: &Observed<Self>, plan: &Self::Plan) -> Result<Decision<Message>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        if observed.deleting() {
            return Ok(Decision::hold().act(farewell(object, facts)));
        }
        if object.cluster().connection_secret.is_some() {
            return Err(Error::Invalid {
                field: "spec.rabbitmqClusterReference.connectionSecret",
                reason: "only clusters in this Kubernetes cluster are supported here: set name".to_owned(),
            });
        }
        if facts.cluster.is_none() {
            return Err(Error::ClusterMissing(cluster_name(object).to_owned()));
        }
        let decision = match &facts.parts.credentials {
            Some(credentials) => Decision::want([Wanted::of(&secret(object, credentials))]),
            None => Decision::hold(),
        };
        let Ok((place, wanted)) = plan else {
            return Ok(decision);
        };
        let digest = hash(&json!([wanted, facts.ground]));
        let credentials = facts.parts.credentials.as_ref();
        let secrets = credentials
            .map(|c| definitions::secrets(wanted, &c.password))
            .unwrap_or_default();
        let news = facts.told.as_ref() != Some(&digest);
        Ok(decision.act(news.then(|| Message {
            place: place.clone(),
            command: TELL,
            input: definitions::import(wanted),
            uid: object.uid().unwrap_or_default(),
            digest: Some(digest),
            hidden: secrets,
        })))
    }

    async fn act(&self, action: &Message) -> Result<(), Error> {
        Ok(self.messenger.send(action, definitions::is_gone).await?)
    }

    fn report(observed: &Observed<Self>, plan: &Self::Plan, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        if observed.deleting() {
            let told = stays(facts) && object.farewell(&facts.parts).is_some();
            let left = told.then(|| format!("{} in {}", P::kind(&()), cluster_name(object)));
            return messages::farewell_report(applied, left);
        }
        let ready = plan.as_ref().map(drop).map_err(Clone::clone);
        let done = ("SuccessfulCreateOrUpdate", "");
        let report = messages::report(DONE, applied, ready, "FailedCreateOrUpdate", done);
        match &facts.parts.credentials {
            Some(credentials) => report.status(&json!({
                "username": credentials.username, "credentials": {"name": credentials_secret(object)},
            })),
            None => report,
        }
    }
}

impl Facts {
    fn rest_on<K: ResourceExt + Conditioned>(&mut self, kind: &str, object: &K) {
        self.ground.push(object.uid().unwrap_or_default());
        if !is_ready(object.conditions()) {
            self.missing = Some(format!("waiting for {kind} {}", object.name_any()));
        }
    }
}

/// The cluster and since when it serves: one that was down may have lost its definitions.
fn available_since(cluster: &RabbitmqCluster) -> String {
    let conditions = cluster.status.as_ref().map(|status| &status.common.conditions);
    let since = conditions
        .into_iter()
        .flatten()
        .find(|c| c.type_ == "ClusterAvailable");
    let since = since.map(|c| (c.status.clone(), c.last_transition_time.clone()));
    json!([cluster.uid(), since]).to_string()
}

/// Where to send the definitions, and what they say; or why nothing can be sent yet.
fn ready<P: Piece>(object: &P, facts: &Facts) -> Result<(ExecTarget, Value), String> {
    if let Some(why) = &facts.missing {
        return Err(why.clone());
    }
    let place = facts.place.clone();
    let place = place.ok_or_else(|| format!("no node of RabbitmqCluster {} is up", cluster_name(object)))?;
    let wanted = object.definitions(&facts.parts);
    let wanted = wanted.ok_or_else(|| "spec.user or spec.userReference must name a user".to_owned())?;
    Ok((place, wanted))
}

fn secret<P: Piece>(object: &P, credentials: &Credentials) -> Secret {
    let instance = Instance::named(SERVER, object, cluster_name(object));
    let Credentials { username, password } = credentials.clone();
    instance.secret(
        &credentials_secret(object),
        [("username", username), ("password", password)],
    )
}

/// A cluster that is deleted too takes its topology with it.
fn stays(facts: &Facts) -> bool {
    let cluster = facts.cluster.as_ref();
    cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none())
}

fn farewell<P: Piece>(object: &P, facts: &Facts) -> Option<Message> {
    let place = facts.place.clone().filter(|_| stays(facts))?;
    Some(Message {
        place,
        command: TELL,
        input: object.farewell(&facts.parts)?,
        uid: object.uid().unwrap_or_default(),
        digest: None,
        hidden: Vec::new(),
    })
}
