//! A node that starts from nothing: what its pods said of themselves before is over.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::node_object::set_ready;
use crate::error::{Error, Result};
use crate::pods::observe::view;

/// Takes back what is stored of the node and its pods, so that nobody calls ready what does not
/// run yet. To be called before the node is Ready.
pub async fn mark_fresh(client: &Client, node: &str) -> Result<()> {
    set_ready(client, node, "False", "NodeStarting", "the node starts").await?;
    let failed = || Error::api(format!("pods of node {node}"));
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<Pod>::all(client.clone())
        .list(&params)
        .await
        .map_err(failed())?;
    for pod in &pods.items {
        let Some(conditions) = conditions(pod, Timestamp::now()) else {
            continue;
        };
        let patch = json!({ "metadata": { "uid": view::uid(pod) }, "status": { "conditions": conditions } });
        let api: Api<Pod> = Api::namespaced(client.clone(), view::namespace(pod));
        match api
            .patch_status(view::name(pod), &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            // It is gone, or another has its name.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            other => other.map(drop).map_err(failed())?,
        }
    }
    Ok(())
}

/// The pod's conditions without the word that it is ready; nothing when it never said so.
fn conditions(pod: &Pod, now: Timestamp) -> Option<Vec<PodCondition>> {
    let mut all = pod.status.as_ref()?.conditions.clone()?;
    let mut changed = false;
    for condition in all.iter_mut().filter(|condition| {
        ["Ready", "ContainersReady"].contains(&condition.type_.as_str()) && condition.status == "True"
    }) {
        condition.status = "False".into();
        condition.reason = Some("NodeStarted".into());
        condition.message = Some("the node has restarted".into());
        condition.last_transition_time = Some(Time(now));
        changed = true;
    }
    changed.then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_said_ready_is_taken_back() {
        let pod = |ready: &str| -> Pod {
            serde_json::from_value(json!({ "status": { "phase": "Running", "conditions": [
                { "type": "PodScheduled", "status": "True" },
                { "type": "ContainersReady", "status": ready },
                { "type": "Ready", "status": ready }] } }))
            .unwrap()
        };
        let now = Timestamp::UNIX_EPOCH;
        let states = |pod: &Pod| -> Option<Vec<String>> {
            Some(conditions(pod, now)?.into_iter().map(|c| c.status).collect())
        };
        let expected = ["True", "False", "False"].map(String::from).to_vec();
        assert_eq!(states(&pod("True")), Some(expected));
        assert_eq!(states(&pod("False")), None);
        assert_eq!(states(&Pod::default()), None);
    }
}
