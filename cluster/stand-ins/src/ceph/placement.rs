//! Where the pods of a device set may run, as its `placement` says, and the site that follows from it. Pure.

use c5c3_api::foreign::rook::{CephClusterSpec, DeviceSet};
use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorRequirement, Toleration};
use serde::Deserialize;

use super::check;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Of Rook's placement what matters to disks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Placement {
    pub node_affinity: Option<NodeAffinity>,
    pub tolerations: Vec<Toleration>,
}

/// Of a set; an error when it cannot be read.
pub(crate) fn of(set: &DeviceSet) -> Result<Placement, String> {
    match set.more.get("placement") {
        Some(placement) => serde_json::from_value(placement.clone()).map_err(|error| error.to_string()),
        None => Ok(Placement::default()),
    }
}

/// The one site in which it may run. Ceph keeps copies of one site apart from those of another.
pub(crate) fn site(placement: &Placement, spec: &CephClusterSpec) -> Option<String> {
    let label = check::site_label(spec).unwrap_or(ZONE);
    let terms = &placement
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?
        .node_selector_terms;
    // Terms are alternatives.
    let [term] = terms.as_slice() else { return None };
    let mut all = term.match_expressions.iter().flatten();
    let one = |wanted: &NodeSelectorRequirement| match (wanted.operator.as_str(), wanted.values.as_deref()) {
        ("In", Some([site])) => Some(site.clone()),
        _ => None,
    };
    all.find(|wanted| wanted.key == label).and_then(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(placement: Value) -> DeviceSet {
        serde_json::from_value(json!({"name": "s", "count": 1, "placement": placement})).expect("a set")
    }

    fn affinity(expressions: Value) -> Value {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}})
    }

    #[test]
    fn a_set_that_is_bound_to_a_site_is_in_it() {
        let zone = |values: &[&str]| json!({"key": ZONE, "operator": "In", "values": values});
        let room = json!({"key": "room", "operator": "In", "values": ["r1"]});
        for (expressions, label, expected) in [
            (json!([zone(&["a"])]), None, Some("a")),
            (json!([room, zone(&["a"])]), None, Some("a")),
            (json!([room, zone(&["a"])]), Some("room"), Some("r1")),
            (json!([zone(&["a", "b"])]), None, None),
            (json!([{"key": ZONE, "operator": "Exists"}]), None, None),
            (json!([]), None, None),
        ] {
            let mon = json!({"mon": {"failureDomainLabel": label}});
            let spec: CephClusterSpec = serde_json::from_value(mon).expect("a spec");
            let placement = of(&set(affinity(expressions.clone()))).expect("a placement");
            assert_eq!(site(&placement, &spec).as_deref(), expected, "{expressions}");
        }
    }

    #[test]
    fn what_is_no_placement_is_an_error() {
        assert_eq!(of(&set(json!({}))), Ok(Placement::default()));
        assert!(of(&set(json!({"nodeAffinity": "here"}))).is_err());
        let tolerant = of(&set(json!({"tolerations": [{"operator": "Exists"}]}))).expect("a placement");
        assert_eq!(tolerant.tolerations.len(), 1);
    }
}
