//! Evictions: deletions of pods that their disruption budget may refuse.

use apimachinery::selector::LabelSelectorSpec;
use serde_json::Value;

use super::{
    Target,
    create::success,
    delete,
    options::{WriteOptions, now},
    update::modify,
};
use crate::{
    serve::Call,
    status::{ApiError, Cause, CauseReason, Reason, Result},
};

/// What a budget has to say about one pod.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The pod does not serve: without it nothing is worse.
    Free,
    /// One disruption less is left.
    Spend,
    Refuse(String),
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn judge(budget: &Value, ready: bool) -> Verdict {
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    if !ready {
        let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if always || desired > 0 && healthy >= desired {
            return Verdict::Free;
        }
    }
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Verdict::Refuse(format!(
            "The disruption budget {name} is still being processed by the server."
        ));
    }
    if number("disruptionsAllowed") <= 0 {
        return Verdict::Refuse(format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        ));
    }
    Verdict::Spend
}

/// Deletes a pod if its disruption budget allows it.
pub(super) async fn evict(call: &Call, target: &Target, eviction: &Value) -> Result<Value> {
    let name = target.name().unwrap_or_default();
    let pod = target.stored(call)?;
    let object = pod.value();
    let running = !matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed" | "Pending")
    );
    if running && object["metadata"]["deletionTimestamp"].is_null() {
        let budgets = call
            .cluster
            .list("policy", "poddisruptionbudgets", Some(&target.namespace));
        let mut meant = budgets.objects.into_iter().filter(|budget| {
            let selector = LabelSelectorSpec::selector_of(budget.value()["spec"].get("selector"));
            selector.is_ok_and(|selector| selector.matches_object(&object))
        });
        if let Some(budget) = meant.next() {
            if meant.next().is_some() {
                return Err(ApiError::new(
                    http::StatusCode::INTERNAL_SERVER_ERROR,
                    Reason::InternalError,
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
            spend(call, target, &budget.key.name, name, is_ready(&object)).await?;
        }
    }
    delete::evict(call, target, name, &eviction["deleteOptions"]).await?;
    Ok(success(target, name, &object["metadata"]["uid"]))
}

/// Takes one disruption out of a budget, if the pod costs one.
async fn spend(call: &Call, target: &Target, budget: &str, pod: &str, ready: bool) -> Result<()> {
    let registry = call.cluster.registry();
    let Some(kind) = registry.find("policy", "v1", "poddisruptionbudgets") else {
        return Ok(());
    };
    let place = Target {
        collection: call.cluster.collection_of(kind),
        kind: kind.clone(),
        namespace: target.namespace.clone(),
        name: budget.to_owned(),
        subresource: "status".into(),
    };
    let options = WriteOptions::of(call, false)?;
    modify(call, &place, &options, |live| match judge(live, ready) {
        Verdict::Free => Ok(live.clone()),
        Verdict::Spend => {
            let allowed = live["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
            let mut new = live.clone();
            new["status"]["disruptionsAllowed"] = (allowed - 1).into();
            new["status"]["disruptedPods"][pod] = now().into();
            Ok(new)
        }
        Verdict::Refuse(message) => Err(ApiError::too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
        )
        .with_causes(vec![Cause {
            reason: CauseReason::DisruptionBudget,
            message,
            field: String::new(),
        }])),
    })
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_does_not_serve_costs_nothing_while_enough_others_do() {
        let budget = |policy: &str, healthy: i64, allowed: i64| {
            json!({"metadata": {"name": "b", "generation": 1}, "spec": {"unhealthyPodEvictionPolicy": policy},
                "status": {"observedGeneration": 1, "currentHealthy": healthy, "desiredHealthy": 2, "disruptionsAllowed": allowed}})
        };
        let refused = |healthy: i64| {
            Verdict::Refuse(format!(
                "The disruption budget b needs 2 healthy pods and has {healthy} currently"
            ))
        };
        let cases = [
            (budget("IfHealthyBudget", 2, 0), false, Verdict::Free),
            (budget("IfHealthyBudget", 2, 0), true, refused(2)),
            (budget("IfHealthyBudget", 1, 0), false, refused(1)),
            (budget("IfHealthyBudget", 3, 1), true, Verdict::Spend),
            (budget("AlwaysAllow", 0, 0), false, Verdict::Free),
            (budget("AlwaysAllow", 0, 0), true, refused(0)),
        ];
        for (budget, ready, verdict) in cases {
            assert_eq!(judge(&budget, ready), verdict, "{budget} ready {ready}");
        }
        let mut unseen = budget("", 3, 1);
        unseen["metadata"]["generation"] = 2.into();
        let message = "The disruption budget b is still being processed by the server.";
        assert_eq!(judge(&unseen, true), Verdict::Refuse(message.into()));
    }
}
