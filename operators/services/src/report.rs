//! The conditions of a service: each names what it is waiting for.

use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, reason, service};
use c5c3_api::ovn::OvnCluster;
use c5c3_kit::conditions::Truth;
use c5c3_kit::{Applied, Controller, Fault, Kind, States};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::build::{self, Outcome};
use crate::facts::{Facts, Live, Stray};
use crate::judge::rollout::{self, Progress, blocked_pod, progress};
use crate::judge::{Gate, answers, ovn, storage, troubled};
use crate::plan::{Migration, Plan, Prepared};
use crate::shape::{Group, Process, Step, Volume, VolumeSource, Workload};

pub(crate) fn states<C: Controller>(plan: &Plan, facts: &Facts, applied: &Applied<C>) -> States {
    let service = &plan.service;
    let gate = plan.gate();
    let mut states = setup(States::default(), plan, &gate);
    for keys in &plan.keys {
        let migration = plan
            .migrations
            .iter()
            .find(|migration| migration.set == keys.name);
        states = self::keys(states, keys, migration);
    }
    if !service.buses.is_empty() {
        states = match &plan.messaging {
            Ok(()) => states.met(MESSAGING_READY, reason::READY, "the message bus is ready"),
            Err(trouble) => troubled(states, MESSAGING_READY, reason::WAITING, trouble),
        };
    }
    if let Some(ovn) = &facts.ovn {
        let cluster = Kind::of::<OvnCluster>().named(None, &ovn.name_any());
        states = ovn::told(states, ovn).because_of(service::OVN_CONNECTED, Some(cluster));
    }
    for (part, text) in &service.not_required {
        states = states.not_required(part, text.clone());
    }
    states = ovn::tried(states, service, &plan.configuration.hidden, facts);
    states = storage::tried(states, service, &plan.configuration.hidden, facts);
    // Several may share a condition: the first that is not well speaks.
    let said = |states: &States, part| states.get(part).is_some_and(|said| said.truth != Truth::True);
    for extra in service.volumes() {
        if let Some(part) = extra.part.filter(|part| !said(&states, part)) {
            states = volume(states, plan, facts, extra, part, &gate);
        }
    }
    for running in &service.processes {
        if !said(&states, running.part) {
            states = process(states, plan, facts, applied, running, &gate);
        }
    }
    if let Some(stray) = facts.strays.first() {
        let Stray {
            node,
            label,
            value,
            known,
            ..
        } = stray;
        let text = format!(
            "node {node} is labelled {label}={value}, and there is no such cell: label it with one of {}, or add the cell",
            known.join(", ")
        );
        let blocker = Kind::of::<Node>().named(None, node);
        states = states
            .unmet(stray.part, reason::INVALID, text)
            .because_of(stray.part, Some(blocker));
    }
    for run in &plan.recurring {
        if run.part.is_some_and(|part| !said(&states, part)) {
            states = run.state(states, &gate);
        }
    }
    states
}

/// The status of cells or backends, one by one.
pub(crate) fn groups(plan: &Plan, facts: &Facts) -> Value {
    let Some(groups) = &plan.service.groups else {
        return json!({});
    };
    let answers = answers::newest(&facts.pods, &groups.told_by);
    let one = |group: &Group| {
        let waits = group.processes.iter().find(|name| !plan.up.contains(name));
        let mut more = match answers.get(&group.name) {
            Some(Value::Object(answer)) => answer.clone(),
            _ => group.known.clone(),
        };
        // Up it may be, and yet out of reach of what it looks after.
        let down = more.remove("state").is_some_and(|state| state == "down");
        let status = match waits {
            Some(name) => format!("waiting for {name}"),
            None if down => "down".to_owned(),
            None => "Ready".to_owned(),
        };
        let mut told = json!({"name": group.name, "status": status});
        if let Some(fields) = told.as_object_mut() {
            fields.extend(more);
        }
        if let (Some(field), Some(counted)) = (groups.count, &group.counted) {
            told[field] = rollout::nodes_of(facts, std::slice::from_ref(counted))
                .len()
                .into();
        }
        told
    };
    json!({groups.field: groups.all.iter().map(one).collect::<Vec<_>>()})
}

/// Schema and task are one Job; the number of the step that failed tells whose trouble it is.
fn setup(states: States, plan: &Plan, gate: &Gate) -> States {
    let schema = &plan.service.schema;
    if let (Some(_), Gate::Contracted(version)) = (&plan.setup, gate) {
        return contracted(states, plan, version);
    }
    let Some(job) = &plan.setup else {
        return if plan.service.databases.is_empty() {
            states
        } else {
            database(states, plan, gate)
        };
    };
    let mut steps = &job.steps[..job.steps.len() - usize::from(schema.task.is_some())];
    let before_task = steps.len();
    if job.made_by.is_some() {
        steps = &schema.steps;
    }
    let names = names_of(steps);
    let states = match (gate, &plan.database) {
        (Gate::Dependency(trouble), _) => {
            troubled(states, DATABASE_READY, reason::DEPENDENCY_NOT_READY, trouble)
        }
        (_, Err(trouble)) => troubled(states, DATABASE_READY, reason::WAITING, trouble),
        (_, Ok(())) => match &job.outcome {
            Outcome::Missing if plan.busy.is_some() => {
                let other = plan.busy.as_deref().unwrap_or_default();
                let text = format!("{names} waiting for {other}");
                states.unmet(DATABASE_READY, reason::WAITING, text)
            }
            Outcome::Complete => contract(states, plan, &names),
            _ if job.made_by.is_some() => contract(states, plan, &names),
            Outcome::Failed { step, .. } if *step >= before_task => {
                states.met(DATABASE_READY, reason::SUCCEEDED, format!("{names} done"))
            }
            _ => outcome(states, DATABASE_READY, &names, job),
        },
    };
    let Some(task) = &schema.task else {
        return states;
    };
    let waits = plan.unmet.is_some() || plan.database.is_err();
    match &job.outcome {
        Outcome::Failed { step, .. } if *step < before_task => {
            states.unmet(task.part, reason::WAITING, format!("waiting for {names}"))
        }
        Outcome::Missing | Outcome::Running | Outcome::Waiting(_) if waits => {
            states.unmet(task.part, reason::WAITING, "waiting for the database")
        }
        _ => outcome(states, task.part, &task.step.name, job),
    }
}

fn names_of(steps: &[Step]) -> String {
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    names.join(", ")
}

/// Another version than the spec names has begun to contract the schema. Nothing is done until a
/// person decides.
fn contracted(states: States, plan: &Plan, version: &str) -> States {
    let text = format!(
        "contract of {version} has begun: set the image to {version}; going back requires restoring the database from a backup"
    );
    let states = states.unmet(DATABASE_READY, reason::FAILED, text);
    match (&plan.service.schema.task, &plan.setup) {
        (Some(task), Some(job)) if job.outcome == Outcome::Complete => {
            outcome(states, task.part, &task.step.name, job)
        }
        (Some(task), _) => states.unmet(task.part, reason::WAITING, "waiting for the database schema"),
        (None, _) => states,
    }
}

/// A service that makes its own schema needs a database that answers.
fn database(states: States, plan: &Plan, gate: &Gate) -> States {
    match (gate, &plan.database) {
        (Gate::Dependency(trouble), _) => {
            troubled(states, DATABASE_READY, reason::DEPENDENCY_NOT_READY, trouble)
        }
        (_, Err(trouble)) => troubled(states, DATABASE_READY, reason::WAITING, trouble),
        (_, Ok(())) => states.met(DATABASE_READY, reason::READY, "the database is ready"),
    }
}

/// The last steps of an upgrade, once its pods run. Until they are done it goes on, and says so.
fn contract(states: States, plan: &Plan, done: &str) -> States {
    let Some(job) = &plan.contract else {
        return states.met(DATABASE_READY, reason::SUCCEEDED, format!("{done} done"));
    };
    let names = names_of(&job.steps);
    if plan.rolled_out || job.outcome != Outcome::Missing {
        return outcome(states, DATABASE_READY, &names, job);
    }
    let until = match &plan.left_over {
        Some(pod) => format!("pod {pod} (old image) is gone"),
        None => "the new version is up".to_owned(),
    };
    let text = format!("{done} done; {names} waiting until {until}");
    states.unmet(DATABASE_READY, reason::PROGRESSING, text)
}

fn outcome(states: States, part: &'static str, name: &str, job: &Prepared) -> States {
    let states = match &job.outcome {
        Outcome::Complete => states.met(part, reason::SUCCEEDED, format!("{name} done")),
        Outcome::Running => states.unmet(part, reason::RUNNING, format!("{name} running")),
        Outcome::Missing => states.unmet(part, reason::RUNNING, format!("{name} starting")),
        Outcome::Waiting(words) => states.unmet(part, reason::WAITING, format!("{name} waiting: {words}")),
        Outcome::Failed { step, words, again } => {
            let failed = job.steps.get(*step).map_or(name, |step| step.name.as_str());
            let again = if *again { "; it will be retried" } else { "" };
            states.unmet(part, reason::FAILED, format!("{failed} failed: {words}{again}"))
        }
    };
    states.because_of(part, Some(Kind::of::<Job>().named(None, &job.name)))
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
                let text = format!("{text}; credential-migrate waiting: {words}");
                states.met(keys.part, reason::READY, text)
            }
            Outcome::Missing | Outcome::Running if keys.held => states.unmet(
                keys.part,
                reason::WAITING,
                "a rotation is due, but waits until stored data is encrypted with the newest key",
            ),
            Outcome::Missing => {
                let text = format!("{text}; re-encryption of stored data begins at {from}");
                states.met(keys.part, reason::READY, text)
            }
            Outcome::Running => {
                let text = format!(
                    "{} keys; stored data is being re-encrypted with the newest key",
                    keys.count
                );
                states.met(keys.part, reason::READY, text)
            }
        },
    }
}

fn volume(
    states: States,
    plan: &Plan,
    facts: &Facts,
    extra: &Volume,
    part: &'static str,
    gate: &Gate,
) -> States {
    match &extra.source {
        VolumeSource::Claim { .. } => {
            let name = plan.service.names.suffixed(&extra.name);
            let claim = facts.claims.get(&name);
            let phase = claim
                .and_then(|claim| claim.status.as_ref()?.phase.clone())
                .unwrap_or_default();
            let own = Kind::of::<PersistentVolumeClaim>().named(None, &name);
            let states = match phase.as_str() {
                "Bound" => {
                    let text = format!("PersistentVolumeClaim {name} is bound, mounted at {}", extra.path);
                    states.met(part, reason::READY, text)
                }
                "" => states.unmet(
                    part,
                    reason::PROGRESSING,
                    format!("PersistentVolumeClaim {name} is being created"),
                ),
                // Many classes make a volume when its first pod is placed.
                "Pending" if *gate != Gate::Open => {
                    let text = format!("PersistentVolumeClaim {name} is bound when its first pod starts");
                    states.unmet(part, reason::WAITING, text)
                }
                phase => {
                    let unshared = claim.and_then(|claim| build::unshared(claim, plan.now));
                    let text = unshared.unwrap_or_else(|| {
                        format!("PersistentVolumeClaim {name} is {phase}; see its events")
                    });
                    states.unmet(part, reason::PROGRESSING, text)
                }
            };
            states.because_of(part, Some(own))
        }
        VolumeSource::Keyring { login, .. } => {
            if let Some(error) = plan.configuration.lacks() {
                return states
                    .unmet(part, reason::WAITING, error.to_string())
                    .because_of(part, error.blocker());
            }
            let mounted = format!("Secret {} is mounted at {}", login.secret, extra.path);
            match part {
                CEPH_CONNECTED => storage::ceph(
                    states,
                    &plan.service,
                    facts,
                    extra,
                    (&plan.configuration.hidden, &mounted),
                ),
                _ => states.met(part, reason::READY, mounted),
            }
        }
        VolumeSource::Lent { .. }
        | VolumeSource::NodeCertificates { .. }
        | VolumeSource::OvnCertificates(_)
        | VolumeSource::Scratch
        | VolumeSource::Host { .. } => states,
    }
}

fn process<C: Controller>(
    states: States,
    plan: &Plan,
    facts: &Facts,
    applied: &Applied<C>,
    process: &Process,
    gate: &Gate,
) -> States {
    let service = &plan.service;
    let waiting = |states: States, text: &str| states.unmet(process.part, reason::WAITING, text);
    match gate {
        Gate::Open => {}
        Gate::Dependency(_) => return waiting(states, "waiting for dependsOn"),
        Gate::Credentials { reason, trouble } => {
            return troubled(states, process.part, reason, trouble);
        }
        Gate::Messaging => return waiting(states, "waiting for the message bus"),
        Gate::Database => return waiting(states, "waiting for the database"),
        Gate::Schema => return waiting(states, "waiting for the database schema"),
        Gate::Contracted(version) => {
            let text = format!("left unchanged: the database schema is that of {version}");
            return waiting(states, &text);
        }
    }
    if let Some(Err(why)) = process
        .cluster
        .as_ref()
        .and_then(|cluster| facts.elsewhere.get(cluster))
    {
        return states.unmet(process.part, reason::UNREACHABLE, why.clone());
    }
    if let Some(before) = plan.waits_for(process) {
        return waiting(states, &format!("waiting until {before} is up"));
    }
    let name = build::workload_name(service, process);
    // As the server has it after this pass: what was read before may be of an earlier generation.
    let (kind, resource) = match process.workload {
        Workload::Deployment { .. } => ("Deployment", Kind::of::<Deployment>()),
        Workload::StatefulSet { .. } => ("StatefulSet", Kind::of::<StatefulSet>()),
        Workload::DaemonSet { .. } => ("DaemonSet", Kind::of::<DaemonSet>()),
    };
    let mut own = resource.named(None, &name);
    if let Some(cluster) = &process.cluster {
        own.cluster = cluster.clone().into();
    }
    let Some(live) = Live::applied(applied, process, &service.names.namespace, &name) else {
        let text = format!("{kind} {name} is being created");
        return states.unmet(process.part, reason::PROGRESSING, text);
    };
    let unchecked = plan.configuration.unchecked.as_ref();
    let unchecked = unchecked.map(|why| format!("; {why}")).unwrap_or_default();
    let Progress {
        wanted,
        updated,
        up,
        done,
    } = progress(service, process, &live);
    // Of several processes with one condition, the one that is not up is named.
    let several = service
        .processes
        .iter()
        .filter(|other| other.part == process.part)
        .count()
        > 1;
    let whose = if several {
        format!("{}: ", process.name)
    } else {
        String::new()
    };
    if wanted == 0 && !process.is_on_nodes() {
        let text = format!("{whose}replicas is 0, so nothing runs: set it to 1 or more");
        return states.unmet(process.part, reason::SCALED_TO_ZERO, text);
    }
    if done && !process.is_on_nodes() {
        let text = format!("{whose}{up} of {wanted} replicas up{unchecked}");
        return states.met(process.part, reason::READY, text);
    }
    let why = blocked_pod(facts, process, &plan.configuration.hidden, plan.now);
    if process.is_on_nodes() {
        let text = match wanted {
            0 => format!("{whose}no node has the required labels yet{unchecked}"),
            _ if done => format!("{whose}up on {up} of {wanted} nodes{unchecked}"),
            _ => format!(
                "{whose}up on {up} of {wanted} nodes, {updated} with the current configuration{why}{unchecked}"
            ),
        };
        // A node that is away or new is named; the others serve.
        if done || up > 0 {
            return states.met(process.part, reason::READY, text);
        }
        return states
            .unmet(process.part, reason::PROGRESSING, text)
            .because_of(process.part, Some(own));
    }
    let text = format!(
        "{whose}{up} of {wanted} replicas up, {updated} with the current configuration{why}{unchecked}"
    );
    states
        .unmet(process.part, reason::PROGRESSING, text)
        .because_of(process.part, Some(own))
}
