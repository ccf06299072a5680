//! RabbitMQ clusters: one node or several that find each other by their names.

use std::fmt;
use std::time::Duration;

use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use c5c3_kit::{
    Applied, Controller, Decision, Fault, Kind, Observed, Part, Reader, Reference, Report, Retry, States,
    Touch,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::manifests::{self, DefaultUser, cookie_secret, default_user_secret, pod_name, replicas};
use super::members::{self, View};
use super::{MEMBERS, SERVER, TELL, definitions, place};
use crate::error::Error;
use crate::exec;
use crate::messages::{Message, Messenger};
use crate::objects::{hash, is_pod_ready, labels_selector, secret_value};
use crate::random::password;

const ALL: &str = "AllReplicasReady";
const SOME: &str = "ClusterAvailable";
const WARNINGS: &str = "NoWarnings";
const RECONCILED: &str = "ReconcileSuccess";

/// No watch shows which nodes see each other. The intervals of asking them: while they are apart, and when all is healthy.
const SOON: Duration = Duration::from_secs(2);
const LATER: Duration = Duration::from_secs(60);

/// The controller of clusters.
pub struct RabbitmqClusters {
    client: Client,
    messenger: Messenger,
}

impl RabbitmqClusters {
    pub fn new(client: Client) -> Self {
        Self {
            messenger: Messenger::new(client.clone()),
            client,
        }
    }
}

#[derive(Debug, Default)]
pub struct Facts {
    user: Option<DefaultUser>,
    cookie: Option<String>,
    random: [[u8; 32]; 3],
    /// Names of pods that serve.
    ready: Vec<String>,
    /// What those report about each other.
    views: Vec<View>,
    told: Option<String>,
}

/// An error shows in the condition that the cluster operator has for it.
#[derive(Debug)]
pub struct ClusterError(Error);

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ClusterError {}

impl<E: Into<Error>> From<E> for ClusterError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Fault for ClusterError {
    fn part(&self) -> Option<&'static str> {
        Some(RECONCILED)
    }

    fn retry(&self) -> Retry {
        self.0.retry()
    }

    fn reason(&self) -> String {
        self.0.reason()
    }
}

impl Controller for RabbitmqClusters {
    type Kind = RabbitmqCluster;
    type Facts = Facts;
    type Plan = ();
    type Action = Message;
    type Error = ClusterError;

    const NAME: &'static str = "stand-in-rabbitmq";
    const PARTS: &'static [Part] = &[
        Part::required(ALL),
        Part::required(SOME),
        Part::informative(WARNINGS),
        Part::required(RECONCILED),
    ];
    const READY: bool = false;

    fn owns() -> Vec<Kind> {
        vec![
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<Service>(),
            Kind::of::<PodDisruptionBudget>(),
            Kind::of::<StatefulSet>(),
        ]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Pod>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched()]
    }

    fn references(object: &RabbitmqCluster) -> Vec<Reference> {
        let namespace = object.namespace();
        let pods = 0..replicas(object);
        pods.map(|n| Kind::of::<Pod>().named(namespace.as_deref(), &pod_name(object, n)))
            .collect()
    }

    async fn observe(&self, object: &RabbitmqCluster, reader: &Reader) -> Result<Facts, ClusterError> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let user: Option<Secret> = reader.get(&namespace, &default_user_secret(&name)).await?;
        let username = secret_value(user.clone(), "username");
        let password = secret_value(user, "password");
        let cookie = secret_value(
            reader.get(&namespace, &cookie_secret(&name)).await?,
            ".erlang.cookie",
        );
        let ready = ready_pods(&namespace, &name, reader).await?;
        Ok(Facts {
            user: username
                .zip(password)
                .map(|(username, password)| DefaultUser { username, password }),
            cookie,
            random: rand::random(),
            views: self.views(&namespace, &ready).await,
            ready,
            told: self.messenger.last(&object.uid().unwrap_or_default()),
        })
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Message>, ClusterError> {
        let (cluster, facts) = (&observed.object, &observed.facts);
        if replicas(cluster) == 0 {
            return Err(ClusterError(Error::Invalid {
                field: "spec.replicas",
                reason: "at least one node is needed: set 1 or 3".to_owned(),
            }));
        }
        let [first, second, third] = facts.random.map(|random| password(&random));
        let user = facts.user.clone().unwrap_or_else(|| DefaultUser {
            username: format!("default_user_{}", &first[..16]),
            password: second,
        });
        let cookie = facts.cookie.clone().unwrap_or(third);
        let mut objects = manifests::secrets(cluster, &user, &cookie).to_vec();
        objects.extend(manifests::all(cluster)?);
        let decision = Decision::want(objects);
        Ok(decision.act(default_user(cluster, facts, &user)))
    }

    async fn act(&self, action: &Message) -> Result<(), ClusterError> {
        Ok(self.messenger.send(action, |_| false).await?)
    }

    fn report(observed: &Observed<Self>, (): &(), applied: &Applied<Self>) -> Report {
        let (cluster, facts) = (&observed.object, &observed.facts);
        let (ready, wanted) = (facts.ready.len(), replicas(cluster));
        let known = applied.outcomes().iter().all(|outcome| outcome.result.is_ok());
        let apart = members::apart(&facts.views);
        let text = format!("{ready} of {wanted} nodes are up");
        let states = States::default().met(WARNINGS, "NoWarnings", "").met(
            RECONCILED,
            "Success",
            "Finish reconciling",
        );
        let states = match &apart {
            Some(why) => states.unmet(ALL, "NotAllPodsReady", format!("{text}; {why}")),
            None if ready >= wanted && known => states.met(ALL, "AllPodsAreReady", text.clone()),
            None => states.unmet(ALL, "NotAllPodsReady", text.clone()),
        };
        let states = if ready > 0 && known {
            states.met(SOME, "AtLeastOneEndpointAvailable", text)
        } else {
            states.unmet(SOME, "NoEndpointsAvailable", text)
        };
        let report = Report::new(states).status(&status(cluster));
        match (apart, wanted) {
            (Some(_), _) => report.again_in(SOON),
            (None, 0 | 1) => report,
            (None, _) => report.again_in(LATER),
        }
    }
}

impl RabbitmqClusters {
    async fn views(&self, namespace: &str, pods: &[String]) -> Vec<View> {
        let ask = async |pod: &String| {
            let said = exec::run(&self.client, &place(namespace, pod), MEMBERS, "").await;
            View::parse(pod, &said.unwrap_or_default())
        };
        futures::future::join_all(pods.iter().map(ask)).await
    }
}

/// Once after each start of this program: volumes of an earlier cluster may hold another password.
fn default_user(cluster: &RabbitmqCluster, facts: &Facts, user: &DefaultUser) -> Option<Message> {
    let pod = facts.ready.first()?;
    let tags = ["administrator".to_owned()];
    let mut wanted = definitions::user(&user.username, &user.password, &tags);
    wanted["permissions"] =
        definitions::permission(&user.username, "/", ".*", ".*", ".*")["permissions"].clone();
    let digest = hash(&wanted);
    (facts.told.as_ref() != Some(&digest)).then(|| Message {
        place: place(&cluster.namespace().unwrap_or_default(), pod),
        command: TELL,
        input: definitions::import(&wanted),
        uid: cluster.uid().unwrap_or_default(),
        digest: Some(digest),
        hidden: definitions::secrets(&wanted, &user.password),
    })
}

fn status(cluster: &RabbitmqCluster) -> Value {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let secret = default_user_secret(&name);
    json!({
        "defaultUser": {
            "secretReference": {"name": secret, "namespace": namespace, "keys": {"username": "username", "password": "password"}},
            "serviceReference": {"name": name, "namespace": namespace},
        },
        "binding": {"name": secret},
    })
}

/// Pods of a cluster that serve, in order.
pub(crate) async fn ready_pods(
    namespace: &str,
    cluster: &str,
    reader: &Reader,
) -> Result<Vec<String>, c5c3_kit::ReadError> {
    let pods: Vec<Pod> = reader.list(namespace, &labels_selector(SERVER, cluster)).await?;
    let mut ready: Vec<String> = pods
        .iter()
        .filter(|pod| is_pod_ready(pod))
        .map(ResourceExt::name_any)
        .collect();
    ready.sort();
    Ok(ready)
}
