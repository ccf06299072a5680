//! Pipelines of a file, for where no objects are read and for what an operator hands over.

use c5c3_api::cortex::{Pipeline, SchedulingDomain};

use super::kubernetes;
use crate::engine::{self, PipelineDraft, compile, defaults};

/// Why a file of Pipelines cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("not a list of Pipelines: {0}")]
    NotPipelines(String),
    #[error("Pipeline {0}: only type filter-weigher places")]
    Detects(String),
    #[error("Pipeline {pipeline}: {step}: {why}")]
    Broken {
        pipeline: String,
        step: String,
        why: String,
    },
    #[error("Pipeline {pipeline}: unknown step {step}")]
    Unknown { pipeline: String, step: String },
}

/// A list of Pipelines. One that names no filters or no weighers has the usual ones of its name.
pub fn pipelines(text: &str) -> Result<Vec<(SchedulingDomain, PipelineDraft)>, FileError> {
    let all: Vec<Pipeline> = serde_saphyr::from_str(text)
        .map_err(|error| FileError::NotPipelines(error.without_snippet().to_string()))?;
    let usual = defaults::all();
    all.iter()
        .map(|object| {
            let mut draft = draft(object)?;
            let same = usual.iter().find(|(_, usual)| usual.name == draft.name);
            if let Some((_, usual)) = same {
                let or = |given: &mut Vec<_>, usual: &Vec<_>| {
                    if given.is_empty() {
                        given.clone_from(usual);
                    }
                };
                or(&mut draft.filters, &usual.filters);
                or(&mut draft.weighers, &usual.weighers);
            }
            Ok((object.spec.scheduling_domain, draft))
        })
        .collect()
}

/// One Pipeline, ready to be asked.
pub fn pipeline(text: &str) -> Result<engine::Pipeline, FileError> {
    let object: Pipeline = serde_saphyr::from_str(text)
        .map_err(|error| FileError::NotPipelines(error.without_snippet().to_string()))?;
    Ok(compile(&draft(&object)?).pipeline)
}

/// Its steps, all of which are known and take what they are given.
fn draft(object: &Pipeline) -> Result<PipelineDraft, FileError> {
    let name = || object.metadata.name.clone().unwrap_or_default();
    let draft = kubernetes::pipeline(object).ok_or_else(|| FileError::Detects(name()))?;
    let compiled = compile(&draft);
    let mut broken = compiled.broken_filters.iter().chain(&compiled.broken_weighers);
    if let Some((step, why)) = broken.next() {
        return Err(FileError::Broken {
            pipeline: name(),
            step: step.clone(),
            why: why.clone(),
        });
    }
    match compiled.unknown.first() {
        Some(step) => Err(FileError::Unknown {
            pipeline: name(),
            step: step.clone(),
        }),
        None => Ok(draft),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str, spec: &str) -> String {
        format!(
            "- apiVersion: cortex.c5c3.io/v1alpha1\n  kind: Pipeline\n  metadata: {{name: {name}}}\n  \
             spec: {{schedulingDomain: nova, {spec}}}\n"
        )
    }

    #[test]
    fn what_it_does_not_name_is_the_usual() {
        let text = list(
            defaults::GENERAL,
            "type: filter-weigher, createDecisions: true, weighers: [{name: kvm_binpack, multiplier: 2}]",
        );
        let all = pipelines(&text).expect("pipelines");
        let (domain, draft) = &all[0];
        assert_eq!((*domain, draft.create_decisions), (SchedulingDomain::Nova, true));
        assert_eq!(draft.filters, defaults::general().filters);
        assert_eq!(draft.weighers.len(), 1);
        assert_eq!(draft.weighers[0].multiplier, Some(2.0));
        let other = pipelines(&list("mine", "type: filter-weigher")).expect("pipelines");
        assert!(other[0].1.filters.is_empty(), "nothing is usual for another name");
        assert_eq!(pipelines("[]"), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_serve_is_named() {
        let table = [
            (
                "type: detector, detectors: [{name: x}]",
                "only type filter-weigher",
            ),
            (
                "type: filter-weigher, filters: [{name: no_such}]",
                "unknown step no_such",
            ),
            (
                "type: filter-weigher, filters: [{name: external_customer}]",
                "external_customer: domainNamePrefixes",
            ),
        ];
        for (spec, words) in table {
            let refused = pipelines(&list("mine", spec)).expect_err(spec).to_string();
            assert!(refused.contains(words) && refused.contains("mine"), "{refused}");
        }
        let refused = pipelines("secret: value").expect_err("a map").to_string();
        assert!(
            refused.contains("not a list of Pipelines") && !refused.contains("value"),
            "{refused}"
        );
    }
}
