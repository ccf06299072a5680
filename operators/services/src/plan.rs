//! Everything that follows from spec and facts. Deciding and reporting only pick from it.

use c5c3_api::common::UpgradePhase;
use c5c3_catalogue::upstream;
use c5c3_kit::Observed;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;

use crate::build::{self, Configuration, Outcome, Steps, setup_title};
use crate::descriptor::{Process, Step};
use crate::error::Error;
use crate::facts::Facts;
use crate::names::Names;
use crate::reconcile::Services;
use crate::recurring;
use crate::rollout;
use crate::rotation::{self, Planned};
use crate::subject::{KeySet, Subject, Task};

pub struct Plan {
    pub names: Names,
    pub configuration: Configuration,
    pub keys: Vec<Planned>,
    pub migrations: Vec<Migration>,
    /// Why the database cannot be used yet.
    pub database: Result<(), String>,
    pub messaging: Result<(), String>,
    /// The schema, and the task that follows it; none where a service has neither.
    pub setup: Option<Prepared>,
    /// The last steps of an upgrade, when one goes on.
    pub contract: Option<Prepared>,
    /// Another Job for the database is at work: no second one is started beside it.
    pub busy: Option<String>,
    pub task: Option<Task>,
    pub recurring: Option<recurring::Planned>,
    /// No schema was ever in place: nothing is served yet that could be harmed.
    pub first: bool,
    /// Another version than the wanted one is installed.
    pub upgrade: bool,
    /// Every process runs as it should, and no pod of the version before is left.
    pub rolled_out: bool,
    /// A pod that may still do something with another image.
    pub left_over: Option<String>,
    /// The version whose contraction has begun, as the status has it.
    begun: Option<String>,
    /// The same, when the spec names another one: the schema is no longer that of the version before.
    pub stopped: Option<String>,
}

/// A Job and how it stands.
pub struct Prepared {
    pub name: String,
    pub job: serde_json::Value,
    pub steps: Vec<Step>,
    pub outcome: Outcome,
    /// It was made of something else and is at nothing: it is made anew.
    pub outdated: bool,
    /// The Job by which the schema was made already: this one leaves it alone.
    pub made_by: Option<String>,
}

/// Re-encryption after a rotation.
pub struct Migration {
    /// Name of the key set.
    pub set: &'static str,
    pub job: Prepared,
    /// Not before: until then a pod may still encrypt with the key before.
    pub from: Timestamp,
}

/// What keeps the processes from being brought to the wanted state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    Open,
    Dependency(String),
    Credentials {
        reason: String,
        message: String,
    },
    Messaging,
    /// A service that makes its own schema waits for the database itself.
    Database,
    Schema,
    /// The schema is being contracted for another version than the spec names.
    Contracted(String),
}

pub fn plan<S: Subject>(observed: &Observed<Services<S>>) -> Result<Plan, Error> {
    let (subject, facts) = (&observed.object, &observed.facts);
    let names = Names::of(subject);
    names.check()?;
    let configuration = build::configuration(subject, facts)?;
    let task = subject.extras().after_schema;
    let prepare = |steps: Steps<'_>| Prepared {
        name: steps.name(&names),
        job: steps.job(subject, &configuration),
        outcome: steps.outcome(&names, facts, &configuration.hidden, observed.now),
        outdated: steps.is_outdated(subject, &configuration, facts),
        made_by: steps.schema.and_then(|schema| schema.made_by),
        steps: steps.steps,
    };

    let mut keys = Vec::new();
    let mut migrations = Vec::new();
    for (planned, migration) in keyring(observed)? {
        migrations.extend(migration.map(|(steps, from)| Migration {
            set: planned.name,
            job: prepare(steps),
            from,
        }));
        keys.push(planned);
    }
    let status = subject.service_status();
    let installed = status.and_then(|status| status.installed_release.as_deref());
    let upgrade = installed.is_some() && installed != version(subject).as_deref();
    let begun = status.and_then(|status| status.contracting.clone());
    // Another build of the same version has the same schema.
    let other = |begun: &String| version(subject).as_deref().map(upstream) != Some(upstream(begun));
    let stopped = begun.clone().filter(other);
    let setup = Steps::setup(subject, &configuration, task.as_ref(), facts, upgrade)?;
    let setup = setup.map(prepare);
    let contract = Steps::contract(subject, &configuration).filter(|_| upgrade);
    let contract = contract.map(prepare);
    let wanted = [setup.as_ref(), contract.as_ref()];
    let wanted: Vec<&str> = wanted
        .into_iter()
        .flatten()
        .map(|job| job.name.as_str())
        .collect();
    let titles = [
        setup.as_ref().map(|_| setup_title::<S>()),
        S::DESCRIPTOR.contract.first().map(|step| step.name),
    ];
    let busy = facts.jobs.iter().find(|(name, job)| {
        let ours = titles.iter().flatten().any(|title| has_title(job, title));
        ours && !wanted.contains(&name.as_str()) && build::runs_now(facts, job)
    });
    let busy = busy.map(|(name, _)| format!("Job {name}, which is at work"));
    let busy = busy.or_else(|| build::orphan_at_work(facts, titles.iter().flatten()));
    let ever = facts
        .jobs
        .values()
        .any(|job| has_title(job, setup_title::<S>()) && build::is_complete(job));
    Ok(Plan {
        first: installed.is_none()
            && setup.as_ref().is_none_or(|job| job.outcome != Outcome::Complete)
            && !ever,
        recurring: recurring::plan(observed, &configuration),
        database: build::database_ready(subject, facts),
        messaging: build::messaging_ready(subject, facts),
        busy,
        rolled_out: rollout::everywhere(subject, facts, &configuration),
        left_over: rollout::left_over(subject, facts).map(ResourceExt::name_any),
        upgrade,
        begun,
        stopped,
        names,
        configuration,
        keys,
        migrations,
        setup,
        contract,
        task,
    })
}

/// The version of the image, as far as it tells one.
pub fn version<S: Subject>(subject: &S) -> Option<String> {
    let image = &subject.common().image;
    image.tag.clone().or_else(|| image.digest.clone())
}

pub fn has_title(job: &Job, title: &str) -> bool {
    let template = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let labels = template.and_then(|meta| meta.labels.as_ref());
    labels
        .and_then(|labels| labels.get("app.kubernetes.io/component"))
        .is_some_and(|component| component == title)
}

/// The key sets, each with the Job that follows its last rotation. Nothing else of the spec matters:
/// keys are looked after while another input is wrong.
#[allow(clippy::type_complexity)] // one use
pub fn keyring<S: Subject>(
    observed: &Observed<Services<S>>,
) -> Result<Vec<(Planned, Option<(Steps<'static>, Timestamp)>)>, Error> {
    let (names, facts) = (Names::of(&observed.object), &observed.facts);
    let sets = observed.object.extras().key_sets;
    let mut all = Vec::with_capacity(sets.len());
    for (index, set) in sets.iter().enumerate() {
        let migration = migration(&names, set, facts, observed.now)?;
        let done = |steps: &Steps<'_>| steps.outcome(&names, facts, &[], observed.now) == Outcome::Complete;
        let free = migration.as_ref().is_none_or(|(steps, _)| done(steps));
        // Two key sets at the most, two random keys each.
        let random = [facts.random[index * 2 % 4], facts.random[(index * 2 + 1) % 4]];
        let planned = rotation::plan(&names, set, facts, random, observed.now, free)?;
        all.push((planned, migration));
    }
    Ok(all)
}

/// The Job that follows the last rotation of a set, and when it may start.
fn migration(
    names: &Names,
    set: &KeySet,
    facts: &Facts,
    now: Timestamp,
) -> Result<Option<(Steps<'static>, Timestamp)>, Error> {
    let Some(step) = set.migrate else {
        return Ok(None);
    };
    let Some(mark) = rotation::mark(names, set, facts, now)? else {
        return Ok(None);
    };
    let steps = Steps {
        title: step.name,
        steps: vec![step],
        named_by: vec![step],
        task: None,
        arguments: Vec::new(),
        patience: None,
        // The mounted Secret may be older than the rotation.
        wait_for: Some(format!("{}/{}", set.path, mark.primary)),
        inputs: vec![mark.primary.to_string(), mark.at],
        schema: None,
    };
    Ok(Some((steps, mark.settled)))
}

impl Plan {
    /// What the processes wait for. A change of what already runs waits for the schema; on a first
    /// install processes that can do so start beside it.
    pub fn gate<S: Subject>(&self, observed: &Observed<Services<S>>) -> Gate {
        use c5c3_kit::Fault;
        if let Some(version) = &self.stopped {
            return Gate::Contracted(version.clone());
        }
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
        if self.setup.is_none() && self.database.is_err() && self.first {
            Gate::Database
        } else if self.is_set_up() || early {
            Gate::Open
        } else {
            Gate::Schema
        }
    }

    fn is_set_up(&self) -> bool {
        let setup = self.setup.as_ref();
        setup.is_none_or(|job| job.outcome == Outcome::Complete)
    }

    /// Each Job with whether it may be made now. One that is there stays, whatever happens meanwhile.
    pub fn jobs<S: Subject>(&self, observed: &Observed<Services<S>>) -> Vec<(&Prepared, bool)> {
        // The schema Job may start before its database answers: it waits there, with its modules loaded.
        let ready = if self.first {
            observed.facts.unmet.is_none()
        } else {
            self.database.is_ok()
        };
        let migrations = self.migrations.iter();
        let mut jobs: Vec<(&Prepared, bool)> = migrations
            .map(|migration| {
                let may_start = migration.from <= observed.now && self.stopped.is_none();
                (&migration.job, may_start)
            })
            .collect();
        let setup = self.setup.as_ref();
        jobs.extend(setup.map(|job| (job, ready && self.is_free_for(job))));
        if let Some(contract) = &self.contract {
            // From its first moment on there is no way back: the status says so before.
            jobs.push((contract, self.begun.is_some() && self.may_contract(contract)));
        }
        jobs
    }

    /// Nothing stands in its way but the database itself.
    fn is_free_for(&self, job: &Prepared) -> bool {
        let lacks = job.steps.iter().any(|step| step.credentials) && self.configuration.credentials.is_err();
        self.busy.is_none() && self.stopped.is_none() && !lacks
    }

    fn may_contract(&self, contract: &Prepared) -> bool {
        let last = self.is_set_up() && self.rolled_out;
        last && self.database.is_ok() && self.is_free_for(contract)
    }

    /// The version whose contraction has begun, or begins now, and is not done.
    pub fn contracting<S: Subject>(&self, subject: &S) -> Option<String> {
        if self.stopped.is_some() {
            return self.stopped.clone();
        }
        let contract = self.contract.as_ref()?;
        let there = !matches!(contract.outcome, Outcome::Missing | Outcome::Complete);
        let missing = contract.outcome == Outcome::Missing;
        let begins = missing && (self.begun.is_some() || self.may_contract(contract));
        version(subject).filter(|_| there || begins)
    }

    /// It is to be noted that the contraction begins; nobody but us will tell when it is.
    pub fn is_to_be_noted<S: Subject>(&self, subject: &S) -> bool {
        self.begun.is_none() && self.contracting(subject).is_some()
    }

    /// A Job that stays though it is not wanted as things are now.
    pub fn stays<S: Subject>(&self, facts: &Facts, job: &Job) -> bool {
        let of_setup = has_title(job, setup_title::<S>());
        let contract = S::DESCRIPTOR.contract.first();
        let of_contract = contract.is_some_and(|step| has_title(job, step.name));
        // A step at work is not ended. The way back from an upgrade needs no step of the old
        // version, which would not know the new schema: its Job stands for it. A contraction that
        // was stopped is not tried again: by then the database may be one that was restored.
        let made_by = self.setup.as_ref().and_then(|setup| setup.made_by.as_ref());
        build::runs_now(facts, job)
            || (made_by == Some(&job.name_any()) && !self.is_set_up())
            || (self.upgrade && of_setup && build::is_complete(job))
            || (self.stopped.is_some() && (of_setup || (of_contract && build::is_complete(job))))
    }

    /// What must be up in its new version before a process is changed.
    pub fn waits_for<S: Subject>(
        &self,
        observed: &Observed<Services<S>>,
        process: &Process,
    ) -> Option<&'static str> {
        let up = |name: &&'static str| {
            let mut before = S::DESCRIPTOR.processes.iter().filter(|other| other.name == *name);
            before.all(|other| rollout::is_up(&observed.object, &observed.facts, &self.configuration, other))
        };
        process.after.iter().find(|name| !up(name)).copied()
    }

    pub fn phase(&self) -> UpgradePhase {
        let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed { .. });
        let contract = self.contract.as_ref().map(|job| &job.outcome);
        let setup = self.setup.as_ref().map_or(&Outcome::Complete, |job| &job.outcome);
        match (setup, contract) {
            _ if self.stopped.is_some() => UpgradePhase::Failed,
            _ if !self.upgrade => UpgradePhase::Idle,
            (setup, _) if failed(setup) => UpgradePhase::Failed,
            (Outcome::Complete, Some(contract)) if failed(contract) => UpgradePhase::Failed,
            (Outcome::Complete, None | Some(Outcome::Complete)) => UpgradePhase::Idle,
            (Outcome::Complete, Some(_)) if self.rolled_out => UpgradePhase::Contracting,
            (Outcome::Complete, Some(_)) => UpgradePhase::RollingOut,
            _ => UpgradePhase::Expanding,
        }
    }

    /// The version whose schema is in place: the last one for which all steps are done.
    pub fn installed<S: Subject>(&self, subject: &S) -> Option<String> {
        let contracted = self
            .contract
            .as_ref()
            .is_none_or(|job| job.outcome == Outcome::Complete);
        // Without a schema it is there when it runs.
        let there = self.is_set_up() && (self.setup.is_some() || self.rolled_out);
        if there && contracted {
            return version(subject);
        }
        let status = subject.service_status();
        status.and_then(|status| status.installed_release.clone())
    }
}
