//! ControlPlane: one object becomes infrastructure, services, a catalogue and credentials.
//!
//! All choices are made by [`crate::plan`]; this turns a plan into writes and conditions.

mod facts;
mod neighbours;
mod report;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::conditions::{control_plane as part, reason};
use c5c3_catalogue::Release;
use c5c3_kit::fault::variant;
use c5c3_kit::{
    Applied, ClusterError, Clusters, Controller, Decision, Fault, Finalizer, Kind, Observed, Part, ReadError,
    Reader, Reference, Report, Retry, Touch, Wanted,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::orphans;
use crate::plan::{self, Gap, Plan, Removal};
use crate::verification::{Login, Verify};
pub use facts::Facts;
pub(crate) use neighbours::freed;

/// Who marks what Keystone was told: nobody else writes that annotation.
const MARKER: &str = "c5c3-completion";

/// The controller.
#[derive(Clone)]
pub struct ControlPlanes {
    client: Client,
    releases: Vec<Release>,
    verify: Arc<dyn Verify>,
}

impl ControlPlanes {
    /// With the releases that are part of the program.
    pub fn new(clusters: &Clusters, verify: Arc<dyn Verify>) -> Self {
        ControlPlanes {
            client: clusters.home().clone(),
            releases: releases(),
            verify,
        }
    }

    /// Each object is marked as soon as Keystone has been told, so none is told twice.
    async fn complete(&self, login: &Login, gaps: &[Gap]) -> Result<(), Error> {
        let told = |why: String| Error::Incomplete(why);
        let session = self.verify.complete(login).await.map_err(told)?;
        for Gap { object, mark, fix } in gaps {
            session.set(fix).await.map_err(told)?;
            let kinds = facts::kinds();
            let Some(kind) = kinds.iter().find(|kind| kind.is_of(object)) else {
                continue;
            };
            let namespace = object.key.namespace.as_deref().unwrap_or_default();
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
            let patch = json!({"metadata": {"annotations": {plan::COMPLETED: mark}}});
            let params = PatchParams {
                field_manager: Some(MARKER.to_owned()),
                ..PatchParams::default()
            };
            let marked = api.patch(&object.key.name, &params, &Patch::Merge(&patch)).await;
            gone_or(marked.map(drop), |source| Error::Unmarked {
                object: object.clone(),
                source,
            })?;
        }
        Ok(())
    }

    async fn abandon(&self, held: &Reference) -> Result<(), Error> {
        let kinds = facts::kinds();
        let Some(kind) = kinds.iter().find(|kind| kind.is_of(held)) else {
            return Ok(());
        };
        let done = orphans::abandon(&self.client, kind, held).await;
        done.map_err(|source| Error::Held {
            object: held.clone(),
            source: Box::new(source),
        })
    }
}

/// The releases that are part of the program.
pub fn releases() -> Vec<Release> {
    let known = c5c3_catalogue::releases();
    known.iter().filter_map(|name| Release::load(name).ok()).collect()
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "this namespace already has ControlPlane {0}, and one namespace holds one cloud: use another namespace"
    )]
    Conflict(String),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    UnknownCluster(#[from] ClusterError),
    #[error("cannot delete PersistentVolumeClaim {name}: {}", c5c3_kit::fault::plain(.source))]
    VolumeLeft { name: String, source: Box<kube::Error> },
    #[error("cannot delete Secret {name}: {}", c5c3_kit::fault::plain(.source))]
    KeyLeft { name: String, source: Box<kube::Error> },
    #[error("cannot set regions and roles in Keystone: {0}")]
    Incomplete(String),
    #[error("cannot mark {object}: {}", c5c3_kit::fault::plain(.source))]
    Unmarked {
        object: Reference,
        source: Box<kube::Error>,
    },
    #[error("cannot remove K-ORC's finalizer from {object}: {}", c5c3_kit::fault::plain(.source))]
    Held {
        object: Reference,
        source: Box<kube::Error>,
    },
    #[error("the cloud is not serving requests yet: {0}")]
    NotServing(String),
    #[error("cannot verify the cloud: there are no credentials for its services")]
    NoLogin,
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        match self {
            Error::Incomplete(_) | Error::Unmarked { .. } => Some(part::KORC_READY),
            _ => self.is_of_verification().then_some(part::SERVICES_READY),
        }
    }

    /// The report says when the services are asked again.
    fn retry(&self) -> Retry {
        if self.is_of_verification() {
            Retry::OnChange
        } else {
            Retry::Backoff
        }
    }

    fn reason(&self) -> String {
        if self.is_of_verification() {
            return reason::PROGRESSING.to_owned();
        }
        variant(self)
    }
}

impl Error {
    fn is_of_verification(&self) -> bool {
        matches!(self, Error::NotServing(_) | Error::NoLogin)
    }
}

/// What follows from an object and its facts.
pub enum Planned {
    Cloud(Box<Plan>),
    /// What is still to go of a cloud that is deleted.
    Teardown(Removal),
    /// The ControlPlane that was in this namespace before.
    Conflict(String),
}

/// What no owned object stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    DeleteVolume {
        namespace: String,
        name: String,
    },
    /// K-ORC had its time.
    Abandon(Reference),
    /// Keystone is told what K-ORC does not tell it.
    Complete {
        login: Option<Login>,
        gaps: Vec<Gap>,
    },
    /// A key to data that goes.
    DeleteKey {
        namespace: String,
        name: String,
    },
    /// Ask these services, by their types in the catalogue, whether they serve after an update.
    Verify {
        login: Option<Login>,
        services: Vec<&'static str>,
    },
}

impl Controller for ControlPlanes {
    type Kind = ControlPlane;
    type Facts = Facts;
    type Plan = Planned;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "control-plane";
    const PARTS: &'static [Part] = &[
        Part::required(part::INFRASTRUCTURE_READY),
        Part::required(part::KEYSTONE_READY),
        Part::required(part::KORC_READY),
        Part::required(part::CREDENTIALS_READY),
        Part::required(part::SERVICES_READY),
        Part::elsewhere(part::CROSS_CLUSTER_SYNC_READY),
    ];
    const BLOCKED_BY: bool = true;
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "c5c3.io/control-plane",
        within: Duration::from_secs(300),
    });

    fn owns() -> Vec<Kind> {
        facts::kinds()
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    /// Volumes go only when that is asked for.
    fn touches() -> Vec<Touch> {
        vec![Touch::of::<PersistentVolumeClaim>(&["list", "delete"])]
    }

    /// Secrets that others may bring.
    fn references(object: &ControlPlane) -> Vec<Reference> {
        let namespace = object.namespace();
        plan::secret_names(&object.spec)
            .iter()
            .map(|name| Kind::of::<Secret>().named(namespace.as_deref(), name))
            .collect()
    }

    async fn observe(&self, object: &ControlPlane, reader: &Reader) -> Result<Facts, Error> {
        Ok(facts::observe(object, reader, &self.releases).await?)
    }

    fn plan(observed: &Observed<Self>) -> Planned {
        let Observed { object, facts, .. } = observed;
        match &facts.elder {
            _ if observed.deleting() => Planned::Teardown(plan::teardown(&facts.seen)),
            Some(elder) => Planned::Conflict(elder.clone()),
            None => Planned::Cloud(Box::new(plan::plan(object, &facts.seen))),
        }
    }

    fn decide(observed: &Observed<Self>, plan: &Planned) -> Result<Decision<Action>, Error> {
        let Observed { object, facts, .. } = observed;
        let plan = match plan {
            Planned::Teardown(removal) => {
                let held = facts.seen.owned.iter().map(|(held, _)| held);
                let held = held.filter(|held| observed.overdue() && orphans::may_be_held(held));
                let held: Vec<Action> = held.cloned().map(Action::Abandon).collect();
                return Ok(teardown(object, facts, removal).act(held));
            }
            Planned::Conflict(elder) => return Err(Error::Conflict(elder.clone())),
            Planned::Cloud(plan) => plan,
        };
        if plan.refusal.is_some() {
            let going_on = plan.goes_on(&facts.seen.owned);
            return Ok(Decision::only(going_on.cloned().map(wanted)));
        }
        let decision = Decision::want(plan.wanted().cloned().map(wanted));
        let decision = plan.kept().cloned().fold(decision, Decision::keep);
        let verify = plan.awaits_verification().then(|| Action::Verify {
            login: plan::login(object, &facts.seen),
            services: plan::asked(&object.spec),
        });
        let complete = (!plan.gaps.is_empty()).then(|| Action::Complete {
            login: plan::login(object, &facts.seen),
            gaps: plan.gaps.clone(),
        });
        Ok(decision.act(verify.into_iter().chain(complete)))
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        let (namespace, name) = match action {
            Action::DeleteVolume { namespace, name } => (namespace, name),
            Action::Abandon(held) => return self.abandon(held).await,
            Action::Verify { login, services } => {
                let login = login.as_ref().ok_or(Error::NoLogin)?;
                let verified = self.verify.verify(login, services).await;
                return verified.map_err(Error::NotServing);
            }
            Action::Complete { login, gaps } => {
                let login = login.as_ref().ok_or(Error::NoLogin)?;
                return self.complete(login, gaps).await;
            }
            Action::DeleteKey { namespace, name } => {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
                let gone = api.delete(name, &DeleteParams::background()).await;
                return gone_or(gone.map(drop), |source| Error::KeyLeft {
                    name: name.clone(),
                    source,
                });
            }
        };
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let gone = api.delete(name, &DeleteParams::background()).await;
        gone_or(gone.map(drop), |source| Error::VolumeLeft {
            name: name.clone(),
            source,
        })
    }

    fn report(observed: &Observed<Self>, plan: &Planned, applied: &Applied<Self>) -> Report {
        let Observed { object, facts, .. } = observed;
        let removal = match plan {
            Planned::Cloud(plan) => return report::of(object, &facts.seen, plan, applied),
            // Deciding ended with an error.
            Planned::Conflict(_) => return Report::default(),
            Planned::Teardown(removal) => removal,
        };
        let report = report::teardown(object, facts, removal, applied);
        let orphans = applied
            .outcomes()
            .iter()
            .filter_map(|outcome| match &outcome.action {
                Action::Abandon(held) => Some(held),
                Action::DeleteVolume { .. }
                | Action::DeleteKey { .. }
                | Action::Complete { .. }
                | Action::Verify { .. } => None,
            });
        match orphans::note(orphans) {
            Some(note) => report.note(note),
            None => report,
        }
    }
}

/// What is not there any more is as well as deleted.
fn gone_or(
    gone: Result<(), kube::Error>,
    error: impl FnOnce(Box<kube::Error>) -> Error,
) -> Result<(), Error> {
    match gone {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        gone => gone.map_err(|source| error(Box::new(source))),
    }
}

fn wanted(object: Value) -> Wanted {
    let lasts = plan::lasts(&object);
    let wanted = Wanted::untyped(object);
    if lasts { wanted.lasting() } else { wanted }
}

fn teardown(object: &ControlPlane, facts: &Facts, removal: &Removal) -> Decision<Action> {
    if removal.is_empty() {
        // The volumes of this namespace are those of the other one.
        if facts.elder.is_some() {
            return Decision::hold();
        }
        let namespace = object.namespace().unwrap_or_default();
        let volumes = plan::volumes_go(&facts.volumes, &object.spec).into_iter();
        let keys = facts.keys.iter().map(|name| Action::DeleteKey {
            namespace: namespace.clone(),
            name: name.clone(),
        });
        let volumes = volumes.map(|volume| Action::DeleteVolume {
            namespace: namespace.clone(),
            name: volume.name.clone(),
        });
        return Decision::hold().act(volumes.chain(keys));
    }
    let later = removal.later.iter().cloned();
    later.fold(Decision::want([]), Decision::keep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DELETE_VOLUMES, Volume, reference};

    #[test]
    fn one_that_was_refused_deletes_no_volume_of_the_other() {
        let object = json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "late", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {DELETE_VOLUMES: "true"}},
            "spec": {"openStackRelease": "2025.2"},
        });
        let mut observed = Observed::<ControlPlanes> {
            object: serde_json::from_value(object).expect("a ControlPlane"),
            facts: Facts {
                elder: Some("cloud".to_owned()),
                volumes: vec![Volume {
                    name: "storage-mariadb-0".to_owned(),
                    labels: [("app.kubernetes.io/instance".to_owned(), "mariadb".to_owned())].into(),
                }],
                keys: vec!["mariadb-root".to_owned()],
                ..Facts::default()
            },
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let actions =
            |observed: &Observed<ControlPlanes>| observed.decide().expect("decides").actions().len();
        assert_eq!(actions(&observed), 0);
        observed.facts.elder = None;
        assert_eq!(actions(&observed), 2, "a volume, and the key to it");
    }

    #[test]
    fn past_the_deadline_what_korc_holds_is_let_go_and_named() {
        let object = json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "cloud", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"openStackRelease": "2025.2"},
        });
        let of = |version: &str, kind: &str| {
            let object = json!({"apiVersion": version, "kind": kind,
                "metadata": {"namespace": "ns", "name": "glance"}});
            (reference(&object), true)
        };
        let mut observed = Observed::<ControlPlanes> {
            object: serde_json::from_value(object).expect("a ControlPlane"),
            facts: Facts::default(),
            now: "2026-01-01T00:04:59Z".parse().expect("a time"),
        };
        observed.facts.seen.owned = vec![
            of("openstack.k-orc.cloud/v1alpha1", "User"),
            of("v1", "Secret"),
            of("keystone.openstack.c5c3.io/v1alpha1", "Keystone"),
        ];
        let actions =
            |observed: &Observed<ControlPlanes>| observed.decide().expect("decides").actions().to_vec();
        assert_eq!(actions(&observed), []);
        observed.now = "2026-01-01T00:05:00Z".parse().expect("a time");
        let held: Vec<Action> = observed.facts.seen.owned[..2]
            .iter()
            .map(|(held, _)| Action::Abandon(held.clone()))
            .collect();
        assert_eq!(actions(&observed), held);
        let decision = observed.decide().expect("decides");
        let report = format!("{:?}", observed.report(&Applied::rehearse(decision)));
        assert!(
            report.contains("Orphaned") && report.contains("User.openstack.k-orc.cloud ns/glance"),
            "{report}"
        );
    }

    #[test]
    fn one_that_goes_before_it_said_so_says_that_it_had_the_namespace() {
        let object = json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "cloud", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"openStackRelease": "2025.2"},
        });
        let mut observed = Observed::<ControlPlanes> {
            object: serde_json::from_value(object).expect("a ControlPlane"),
            facts: Facts::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let says = |observed: &Observed<ControlPlanes>| {
            let decision = observed.decide().expect("decides");
            let report = observed.report(&Applied::rehearse(decision));
            format!("{report:?}").contains("\"updatePhase\": String(\"Idle\")")
        };
        assert!(!says(&observed));
        let keystone = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
            "metadata": {"namespace": "ns", "name": "keystone"}});
        observed.facts.seen.owned = vec![(reference(&keystone), false)];
        assert!(says(&observed));
    }
}
