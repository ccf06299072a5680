//! The steps that bring the database into shape.

use kube::ResourceExt;
use serde_json::json;

use super::job::{Schema, Steps, is_complete};
use super::secrets;
use super::{Configuration, database_ready};
use crate::config;
use crate::descriptor::Step;
use crate::error::Error;
use crate::facts::Facts;
use crate::names::{Names, SCHEMA};
use crate::subject::{Subject, Task};

impl<'a> Steps<'a> {
    /// The schema and what follows it: one Job, one Python process for all. None when there is neither.
    pub fn setup<S: Subject>(
        subject: &S,
        configuration: &Configuration,
        task: Option<&'a Task>,
        facts: &Facts,
        upgrade: bool,
    ) -> Result<Option<Self>, Error> {
        if S::DESCRIPTOR.schema.is_empty() && task.is_none() {
            return Ok(None);
        }
        let mut inputs = vec![
            subject.common().image.reference(),
            configuration.database_hash.clone(),
        ];
        if let Some(task) = task {
            inputs.extend(
                task.environment
                    .iter()
                    .map(|(name, value)| format!("{name}={value}")),
            );
            for (name, secret, key) in &task.secrets {
                let value = secrets::value(facts, secret, key)?;
                inputs.push(config::hash(&[&facts.naming, name, &value]));
            }
        }
        let (schema, expand) = (S::DESCRIPTOR.schema, S::DESCRIPTOR.expand);
        let with_task = |steps: &[Step]| steps.iter().copied().chain(task.map(|task| task.step)).collect();
        let mut setup = Steps {
            title: setup_title::<S>(),
            steps: with_task(if upgrade && !expand.is_empty() {
                expand
            } else {
                schema
            }),
            named_by: with_task(schema),
            task,
            arguments: Vec::new(),
            patience: database_ready(subject, facts).is_err().then_some(120),
            wait_for: None,
            inputs,
            schema: None,
        };
        if let Some(task) = task.filter(|_| !schema.is_empty()) {
            let commands: Vec<_> = schema.iter().map(|step| step.command).collect();
            let image = subject.common().image.reference();
            let mark = config::hash_value(&json!([commands, image, configuration.database_hash]));
            let made_by = made_by(facts, &mark, &setup.name(&Names::of(subject)));
            // Only the task has other inputs: the schema is left alone.
            if made_by.is_some() {
                setup.steps = vec![task.step];
            }
            setup.schema = Some(Schema { mark, made_by });
        }
        Ok(Some(setup))
    }

    /// What waits until no pod of the old version is left.
    pub fn contract<S: Subject>(subject: &S, configuration: &Configuration) -> Option<Self> {
        let steps = S::DESCRIPTOR.contract.to_vec();
        Some(Steps {
            title: steps.first()?.name,
            named_by: steps.clone(),
            steps,
            task: None,
            arguments: Vec::new(),
            patience: None,
            wait_for: None,
            inputs: vec![
                subject.common().image.reference(),
                configuration.database_hash.clone(),
            ],
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

/// Names the Job that brings the database into shape.
pub fn setup_title<S: Subject>() -> &'static str {
    S::DESCRIPTOR.schema.first().map_or("setup", |step| step.name)
}
