//! What hypervisors of another cluster call: each Service gets an address outside of its own cluster,
//! and is known over there by the name that it has here. So settings, catalogue and message bus name
//! the same hosts everywhere.

mod plan;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::conditions::control_plane::CROSS_CLUSTER_SYNC_READY;
use c5c3_kit::{
    Applied, Controller, Decision, Fault, Finalizer, HOME, Kind, OTHERS, Observed, Part, ReadError, Reader,
    Reference, Report, Retry,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

/// So long may the other cluster take to answer: less than a pass has in all.
const ANSWER: Duration = Duration::from_secs(10);
/// No watch tells when it answers again.
const AWAY: Duration = Duration::from_secs(15);

/// The controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crossings;

#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Services that hypervisors call, and the balancers before them, as far as they are there.
    pub services: BTreeMap<String, Service>,
    /// Why the other cluster cannot be worked with now.
    pub away: Option<String>,
    /// What is ours over there.
    pub elsewhere: Vec<Reference>,
    pub owned: Vec<Reference>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        None
    }

    fn retry(&self) -> Retry {
        Retry::Backoff
    }
}

impl Controller for Crossings {
    type Kind = ControlPlane;
    type Facts = Facts;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "cross-cluster";
    const PARTS: &'static [Part] = &[Part::required(CROSS_CLUSTER_SYNC_READY)];
    /// The controller of the whole cloud writes it.
    const READY: bool = false;
    /// Having looked at what crosses is not having planned the cloud.
    const GENERATION: bool = false;
    /// No garbage collector reaches into another cluster.
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "c5c3.io/cross-cluster",
        within: Duration::from_secs(300),
    });

    fn is_held(object: &ControlPlane) -> bool {
        plan::place(object).is_some()
    }

    fn owns() -> Vec<Kind> {
        vec![
            Kind::of::<Service>(),
            Kind::of::<Service>().in_cluster(OTHERS),
            Kind::of::<EndpointSlice>().in_cluster(OTHERS),
        ]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Service>()]
    }

    fn references(object: &ControlPlane) -> Vec<Reference> {
        let namespace = object.namespace();
        let named = |name: String| Kind::of::<Service>().named(namespace.as_deref(), &name);
        plan::called(object).into_iter().map(named).collect()
    }

    async fn observe(&self, object: &ControlPlane, reader: &Reader) -> Result<Facts, Error> {
        let owned = reader.owned().into_iter().map(|(reference, _)| reference);
        let mut facts = Facts {
            owned: owned.collect(),
            ..Facts::default()
        };
        let elsewhere = facts.owned.iter().filter(|one| one.cluster != HOME);
        facts.elsewhere = elsewhere.cloned().collect();
        let Some(cluster) = plan::place(object) else {
            return Ok(facts);
        };
        let namespace = object.namespace().unwrap_or_default();
        for name in plan::called(object) {
            for name in [plan::balancer(&name), name] {
                if let Some(found) = reader.get::<Service>(&namespace, &name).await? {
                    facts.services.insert(name, found);
                }
            }
        }
        facts.away = answers(reader, cluster, &namespace).await.err();
        Ok(facts)
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        let Observed { object, facts, .. } = observed;
        if observed.deleting() {
            return Ok(Decision::want([]));
        }
        let decision = Decision::want(plan::wanted(object, facts));
        let kept = facts.elsewhere.iter().filter(|_| facts.away.is_some());
        Ok(kept.cloned().fold(decision, Decision::keep))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        let Observed { object, facts, .. } = observed;
        if observed.deleting() {
            return Report::default().left(facts.owned.iter().map(ToString::to_string));
        }
        let state = plan::state(object, facts);
        let report = Report::new(c5c3_kit::States::default().with(CROSS_CLUSTER_SYNC_READY, state));
        if facts.away.is_some() {
            report.again_in(AWAY)
        } else {
            report
        }
    }
}

/// Why it does not.
async fn answers(reader: &Reader, cluster: &str, namespace: &str) -> Result<(), String> {
    let there = reader.in_cluster(cluster).map_err(|error| error.to_string())?;
    let list = there.list::<Service>(namespace, "");
    match tokio::time::timeout(ANSWER, list).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("cluster {cluster}: {error}")),
        Err(_) => Err(format!(
            "cluster {cluster} does not answer within {} s",
            ANSWER.as_secs()
        )),
    }
}
