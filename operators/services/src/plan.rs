//! Everything that follows from spec and facts. Deciding and reporting only pick from it.

use c5c3_kit::Observed;

use crate::build::{self, Configuration, Outcome, Steps};
use crate::descriptor::Step;
use crate::error::Error;
use crate::facts::Facts;
use crate::names::Names;
use crate::reconcile::Services;
use crate::rotation::{self, Planned};
use crate::subject::{Extras, KeySet, Subject, Task};

pub struct Plan {
    pub names: Names,
    pub configuration: Configuration,
    pub keys: Vec<Planned>,
    /// Re-encryption after a rotation of the key set with this name.
    pub migrations: Vec<(&'static str, Prepared)>,
    /// Why the database cannot be used yet.
    pub database: Result<(), String>,
    pub messaging: Result<(), String>,
    /// The schema, and the task that follows it.
    pub setup: Prepared,
    pub task: Option<Task>,
    /// No schema was ever in place: nothing is served yet that could be harmed.
    pub first: bool,
}

/// A Job and how it stands.
pub struct Prepared {
    pub name: String,
    pub job: serde_json::Value,
    pub steps: Vec<Step>,
    pub outcome: Outcome,
}

/// What keeps the processes from being brought to the wanted state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    Open,
    Dependency(String),
    Credentials { reason: String, message: String },
    Messaging,
    Schema,
}

pub fn plan<S: Subject>(observed: &Observed<Services<S>>) -> Result<Plan, Error> {
    let (subject, facts) = (&observed.object, &observed.facts);
    let names = Names::of(subject);
    names.check()?;
    let configuration = build::configuration(subject, facts)?;
    let Extras {
        key_sets,
        after_schema: task,
        ..
    } = subject.extras();
    let prepare = |steps: Steps<'_>| Prepared {
        name: steps.name(&names),
        job: steps.job(subject, &configuration),
        outcome: steps.outcome(&names, facts, &configuration.hidden),
        steps: steps.steps,
    };

    let mut keys = Vec::new();
    let mut migrations = Vec::new();
    for (index, set) in key_sets.iter().enumerate() {
        let migration = migration(&names, set, facts)?.map(prepare);
        let free = migration
            .as_ref()
            .is_none_or(|job| job.outcome == Outcome::Complete);
        // Two key sets at the most, two random keys each.
        let random = [facts.random[index * 2 % 4], facts.random[(index * 2 + 1) % 4]];
        keys.push(rotation::plan(&names, set, facts, random, observed.now, free)?);
        migrations.extend(migration.map(|job| (set.name, job)));
    }
    let setup = prepare(Steps::setup(subject, &configuration, task.as_ref(), facts)?);
    let status = subject.service_status();
    let installed = status.is_some_and(|status| status.installed_release.is_some());
    Ok(Plan {
        first: !installed && setup.outcome != Outcome::Complete && !ever_set_up(facts, setup_title::<S>()),
        database: build::database_ready(subject, facts),
        messaging: build::messaging_ready(subject, facts),
        names,
        configuration,
        keys,
        migrations,
        setup,
        task,
    })
}

fn setup_title<S: Subject>() -> &'static str {
    S::DESCRIPTOR.schema.first().map_or("setup", |step| step.name)
}

/// A Job for the schema was finished once, whatever its inputs were.
fn ever_set_up(facts: &Facts, title: &str) -> bool {
    facts.jobs.values().any(|job| {
        let labels = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        let component = labels.and_then(|meta| meta.labels.as_ref()?.get("app.kubernetes.io/component"));
        let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
        component.is_some_and(|component| component == title)
            && conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Complete" && c.status == "True"))
    })
}

/// The Job that follows the last rotation of a set.
fn migration(names: &Names, set: &KeySet, facts: &Facts) -> Result<Option<Steps<'static>>, Error> {
    let Some(step) = set.migrate else {
        return Ok(None);
    };
    let Some((primary, rotated)) = rotation::mark(names, set, facts)? else {
        return Ok(None);
    };
    Ok(Some(Steps {
        title: step.name,
        steps: vec![step],
        task: None,
        patience: None,
        // The mounted Secret may be older than the rotation.
        wait_for: Some(format!("{}/{primary}", set.path)),
        inputs: vec![primary.to_string(), rotated],
    }))
}

impl Plan {
    /// What the processes wait for. A change of what already runs waits for the schema; on a first
    /// install processes that can do so start beside it.
    pub fn gate<S: Subject>(&self, observed: &Observed<Services<S>>) -> Gate {
        use c5c3_kit::Fault;
        if let Some(words) = observed.facts.unmet.as_ref().filter(|_| self.first) {
            return Gate::Dependency(words.clone());
        }
        if let Err(error) = &self.configuration.credentials {
            return Gate::Credentials {
                reason: error.reason(),
                message: error.to_string(),
            };
        }
        if self.messaging.is_err() && self.first {
            return Gate::Messaging;
        }
        let early = self.first && S::DESCRIPTOR.starts_early;
        if self.setup.outcome == Outcome::Complete || early {
            Gate::Open
        } else {
            Gate::Schema
        }
    }

    /// The schema Job may start before its database answers: it waits there, with its modules loaded.
    pub fn sets_up<S: Subject>(&self, observed: &Observed<Services<S>>) -> bool {
        if self.first {
            return observed.facts.unmet.is_none();
        }
        self.database.is_ok()
    }
}
