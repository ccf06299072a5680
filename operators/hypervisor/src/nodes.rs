//! Creates a Hypervisor for each Node that has the label of hypervisors.

use std::convert::Infallible;

use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Report, States, Wanted};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use crate::Error;
use crate::names::{AGGREGATES, CUSTOM_TRAITS, HYPERVISOR};

/// Labels that a Hypervisor has from its Node.
const COPIED: [&str; 4] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "kubernetes.metal.cloud.sap/name",
];

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes;

/// What the Node decides of a Hypervisor; all else is its owner's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Draft {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: DraftSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DraftSpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aggregates: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    custom_traits: Vec<String>,
}

fn listed(node: &Node, annotation: &str) -> Vec<String> {
    let text = node
        .annotations()
        .get(annotation)
        .map(String::as_str)
        .unwrap_or_default();
    let mut all: Vec<String> = text
        .split(',')
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .map(str::to_owned)
        .collect();
    all.sort();
    all.dedup();
    all
}

fn draft(node: &Node) -> Draft {
    let labels = COPIED.iter().filter_map(|key| {
        let value = node.labels().get(*key)?;
        Some(((*key).to_owned(), value.clone()))
    });
    Draft {
        api_version: Hypervisor::api_version(&()).into_owned(),
        kind: Hypervisor::kind(&()).into_owned(),
        metadata: ObjectMeta {
            name: Some(node.name_any()),
            labels: Some(labels.collect()),
            ..ObjectMeta::default()
        },
        spec: DraftSpec {
            aggregates: listed(node, AGGREGATES),
            custom_traits: listed(node, CUSTOM_TRAITS),
        },
    }
}

impl Controller for Nodes {
    type Kind = Node;
    type Facts = ();
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "hypervisor-nodes";
    const PARTS: &'static [Part] = &[];
    const READY: bool = false;
    const STATUS: bool = false;

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Hypervisor>()]
    }

    async fn observe(&self, _: &Node, _: &Reader) -> Result<(), Error> {
        Ok(())
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        let node = &observed.object;
        if !node.labels().contains_key(HYPERVISOR) {
            return Ok(Decision::hold());
        }
        // A type of our own has string keys only, so this cannot fail; were it to, apply refuses null.
        let object = serde_json::to_value(draft(node)).unwrap_or_default();
        Ok(Decision::only([Wanted::untyped(object)]))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(_: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        Report::new(States::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_decides_labels_aggregates_and_traits_alone() {
        let mut node = Node::default();
        node.metadata.name = Some("node1".into());
        node.metadata.labels = Some(
            [
                ("topology.kubernetes.io/zone".to_owned(), "a".to_owned()),
                ("rack".to_owned(), "7".to_owned()),
            ]
            .into(),
        );
        node.metadata.annotations = Some([(AGGREGATES.to_owned(), "hana, ,a,hana".to_owned())].into());
        let draft = serde_json::to_value(draft(&node)).expect("JSON");
        assert_eq!(
            draft["metadata"]["labels"],
            serde_json::json!({"topology.kubernetes.io/zone": "a"})
        );
        assert_eq!(draft["spec"], serde_json::json!({"aggregates": ["a", "hana"]}));
    }
}
