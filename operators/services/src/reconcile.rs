//! One reconciler for all services: database, keys, configuration, schema, bootstrap, processes.

use std::marker::PhantomData;
use std::time::Duration;

use c5c3_api::common::{Condition, ServiceStatus};
use c5c3_api::foreign::{mariadb, rabbitmq, rook::CephClient};
use c5c3_kit::conditions::{State, Truth};
use c5c3_kit::{
    Applied, Controller, Decision, Fault, Kind, Observed, Part, Reader, Reference, Report, States, Wanted,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::json;

use crate::build::{self, Outcome};
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::facts::{self, Facts, dependencies};
use crate::keep::{earlier_accounts, earlier_configurations};
use crate::names::Names;
use crate::plan::{Gate, keyring, plan};
use crate::report;
use crate::rotation::Planned;
use crate::subject::{KeySet, Subject};

/// So long after a note in the status what follows from it is done.
const NOTED: SignedDuration = SignedDuration::from_secs(1);

/// The controller of one kind of service.
#[derive(Debug)]
pub struct Services<S>(PhantomData<fn() -> S>);

impl<S> Default for Services<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Told while keys are looked after: what is wrong with the rest.
#[derive(Debug)]
pub struct Complaint {
    part: Option<&'static str>,
    reason: String,
    message: String,
}

impl<S: Subject> Controller for Services<S> {
    type Kind = S;
    type Facts = Facts;
    type Action = Complaint;
    type Error = Error;

    const NAME: &'static str = S::CONTROLLER;
    const PARTS: &'static [Part] = S::DESCRIPTOR.parts;

    fn owns() -> Vec<Kind> {
        let mut kinds = vec![
            Kind::of::<mariadb::Database>(),
            Kind::of::<mariadb::User>(),
            Kind::of::<mariadb::Grant>(),
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<PersistentVolumeClaim>(),
            Kind::of::<Job>(),
            Kind::of::<Service>(),
            Kind::of::<PodDisruptionBudget>(),
            Kind::of::<HorizontalPodAutoscaler>(),
            Kind::of::<NetworkPolicy>(),
            Kind::of::<Deployment>(),
            // Never applied: they bear our marks, so that their troubles bring a pass.
            Kind::of::<Pod>().only_seen(),
        ];
        if S::RECURRING {
            kinds.push(Kind::of::<CronJob>());
        }
        if S::MESSAGING {
            kinds.extend([
                Kind::of::<rabbitmq::Vhost>(),
                Kind::of::<rabbitmq::User>(),
                Kind::of::<rabbitmq::Permission>(),
            ]);
        }
        kinds
    }

    fn watches() -> Vec<Kind> {
        let mut kinds = vec![Kind::of::<Secret>(), Kind::of::<ConfigMap>()];
        kinds.extend(dependencies::kinds());
        if S::CEPH {
            kinds.push(Kind::of::<CephClient>().everywhere());
        }
        kinds
    }

    fn references(object: &S) -> Vec<Reference> {
        let namespace = object.namespace();
        let namespace = namespace.as_deref();
        let mut all: Vec<Reference> = facts::secret_names(object)
            .iter()
            .map(|name| Kind::of::<Secret>().named(namespace, name))
            .collect();
        let names = Names::of(object);
        let keys = object.extras().key_sets;
        all.extend(
            keys.iter()
                .map(|set| Kind::of::<Secret>().named(namespace, &names.suffixed(set.name))),
        );
        let common = object.common();
        let policy = common
            .policy_overrides
            .as_ref()
            .and_then(|policy| policy.config_map_ref.as_ref());
        all.extend(policy.map(|reference| Kind::of::<ConfigMap>().named(namespace, &reference.name)));
        let dependencies = common.depends_on.iter();
        all.extend(dependencies.filter_map(|object| dependencies::reference(object, namespace)));
        let databases = object.databases();
        let clusters = databases
            .iter()
            .filter_map(|(_, database)| database.cluster_ref.as_ref());
        all.extend(clusters.map(|cluster| Kind::of::<mariadb::MariaDb>().named(namespace, &cluster.name)));
        let cache = object.cache().and_then(|cache| cache.cluster_ref.as_ref());
        all.extend(cache.map(|cluster| {
            Kind::of::<c5c3_api::foreign::memcached::Memcached>().named(namespace, &cluster.name)
        }));
        let bus = object.messaging().and_then(|bus| bus.cluster_ref.as_ref());
        all.extend(
            bus.map(|cluster| Kind::of::<rabbitmq::RabbitmqCluster>().named(namespace, &cluster.name)),
        );
        let extras = object.extras();
        all.extend(extras.ceph_clients().map(|client| {
            Kind::of::<CephClient>().named(client.namespace.as_deref().or(namespace), &client.name)
        }));
        all
    }

    async fn observe(&self, object: &S, reader: &Reader) -> Result<Facts, Error> {
        Ok(facts::observe(object, reader).await?)
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Complaint>, Error> {
        let (subject, facts) = (&observed.object, &observed.facts);
        let plan = match plan(observed) {
            Ok(plan) => plan,
            Err(error) => return keys_alone(observed, error),
        };
        let configuration = &plan.configuration;
        let mut wanted = build::database_objects(subject, facts)?;
        wanted.extend(build::messaging_objects(subject));
        wanted.push(configuration.config_map.clone());
        wanted.extend(configuration.connections.clone());
        let credentials = configuration.credentials.as_ref().ok();
        wanted.extend(credentials.and_then(Option::as_ref).cloned());
        wanted.extend(build::network_objects(subject));
        let mut kept = earlier_configurations(&plan, facts);
        kept.extend(earlier_accounts(&plan, facts));
        let namespace = Some(plan.names.namespace.as_str());

        for (job, may_start) in plan.jobs(observed) {
            // A Job is named by its inputs; one that is there is not written again. One that is made
            // of something else by now, and gets nowhere, goes; the next pass makes it anew.
            if facts.jobs.contains_key(&job.name) {
                if !(job.outdated && may_start) {
                    kept.push(Kind::of::<Job>().named(namespace, &job.name));
                }
            } else if may_start {
                wanted.push(job.job.clone());
            }
        }
        let staying = facts.jobs.iter().filter(|(_, job)| plan.stays::<S>(facts, job));
        kept.extend(staying.map(|(name, _)| Kind::of::<Job>().named(namespace, name)));

        let open = plan.gate(observed) == Gate::Open;
        for process in S::DESCRIPTOR.processes {
            let name = build::deployment_name::<S>(&plan.names, process);
            let live = facts.deployments.get(&name);
            if open && plan.waits_for(observed, process).is_none() {
                wanted.push(build::deployment(subject, configuration, process, facts, live));
            } else if let Some(resized) = live.and_then(|live| build::resized(subject, process, live)) {
                wanted.push(resized);
            } else {
                // What runs goes on as it is until all is there for the new state; how many run is
                // nobody's business but the spec's.
                kept.push(Kind::of::<Deployment>().named(namespace, &name));
            }
        }
        if let Some(run) = &plan.recurring {
            if open {
                wanted.extend(run.wanted.clone());
            }
            kept.extend(run.kept.iter().cloned());
        }
        let claims = build::claims(subject, facts)?.into_iter();
        // First: what follows is named by it.
        let named = !facts::secret_names(subject).is_empty();
        let naming = named.then(|| Wanted::raw(build::naming_key(&plan.names, facts)));
        let wanted = (naming.into_iter())
            .chain(claims.map(|claim| Wanted::raw(claim).lasting()))
            .chain(plan.keys.iter().map(|keys| Wanted::raw(keys.secret.clone())))
            .chain(wanted.into_iter().map(Wanted::raw));
        Ok(kept.into_iter().fold(Decision::want(wanted), Decision::keep))
    }

    async fn act(&self, action: &Complaint) -> Result<(), Error> {
        Err(Error::Standing {
            part: action.part,
            reason: action.reason.clone(),
            message: action.message.clone(),
        })
    }

    fn report(observed: &Observed<Self>, applied: &Applied<Self>) -> Report {
        let plan = match plan(observed) {
            Ok(plan) => plan,
            Err(error) => return standing(observed, &error),
        };
        let mut status = plan
            .recurring
            .as_ref()
            .map_or_else(|| json!({}), crate::recurring::Planned::status);
        if !S::DESCRIPTOR.processes.is_empty() {
            status = serde_json::to_value(ServiceStatus {
                endpoint: endpoint(S::DESCRIPTOR, &plan.names),
                installed_release: plan.installed(&observed.object),
                contracting: plan.contracting(&observed.object),
                upgrade_phase: plan.phase(),
                replicas: available(&observed.facts, &plan.names.name),
                selector: Some(format!(
                    "{},app.kubernetes.io/component={}",
                    plan.names.selector(),
                    S::DESCRIPTOR.api().map_or("api", |process| process.name)
                )),
                ..ServiceStatus::default()
            })
            .unwrap_or_default();
        }
        for (set, keys) in observed.object.extras().key_sets.iter().zip(&plan.keys) {
            if let (Some(field), Some(rotated)) = (set.status, keys.rotated) {
                status[field] = rotated.to_string().into();
            }
        }
        let report = Report::new(report::states(observed, &plan, applied)).status(&status);
        let coming = plan
            .migrations
            .iter()
            .filter(|migration| migration.job.outcome == Outcome::Missing && migration.from > observed.now);
        // What we write ourselves brings no pass.
        let noted = plan
            .is_to_be_noted(&observed.object)
            .then_some(observed.now + NOTED);
        let hanging = build::next_hanging(&observed.facts, observed.now);
        let others = coming.map(|migration| migration.from).chain(noted).chain(hanging);
        again(report, observed.now, plan.keys.iter(), others)
    }
}

/// A wrong input leaves what runs as it is, but keys that are there go on being rotated.
fn keys_alone<S: Subject>(
    observed: &Observed<Services<S>>,
    error: Error,
) -> Result<Decision<Complaint>, Error> {
    let sets = observed.object.extras().key_sets;
    let stored = |set: &KeySet| observed.facts.key_secrets.contains_key(set.name);
    if sets.is_empty() || !sets.iter().all(stored) {
        return Err(error);
    }
    let Ok(keys) = keyring(observed) else {
        return Err(error);
    };
    let complaint = Complaint {
        part: error.part(),
        reason: error.reason(),
        message: error.to_string(),
    };
    Ok(Decision::only(keys.iter().map(|(keys, _)| Wanted::raw(keys.secret.clone()))).act([complaint]))
}

/// All stays as it was told before, but for the part that the error belongs to.
fn standing<S: Subject>(observed: &Observed<Services<S>>, error: &Error) -> Report {
    let object = serde_json::to_value(&observed.object).unwrap_or_default();
    let before: Vec<Condition> =
        serde_json::from_value(object["status"]["conditions"].clone()).unwrap_or_default();
    let mut states = States::default();
    for part in S::DESCRIPTOR.parts {
        if let Some(condition) = before.iter().find(|condition| condition.type_ == part.name) {
            let truth = match condition.status.as_str() {
                "True" => Truth::True,
                "False" => Truth::False,
                _ => Truth::Unknown,
            };
            let (reason, message) = (condition.reason.clone(), condition.message.clone());
            states = states.with(
                part.name,
                State {
                    truth,
                    reason,
                    message,
                },
            );
        }
    }
    if let Some(part) = error.part() {
        states = states.unmet(part, &error.reason(), error.to_string());
    }
    let report = Report::new(states).status(&object["status"]);
    let Ok(keys) = keyring(observed) else {
        return report;
    };
    again(report, observed.now, keys.iter().map(|(keys, _)| keys), None)
}

/// A rotation that is held goes on when its Job ends, which is watched.
fn again<'a>(
    report: Report,
    now: Timestamp,
    keys: impl Iterator<Item = &'a Planned>,
    others: impl IntoIterator<Item = Timestamp>,
) -> Report {
    let rotations = keys.filter(|keys| !keys.held).map(|keys| keys.next);
    let next = rotations.chain(others).min();
    match next.and_then(|at| Duration::try_from(at.duration_since(now)).ok()) {
        Some(wait) => report.again_in(wait),
        None => report,
    }
}

/// The address of the API inside the cluster.
fn endpoint(descriptor: &Descriptor, names: &Names) -> Option<String> {
    let port = descriptor.api()?.port()?.number;
    Some(format!(
        "http://{}.{}.svc:{port}{}",
        names.name, names.namespace, descriptor.endpoint_path
    ))
}

fn available(facts: &Facts, name: &str) -> Option<i32> {
    let status = facts.deployments.get(name)?.status.as_ref()?;
    Some(status.available_replicas.unwrap_or(0))
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
