//! One reconciler for all services: database, keys, configuration, schema, bootstrap, processes.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

use c5c3_api::common::ServiceStatus;
use c5c3_api::foreign::{mariadb, rabbitmq, rook::CephClient};
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, Wanted};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use crate::build::{self, Outcome};
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::facts::{self, Facts, dependencies};
use crate::keep::earlier_configurations;
use crate::names::Names;
use crate::plan::{Gate, Plan, plan};
use crate::report;
use crate::subject::Subject;

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
    type Action = Infallible;
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
        let client = object.extras().ceph_client;
        all.extend(client.map(|client| {
            Kind::of::<CephClient>().named(client.namespace.as_deref().or(namespace), &client.name)
        }));
        all
    }

    async fn observe(&self, object: &S, reader: &Reader) -> Result<Facts, Error> {
        Ok(facts::observe(object, reader).await?)
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Infallible>, Error> {
        let (subject, facts) = (&observed.object, &observed.facts);
        let plan = plan(observed)?;
        let configuration = &plan.configuration;
        let mut wanted = build::database_objects(subject, facts)?;
        wanted.extend(build::messaging_objects(subject));
        wanted.extend(plan.keys.iter().map(|keys| keys.secret.clone()));
        wanted.push(configuration.config_map.clone());
        wanted.push(configuration.connections.clone());
        let credentials = configuration.credentials.as_ref().ok();
        wanted.extend(credentials.and_then(Option::as_ref).cloned());
        wanted.extend(build::network_objects(subject));
        let mut kept = earlier_configurations(&plan, facts);
        let namespace = Some(plan.names.namespace.as_str());

        let migrations = plan.migrations.iter().map(|(_, job)| job);
        let setup = plan.sets_up(observed).then_some(&plan.setup);
        for job in migrations.chain(setup) {
            // A Job is named by its inputs; one that is there is not written again.
            if facts.jobs.contains_key(&job.name) {
                kept.push(Kind::of::<Job>().named(namespace, &job.name));
            } else {
                wanted.push(job.job.clone());
            }
        }
        if plan.gate(observed) == Gate::Open {
            let processes = S::DESCRIPTOR.processes.iter();
            wanted.extend(processes.map(|process| build::deployment(subject, configuration, process)));
        } else {
            // What runs goes on as it is until all is there for the new state.
            let running = facts.deployments.keys();
            kept.extend(running.map(|name| Kind::of::<Deployment>().named(namespace, name)));
        }
        let claims = build::claims(subject, facts)?.into_iter();
        let wanted = claims
            .map(|claim| Wanted::raw(claim).lasting())
            .chain(wanted.into_iter().map(Wanted::raw));
        Ok(kept.into_iter().fold(Decision::want(wanted), Decision::keep))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, _applied: &Applied<Self>) -> Report {
        // The same inputs planned well a moment ago.
        let Ok(plan) = plan(observed) else {
            return Report::default();
        };
        let status = ServiceStatus {
            endpoint: endpoint(S::DESCRIPTOR, &plan.names),
            installed_release: installed(&observed.object, &plan),
            replicas: available(&observed.facts, &plan.names.name),
            selector: Some(format!(
                "{},app.kubernetes.io/component=api",
                plan.names.selector()
            )),
            ..ServiceStatus::default()
        };
        let report = Report::new(report::states(observed, &plan)).status(&status);
        // A rotation that is held goes on when its Job ends, which is watched.
        let next = plan.keys.iter().filter(|keys| !keys.held).map(|keys| keys.next);
        match next
            .min()
            .and_then(|at| Duration::try_from(at.duration_since(observed.now)).ok())
        {
            Some(wait) => report.again_in(wait),
            None => report,
        }
    }
}

/// The address of the API inside the cluster.
fn endpoint(descriptor: &Descriptor, names: &Names) -> Option<String> {
    let port = descriptor.port()?;
    Some(format!(
        "http://{}.{}.svc:{port}{}",
        names.name, names.namespace, descriptor.endpoint_path
    ))
}

/// The version whose schema is in place: the last one that a step finished for.
fn installed<S: Subject>(subject: &S, plan: &Plan) -> Option<String> {
    if plan.setup.outcome == Outcome::Complete {
        let image = &subject.common().image;
        return image.tag.clone().or_else(|| image.digest.clone());
    }
    let status = subject.service_status();
    status.and_then(|status| status.installed_release.clone())
}

fn available(facts: &Facts, name: &str) -> Option<i32> {
    let status = facts.deployments.get(name)?.status.as_ref()?;
    Some(status.available_replicas.unwrap_or(0))
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
