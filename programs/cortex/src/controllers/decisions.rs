//! Decision: what was decided about a server, volume or share, with what was decided before.

use std::sync::Arc;

use c5c3_api::common::{Condition, LocalRef, Time};
use c5c3_api::conditions::READY;
use c5c3_api::cortex::{Decision, DecisionSpec, DecisionStatus, PastDecision, StepResult};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;

use crate::service::Remembered;

const MANAGER: &str = "cortex-decisions";
/// Earlier decisions that are kept.
const HISTORY: usize = 10;

/// Letters, digits and dashes: a name that Kubernetes takes.
fn name(one: &Remembered) -> String {
    let domain = format!("{:?}", one.domain).to_lowercase();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let id: String = one.resource.chars().take(200).map(plain).collect();
    format!("{domain}-{}", id.trim_matches('-'))
}

/// When it was decided, and whether for a host.
fn ready(one: &Remembered) -> Condition {
    let found = !one.explanation.ordered_hosts.is_empty();
    let (status, reason) = if found {
        ("True", "Decided")
    } else {
        ("False", "NoHost")
    };
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        // Kubernetes keeps whole seconds.
        last_transition_time: Time(Timestamp::from_second(one.at.as_second()).unwrap_or(one.at)),
        observed_generation: None,
    }
}

/// Pure: the status after one more decision.
fn status(before: Option<DecisionStatus>, one: &Remembered) -> DecisionStatus {
    let explanation = &one.explanation;
    let before = before.unwrap_or_default();
    let mut history = before.history;
    let decided = before
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY);
    if let Some(decided) = decided {
        let past = PastDecision {
            decided_at: decided.last_transition_time.clone(),
            target_host: before.target_host,
            intent: None,
            explanation: before.explanation,
        };
        history.insert(0, past);
        history.truncate(HISTORY);
    }
    let steps = explanation.steps.iter().filter(|step| step.skipped.is_none());
    DecisionStatus {
        conditions: vec![ready(one)],
        observed_generation: None,
        ordered_hosts: explanation.ordered_hosts.clone(),
        target_host: explanation.ordered_hosts.first().cloned(),
        step_results: steps
            .map(|step| StepResult {
                name: step.step.to_owned(),
                activations: step.activations.clone(),
            })
            .collect(),
        history,
        explanation: Some(explanation.text.clone()),
    }
}

async fn write(api: &Api<Decision>, one: &Remembered) -> Result<(), kube::Error> {
    let name = name(one);
    let known = api.get_opt(&name).await?;
    let spec = DecisionSpec {
        scheduling_domain: one.domain,
        pipeline_ref: LocalRef {
            name: one.explanation.pipeline.clone(),
        },
        resource_id: one.resource.clone(),
        intent: Some(one.intent.word().to_owned()),
    };
    let object = Decision::new(&name, spec);
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&name, &params, &Patch::Apply(&object)).await?;
    let status = status(known.and_then(|known| known.status), one);
    // The type has a spec in any case, and the status' writer must not be taken for that of the spec.
    let patch = json!({"apiVersion": Decision::api_version(&()), "kind": Decision::kind(&()),
        "metadata": {"name": name}, "status": status});
    api.patch_status(&name, &params, &Patch::Apply(&patch)).await?;
    Ok(())
}

/// Writes decisions as they come. Placements never wait for this: what does not fit the queue is lost
/// and counted.
pub async fn keep(client: Client, mut decisions: mpsc::Receiver<Arc<Remembered>>) {
    let api: Api<Decision> = Api::all(client);
    while let Some(one) = decisions.recv().await {
        // Probes have no id.
        if one.resource.is_empty() {
            continue;
        }
        if let Err(error) = write(&api, &one).await {
            tracing::warn!("cannot store the decision about {}: {error}", one.resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Explanation;
    use crate::request::Intent;
    use c5c3_api::cortex::SchedulingDomain;

    fn decided(host: &str) -> Remembered {
        Remembered {
            at: Timestamp::UNIX_EPOCH,
            domain: SchedulingDomain::Cinder,
            resource: "Vol_1@x".into(),
            intent: Intent::Create,
            explanation: Explanation {
                text: format!("{host} is the best"),
                ordered_hosts: vec![host.to_owned()],
                ..Explanation::default()
            },
        }
    }

    #[test]
    fn history_is_bounded_and_newest_first() {
        assert_eq!(name(&decided("a")), "cinder-vol-1-x");
        let mut after = None;
        for number in 0..15 {
            let one = decided(&format!("h{number}"));
            after = Some(status(after, &one));
        }
        let status = after.expect("decided");
        assert_eq!(status.target_host.as_deref(), Some("h14"));
        let past: Vec<&str> = status
            .history
            .iter()
            .filter_map(|one| one.target_host.as_deref())
            .collect();
        assert_eq!((past.len(), past[0], past[9]), (10, "h13", "h4"));
    }
}
