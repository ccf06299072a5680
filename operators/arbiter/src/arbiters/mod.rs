//! RemoteArbiter: a monitor in another cluster, from its name in Ceph to its place in the quorum.

mod build;
mod endpoints;
mod facts;
mod mon_ids;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use c5c3_api::ceph::{RemoteArbiter, RemoteCluster};
use c5c3_api::conditions::ceph::{
    ARBITER_DEPLOYMENT_READY, CEPH_CLUSTER_READY, IN_QUORUM, REMOTE_CLUSTER_READY,
};
use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, Touch,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};

pub(crate) use facts::{ENDPOINTS, Facts, KEYRING, OVERRIDE};
pub(crate) use plan::{Action, Plan};

use crate::error::Error;
use crate::remote::{Remotes, reference};

pub(crate) const NAME: &str = "remote-arbiter";

/// The controller.
pub(crate) struct Arbiters {
    /// Where the CephCluster is.
    pub home: Client,
    pub remotes: Remotes,
}

impl Controller for Arbiters {
    type Kind = RemoteArbiter;
    type Facts = Facts;
    type Plan = Plan;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = NAME;
    const PARTS: &'static [Part] = &[
        Part::required(REMOTE_CLUSTER_READY),
        Part::required(CEPH_CLUSTER_READY),
        Part::required(ARBITER_DEPLOYMENT_READY),
        Part::required(IN_QUORUM),
    ];
    /// No garbage collector reaches into another cluster.
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "ceph.c5c3.io/arbiter",
        within: Duration::from_secs(300),
    });

    fn watches() -> Vec<Kind> {
        vec![
            Kind::of::<RemoteCluster>(),
            Kind::of::<CephCluster>(),
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
        ]
    }

    fn touches() -> Vec<Touch> {
        vec![Touch::of::<CephCluster>(&["patch"])]
    }

    fn references(object: &RemoteArbiter) -> Vec<Reference> {
        let own = object.namespace();
        let ceph = facts::ceph_namespace(object);
        let choice = &object.spec.remote_cluster;
        let cluster = choice
            .name
            .as_ref()
            .map(|name| Kind::of::<RemoteCluster>().named(own.as_deref(), name));
        let secret = choice
            .spec
            .as_ref()
            .map(|spec| Kind::of::<Secret>().named(own.as_deref(), &spec.accesskey_ref.name));
        let rooks = [
            Kind::of::<CephCluster>().named(Some(&ceph), &object.spec.ceph_cluster.name),
            Kind::of::<Secret>().named(Some(&ceph), KEYRING),
            Kind::of::<ConfigMap>().named(Some(&ceph), ENDPOINTS),
            Kind::of::<ConfigMap>().named(Some(&ceph), OVERRIDE),
        ];
        cluster.into_iter().chain(secret).chain(rooks).collect()
    }

    /// The kubeconfig of the RemoteCluster.
    fn found(facts: &Facts) -> Vec<Reference> {
        let secret = |way: &crate::remote::Way| Kind::of::<Secret>().named(Some(&way.namespace), &way.secret);
        facts.way.iter().map(secret).collect()
    }

    async fn observe(&self, object: &RemoteArbiter, reader: &Reader) -> Result<Facts, Error> {
        facts::observe(object, reader, &self.remotes).await
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        let since = observed.object.metadata.deletion_timestamp.as_ref();
        let leaving = since.map(|since| {
            let for_long = observed.now.duration_since(since.0);
            Duration::try_from(for_long).unwrap_or_default()
        });
        plan::plan(&observed.object, &observed.facts, leaving)
    }

    fn refusal(plan: &Plan) -> Option<&Error> {
        plan.refused.as_ref()
    }

    fn decide(_: &Observed<Self>, plan: &Plan) -> Result<Decision<Action>, Error> {
        Ok(Decision::hold().act(plan.actions.iter().cloned()))
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Name(change) => {
                let clusters: Api<CephCluster> = Api::namespaced(self.home.clone(), &change.namespace);
                let params = PatchParams {
                    field_manager: Some(NAME.to_owned()),
                    ..PatchParams::default()
                };
                let patched = clusters
                    .patch(&change.cluster, &params, &Patch::Merge(change.patch()))
                    .await;
                patched.map(drop).map_err(|source| Error::NotReserved {
                    ceph: format!("{}/{}", change.namespace, change.cluster),
                    source: Box::new(source),
                })
            }
            Action::Apply {
                way,
                kind,
                name,
                object,
            } => {
                let to = reference(way, *kind, name);
                self.remotes.get(way)?.apply(NAME, &to, *kind, object).await
            }
            Action::Delete { way, kind, name, uid } => self.remotes.get(way)?.delete(*kind, name, uid).await,
        }
    }

    fn report(observed: &Observed<Self>, plan: &Plan, _: &Applied<Self>) -> Report {
        report::report(&observed.object, plan, observed.deleting())
    }
}
