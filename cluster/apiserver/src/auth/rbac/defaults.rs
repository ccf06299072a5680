//! The roles and bindings that every cluster has from the start.

use serde_json::Value;

use super::GROUP;
use crate::{cluster::Cluster, store::Expect};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// One object on each line.
const DEFAULTS: &str = include_str!("../../../data/default-roles.jsonl");

/// Default objects that the cluster lacks, and those that lack rules or subjects of a newer version of
/// the program. What was added to one stays; one whose annotation says so is left alone.
pub fn bootstrap(cluster: &Cluster) -> Vec<(&'static str, Value, Expect)> {
    defaults()
        .filter_map(|(resource, object)| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let Some(stored) = cluster.get(GROUP, resource, "", name) else {
                return Some((resource, object, Expect::Absent));
            };
            let completed = complete(stored.value(), &object)?;
            Some((resource, completed, Expect::Revision(stored.revision)))
        })
        .collect()
}

/// `live` with what it lacks of `default`; `None` if that is nothing.
fn complete(mut live: Value, default: &Value) -> Option<Value> {
    let wish = live["metadata"]["annotations"][AUTOUPDATE].as_str();
    if wish == Some("false") || live.get("aggregationRule").is_some() {
        return None;
    }
    let mut changed = false;
    for list in ["rules", "subjects"] {
        let has = live[list].as_array().cloned().unwrap_or_default();
        let wanted = default[list].as_array().into_iter().flatten();
        let lacking: Vec<Value> = wanted.filter(|item| !has.contains(item)).cloned().collect();
        if !lacking.is_empty() {
            live[list] = [has, lacking].concat().into();
            changed = true;
        }
    }
    changed.then_some(live)
}

fn defaults() -> impl Iterator<Item = (&'static str, Value)> {
    DEFAULTS.lines().map(|line| {
        // The file is part of the program and the tests read it.
        let object: Value = serde_json::from_str(line).unwrap_or_default();
        let resource = match object["kind"].as_str() {
            Some("ClusterRole") => "clusterroles",
            _ => "clusterrolebindings",
        };
        (resource, object)
    })
}

#[cfg(test)]
pub(in crate::auth) fn all() -> Vec<Value> {
    defaults().map(|(_, object)| object).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_of_an_older_program_get_what_they_lack_and_keep_what_was_added() {
        let default = json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]});
        let own = json!({"verbs": ["watch"]});
        let live = |wish: &str| {
            json!({"metadata": {"name": "r", "annotations": {AUTOUPDATE: wish}},
            "rules": [own, {"verbs": ["get"]}]})
        };
        let completed = complete(live("true"), &default).expect("something is missing");
        assert_eq!(
            completed["rules"],
            json!([own, {"verbs": ["get"]}, {"verbs": ["list"]}])
        );
        assert_eq!(complete(completed, &default), None, "once");
        assert_eq!(complete(live("false"), &default), None);
    }
}
