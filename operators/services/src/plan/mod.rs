//! Everything that follows from spec and facts. Deciding and reporting only pick from it.

mod checks;

use c5c3_api::common::UpgradePhase;
use c5c3_catalogue::upstream;
use c5c3_kit::Wanted;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;

use crate::build::{self, Configuration, Outcome, Steps, setup_title};
use crate::error::Error;
use crate::facts::{Facts, Trouble};
use crate::judge::{Gate, recurring, rollout};
use crate::names::Names;
use crate::rotation::{self, Planned};
use crate::shape::{KeySet, Process, Service, Step};
use checks::{check_ignored, check_length, check_way};

pub struct Plan {
    pub service: Service,
    pub now: Timestamp,
    /// The first of `dependsOn` that is not met.
    pub unmet: Option<Trouble>,
    pub configuration: Configuration,
    /// Volumes that outlive the service.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Databases and accounts that are managed in the same cluster.
    pub accounts: Vec<Wanted>,
    pub keys: Vec<Planned>,
    pub migrations: Vec<Migration>,
    /// Why the database cannot be used yet.
    pub database: Result<(), Trouble>,
    pub messaging: Result<(), Trouble>,
    /// The schema, and the task that follows it; none where a service has neither.
    pub setup: Option<Prepared>,
    /// The last steps of an upgrade, when one goes on.
    pub contract: Option<Prepared>,
    /// Another Job for the database is at work: no second one is started beside it.
    pub busy: Option<String>,
    pub recurring: Vec<recurring::Planned>,
    /// No schema was ever in place: nothing is served yet that could be harmed.
    pub first: bool,
    /// Another version than the wanted one is installed.
    pub upgrade: bool,
    /// Processes that are up with the wanted image and configuration.
    pub up: Vec<String>,
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
    pub job: Job,
    pub steps: Vec<Step>,
    pub outcome: Outcome,
    /// It was made of something else and is at nothing: it is recreated.
    pub outdated: bool,
    /// The Job by which the schema was made already: this one leaves it alone.
    pub made_by: Option<String>,
}

/// What became of an attempt to plan: a wrong input leaves what runs as it is, but keys that are
/// there go on being rotated, and how many run is as the spec says.
pub struct Refused {
    pub error: Error,
    /// None where keys are missing too, or wrong.
    pub keys: Option<Vec<Planned>>,
    /// Workloads as they run, with the number of pods that is wanted by now.
    pub resized: Vec<Wanted>,
}

/// Re-encryption after a rotation.
pub struct Migration {
    /// Name of the key set.
    pub set: &'static str,
    pub job: Prepared,
    /// Not before: until then a pod may still encrypt with the key before.
    pub from: Timestamp,
}

/// Everything that follows from a shape and what was seen.
pub(crate) fn plan(
    service: Service,
    checked: Result<(), Error>,
    facts: &Facts,
    now: Timestamp,
) -> Result<Box<Plan>, Box<Refused>> {
    match checked.and_then(|()| whole(&service, facts, now)) {
        Ok(plan) => Ok(Box::new(plan)),
        Err(error) => {
            let stored = |set: &KeySet| facts.key_secrets.contains_key(set.name);
            let all = !service.key_sets.is_empty() && service.key_sets.iter().all(stored);
            let keys = keyring(&service, facts, now).ok().filter(|_| all);
            let processes = service.processes.iter();
            Err(Box::new(Refused {
                resized: processes
                    .filter_map(|process| build::resized(&service, process, facts))
                    .collect(),
                keys: keys.map(|keys| keys.into_iter().map(|(keys, _)| keys).collect()),
                error,
            }))
        }
    }
}

fn whole(service: &Service, facts: &Facts, now: Timestamp) -> Result<Plan, Error> {
    let names = &service.names;
    names.check()?;
    for process in &service.processes {
        check_length(service, process)?;
    }
    check_way(service)?;
    check_ignored(service)?;
    let configuration = build::configuration(service, facts)?;
    let prepare = |steps: Steps<'_>| Prepared {
        name: steps.name(names),
        job: steps.job(service, &configuration),
        outcome: steps.outcome(names, facts, &configuration.hidden, now),
        outdated: steps.is_outdated(service, &configuration, facts),
        made_by: steps.schema.and_then(|schema| schema.made_by),
        steps: steps.steps,
    };

    let mut keys = Vec::new();
    let mut migrations = Vec::new();
    for (planned, migration) in keyring(service, facts, now)? {
        migrations.extend(migration.map(|(steps, from)| Migration {
            set: planned.name,
            job: prepare(steps),
            from,
        }));
        keys.push(planned);
    }
    let version = service.version();
    let status = service.status.as_ref();
    let installed = status.and_then(|status| status.installed_release.clone());
    let upgrade = installed.is_some() && installed != version;
    let begun = status.and_then(|status| status.contracting.clone());
    // Another build of the same version has the same schema.
    let other = |begun: &String| version.as_deref().map(upstream) != Some(upstream(begun));
    let stopped = begun.clone().filter(other);
    let setup = Steps::setup(service, &configuration, facts, upgrade)?;
    let setup = setup.map(prepare);
    let contract = Steps::contract(service, &configuration).filter(|_| upgrade);
    let contract = contract.map(prepare);
    let ever = facts
        .jobs
        .values()
        .any(|job| build::has_title(job, setup_title(service)) && build::is_complete(job));
    let up: Vec<String> = (service.processes.iter())
        .filter(|process| rollout::is_up(service, facts, &configuration, process))
        .map(|process| process.name.clone())
        .collect();
    let left_over = rollout::left_over(service, facts).map(ResourceExt::name_any);
    Ok(Plan {
        claims: build::claims(service, facts)?,
        accounts: build::database_objects(service, facts)?,
        first: installed.is_none()
            && setup.as_ref().is_none_or(|job| job.outcome != Outcome::Complete)
            && !ever,
        recurring: recurring::plan(service, facts, &configuration),
        database: build::database_ready(service, facts),
        messaging: build::messaging_ready(service, facts),
        busy: busy(service, facts, [setup.as_ref(), contract.as_ref()]),
        rolled_out: left_over.is_none()
            && (service.processes.iter())
                .filter(|process| !process.is_on_nodes())
                .all(|process| up.contains(&process.name)),
        up,
        left_over,
        upgrade,
        begun,
        stopped,
        unmet: facts.unmet.clone(),
        now,
        configuration,
        keys,
        migrations,
        setup,
        contract,
        service: service.clone(),
    })
}

/// Another Job for the database, or a pod of one, that is at work.
fn busy(service: &Service, facts: &Facts, wanted: [Option<&Prepared>; 2]) -> Option<String> {
    let [setup, _] = wanted;
    let wanted: Vec<&str> = wanted
        .into_iter()
        .flatten()
        .map(|job| job.name.as_str())
        .collect();
    let contract = service.schema.contract.first();
    let titles = [
        setup.map(|_| setup_title(service)),
        contract.map(|step| step.name.as_str()),
    ];
    let titles = titles.into_iter().flatten();
    let busy = facts.jobs.iter().find(|(name, job)| {
        let ours = titles.clone().any(|title| build::has_title(job, title));
        ours && !wanted.contains(&name.as_str()) && build::runs_now(facts, job)
    });
    let busy = busy.map(|(name, _)| format!("Job {name}, which is still running"));
    busy.or_else(|| build::orphan_at_work(facts, titles.clone()))
}

/// The key sets, each with the Job that follows its last rotation. Nothing else of the spec matters:
/// keys are looked after while another input is wrong.
#[allow(clippy::type_complexity)] // one use
pub(crate) fn keyring(
    service: &Service,
    facts: &Facts,
    now: Timestamp,
) -> Result<Vec<(Planned, Option<(Steps<'static>, Timestamp)>)>, Error> {
    let names = &service.names;
    let mut all = Vec::with_capacity(service.key_sets.len());
    for (index, set) in service.key_sets.iter().enumerate() {
        let migration = migration(names, set, facts, now)?;
        let done = |steps: &Steps<'_>| {
            steps.outcome(names, facts, &c5c3_kit::mask::Mask::default(), now) == Outcome::Complete
        };
        let free = migration.as_ref().is_none_or(|(steps, _)| done(steps));
        // Two key sets at the most, two random keys each.
        let random = [facts.random[index * 2 % 4], facts.random[(index * 2 + 1) % 4]];
        let planned = rotation::plan(names, set, facts, random, now, free)?;
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
    let Some(step) = set.migrate.clone() else {
        return Ok(None);
    };
    let Some(mark) = rotation::mark(names, set, facts, now)? else {
        return Ok(None);
    };
    let steps = Steps {
        title: step.name.clone(),
        settings: String::new(),
        named_by: vec![step.clone()],
        steps: vec![step],
        task: None,
        patience: None,
        // The mounted Secret may be older than the rotation.
        wait_for: Some(format!("{}/{}", set.path, mark.primary)),
        inputs: vec![mark.primary.to_string(), mark.at],
        volumes: Vec::new(),
        schema: None,
    };
    Ok(Some((steps, mark.settled)))
}

impl Plan {
    /// What the processes wait for. A change of what already runs waits for the schema; on a first
    /// install processes that can do so start beside it.
    pub fn gate(&self) -> Gate {
        use c5c3_kit::Fault;
        if let Some(version) = &self.stopped {
            return Gate::Contracted(version.clone());
        }
        if let Some(trouble) = self.unmet.as_ref().filter(|_| self.first) {
            return Gate::Dependency(trouble.clone());
        }
        if let Some(error) = self.configuration.lacks() {
            return Gate::Credentials {
                reason: error.reason(),
                trouble: Trouble {
                    text: error.to_string(),
                    blocker: error.blocker(),
                },
            };
        }
        if self.messaging.is_err() && self.first {
            return Gate::Messaging;
        }
        let early = self.first && self.service.schema.starts_early;
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
    pub fn jobs(&self) -> Vec<(&Prepared, bool)> {
        // The schema Job may start before its database answers: it waits there, with its modules loaded.
        let ready = if self.first {
            self.unmet.is_none()
        } else {
            self.database.is_ok()
        };
        let migrations = self.migrations.iter();
        let mut jobs: Vec<(&Prepared, bool)> = migrations
            .map(|migration| {
                let may_start = migration.from <= self.now && self.stopped.is_none();
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
        let configured = self.configuration.of(&self.service.schema.settings);
        let missing = configured.is_some_and(|configured| configured.credentials.is_err());
        let lacks = missing && job.steps.iter().any(|step| step.credentials);
        self.busy.is_none() && self.stopped.is_none() && !lacks
    }

    fn may_contract(&self, contract: &Prepared) -> bool {
        let last = self.is_set_up() && self.rolled_out;
        last && self.database.is_ok() && self.is_free_for(contract)
    }

    /// The version whose contraction has begun, or begins now, and is not done.
    pub fn contracting(&self) -> Option<String> {
        if self.stopped.is_some() {
            return self.stopped.clone();
        }
        let contract = self.contract.as_ref()?;
        let there = !matches!(contract.outcome, Outcome::Missing | Outcome::Complete);
        let missing = contract.outcome == Outcome::Missing;
        let begins = missing && (self.begun.is_some() || self.may_contract(contract));
        self.service.version().filter(|_| there || begins)
    }

    /// It is to be noted that the contraction begins; nobody but us will tell when it is.
    pub fn is_to_be_noted(&self) -> bool {
        self.begun.is_none() && self.contracting().is_some()
    }

    /// A Job that stays though it is not wanted as things are now.
    pub fn stays(&self, facts: &Facts, job: &Job) -> bool {
        let of_setup = build::has_title(job, setup_title(&self.service));
        let contract = self.service.schema.contract.first();
        let of_contract = contract.is_some_and(|step| build::has_title(job, &step.name));
        // A step at work is not ended. The way back from an upgrade needs no step of the old
        // version, which would not know the new schema: its Job stands for it. A contraction that
        // was stopped is not tried again: by then the database may be one that was restored.
        let made_by = self.setup.as_ref().and_then(|setup| setup.made_by.as_ref());
        build::runs_now(facts, job)
            || (made_by == Some(&job.name_any()) && !self.is_set_up())
            || (self.upgrade && of_setup && build::is_complete(job))
            // Without a Secret for a moment it is not known by which name the Job would go.
            || (self.configuration.lacks().is_some() && of_setup && build::is_complete(job))
            || (self.stopped.is_some() && (of_setup || (of_contract && build::is_complete(job))))
    }

    /// What must be up in its new version before a process is changed.
    pub fn waits_for<'p>(&self, process: &'p Process) -> Option<&'p str> {
        let upgraded = process.upgraded_after.iter().filter(|_| self.upgrade);
        let mut before = process.after.iter().chain(upgraded);
        let before = before.find(|name| !self.up.contains(name));
        before.map(String::as_str)
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
    pub fn installed(&self) -> Option<String> {
        let contracted = self
            .contract
            .as_ref()
            .is_none_or(|job| job.outcome == Outcome::Complete);
        // Without a schema it is there when it runs.
        let there = self.is_set_up() && (self.setup.is_some() || self.rolled_out);
        if there && contracted {
            return self.service.version();
        }
        let status = self.service.status.as_ref();
        status.and_then(|status| status.installed_release.clone())
    }
}
