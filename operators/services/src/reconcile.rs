//! One reconciler for all services: database, keys, configuration, schema, bootstrap, processes.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

use c5c3_api::common::ServiceStatus;
use c5c3_api::conditions::{DATABASE_READY, reason};
use c5c3_api::foreign::mariadb::{Database, Grant, MariaDb, User};
use c5c3_api::foreign::memcached::Memcached;
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States, Wanted,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::Value;

use crate::build::{self, Configuration, Outcome};
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::facts::{self, Facts};
use crate::names::Names;
use crate::rotation::{self, Planned};
use crate::subject::{Subject, Task};

/// So many configurations are kept: the current one and those before it, for pods on their way out.
const KEPT: usize = 3;

/// The controller of one kind of service.
#[derive(Debug)]
pub struct Services<S>(PhantomData<fn() -> S>);

impl<S> Default for Services<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Everything that follows from spec and facts; deciding and reporting only pick from it.
struct Plan {
    names: Names,
    configuration: Configuration,
    keys: Vec<Planned>,
    /// Why the database cannot be used yet.
    database: Result<(), String>,
    schema: (Value, Outcome),
    after: Option<(Task, Value, Outcome)>,
}

fn plan<S: Subject>(observed: &Observed<Services<S>>) -> Result<Plan, Error> {
    let (subject, facts) = (&observed.object, &observed.facts);
    let names = Names::of(subject);
    let configuration = build::configuration(subject, facts)?;
    let extras = subject.extras();
    let mut keys = Vec::new();
    for (index, set) in extras.key_sets.iter().enumerate() {
        // Two key sets at the most, two random keys each.
        let random = [facts.random[index * 2 % 4], facts.random[(index * 2 + 1) % 4]];
        keys.push(rotation::plan(&names, set, facts, random, observed.now)?);
    }
    let with_outcome = |job: Value| {
        let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let outcome = build::outcome(facts, &name, &configuration.hidden);
        (job, outcome)
    };
    let schema = with_outcome(build::job(subject, &configuration, S::DESCRIPTOR.schema, None));
    let after = extras.after_schema.map(|task| {
        let (job, outcome) = with_outcome(build::job(subject, &configuration, &[task.step], Some(&task)));
        (task, job, outcome)
    });
    let database = database_ready(subject, facts, &names);
    Ok(Plan {
        names,
        configuration,
        keys,
        database,
        schema,
        after,
    })
}

fn database_ready<S: Subject>(subject: &S, facts: &Facts, names: &Names) -> Result<(), String> {
    for (group, database) in subject.databases() {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let server = facts
            .databases
            .get(&cluster.name)
            .ok_or_else(|| format!("MariaDB {} is missing", cluster.name))?;
        let status = server.status.as_ref().map(|status| status.common.clone());
        facts::readiness(status).map_err(|why| format!("MariaDB {}: {why}", cluster.name))?;
        for kind in ["Database", "User", "Grant"] {
            let name = names.database_object(group);
            if let Some(Err(why)) = facts.database_objects.get(&(kind, name.clone())) {
                return Err(format!("{kind} {name}: {why}"));
            }
        }
    }
    Ok(())
}

impl<S: Subject> Controller for Services<S> {
    type Kind = S;
    type Facts = Facts;
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = S::CONTROLLER;
    const PARTS: &'static [Part] = S::DESCRIPTOR.parts;

    fn owns(&self) -> Vec<Kind> {
        vec![
            Kind::of::<Database>(),
            Kind::of::<User>(),
            Kind::of::<Grant>(),
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<PersistentVolumeClaim>(),
            Kind::of::<Job>(),
            Kind::of::<Service>(),
            Kind::of::<PodDisruptionBudget>(),
            Kind::of::<Deployment>(),
        ]
    }

    fn watches(&self) -> Vec<Kind> {
        vec![
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<MariaDb>(),
            Kind::of::<Memcached>(),
        ]
    }

    fn references(object: &S) -> Vec<Reference> {
        let namespace = object.namespace();
        let namespace = namespace.as_deref();
        let mut all: Vec<Reference> = facts::secret_names(object)
            .iter()
            .map(|name| Kind::of::<Secret>().named(namespace, name))
            .collect();
        let policy = object
            .common()
            .policy_overrides
            .as_ref()
            .and_then(|policy| policy.config_map_ref.as_ref());
        all.extend(policy.map(|reference| Kind::of::<ConfigMap>().named(namespace, &reference.name)));
        let databases = object.databases();
        let clusters = databases
            .iter()
            .filter_map(|(_, database)| database.cluster_ref.as_ref());
        all.extend(clusters.map(|cluster| Kind::of::<MariaDb>().named(namespace, &cluster.name)));
        let cache = object.cache().and_then(|cache| cache.cluster_ref.as_ref());
        all.extend(cache.map(|cluster| Kind::of::<Memcached>().named(namespace, &cluster.name)));
        all
    }

    async fn observe(&self, object: &S, reader: &Reader) -> Result<Facts, Error> {
        Ok(facts::observe(object, reader).await?)
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Infallible>, Error> {
        let (subject, facts) = (&observed.object, &observed.facts);
        let plan = plan(observed)?;
        let mut wanted = build::database_objects(subject, facts)?;
        wanted.extend(plan.keys.iter().map(|keys| keys.secret.clone()));
        wanted.push(plan.configuration.config_map.clone());
        wanted.push(plan.configuration.secret.clone());
        wanted.extend(build::claims(subject));
        wanted.extend(build::network_objects(subject));
        let mut kept = earlier_configurations(&plan, facts);
        if plan.database.is_ok() {
            wanted.push(plan.schema.0.clone());
        }
        if plan.schema.1 == Outcome::Complete {
            wanted.extend(plan.after.as_ref().map(|(_, job, _)| job.clone()));
            let processes = S::DESCRIPTOR.processes.iter();
            wanted.extend(processes.map(|process| build::deployment(subject, &plan.configuration, process)));
        } else {
            // What runs goes on as it is until the database fits the new version.
            let running = facts.deployments.keys();
            kept.extend(
                running.map(|name| Kind::of::<Deployment>().named(Some(&plan.names.namespace), name)),
            );
        }
        let decision = Decision::want(wanted.into_iter().map(Wanted::raw));
        Ok(kept.into_iter().fold(decision, Decision::keep))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, _applied: &Applied<Self>) -> Report {
        let subject = &observed.object;
        // The same inputs planned well a moment ago.
        let Ok(plan) = plan(observed) else {
            return Report::default();
        };
        let mut states = States::default();
        states = match (&plan.database, &plan.schema.1) {
            (Err(why), _) => states.unmet(DATABASE_READY, reason::WAITING, why.clone()),
            (Ok(()), outcome) => step_state(
                states,
                DATABASE_READY,
                S::DESCRIPTOR.schema.last().map_or("", |step| step.name),
                outcome,
            ),
        };
        for keys in &plan.keys {
            let text = format!("{} keys, next rotation {}", keys.count, keys.next);
            states = states.met(keys.part, reason::READY, text);
        }
        if let Some((task, _, outcome)) = &plan.after {
            states = match &plan.schema.1 {
                Outcome::Complete => step_state(states, task.part, task.step.name, outcome),
                _ => states.unmet(task.part, reason::WAITING, "waits for the database schema"),
            };
        }
        for (part, text) in subject.extras().settled {
            states = states.not_required(part, text);
        }
        for volume in subject.extras().volumes {
            states = states.met(volume.part, reason::READY, format!("mounted at {}", volume.path));
        }
        for process in S::DESCRIPTOR.processes {
            states = process_state(states, observed, &plan, process);
        }
        let status = ServiceStatus {
            endpoint: endpoint(S::DESCRIPTOR, &plan.names),
            installed_release: installed(subject, &plan),
            replicas: available(&observed.facts, &plan.names.name),
            selector: Some(plan.names.selector()),
            ..ServiceStatus::default()
        };
        let report = Report::new(states).status(&status);
        let next = plan.keys.iter().map(|keys| keys.next).min();
        match next.and_then(|at| Duration::try_from(at.duration_since(observed.now)).ok()) {
            Some(wait) => report.again_in(wait),
            None => report,
        }
    }
}

fn step_state(states: States, part: &'static str, step: &str, outcome: &Outcome) -> States {
    match outcome {
        Outcome::Complete => states.met(part, reason::SUCCEEDED, format!("{step} done")),
        Outcome::Failed(words) => states.unmet(part, reason::FAILED, format!("{step} failed: {words}")),
        Outcome::Running(words) if words.is_empty() => {
            states.unmet(part, reason::RUNNING, format!("{step} runs"))
        }
        Outcome::Running(words) => {
            states.unmet(part, reason::RUNNING, format!("{step} is tried again: {words}"))
        }
        Outcome::Missing => states.unmet(part, reason::RUNNING, format!("{step} starts")),
    }
}

fn process_state<S: Subject>(
    states: States,
    observed: &Observed<Services<S>>,
    plan: &Plan,
    process: &crate::descriptor::Process,
) -> States {
    if plan.schema.1 != Outcome::Complete {
        return states.unmet(process.part, reason::WAITING, "waits for the database schema");
    }
    let wanted = build::deployment(&observed.object, &plan.configuration, process);
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let replicas = observed.object.replicas(process.name);
    let Some(live) = observed.facts.deployments.get(name) else {
        return states.unmet(
            process.part,
            reason::PROGRESSING,
            format!("Deployment {name} is being made"),
        );
    };
    let status = live.status.clone().unwrap_or_default();
    // Only a rollout of this very configuration counts.
    let current = live
        .spec
        .template
        .metadata
        .as_ref()
        .and_then(|meta| meta.annotations.as_ref())
        .and_then(|all| all.get("c5c3.io/config"))
        == Some(&plan.configuration.hash)
        && status.observed_generation == live.metadata.generation;
    let updated = status.updated_replicas.unwrap_or(0);
    let up = status.available_replicas.unwrap_or(0);
    if current && updated >= replicas && up >= replicas && status.replicas.unwrap_or(0) == updated {
        return states.met(
            process.part,
            reason::READY,
            format!("{up} of {replicas} replicas up"),
        );
    }
    let why = blocked_pod(
        &observed.facts,
        &plan.names,
        process.name,
        &plan.configuration.hidden,
    );
    let text = format!("{up} of {replicas} replicas up, {updated} with the current configuration{why}");
    states.unmet(process.part, reason::PROGRESSING, text)
}

/// The first pod of the process that says why it does not start.
fn blocked_pod(facts: &Facts, names: &Names, process: &str, hidden: &[String]) -> String {
    let labels = names.process_labels(process);
    let ours = facts.pods.iter().filter(|pod| {
        labels.as_object().is_some_and(|all| {
            all.iter()
                .all(|(key, value)| pod.labels().get(key).map(String::as_str) == value.as_str())
        })
    });
    for pod in ours {
        let statuses = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten());
        for container in statuses {
            let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
            if let Some(waiting) = waiting.filter(|waiting| {
                waiting
                    .reason
                    .as_deref()
                    .is_some_and(|r| r != "ContainerCreating" && r != "PodInitializing")
            }) {
                let text = format!(
                    "{}: {}",
                    waiting.reason.as_deref().unwrap_or_default(),
                    waiting.message.as_deref().unwrap_or_default()
                );
                return format!("; pod {}: {}", pod.name_any(), build::mask(&text, hidden));
            }
        }
        let unplaced = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        if let Some(condition) = unplaced
            .into_iter()
            .find(|c| c.type_ == "PodScheduled" && c.status == "False")
        {
            return format!(
                "; pod {}: {}",
                pod.name_any(),
                condition.message.as_deref().unwrap_or("not scheduled")
            );
        }
    }
    String::new()
}

fn earlier_configurations(plan: &Plan, facts: &Facts) -> Vec<Reference> {
    let namespace = Some(plan.names.namespace.as_str());
    let mut kept = Vec::new();
    for (kind, prefix, current) in [
        (
            Kind::of::<ConfigMap>(),
            plan.names.suffixed("config-"),
            plan.configuration.config_map_name(),
        ),
        (
            Kind::of::<Secret>(),
            plan.names.suffixed("environment-"),
            plan.configuration.secret_name(),
        ),
    ] {
        let current = kind.named(namespace, current);
        let mut earlier: Vec<_> = facts
            .owned
            .iter()
            .filter(|(reference, _)| {
                reference.kind == current.kind
                    && reference.key.name.starts_with(&prefix)
                    && *reference != current
            })
            .collect();
        earlier
            .sort_by_key(|(reference, owned)| (std::cmp::Reverse(owned.created), reference.key.name.clone()));
        kept.extend(
            earlier
                .into_iter()
                .take(KEPT - 1)
                .map(|(reference, _)| reference.clone()),
        );
    }
    kept
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
    if plan.schema.1 == Outcome::Complete {
        return subject.common().image.tag.clone();
    }
    subject
        .service_status()
        .and_then(|status| status.installed_release.clone())
}

fn available(facts: &Facts, name: &str) -> Option<i32> {
    facts
        .deployments
        .get(name)
        .and_then(|deployment| deployment.status.as_ref())
        .map(|status| status.available_replicas.unwrap_or(0))
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
