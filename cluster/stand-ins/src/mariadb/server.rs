//! MariaDB servers: one alone, or a Galera cluster.

use std::time::Duration;

use c5c3_api::foreign::mariadb::MariaDb;
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::galera::{self, Member, Order};
use super::{CLIENT, SERVER, manifests, statements};
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::messages::{Message, Messenger};
use crate::objects::{hash, is_pod_ready};
use crate::random::password;

const RUNS: &str = "StatefulSetReady";
const CLUSTER: &str = "GaleraReady";
/// Members report their state only when asked.
const LOOK: Duration = Duration::from_secs(1);

/// The controller of servers.
pub struct Servers {
    client: Client,
    messenger: Messenger,
}

impl Servers {
    pub fn new(client: Client) -> Self {
        Self {
            messenger: Messenger::new(client.clone()),
            client,
        }
    }
}

#[derive(Debug)]
pub struct Facts {
    pub password: Option<String>,
    pub random: [u8; 32],
    pub members: Vec<Member>,
    /// The same for the decision how to start: a member that counts as ready has just confirmed it itself.
    asked: Vec<Member>,
    told: Option<String>,
}

impl Facts {
    fn serving(&self) -> usize {
        self.members.iter().filter(|m| **m == Member::Serves).count()
    }
}

/// What follows from the facts, for the decision and for the report.
#[derive(Debug)]
pub struct Plan {
    /// The server that takes writes.
    primary: Option<usize>,
    /// How the members of a cluster start.
    start: galera::Plan,
}

/// What is done in or to a server's pod.
#[derive(Debug)]
pub enum Action {
    Order {
        place: ExecTarget,
        order: Order,
    },
    /// The root users, as the Secret says.
    Root(Message),
}

/// The Secret and key of the root password.
pub(crate) fn root_secret(server: &MariaDb) -> (String, String) {
    match &server.spec.root_password_secret_key_ref {
        Some(reference) => (reference.name.clone(), reference.key.clone()),
        None => (format!("{}-root", server.name_any()), "password".to_owned()),
    }
}

pub(crate) fn place(server: &MariaDb, pod: &str) -> ExecTarget {
    ExecTarget {
        namespace: server.namespace().unwrap_or_default(),
        pod: pod.to_owned(),
        container: SERVER,
    }
}

pub(crate) fn replicas(server: &MariaDb) -> usize {
    usize::try_from(server.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

pub(crate) fn is_cluster(server: &MariaDb) -> bool {
    server.spec.galera.as_ref().is_some_and(|galera| galera.enabled)
}

pub(crate) fn pod_name(server: &MariaDb, ordinal: usize) -> String {
    format!("{}-{ordinal}", server.name_any())
}

/// The member that a person wants a cluster to begin from.
fn forced(server: &MariaDb) -> Result<Option<usize>, Error> {
    let recovery = server.spec.galera.as_ref().and_then(|g| g.recovery.as_ref());
    let Some(name) = recovery.and_then(|r| r.force_cluster_bootstrap_in_pod.as_deref()) else {
        return Ok(None);
    };
    let found = (0..replicas(server)).find(|n| pod_name(server, *n) == name);
    found.map(Some).ok_or_else(|| Error::Invalid {
        field: galera::FORCE,
        reason: format!(
            "{name:?} is not a pod of this server: name one like {:?}",
            pod_name(server, 0)
        ),
    })
}

/// The server that takes writes; it keeps that role while it serves.
pub(crate) fn primary(server: &MariaDb, members: &[Member]) -> Option<usize> {
    let named = server.status.as_ref().and_then(|s| s.current_primary.as_deref());
    let current = named.and_then(|name| name.rsplit_once('-')?.1.parse().ok());
    galera::primary(members, current)
}

impl Controller for Servers {
    type Kind = MariaDb;
    type Facts = Facts;
    type Plan = Plan;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "stand-in-mariadb";
    const PARTS: &'static [Part] = &[Part::required(RUNS), Part::required(CLUSTER)];

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
        vec![Kind::of::<Pod>(), Kind::of::<Secret>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched(), Touch::of::<Pod>(&["delete"])]
    }

    fn references(object: &MariaDb) -> Vec<Reference> {
        let namespace = object.namespace();
        let namespace = namespace.as_deref();
        let pods = (0..replicas(object)).map(|n| Kind::of::<Pod>().named(namespace, &pod_name(object, n)));
        pods.chain([Kind::of::<Secret>().named(namespace, &root_secret(object).0)])
            .collect()
    }

    async fn observe(&self, object: &MariaDb, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let (name, key) = root_secret(object);
        let secret: Option<Secret> = reader.get(&namespace, &name).await?;
        let mut members = Vec::new();
        for ordinal in 0..replicas(object) {
            let pod: Option<Pod> = reader.get(&namespace, &pod_name(object, ordinal)).await?;
            members.push(self.member(object, pod).await);
        }
        let asked = self.asked(object, &members).await;
        Ok(Facts {
            asked,
            password: crate::objects::secret_value(secret, &key),
            random: rand::random(),
            members,
            told: self.messenger.last(&object.uid().unwrap_or_default()),
        })
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        let (server, facts) = (&observed.object, &observed.facts);
        Plan {
            primary: primary(server, &facts.members),
            start: galera::plan(&facts.asked, forced(server).unwrap_or_default()),
        }
    }

    fn decide(observed: &Observed<Self>, plan: &Plan) -> Result<Decision<Action>, Error> {
        let (server, facts) = (&observed.object, &observed.facts);
        check(server)?;
        forced(server)?;
        let (secret, key) = root_secret(server);
        let generated = server
            .spec
            .root_password_secret_key_ref
            .as_ref()
            .is_none_or(|reference| reference.generate == Some(true));
        let password = match &facts.password {
            Some(password) => password.clone(),
            None if generated => password(&facts.random),
            None => return Err(Error::SecretMissing { name: secret, key }),
        };
        let mut objects = Vec::new();
        // One that exists stays as it is: somebody else may have made it.
        if generated && facts.password.is_none() {
            objects.push(manifests::root(server, &secret, &key, &password));
        }
        objects.extend(manifests::all(server, plan.primary)?);
        let root_secret = Kind::of::<Secret>().named(server.namespace().as_deref(), &secret);
        let decision = Decision::want(objects).keep(root_secret);
        Ok(decision
            .act(orders(server, &plan.start))
            .act((plan.primary).and_then(|n| root(server, n, facts, &password))))
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Order { place, order } => self.order(place, order).await,
            Action::Root(message) => Ok(self.messenger.send(message, |_| false).await?),
        }
    }

    fn report(observed: &Observed<Self>, plan: &Plan, applied: &Applied<Self>) -> Report {
        let (server, facts) = (&observed.object, &observed.facts);
        let (serving, wanted) = (facts.serving(), replicas(server));
        let rooted = !applied
            .outcomes()
            .iter()
            .any(|outcome| matches!(outcome.action, Action::Root(_)) && outcome.result.is_err());
        let mut states = if serving >= wanted && rooted {
            States::default().met(RUNS, "StatefulSetReady", "Running")
        } else {
            let remarks = galera::remarks(&facts.members);
            let text = format!("{serving} of {wanted} servers are up{remarks}");
            States::default().unmet(RUNS, "StatefulSetNotReady", text)
        };
        states = match (is_cluster(server), &plan.start) {
            (false, _) => states.not_required(CLUSTER, "a single server"),
            (true, _) if serving > 0 => states.met(CLUSTER, "GaleraReady", "a primary component serves"),
            (true, galera::Plan::Wait(why)) => states.unmet(CLUSTER, "GaleraNotReady", why.clone()),
            (true, galera::Plan::Orders(_)) => {
                states.unmet(CLUSTER, "GaleraNotReady", "the cluster is starting")
            }
        };
        let report = Report::new(states).status(&json!({
            "replicas": serving,
            "currentPrimary": plan.primary.map(|n| pod_name(server, n)),
            "currentPrimaryPodIndex": plan.primary,
        }));
        if is_cluster(server) && serving < wanted {
            report.again_in(LOOK)
        } else {
            report
        }
    }
}

impl Servers {
    async fn member(&self, server: &MariaDb, pod: Option<Pod>) -> Member {
        let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else {
            return Member::Silent;
        };
        if is_pod_ready(&pod) {
            return Member::Serves;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if !is_cluster(server) || phase != Some("Running") {
            return Member::Silent;
        }
        let script = ["sh", "/etc/c5c3/config/report.sh"];
        let report = exec::run(&self.client, &place(server, &pod.name_any()), &script, "").await;
        // A container that does not exist (yet) has nothing to report.
        report.map_or(Member::Silent, |text| Member::parse(&text))
    }

    /// A pod still counts as ready for seconds after its server died; no member may join a dead one.
    async fn asked(&self, server: &MariaDb, members: &[Member]) -> Vec<Member> {
        let mut asked = members.to_vec();
        if !is_cluster(server) || members.iter().all(|member| *member == Member::Serves) {
            return asked;
        }
        let script = ["sh", "/etc/c5c3/config/ready.sh"];
        for (ordinal, member) in asked.iter_mut().enumerate() {
            let place = place(server, &pod_name(server, ordinal));
            if *member == Member::Serves && exec::run(&self.client, &place, &script, "").await.is_err() {
                *member = Member::Silent;
            }
        }
        asked
    }

    async fn order(&self, place: &ExecTarget, order: &Order) -> Result<(), Error> {
        let (run, word) = match order {
            Order::Begin { run, .. } => (run, "begin"),
            Order::Join { run, .. } => (run, "join"),
            Order::Restart { .. } => {
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), &place.namespace);
                let deleted = pods.delete(&place.pod, &DeleteParams::default()).await;
                return match deleted {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    Err(source) => Err(Error::Pod(Box::new(source))),
                    Ok(_) => Ok(()),
                };
            }
        };
        tracing::info!(pod = place.pod, order = word, "tells a member how to start");
        let script = ["sh", "/etc/c5c3/config/order.sh", run, word];
        exec::run(&self.client, place, &script, "").await?;
        Ok(())
    }
}

fn check(server: &MariaDb) -> Result<(), Error> {
    let wrong = |reason: &str| Error::Invalid {
        field: "spec.replicas",
        reason: reason.to_owned(),
    };
    match (replicas(server), is_cluster(server)) {
        (0, _) => Err(wrong(
            "at least one server is needed: set 1, or 3 with spec.galera.enabled",
        )),
        (1, _) => Ok(()),
        (_, false) => Err(wrong(
            "several servers replicate by Galera only: set spec.galera.enabled, or 1",
        )),
        (2, true) => Err(wrong("two members cannot have a majority: set 1 or 3")),
        _ => Ok(()),
    }
}

fn orders(server: &MariaDb, start: &galera::Plan) -> Vec<Action> {
    let galera::Plan::Orders(orders) = start else {
        return Vec::new();
    };
    let told = orders.iter().map(|order| {
        let (Order::Begin { member, .. } | Order::Join { member, .. } | Order::Restart { member }) = order;
        Action::Order {
            place: place(server, &pod_name(server, *member)),
            order: order.clone(),
        }
    });
    told.collect()
}

/// Once after each start of ours, and when the Secret has changed.
fn root(server: &MariaDb, primary: usize, facts: &Facts, password: &str) -> Option<Action> {
    let digest = hash(&json!(password));
    (facts.told.as_ref() != Some(&digest)).then(|| {
        Action::Root(Message {
            place: place(server, &pod_name(server, primary)),
            command: CLIENT,
            input: statements::root(password),
            uid: server.uid().unwrap_or_default(),
            digest: Some(digest),
            hidden: vec![password.to_owned()],
        })
    })
}
