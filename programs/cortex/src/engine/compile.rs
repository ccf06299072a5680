//! Compiles a Pipeline object to steps that can run.

use super::params::Params;
use super::{Filter, Pipeline, Weigher};

/// A step as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepDraft {
    pub name: String,
    pub params: Params,
    pub multiplier: Option<f64>,
}

impl StepDraft {
    pub fn named(name: &str) -> Self {
        StepDraft {
            name: name.to_owned(),
            ..StepDraft::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineDraft {
    pub name: String,
    pub ignore_preselection: bool,
    pub create_decisions: bool,
    pub filters: Vec<StepDraft>,
    pub weighers: Vec<StepDraft>,
}

/// A pipeline and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    pub pipeline: Pipeline,
    /// Steps that nobody knows: the pipeline serves without them.
    pub unknown: Vec<String>,
    /// A filter that cannot work makes the pipeline unusable: it might be the one that keeps hosts apart.
    pub broken_filters: Vec<(String, String)>,
    /// The pipeline serves without these.
    pub broken_weighers: Vec<(String, String)>,
}

impl Compiled {
    pub fn is_usable(&self) -> bool {
        self.broken_filters.is_empty()
    }
}

pub fn compile(draft: &PipelineDraft) -> Compiled {
    let mut compiled = Compiled::default();
    let pipeline = &mut compiled.pipeline;
    draft.name.clone_into(&mut pipeline.name);
    pipeline.ignore_preselection = draft.ignore_preselection;
    pipeline.create_decisions = draft.create_decisions;
    for step in &draft.filters {
        match Filter::make(&step.name, &step.params) {
            None => compiled.unknown.push(step.name.clone()),
            Some(Ok(filter)) => pipeline.filters.push(filter),
            Some(Err(why)) => compiled.broken_filters.push((step.name.clone(), why)),
        }
    }
    for step in &draft.weighers {
        match Weigher::make(&step.name, &step.params) {
            None => compiled.unknown.push(step.name.clone()),
            Some(Ok(weigher)) => {
                let multiplier = step.multiplier.unwrap_or(1.0);
                pipeline.weighers.push((weigher, multiplier));
            }
            Some(Err(why)) => compiled.broken_weighers.push((step.name.clone(), why)),
        }
    }
    compiled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(name: &str, key: &str, value: serde_json::Value) -> StepDraft {
        StepDraft {
            params: [(key.to_owned(), value)].into(),
            ..StepDraft::named(name)
        }
    }

    #[test]
    fn a_broken_filter_makes_it_unusable_and_a_broken_weigher_does_not() {
        let draft = PipelineDraft {
            filters: vec![StepDraft::named("correct_az"), StepDraft::named("of_mars")],
            weighers: vec![
                with("kvm_binpack", "resourceWeights", json!({"gold": 1})),
                StepDraft::named("kvm_binpack"),
            ],
            ..PipelineDraft::default()
        };
        let compiled = compile(&draft);
        assert!(compiled.is_usable());
        assert_eq!(
            (compiled.pipeline.filters.len(), compiled.pipeline.weighers.len()),
            (1, 1)
        );
        assert_eq!(compiled.unknown, ["of_mars"]);
        assert_eq!(
            compiled.broken_weighers,
            [(
                "kvm_binpack".to_owned(),
                "resourceWeights.gold: use cpu or memory".to_owned()
            )]
        );
        let draft = PipelineDraft {
            filters: vec![with("exclude_hosts", "excludedHosts", json!("h1"))],
            ..PipelineDraft::default()
        };
        assert!(!compile(&draft).is_usable());
    }

    #[test]
    fn the_names_of_the_original_are_known_too() {
        for name in super::super::FILTERS {
            assert!(
                Filter::make(&format!("filter_{name}"), &Params::new()).is_some(),
                "{name}"
            );
        }
        for name in [
            "vmware_avoid_long_term_contended_hosts",
            "kvm_failover_evacuation",
        ] {
            assert!(Weigher::make(name, &Params::new()).is_some(), "{name}");
        }
    }
}
