//! How a service is, in conditions: each names what it waits for.

use std::collections::BTreeMap;

use c5c3_api::common::ObjectRef;
use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, reason};
use c5c3_api::foreign::rook::CephClient;
use c5c3_kit::conditions::Truth;
use c5c3_kit::{Applied, Observed, States};
use k8s_openapi::api::apps::v1::Deployment;

use crate::build::{self, Outcome};
use crate::descriptor::{Process, Step};
use crate::plan::{Gate, Migration, Plan, Prepared};
use crate::reconcile::Services;
use crate::rollout::{Progress, blocked_pod, progress};
use crate::subject::{ExtraVolume, Subject, VolumeSource};

pub fn states<S: Subject>(
    observed: &Observed<Services<S>>,
    plan: &Plan,
    applied: &Applied<Services<S>>,
) -> States {
    let subject = &observed.object;
    let gate = plan.gate(observed);
    let mut states = setup(States::default(), observed, plan, &gate);
    for keys in &plan.keys {
        let migration = plan
            .migrations
            .iter()
            .find(|migration| migration.set == keys.name);
        states = self::keys(states, keys, migration);
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
    // Several may share a condition: the first that is not well speaks.
    let said = |states: &States, part| states.get(part).is_some_and(|said| said.truth != Truth::True);
    for extra in &extras.volumes {
        if !said(&states, extra.part) {
            states = volume(states, observed, plan, extra);
        }
    }
    for running in S::DESCRIPTOR.processes {
        if !said(&states, running.part) {
            states = process(states, observed, plan, applied, running, &gate);
        }
    }
    if let Some(run) = &plan.recurring {
        states = run.state(states, &gate);
    }
    states
}

/// Schema and task are one Job; the number of the step that failed tells whose trouble it is.
fn setup<S: Subject>(states: States, observed: &Observed<Services<S>>, plan: &Plan, gate: &Gate) -> States {
    if let (Some(_), Gate::Contracted(version)) = (&plan.setup, gate) {
        return contracted(states, plan, version);
    }
    let Some(job) = &plan.setup else {
        return if observed.object.databases().is_empty() {
            states
        } else {
            database(states, plan, gate)
        };
    };
    let mut steps = &job.steps[..job.steps.len() - usize::from(plan.task.is_some())];
    let schema = steps.len();
    if job.made_by.is_some() {
        steps = S::DESCRIPTOR.schema;
    }
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    let names = names.join(", ");
    let states = match (gate, &plan.database) {
        (Gate::Dependency(words), _) => {
            states.unmet(DATABASE_READY, reason::DEPENDENCY_NOT_READY, words.clone())
        }
        (_, Err(why)) => states.unmet(DATABASE_READY, reason::WAITING, why.clone()),
        (_, Ok(())) => match &job.outcome {
            Outcome::Missing if plan.busy.is_some() => {
                let other = plan.busy.as_deref().unwrap_or_default();
                let text = format!("{names} waits until {other}, has ended");
                states.unmet(DATABASE_READY, reason::WAITING, text)
            }
            Outcome::Complete => contract(states, plan, &names),
            _ if job.made_by.is_some() => contract(states, plan, &names),
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
        Outcome::Missing | Outcome::Running | Outcome::Waiting(_) if waits => {
            states.unmet(task.part, reason::WAITING, "waits for the database")
        }
        _ => outcome(states, task.part, task.step.name, job),
    }
}

/// Another version than the spec names has begun to contract the schema. Nothing is done until a
/// person decides.
fn contracted(states: States, plan: &Plan, version: &str) -> States {
    let text = format!(
        "contract of {version} began; going back needs a restore of the database; set the image to {version}"
    );
    let states = states.unmet(DATABASE_READY, reason::FAILED, text);
    match (&plan.task, &plan.setup) {
        (Some(task), Some(job)) if job.outcome == Outcome::Complete => {
            outcome(states, task.part, task.step.name, job)
        }
        (Some(task), _) => states.unmet(task.part, reason::WAITING, "waits for the database schema"),
        (None, _) => states,
    }
}

/// A service that makes its own schema needs a database that answers.
fn database(states: States, plan: &Plan, gate: &Gate) -> States {
    let (part, reason, text) = match (gate, &plan.database) {
        (Gate::Dependency(words), _) => (DATABASE_READY, reason::DEPENDENCY_NOT_READY, words),
        (_, Err(why)) => (DATABASE_READY, reason::WAITING, why),
        (_, Ok(())) => return states.met(DATABASE_READY, reason::READY, "the database is there"),
    };
    states.unmet(part, reason, text.clone())
}

/// The last steps of an upgrade, once its pods run. Until they are done it goes on, and says so.
fn contract(states: States, plan: &Plan, done: &str) -> States {
    let Some(job) = &plan.contract else {
        return states.met(DATABASE_READY, reason::SUCCEEDED, format!("{done} done"));
    };
    let names: Vec<&str> = job.steps.iter().map(|step| step.name).collect();
    let names = names.join(", ");
    if plan.rolled_out || job.outcome != Outcome::Missing {
        return outcome(states, DATABASE_READY, &names, job);
    }
    let until = match &plan.left_over {
        Some(pod) => format!("pod {pod} (old image) is gone"),
        None => "the new version is up".to_owned(),
    };
    let text = format!("{done} done; {names} waits until {until}");
    states.unmet(DATABASE_READY, reason::PROGRESSING, text)
}

fn outcome(states: States, part: &'static str, name: &str, job: &Prepared) -> States {
    match &job.outcome {
        Outcome::Complete => states.met(part, reason::SUCCEEDED, format!("{name} done")),
        Outcome::Running => states.unmet(part, reason::RUNNING, format!("{name} runs")),
        Outcome::Missing => states.unmet(part, reason::RUNNING, format!("{name} starts")),
        Outcome::Waiting(words) => states.unmet(part, reason::WAITING, format!("{name} waits: {words}")),
        Outcome::Failed { step, words, again } => {
            let failed = job.steps.get(*step).map_or(name, |step: &Step| step.name);
            let again = if *again { "; it is tried again" } else { "" };
            states.unmet(part, reason::FAILED, format!("{failed} failed: {words}{again}"))
        }
    }
}

fn keys(states: States, keys: &crate::rotation::Planned, migration: Option<&Migration>) -> States {
    let warning = keys.warning.as_ref().map(|text| format!("; {text}"));
    let warning = warning.unwrap_or_default();
    let text = format!("{} keys, next rotation {}{warning}", keys.count, keys.next);
    match migration {
        None => states.met(keys.part, reason::READY, text),
        Some(Migration { job, from, .. }) => match &job.outcome {
            Outcome::Complete => states.met(keys.part, reason::READY, text),
            Outcome::Failed { .. } => outcome(states, keys.part, "credential-migrate", job),
            Outcome::Waiting(_) if keys.held => outcome(states, keys.part, "credential-migrate", job),
            Outcome::Waiting(words) => {
                let text = format!("{text}; credential-migrate waits: {words}");
                states.met(keys.part, reason::READY, text)
            }
            Outcome::Missing | Outcome::Running if keys.held => states.unmet(
                keys.part,
                reason::WAITING,
                "a rotation is due and waits until what is stored is encrypted with the newest key",
            ),
            Outcome::Missing => {
                let text = format!("{text}; what is stored is encrypted anew from {from} on");
                states.met(keys.part, reason::READY, text)
            }
            Outcome::Running => {
                let text = format!(
                    "{} keys; what is stored is being encrypted with the newest",
                    keys.count
                );
                states.met(keys.part, reason::READY, text)
            }
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
            let name = plan.names.suffixed(&extra.name);
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
        VolumeSource::Secret {
            name, ceph_client, ..
        } => {
            if let Err(error) = &plan.configuration.credentials {
                return states.unmet(extra.part, reason::WAITING, error.to_string());
            }
            let mounted = format!("Secret {name} is mounted at {}", extra.path);
            if extra.part != CEPH_CONNECTED {
                return states.met(extra.part, reason::READY, mounted);
            }
            ceph(states, &facts.ceph_clients, ceph_client.as_ref(), &mounted)
        }
    }
}

/// Only Rook knows of a client; a keyring alone proves nothing, and the message says so.
fn ceph(
    states: States,
    clients: &BTreeMap<ObjectRef, CephClient>,
    client: Option<&ObjectRef>,
    mounted: &str,
) -> States {
    let Some(client) = client else {
        let text = format!("{mounted}; without cephClientRef it is not known whether Ceph knows it");
        return states.met(CEPH_CONNECTED, reason::READY, text);
    };
    let found = clients.get(client);
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
    applied: &Applied<Services<S>>,
    process: &Process,
    gate: &Gate,
) -> States {
    let waiting = |states: States, text: &str| states.unmet(process.part, reason::WAITING, text);
    match gate {
        Gate::Open => {}
        Gate::Dependency(_) => return waiting(states, "waits for dependsOn"),
        Gate::Credentials { reason, message } => {
            return states.unmet(process.part, reason, message.clone());
        }
        Gate::Messaging => return waiting(states, "waits for the message bus"),
        Gate::Database => return waiting(states, "waits for the database"),
        Gate::Schema => return waiting(states, "waits for the database schema"),
        Gate::Contracted(version) => {
            let text = format!("stays as it is: the database schema is that of {version}");
            return waiting(states, &text);
        }
    }
    if let Some(before) = plan.waits_for(observed, process) {
        return waiting(states, &format!("waits until {before} is up"));
    }
    let name = build::deployment_name::<S>(&plan.names, process);
    // As the server has it after this pass: what was read before may be of an earlier generation.
    let live: Option<Deployment> = applied.get(Some(&plan.names.namespace), &name);
    let Some(live) = live else {
        let text = format!("Deployment {name} is being made");
        return states.unmet(process.part, reason::PROGRESSING, text);
    };
    let unchecked = plan.configuration.unchecked.as_ref();
    let unchecked = unchecked.map(|why| format!("; {why}")).unwrap_or_default();
    let Progress {
        wanted,
        updated,
        up,
        done,
    } = progress(&observed.object, process, &live);
    if done {
        let text = format!("{up} of {wanted} replicas up{unchecked}");
        return states.met(process.part, reason::READY, text);
    }
    let why = blocked_pod(&observed.facts, process, &plan.configuration.hidden, observed.now);
    let text =
        format!("{up} of {wanted} replicas up, {updated} with the current configuration{why}{unchecked}");
    states.unmet(process.part, reason::PROGRESSING, text)
}
