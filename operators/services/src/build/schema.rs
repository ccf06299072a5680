//! The steps that bring the databases into shape.

use kube::ResourceExt;
use serde_json::json;

use super::job::{Schema, Steps, is_complete};
use super::{Configuration, database_ready};
use crate::config;
use crate::error::Error;
use crate::facts::{Facts, value};
use crate::names::SCHEMA;
use crate::shape::{Service, Step};

impl<'a> Steps<'a> {
    /// The schema and what follows it: one Job, one Python process for all. None when there is neither.
    pub fn setup(
        service: &'a Service,
        configuration: &Configuration,
        facts: &Facts,
        upgrade: bool,
    ) -> Result<Option<Self>, Error> {
        let shape = &service.schema;
        let task = shape.task.as_ref();
        if shape.steps.is_empty() && task.is_none() {
            return Ok(None);
        }
        let mut inputs = vec![service.image(), configuration.database_hash.clone()];
        if let Some(task) = task {
            inputs.extend(
                task.environment
                    .iter()
                    .map(|(name, value)| format!("{name}={value}")),
            );
            for (name, secret, key) in &task.secrets {
                let value = value(facts, secret, key)?;
                inputs.push(config::hash(&[&facts.naming, name, &value]));
            }
        }
        if shape.steps.iter().any(|step| step.credentials) {
            // What a step keeps somewhere is kept again when it changes.
            let configured = configuration.of(&shape.settings);
            let credentials = configured.and_then(|configured| configured.credentials_name());
            inputs.extend(credentials.map(str::to_owned));
        }
        let with_task = |steps: &[Step]| {
            let task = task.map(|task| task.step.clone());
            steps.iter().cloned().chain(task).collect()
        };
        let expands = upgrade && !shape.expand.is_empty();
        let mut setup = Steps {
            title: setup_title(service).to_owned(),
            settings: shape.settings.clone(),
            steps: with_task(if expands { &shape.expand } else { &shape.steps }),
            named_by: with_task(&shape.steps),
            task,
            patience: database_ready(service, facts).is_err().then_some(120),
            wait_for: None,
            inputs,
            volumes: Vec::new(),
            schema: None,
        };
        if let Some(task) = task.filter(|_| !shape.steps.is_empty()) {
            let commands: Vec<_> = shape.steps.iter().map(Step::words).collect();
            let mark = config::hash_value(&json!([commands, service.image(), configuration.database_hash]));
            let made_by = made_by(facts, &mark, &setup.name(&service.names));
            // Only the task has other inputs: the schema is left alone.
            if made_by.is_some() {
                setup.steps = vec![task.step.clone()];
            }
            setup.schema = Some(Schema { mark, made_by });
        }
        Ok(Some(setup))
    }

    /// What waits until no pod of the old version is left.
    pub fn contract(service: &Service, configuration: &Configuration) -> Option<Self> {
        let steps = service.schema.contract.clone();
        Some(Steps {
            title: steps.first()?.name.clone(),
            settings: service.schema.settings.clone(),
            named_by: steps.clone(),
            steps,
            task: None,
            patience: None,
            wait_for: None,
            inputs: vec![service.image(), configuration.database_hash.clone()],
            volumes: Vec::new(),
            schema: None,
        })
    }
}

/// Another Job than the named one, by which this schema was made.
fn made_by(facts: &Facts, mark: &str, name: &str) -> Option<String> {
    let others = facts.jobs.iter().filter(|(other, _)| *other != name);
    let mut made = others.filter(|(_, job)| {
        let same = job.annotations().get(SCHEMA).is_some_and(|found| found == mark);
        same && is_complete(job)
    });
    made.next().map(|(name, _)| name.clone())
}

/// Names the Job that brings the databases into shape.
pub fn setup_title(service: &Service) -> &str {
    service
        .schema
        .steps
        .first()
        .map_or("setup", |step| step.name.as_str())
}
