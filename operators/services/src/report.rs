//! How a service is, in conditions: each names what it waits for.

use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, reason};
use c5c3_kit::{Observed, States};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use crate::build::{self, Outcome};
use crate::descriptor::{Process, Step};
use crate::facts::Facts;
use crate::names::CONFIG;
use crate::plan::{Gate, Plan, Prepared};
use crate::reconcile::Services;
use crate::subject::{ExtraVolume, Subject, VolumeSource};

pub fn states<S: Subject>(observed: &Observed<Services<S>>, plan: &Plan) -> States {
    let subject = &observed.object;
    let gate = plan.gate(observed);
    let mut states = setup(States::default(), observed, plan, &gate);
    for keys in &plan.keys {
        let migration = plan.migrations.iter().find(|(name, _)| *name == keys.name);
        states = self::keys(states, keys, migration.map(|(_, job)| job));
    }
    if S::MESSAGING {
        states = match &plan.messaging {
            Ok(()) => states.met(MESSAGING_READY, reason::READY, "the message bus is there"),
            Err(why) => states.unmet(MESSAGING_READY, reason::WAITING, why.clone()),
        };
    }
    let extras = subject.extras();
    for (part, text) in extras.settled {
        states = states.not_required(part, text);
    }
    for extra in &extras.volumes {
        states = volume(states, observed, plan, extra);
    }
    for running in S::DESCRIPTOR.processes {
        states = process(states, observed, plan, running, &gate);
    }
    states
}

/// Schema and task are one Job; the number of the step that failed tells whose trouble it is.
fn setup<S: Subject>(states: States, observed: &Observed<Services<S>>, plan: &Plan, gate: &Gate) -> States {
    let job = &plan.setup;
    let schema = S::DESCRIPTOR.schema.len();
    let names: Vec<&str> = S::DESCRIPTOR.schema.iter().map(|step| step.name).collect();
    let names = names.join(", ");
    let states = match (gate, &plan.database) {
        (Gate::Dependency(words), _) => {
            states.unmet(DATABASE_READY, reason::DEPENDENCY_NOT_READY, words.clone())
        }
        (_, Err(why)) => states.unmet(DATABASE_READY, reason::WAITING, why.clone()),
        (_, Ok(())) => match &job.outcome {
            Outcome::Failed { step, .. } if *step >= schema => {
                states.met(DATABASE_READY, reason::SUCCEEDED, format!("{names} done"))
            }
            _ => outcome(states, DATABASE_READY, &names, job),
        },
    };
    let Some(task) = &plan.task else {
        return states;
    };
    let waits = observed.facts.unmet.is_some() || plan.database.is_err();
    match &job.outcome {
        Outcome::Failed { step, .. } if *step < schema => {
            states.unmet(task.part, reason::WAITING, format!("waits for {names}"))
        }
        Outcome::Missing | Outcome::Running if waits => {
            states.unmet(task.part, reason::WAITING, "waits for the database")
        }
        _ => outcome(states, task.part, task.step.name, job),
    }
}

fn outcome(states: States, part: &'static str, name: &str, job: &Prepared) -> States {
    match &job.outcome {
        Outcome::Complete => states.met(part, reason::SUCCEEDED, format!("{name} done")),
        Outcome::Running => states.unmet(part, reason::RUNNING, format!("{name} runs")),
        Outcome::Missing => states.unmet(part, reason::RUNNING, format!("{name} starts")),
        Outcome::Failed { step, words, again } => {
            let failed = job.steps.get(*step).map_or(name, |step: &Step| step.name);
            let again = if *again { "; it is tried again" } else { "" };
            states.unmet(part, reason::FAILED, format!("{failed} failed: {words}{again}"))
        }
    }
}

fn keys(states: States, keys: &crate::rotation::Planned, migration: Option<&Prepared>) -> States {
    let text = format!("{} keys, next rotation {}", keys.count, keys.next);
    match migration {
        None => states.met(keys.part, reason::READY, text),
        Some(job) => match &job.outcome {
            Outcome::Complete => states.met(keys.part, reason::READY, text),
            Outcome::Failed { .. } => outcome(states, keys.part, "credential-migrate", job),
            Outcome::Missing | Outcome::Running if keys.held => states.unmet(
                keys.part,
                reason::WAITING,
                "a rotation is due and waits until what is stored is encrypted with the newest key",
            ),
            Outcome::Missing | Outcome::Running => states.met(
                keys.part,
                reason::READY,
                format!(
                    "{} keys; what is stored is being encrypted with the newest",
                    keys.count
                ),
            ),
        },
    }
}

fn volume<S: Subject>(
    states: States,
    observed: &Observed<Services<S>>,
    plan: &Plan,
    extra: &ExtraVolume,
) -> States {
    let facts = &observed.facts;
    match &extra.source {
        VolumeSource::Claim { .. } => {
            let name = plan.names.suffixed(extra.name);
            let claim = facts.claims.get(&name);
            let phase = claim
                .and_then(|claim| claim.status.as_ref()?.phase.clone())
                .unwrap_or_default();
            match phase.as_str() {
                "Bound" => {
                    let text = format!("PersistentVolumeClaim {name} is bound, mounted at {}", extra.path);
                    states.met(extra.part, reason::READY, text)
                }
                "" => states.unmet(
                    extra.part,
                    reason::PROGRESSING,
                    format!("PersistentVolumeClaim {name} is being made"),
                ),
                phase => {
                    let text = format!("PersistentVolumeClaim {name} is {phase}; see its events");
                    states.unmet(extra.part, reason::PROGRESSING, text)
                }
            }
        }
        VolumeSource::Secret { name, .. } => {
            if let Err(error) = &plan.configuration.credentials {
                return states.unmet(extra.part, reason::WAITING, error.to_string());
            }
            let mounted = format!("Secret {name} is mounted at {}", extra.path);
            if extra.part != CEPH_CONNECTED {
                return states.met(extra.part, reason::READY, mounted);
            }
            ceph(states, observed, &mounted)
        }
    }
}

/// Only Rook knows of a client; a keyring alone proves nothing, and the message says so.
fn ceph<S: Subject>(states: States, observed: &Observed<Services<S>>, mounted: &str) -> States {
    let Some(client) = observed.object.extras().ceph_client else {
        let text = format!("{mounted}; without cephClientRef it is not known whether Ceph knows it");
        return states.met(CEPH_CONNECTED, reason::READY, text);
    };
    let found = observed.facts.ceph_client.as_ref();
    let phase = found.and_then(|client| client.status.as_ref()?.phase.clone());
    match (found, phase.as_deref()) {
        (None, _) => {
            let text = format!("CephClient {} is missing", client.name);
            states.unmet(CEPH_CONNECTED, reason::WAITING, text)
        }
        (Some(_), Some("Ready")) => {
            let text = format!("CephClient {} is Ready; {mounted}", client.name);
            states.met(CEPH_CONNECTED, reason::READY, text)
        }
        (Some(_), phase) => {
            let text = format!(
                "CephClient {} is {}",
                client.name,
                phase.unwrap_or("not ready yet")
            );
            states.unmet(CEPH_CONNECTED, reason::WAITING, text)
        }
    }
}

fn process<S: Subject>(
    states: States,
    observed: &Observed<Services<S>>,
    plan: &Plan,
    process: &Process,
    gate: &Gate,
) -> States {
    match gate {
        Gate::Open => {}
        Gate::Dependency(_) => return states.unmet(process.part, reason::WAITING, "waits for dependsOn"),
        Gate::Credentials { reason, message } => {
            return states.unmet(process.part, reason, message.clone());
        }
        Gate::Messaging => return states.unmet(process.part, reason::WAITING, "waits for the message bus"),
        Gate::Schema => {
            return states.unmet(process.part, reason::WAITING, "waits for the database schema");
        }
    }
    let name = build::deployment_name(&plan.names, process);
    let Some(live) = observed.facts.deployments.get(&name) else {
        let text = format!("Deployment {name} is being made");
        return states.unmet(process.part, reason::PROGRESSING, text);
    };
    let status = live.status.clone().unwrap_or_default();
    let scaled = observed.object.common().autoscaling.is_some();
    let replicas = match live.spec.replicas {
        Some(number) if scaled => number,
        _ => observed.object.replicas(process.name),
    };
    let updated = status.updated_replicas.unwrap_or(0);
    let up = status.available_replicas.unwrap_or(0);
    if is_current(live, plan)
        && updated >= replicas
        && up >= replicas
        && status.replicas.unwrap_or(0) == updated
    {
        let text = format!("{up} of {replicas} replicas up");
        return states.met(process.part, reason::READY, text);
    }
    let why = blocked_pod(&observed.facts, plan, process.name);
    let text = format!("{up} of {replicas} replicas up, {updated} with the current configuration{why}");
    states.unmet(process.part, reason::PROGRESSING, text)
}

/// Only a rollout of this very configuration counts.
fn is_current(live: &Deployment, plan: &Plan) -> bool {
    let template = live.spec.template.metadata.as_ref();
    let hash = template
        .and_then(|meta| meta.annotations.as_ref())
        .and_then(|all| all.get(CONFIG));
    let observed = live.status.as_ref().and_then(|status| status.observed_generation);
    hash == Some(&plan.configuration.hash) && observed == live.metadata.generation
}

/// The first pod of the process that says why it does not start.
fn blocked_pod(facts: &Facts, plan: &Plan, process: &str) -> String {
    let ours = facts.pods.iter().filter(|pod| {
        pod.labels()
            .get("app.kubernetes.io/component")
            .is_some_and(|component| component == process)
    });
    for pod in ours {
        let unplaced = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .find(|c| c.type_ == "PodScheduled" && c.status == "False");
        let unplaced = unplaced.map(|condition| {
            let message = condition.message.as_deref();
            message.unwrap_or("not scheduled").to_owned()
        });
        let words = build::statuses(pod).find_map(build::not_starting).or(unplaced);
        if let Some(words) = words {
            let words = build::mask(&words, &plan.configuration.hidden);
            return format!("; pod {}: {words}", pod.name_any());
        }
    }
    String::new()
}
