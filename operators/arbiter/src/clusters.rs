//! RemoteCluster: whether another cluster can be worked with, looked at again and again.

use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::ceph::{RemoteArbiter, RemoteCluster, RemoteClusterStatus, RemoteState};
use c5c3_api::common::parse_duration;
use c5c3_api::conditions::ceph::{CLUSTER_REACHABLE, CONFIG_VALID, HAS_ENOUGH_PERMISSIONS, SECRET_AVAILABLE};
use c5c3_kit::{Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use crate::error::Error;
use crate::remote::{Finding, Remotes, Way};

pub(crate) const NAME: &str = "remote-cluster";

/// A cluster that does not answer is looked at sooner than its interval says.
const SOON: Duration = Duration::from_secs(10);

/// The controller.
pub(crate) struct RemoteClusters {
    pub remotes: Remotes,
}

#[derive(Debug)]
pub(crate) struct Facts {
    pub finding: Finding,
    /// RemoteArbiters that name it.
    pub users: Vec<String>,
}

impl Controller for RemoteClusters {
    type Kind = RemoteCluster;
    type Facts = Facts;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = NAME;
    const PARTS: &'static [Part] = &[
        Part::required(SECRET_AVAILABLE),
        Part::required(CONFIG_VALID),
        Part::required(CLUSTER_REACHABLE),
        Part::required(HAS_ENOUGH_PERMISSIONS),
    ];
    /// An arbiter that is deleted beside it still has to find its way.
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "ceph.c5c3.io/in-use",
        within: Duration::from_secs(600),
    });

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Secret>(), Kind::of::<RemoteArbiter>()]
    }

    fn references(object: &RemoteCluster) -> Vec<Reference> {
        let secret = &object.spec.accesskey_ref.name;
        vec![Kind::of::<Secret>().named(object.namespace().as_deref(), secret)]
    }

    fn found(facts: &Facts) -> Vec<Reference> {
        let named = |user: &String| match user.split_once('/') {
            Some((namespace, name)) => Kind::of::<RemoteArbiter>().named(Some(namespace), name),
            None => Kind::of::<RemoteArbiter>().named(None, user),
        };
        facts.users.iter().map(named).collect()
    }

    async fn observe(&self, object: &RemoteCluster, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let arbiters: Vec<RemoteArbiter> = reader.list(&namespace, "").await?;
        let names_it = |arbiter: &&RemoteArbiter| {
            arbiter.spec.remote_cluster.name.as_deref() == Some(object.name_any().as_str())
        };
        let users = arbiters.iter().filter(names_it);
        let users = users
            .map(|arbiter| format!("{namespace}/{}", arbiter.name_any()))
            .collect();
        let way = Way::of(&namespace, &object.spec);
        let finding = match self.remotes.connect(&way, reader).await? {
            Ok(remote) => remote.check().await,
            Err(finding) => finding,
        };
        Ok(Facts { finding, users })
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        Ok(Decision::hold())
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        let finding = &observed.facts.finding;
        let trouble = finding.trouble();
        let state = match (observed.deleting(), &trouble) {
            (true, _) => RemoteState::Deleting,
            (false, None) => RemoteState::Ready,
            (false, Some(_)) => RemoteState::Error,
        };
        let interval =
            parse_duration(&observed.object.spec.check_interval).unwrap_or(Duration::from_secs(60));
        let status = RemoteClusterStatus {
            state: Some(state),
            message: Some(trouble.unwrap_or_else(|| "the cluster is usable".to_owned())),
            ..RemoteClusterStatus::default()
        };
        let report = Report::new(finding.states()).status(&status);
        if observed.deleting() {
            let users = observed.facts.users.iter();
            return report.left(users.map(|user| format!("RemoteArbiter {user}")));
        }
        match finding {
            Finding::Fit => report.again_in(interval),
            _ => report.again_in(interval.min(SOON)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn every_field_of_a_cluster_acts_or_is_refused() {
        let digest = |spec: &Value| {
            let object = json!({"apiVersion": "ceph.c5c3.io/v1alpha1", "kind": "RemoteCluster",
                "metadata": {"namespace": "rook-ceph", "name": "site"}, "spec": spec});
            let object: RemoteCluster = serde_json::from_value(object).expect("a RemoteCluster");
            // What is asked, and with which key.
            let way = Way::of("rook-ceph", &object.spec);
            let references = RemoteClusters::references(&object);
            let seen = Observed::<RemoteClusters> {
                object,
                facts: Facts {
                    finding: Finding::Fit,
                    users: Vec::new(),
                },
                now: jiff::Timestamp::UNIX_EPOCH,
            };
            let report = seen.report(&Applied::rehearse(Decision::hold()));
            format!("{way:?} {references:?} {report:?}")
        };
        let spec = json!({"namespace": "arbiters", "accesskeyRef": {"name": "key"}});
        let ignored = c5c3_api::fields::ignored("RemoteCluster", &[spec], digest);
        assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
    }
}
