//! OVNCluster: databases, northd, and agents on the hypervisors.

mod facts;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use c5c3_api::conditions::ovn::{CONTROLLERS_READY, NORTHBOUND_READY, SOUTHBOUND_READY};
use c5c3_api::ovn::{OvnChassis, OvnCluster};
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::kinds::Key;
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, HOME, Kind, OTHERS, Observed, Part, Reader, Reference, Report,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

pub use facts::Facts;

use crate::error::Error;
use crate::view::Sessions;

pub const NAME: &str = "ovn-cluster";

/// The controller.
#[derive(Clone, Debug)]
pub struct OvnClusters {
    pub sessions: Sessions,
}

/// What is done in the databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The node of this chassis is gone.
    Remove { cluster: Key, chassis: String },
    /// All chassis are to say that they live.
    Ask { cluster: Key },
}

/// Where the agents and their nodes are.
pub(crate) fn place(cluster: &OvnCluster) -> ClusterName {
    let other = cluster.spec.compute_ref.as_ref();
    other.map_or(HOME, |other| ClusterName::from(other.name.clone()))
}

impl Controller for OvnClusters {
    type Kind = OvnCluster;
    type Facts = Facts;
    type Plan = ();
    type Action = Action;
    type Error = Error;

    const BLOCKED_BY: bool = true;
    const NAME: &'static str = NAME;
    const PARTS: &'static [Part] = &[
        Part::required(NORTHBOUND_READY),
        Part::required(SOUTHBOUND_READY),
        Part::required(CONTROLLERS_READY),
    ];
    /// No garbage collector reaches into another cluster.
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "ovn.c5c3.io/agents",
        within: std::time::Duration::from_secs(300),
    });

    fn is_held(object: &OvnCluster) -> bool {
        place(object) != HOME
    }

    fn owns() -> Vec<Kind> {
        vec![
            Kind::of::<ConfigMap>(),
            Kind::of::<Secret>(),
            Kind::of::<Service>(),
            Kind::of::<StatefulSet>(),
            Kind::of::<Deployment>(),
            Kind::of::<PodDisruptionBudget>(),
            Kind::of::<OvnChassis>(),
            // Never applied: they bear our marks, so that their troubles bring a pass.
            Kind::of::<Pod>().only_seen(),
            Kind::of::<DaemonSet>(),
            Kind::of::<ConfigMap>().in_cluster(OTHERS),
            Kind::of::<Secret>().in_cluster(OTHERS),
            Kind::of::<DaemonSet>().in_cluster(OTHERS),
            Kind::of::<Pod>().in_cluster(OTHERS).only_seen(),
        ]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Secret>(), nodes(HOME), nodes(OTHERS)]
    }

    fn references(object: &OvnCluster) -> Vec<Reference> {
        let tls = &object.spec.tls;
        let secrets = [&tls.cert_secret_ref, &tls.hypervisor_secret_ref];
        let named = |secret: &c5c3_api::common::LocalRef| {
            Kind::of::<Secret>().named(object.namespace().as_deref(), &secret.name)
        };
        secrets.into_iter().flatten().map(named).collect()
    }

    /// A change of a Node's marks; that one comes or goes is told by the DaemonSets.
    fn found(facts: &Facts) -> Vec<Reference> {
        let kind = nodes(facts.place.clone());
        facts
            .nodes
            .iter()
            .map(|node| kind.named(None, &node.name_any()))
            .collect()
    }

    async fn observe(&self, object: &OvnCluster, reader: &Reader) -> Result<Facts, Error> {
        facts::observe(object, reader, place(object), &self.sessions).await
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Action>, Error> {
        if observed.deleting() {
            return Ok(Decision::want([]));
        }
        plan::decide(&observed.object, &observed.facts, observed.now)
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Remove { cluster, chassis } => {
                let removed = self.sessions.remove_chassis(cluster, chassis).await;
                removed.map_err(|source| Error::ChassisStays {
                    chassis: chassis.clone(),
                    source,
                })
            }
            Action::Ask { cluster } => self.sessions.ask_all(cluster).await.map_err(Error::NotAsked),
        }
    }

    fn report(observed: &Observed<Self>, (): &(), applied: &Applied<Self>) -> Report {
        let report = report::report(&observed.object, &observed.facts, observed.now);
        if observed.deleting() {
            report.left(applied.pruned().iter().map(ToString::to_string))
        } else {
            report
        }
    }
}

fn nodes(place: ClusterName) -> Kind {
    Kind::of::<Node>().in_cluster(place).everywhere()
}
