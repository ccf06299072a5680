//! One reconciler for all services: database, keys, configuration, schema, bootstrap, processes.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

use c5c3_api::common::{RecurringJobStatus, ServiceStatus};
use c5c3_api::foreign::memcached::Memcached;
use c5c3_api::foreign::{mariadb, rabbitmq, rook::CephClient};
use c5c3_api::ovn::OvnCluster;
use c5c3_api::services;
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, HOME, Kind, OTHERS, Observed, Part, Reader, Reference, Report,
    States, Touch, Wanted,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Node, PersistentVolumeClaim, Pod, Secret, Service as NetworkService,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use crate::build::{self, Outcome};
use crate::error::Error;
use crate::facts::{self, Facts, dependencies};
use crate::judge::Gate;
use crate::judge::keep::{earlier_accounts, earlier_configurations};
use crate::names::Names;
use crate::plan::{Plan, Refused, plan};
use crate::report;
use crate::rotation::Planned;
use crate::shape::{Process, Service, Subject, Workload};

/// So long after a note in the status what follows from it is done.
const NOTED: SignedDuration = SignedDuration::from_secs(1);

/// So long after another cluster did not answer it is asked again.
const AWAY: SignedDuration = SignedDuration::from_secs(15);

/// How often certificates are checked for renewal.
const CERTIFICATES: SignedDuration = SignedDuration::from_hours(6);

/// The controller of one kind of service.
#[derive(Debug)]
pub struct Services<S>(PhantomData<fn() -> S>);

impl<S> Default for Services<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<S: Subject> Controller for Services<S> {
    type Kind = S;
    type Facts = Facts;
    type Plan = Result<Box<Plan>, Box<Refused>>;
    type Action = Infallible;
    type Error = Error;

    const BLOCKED_BY: bool = true;
    const NAME: &'static str = S::SERVICE;
    const PARTS: &'static [Part] = S::PARTS;
    /// No garbage collector reaches into another cluster.
    const FINALIZER: Option<Finalizer> = if S::ON_NODES {
        Some(Finalizer {
            name: "openstack.c5c3.io/hypervisors",
            within: Duration::from_secs(300),
        })
    } else {
        None
    };

    fn is_held(object: &S) -> bool {
        !object.shape().elsewhere().is_empty()
    }

    fn owns() -> Vec<Kind> {
        let mut kinds = vec![
            Kind::of::<mariadb::Database>(),
            Kind::of::<mariadb::User>(),
            Kind::of::<mariadb::Grant>(),
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<PersistentVolumeClaim>(),
            Kind::of::<Job>(),
            Kind::of::<NetworkService>(),
            Kind::of::<PodDisruptionBudget>(),
            Kind::of::<HorizontalPodAutoscaler>(),
            Kind::of::<NetworkPolicy>(),
            Kind::of::<Deployment>(),
            Kind::of::<StatefulSet>(),
            // Never applied: they bear our marks, so that their troubles bring a pass.
            Kind::of::<Pod>().only_seen(),
        ];
        if S::RECURRING {
            kinds.push(Kind::of::<CronJob>());
        }
        if S::ON_NODES {
            kinds.push(Kind::of::<DaemonSet>());
            kinds.extend([
                Kind::of::<Secret>().in_cluster(OTHERS),
                Kind::of::<ConfigMap>().in_cluster(OTHERS),
                Kind::of::<DaemonSet>().in_cluster(OTHERS),
                Kind::of::<Pod>().in_cluster(OTHERS).only_seen(),
            ]);
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
        if S::OVN {
            kinds.push(Kind::of::<OvnCluster>().everywhere());
        }
        kinds
    }

    /// That a node comes, goes or moves is told by the DaemonSets and their pods.
    fn touches() -> Vec<Touch> {
        let places = [HOME, OTHERS].into_iter().filter(|_| S::CERTIFIES);
        let list = |place| Touch {
            kind: Kind::of::<Node>().in_cluster(place).everywhere(),
            part: "",
            verbs: &["list"],
            at_home: false,
            names: &[],
        };
        places.map(list).collect()
    }

    fn references(object: &S) -> Vec<Reference> {
        let service = object.shape();
        let namespace = Some(service.names.namespace.as_str());
        let mut all: Vec<Reference> = facts::secret_names(&service)
            .iter()
            .map(|name| Kind::of::<Secret>().named(namespace, name))
            .collect();
        all.extend(
            (service.key_sets.iter())
                .map(|set| Kind::of::<Secret>().named(namespace, &service.names.suffixed(set.name))),
        );
        let policy = service.common.policy_overrides.as_ref();
        let policy = policy.and_then(|policy| policy.config_map_ref.as_ref());
        all.extend(policy.map(|reference| Kind::of::<ConfigMap>().named(namespace, &reference.name)));
        let dependencies = service.common.depends_on.iter();
        all.extend(dependencies.filter_map(|object| dependencies::reference(object, namespace)));
        let databases = service.databases.iter();
        let clusters = databases.filter_map(|named| named.database.cluster_ref.as_ref());
        all.extend(clusters.map(|cluster| Kind::of::<mariadb::MariaDb>().named(namespace, &cluster.name)));
        let cache = service
            .cache
            .as_ref()
            .and_then(|cache| cache.cluster_ref.as_ref());
        all.extend(cache.map(|cluster| Kind::of::<Memcached>().named(namespace, &cluster.name)));
        let buses = service
            .buses
            .iter()
            .filter_map(|named| named.bus.cluster_ref.as_ref());
        all.extend(
            buses.map(|cluster| Kind::of::<rabbitmq::RabbitmqCluster>().named(namespace, &cluster.name)),
        );
        all.extend(service.ceph_clients().into_iter().map(|client| {
            Kind::of::<CephClient>().named(client.namespace.as_deref().or(namespace), &client.name)
        }));
        if let Some(ovn) = &service.ovn {
            let cluster = ovn.cluster().into_iter();
            all.extend(cluster.map(|cluster| {
                Kind::of::<OvnCluster>().named(cluster.namespace.as_deref().or(namespace), &cluster.name)
            }));
            all.extend(
                ovn.secrets()
                    .map(|name| Kind::of::<Secret>().named(namespace, name)),
            );
        }
        all
    }

    fn found(facts: &Facts) -> Vec<Reference> {
        facts::ovn::found(facts)
    }

    async fn observe(&self, object: &S, reader: &Reader) -> Result<Facts, Error> {
        facts::observe(&object.shape(), S::ON_NODES, reader).await
    }

    fn plan(observed: &Observed<Self>) -> Self::Plan {
        let object = &observed.object;
        plan(object.shape(), object.check(), &observed.facts, observed.now)
    }

    fn refusal(plan: &Self::Plan) -> Option<&Error> {
        plan.as_ref().err().map(|refused| &refused.error)
    }

    fn decide(observed: &Observed<Self>, plan: &Self::Plan) -> Result<Decision<Infallible>, Error> {
        if observed.deleting() {
            return Ok(leave(&observed.facts));
        }
        Ok(match plan {
            Ok(plan) => decide(plan, &observed.facts),
            Err(refused) => {
                let keys = refused.keys.iter().flatten();
                let keys = keys.map(|keys| Wanted::of(&keys.secret).lasting());
                let resized = refused.resized.iter().cloned();
                let certificates = build::certificates(&Names::of(&observed.object), &observed.facts);
                Decision::only(keys.chain(certificates).chain(resized))
            }
        })
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, plan: &Self::Plan, applied: &Applied<Self>) -> Report {
        if observed.deleting() {
            return Report::default().left(left(&observed.facts));
        }
        match plan {
            Ok(plan) => report(plan, &observed.facts, applied),
            // All stays as it was told before, but for the part that the error belongs to.
            Err(refused) => {
                let object = serde_json::to_value(&observed.object).unwrap_or_default();
                let report = Report::new(States::default()).status(&object["status"]);
                again(report, observed.now, refused.keys.iter().flatten(), None)
            }
        }
    }
}

/// What is in other clusters goes; the rest goes with the object itself.
fn leave(facts: &Facts) -> Decision<Infallible> {
    let owned = facts.owned.iter().map(|(reference, _)| reference);
    let home = owned.filter(|reference| reference.cluster == HOME);
    home.cloned().fold(Decision::want([]), Decision::keep)
}

fn left(facts: &Facts) -> impl Iterator<Item = String> {
    let owned = facts.owned.iter().map(|(reference, _)| reference);
    owned
        .filter(|reference| reference.cluster != HOME)
        .map(ToString::to_string)
}

/// The configuration where it is read, and nowhere else.
fn configuration(plan: &Plan, facts: &Facts) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for configured in &plan.configuration.all {
        let places = plan.service.places_of(&configured.name);
        for place in places.into_iter().filter(|place| facts.reaches(place)) {
            let objects = configured.objects(&place);
            wanted.extend(objects.map(|object| object.in_cluster(place.clone())));
        }
    }
    wanted
}

fn decide(plan: &Plan, facts: &Facts) -> Decision<Infallible> {
    let service = &plan.service;
    let mut wanted = plan.accounts.clone();
    wanted.extend(build::messaging_objects(service));
    wanted.extend(configuration(plan, facts));
    wanted.extend(build::network_objects(service));
    let mut kept = earlier_configurations(service, &plan.configuration, facts);
    kept.extend(earlier_accounts(
        &service.names,
        &plan.configuration,
        plan.rolled_out,
        facts,
    ));
    let namespace = Some(service.names.namespace.as_str());

    for (job, may_start) in plan.jobs() {
        // A Job is named by its inputs; one that is there is not written again. One that is made
        // of something else by now, and gets nowhere, goes; the next pass makes it again.
        if facts.jobs.contains_key(&job.name) {
            if !(job.outdated && may_start) {
                kept.push(Kind::of::<Job>().named(namespace, &job.name));
            }
        } else if may_start {
            wanted.push(Wanted::of(&job.job));
        }
    }
    let staying = facts.jobs.iter().filter(|(_, job)| plan.stays(facts, job));
    kept.extend(staying.map(|(name, _)| Kind::of::<Job>().named(namespace, name)));

    let open = plan.gate() == Gate::Open;
    for process in &service.processes {
        let name = build::workload_name(service, process);
        let live = facts.live(process, &name);
        let place = process.place();
        if !facts.reaches(&place) {
            continue;
        }
        let there = |object: Wanted| object.in_cluster(place.clone());
        if open && plan.waits_for(process).is_none() {
            let configuration = &plan.configuration;
            let workload = build::workload(service, configuration, process, facts, live.as_ref());
            wanted.push(there(workload));
        } else if let Some(resized) = build::resized(service, process, facts) {
            wanted.push(there(resized));
        } else {
            // What runs goes on as it is until all is there for the new state; how many run is
            // nobody's business but the spec's.
            let kind = match process.workload {
                Workload::Deployment { .. } => Kind::of::<Deployment>(),
                Workload::StatefulSet { .. } => Kind::of::<StatefulSet>(),
                Workload::DaemonSet { .. } => Kind::of::<DaemonSet>(),
            };
            kept.push(kind.in_cluster(place.clone()).named(namespace, &name));
        }
    }
    kept.extend(facts.out_of_reach().cloned());
    for run in &plan.recurring {
        if open {
            wanted.extend(run.wanted.iter().cloned());
        }
        kept.extend(run.kept.iter().cloned());
    }
    // First: what follows is named by it.
    let named = !facts::secret_names(service).is_empty();
    let naming = named.then(|| Wanted::of(&build::naming_key(&service.names, facts)).lasting());
    let wanted = (naming.into_iter())
        .chain(build::certificates(&service.names, facts))
        .chain(plan.claims.iter().map(|claim| Wanted::of(claim).lasting()))
        // Keys last as long as the data that they open.
        .chain((plan.keys.iter()).map(|keys| Wanted::of(&keys.secret).lasting()))
        .chain(wanted);
    kept.into_iter().fold(Decision::want(wanted), Decision::keep)
}

fn recurring_jobs(plan: &Plan) -> Vec<RecurringJobStatus> {
    let before = plan.service.status.as_ref();
    let before = before.map_or(&[][..], |status| &status.recurring_jobs);
    plan.recurring.iter().map(|run| run.last_run(before)).collect()
}

fn report<C: Controller>(plan: &Plan, facts: &Facts, applied: &Applied<C>) -> Report {
    let service = &plan.service;
    let mut status = json!({});
    for run in &plan.recurring {
        merge(&mut status, run.status());
    }
    if !service.processes.is_empty() {
        let api = service.api();
        let told = ServiceStatus {
            endpoint: endpoint(service),
            installed_release: plan.installed(),
            contracting: plan.contracting(),
            upgrade_phase: plan.phase(),
            replicas: api.and_then(|api| Some(facts.live(api, &service.names.name)?.available)),
            selector: Some(format!(
                "{},app.kubernetes.io/component={}",
                service.names.selector(),
                api.map_or("api", |process| process.name.as_str())
            )),
            recurring_jobs: recurring_jobs(plan),
            ..ServiceStatus::default()
        };
        merge(&mut status, serde_json::to_value(told).unwrap_or_default());
    }
    merge(&mut status, report::groups(plan, facts));
    let up = |process: &Process| plan.up.contains(&process.name);
    if let Some(told) = service
        .tells
        .as_ref()
        .filter(|_| service.processes.iter().all(up))
    {
        merge(&mut status, told.clone());
    }
    for (set, keys) in service.key_sets.iter().zip(&plan.keys) {
        if let (Some(field), Some(rotated)) = (set.status, keys.rotated) {
            status[field] = rotated.to_string().into();
        }
    }
    let report = Report::new(report::states(plan, facts, applied)).status(&status);
    let coming = plan
        .migrations
        .iter()
        .filter(|migration| migration.job.outcome == Outcome::Missing && migration.from > plan.now);
    // What we write ourselves brings no pass.
    let noted = plan.is_to_be_noted().then_some(plan.now + NOTED);
    let hanging = build::next_hanging(facts, plan.now);
    let unshared = build::next_unshared(facts, plan.now);
    // No watch tells when another cluster answers again.
    let away = facts
        .elsewhere
        .values()
        .any(Result::is_err)
        .then_some(plan.now + AWAY);
    let others = coming.map(|migration| migration.from);
    // A certificate comes to its end without news, too.
    let certified = facts.certificates.as_ref().map(|_| plan.now + CERTIFICATES);
    let others = others.chain(noted).chain(hanging).chain(unshared);
    let others = others.chain(away).chain(certified);
    again(report, plan.now, plan.keys.iter(), others)
}

fn merge(status: &mut Value, more: Value) {
    if let (Some(fields), Value::Object(more)) = (status.as_object_mut(), more) {
        fields.extend(more);
    }
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
fn endpoint(service: &Service) -> Option<String> {
    let port = service.api()?.port()?.number;
    let Names {
        namespace,
        name,
        service,
    } = &service.names;
    let path = services::named(service).map_or("", |row| row.path);
    Some(format!("http://{name}.{namespace}.svc:{port}{path}"))
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
