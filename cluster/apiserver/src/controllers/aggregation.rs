//! ClusterRoles that are put together from others show the rules that they have.

use serde_json::{Value, json};

use super::{
    follow::Follow,
    requests::{Requests, path},
};
use crate::auth::{RBAC_GROUP, Snapshot};

pub(super) async fn run(requests: Requests) {
    let cluster = requests.cluster.clone();
    let mut follow = Follow::new(&cluster.store, cluster.collection(RBAC_GROUP, "clusterroles"));
    let stopping = requests.stopping();
    loop {
        follow.news();
        let roles: Vec<Value> = cluster
            .list(RBAC_GROUP, "clusterroles", None)
            .objects
            .iter()
            .map(|stored| stored.value())
            .collect();
        for (name, rules) in outdated(&roles) {
            let registry = cluster.registry();
            let Some(kind) = registry.find(RBAC_GROUP, "v1", "clusterroles") else {
                continue;
            };
            if let Err(error) = requests
                .merge(&path(kind, "", &name), &json!({"rules": rules}))
                .await
                && !error.is_outdated()
            {
                tracing::warn!(%error, role = name, "cannot write the rules of an aggregated role");
            }
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            () = follow.changed() => {}
        }
    }
}

/// Aggregated roles whose rules are not what they should be, with those.
fn outdated(roles: &[Value]) -> Vec<(String, Value)> {
    let snapshot = Snapshot::read(roles);
    roles
        .iter()
        .filter_map(|role| {
            let name = role["metadata"]["name"].as_str()?;
            let rules = json!(snapshot.aggregated(name)?);
            (role["rules"].as_array().map_or(json!([]), |rules| json!(rules)) != rules)
                .then(|| (name.to_owned(), rules))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let part = json!({"kind": "ClusterRole", "metadata": {"name": "part", "labels": {"a": "b"}}, "rules": [rule]});
        let mut whole = json!({"kind": "ClusterRole", "metadata": {"name": "whole"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
        let wanted = vec![("whole".to_owned(), json!([rule]))];
        assert_eq!(outdated(&[part.clone(), whole.clone()]), wanted);
        whole["rules"] = json!([rule]);
        assert_eq!(outdated(&[part, whole]), []);
    }
}
