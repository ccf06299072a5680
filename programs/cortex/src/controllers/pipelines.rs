//! Pipeline: whether its steps are there; and what those of type detector find.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::conditions::cortex::{ALL_STEPS_INDEXED, ALL_STEPS_READY};
use c5c3_api::cortex::{Descheduling, DeschedulingSpec, Pipeline, PipelineType};
use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Report, States, Touch, Wanted};
use openstack_client::Scheduling;

use super::{Error, Shared};
use crate::deschedule::{Detection, Detector, is_cyclic, select};
use crate::engine::{StepDraft, compile};
use crate::fleet::Features;
use crate::sources::kubernetes;

/// Between two looks of a detector.
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Pipelines(pub Shared);

#[derive(Debug, Default)]
pub(crate) struct Facts {
    features: Features,
    /// Servers for which there is an instruction.
    instructed: BTreeSet<String>,
    /// Servers that moves have brought back.
    cyclic: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    unknown: Vec<String>,
    broken: Vec<String>,
    /// With it no question can be answered.
    unusable: Option<String>,
    found: Vec<Detection>,
}

fn detectors(pipeline: &Pipeline) -> Vec<StepDraft> {
    let steps = pipeline.spec.detectors.iter();
    let of = |step: &c5c3_api::cortex::Step| StepDraft {
        name: step.name.clone(),
        params: step.params.clone(),
        multiplier: None,
    };
    steps.map(of).collect()
}

fn detect(steps: &[StepDraft], features: &Features) -> (Vec<Detection>, Vec<String>, Vec<String>) {
    let (mut found, mut unknown, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        match Detector::make(step).map(|made| made.and_then(|made| made.detect(features))) {
            None => unknown.push(step.name.clone()),
            Some(Ok(detections)) => found.extend(detections),
            Some(Err(why)) => broken.push(format!("{}: {why}", step.name)),
        }
    }
    (found, unknown, broken)
}

impl Controller for Pipelines {
    type Kind = Pipeline;
    type Facts = Facts;
    type Plan = Plan;
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "cortex-pipelines";
    const PARTS: &'static [Part] = &[
        Part::informative(ALL_STEPS_READY),
        Part::informative(ALL_STEPS_INDEXED),
    ];

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Descheduling>()]
    }

    /// Of what the whole program uses, whoever made the pipeline: the fleet, and Decisions.
    fn touches() -> Vec<Touch> {
        vec![
            Touch::of::<Hypervisor>(&["list", "watch"]),
            Touch::of::<c5c3_api::cortex::Decision>(&["get", "create", "patch"]),
            Touch::part_of::<c5c3_api::cortex::Decision>("/status", &["patch"]),
        ]
    }

    async fn observe(&self, object: &Pipeline, reader: &Reader) -> Result<Facts, Error> {
        if object.spec.type_ != PipelineType::Detector {
            return Ok(Facts::default());
        }
        let features = self.0.scheduler.world.features();
        let existing: Vec<Descheduling> = reader.list_all("").await?;
        let instructed: BTreeSet<String> = existing.into_iter().map(|one| one.spec.ref_).collect();
        let mut cyclic = BTreeSet::new();
        if let Some(nova) = self.0.nova() {
            let found = select(detect(&detectors(object), &features).0, &instructed);
            for one in found {
                if is_cyclic(&nova.moves_of(&one.server).await?) {
                    cyclic.insert(one.server);
                }
            }
        }
        Ok(Facts {
            features,
            instructed,
            cyclic,
        })
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        let pipeline = &observed.object;
        match kubernetes::pipeline(pipeline) {
            Some(draft) => {
                let compiled = compile(&draft);
                let words = |(step, why): &(String, String)| format!("{step}: {why}");
                let unusable: Vec<String> = compiled.broken_filters.iter().map(words).collect();
                Plan {
                    unusable: (!unusable.is_empty()).then(|| unusable.join("; ")),
                    broken: compiled.broken_weighers.iter().map(words).collect(),
                    unknown: compiled.unknown,
                    found: Vec::new(),
                }
            }
            None => {
                let facts = &observed.facts;
                let (found, unknown, broken) = detect(&detectors(pipeline), &facts.features);
                let mut found = select(found, &facts.instructed);
                found.retain(|one| !facts.cyclic.contains(&one.server));
                Plan {
                    found,
                    unknown,
                    broken,
                    unusable: None,
                }
            }
        }
    }

    /// Instructions outlive what led to them; they expire by themselves.
    fn decide(_: &Observed<Self>, plan: &Plan) -> Result<Decision<Infallible>, Error> {
        let wanted = plan.found.iter().map(|one| {
            let spec = DeschedulingSpec {
                ref_: one.server.clone(),
                prev_host: one.host.clone(),
                reason: one.reason.clone(),
            };
            Wanted::of(&Descheduling::new(&format!("nova-{}", one.server), spec)).lasting()
        });
        Ok(Decision::only(wanted))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, plan: &Plan, _: &Applied<Self>) -> Report {
        let mut states = States::default();
        let broken: Vec<&str> = plan
            .unusable
            .iter()
            .chain(&plan.broken)
            .map(String::as_str)
            .collect();
        states = if broken.is_empty() {
            states.met(ALL_STEPS_READY, "Ready", "every step works")
        } else {
            states.unmet(ALL_STEPS_READY, "Broken", broken.join("; "))
        };
        states = if plan.unknown.is_empty() {
            states.met(ALL_STEPS_INDEXED, "Known", "every step is known")
        } else {
            states.unmet(
                ALL_STEPS_INDEXED,
                "Unknown",
                format!("unknown: {}", plan.unknown.join(", ")),
            )
        };
        if let Some(why) = &plan.unusable {
            states = states.blocked_by("BrokenFilter", why.clone());
        }
        let report = Report::new(states);
        match observed.object.spec.type_ {
            PipelineType::Detector => report.again_in(MINUTE),
            PipelineType::FilterWeigher => report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Steal;
    use jiff::Timestamp;
    use serde_json::json;

    fn seen(spec: serde_json::Value, facts: Facts) -> Observed<Pipelines> {
        let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "x"}, "spec": spec});
        Observed {
            object: serde_json::from_value(object).expect("a Pipeline"),
            facts,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn broken_filters_block_and_other_steps_only_tell() {
        let filters = |steps| json!({"schedulingDomain": "nova", "type": "filter-weigher", "filters": steps});
        let plan = |spec| Pipelines::plan(&seen(spec, Facts::default()));
        let good = plan(filters(json!([{"name": "correct_az"}])));
        assert!(good.unusable.is_none() && good.unknown.is_empty() && good.broken.is_empty());
        let broken = plan(filters(
            json!([{"name": "external_customer"}, {"name": "of_mars"}]),
        ));
        assert!(
            broken
                .unusable
                .expect("unusable")
                .starts_with("external_customer: domainNamePrefixes")
        );
        assert_eq!(broken.unknown, ["of_mars"]);
    }

    #[test]
    fn detectors_write_one_instruction_for_each_server_that_does_not_go_in_circles() {
        let steal = |server: &str| Steal {
            server: server.into(),
            host: "h".into(),
            max_pct: 50.0,
        };
        let facts = Facts {
            features: Features {
                steal: Some(vec![steal("a"), steal("b"), steal("c")]),
                ..Features::default()
            },
            instructed: ["a".to_owned()].into(),
            cyclic: ["b".to_owned()].into(),
        };
        let spec = json!({"schedulingDomain": "nova", "type": "detector",
            "detectors": [{"name": "avoid_high_steal_pct"}]});
        let seen = seen(spec, facts);
        let decision = seen.decide().expect("decides");
        let [wanted] = decision.wanted() else {
            panic!("{decision:?}")
        };
        assert_eq!(wanted.object()["metadata"]["name"], "nova-c");
        assert_eq!(wanted.object()["spec"]["prevHost"], "h");
    }
}
