//! Daemons in the network of their nodes: clients outside of this cluster reach them there. A monitor is known
//! by its address, so it has one node for good, as Rook has it: if that is lost, another takes its place.

use std::collections::BTreeMap;

use c5c3_api::foreign::rook::CephClusterSpec;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::members;

const INTERNAL: &str = "InternalIP";
/// Where the ConfigMap of the endpoints keeps the seats.
pub(crate) const MAPPING: &str = "mapping";

/// Where a monitor is, in Rook's words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Seat {
    pub name: String,
    pub hostname: String,
    pub address: String,
}

/// By monitor.
pub(crate) type Seats = BTreeMap<String, Seat>;

#[derive(Default, Deserialize)]
struct Mapping {
    #[serde(default)]
    node: BTreeMap<String, Option<Seat>>,
}

/// Whether daemons are in the network of their nodes.
pub(crate) fn is_host(spec: &CephClusterSpec) -> bool {
    spec.network.as_ref().is_some_and(|network| {
        network.provider.as_deref() == Some("host") || network.host_network == Some(true)
    })
}

/// The seats that were given before.
pub(crate) fn read(endpoints: Option<&ConfigMap>) -> Seats {
    let text = endpoints.and_then(|map| map.data.as_ref()?.get(MAPPING));
    let mapping: Option<Mapping> = text.and_then(|text| serde_json::from_str(text).ok());
    let seats = mapping.unwrap_or_default().node.into_iter();
    seats.filter_map(|(id, seat)| Some((id, seat?))).collect()
}

pub(crate) fn written(seats: &Seats) -> String {
    json!({"node": seats}).to_string()
}

/// Who has a seat keeps it; others take a node on which no monitor is. Two on one would fight for the ports.
/// `avoided`: the node of one that is on its way out. With the label of a site they are spread over sites.
pub(crate) fn assign(
    ids: &[String],
    known: &Seats,
    nodes: &[Node],
    avoided: Option<&str>,
    label: Option<&str>,
) -> Seats {
    let mut seats: Seats = known
        .iter()
        .filter(|(id, _)| ids.contains(id))
        .map(|(id, seat)| (id.clone(), seat.clone()))
        .collect();
    let mut all: Vec<Seat> = nodes.iter().filter_map(seat).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    for id in ids {
        if seats.contains_key(id) {
            continue;
        }
        let taken = |seat: &Seat| seats.values().any(|other| other.name == seat.name);
        let free = all
            .iter()
            .filter(|seat| avoided != Some(seat.name.as_str()) && !taken(seat));
        // Of those that are as good, the first by name.
        let free = free.min_by_key(|seat| neighbours(&seats, &seat.name, nodes, label));
        if let Some(seat) = free.cloned() {
            seats.insert(id.clone(), seat);
        }
    }
    seats
}

/// Monitors with their nodes, and the one that should be replaced and cannot: no node is free.
pub(crate) fn seated(
    members: Vec<String>,
    change: Option<(String, String)>,
    known: &Seats,
    nodes: &[Node],
    label: Option<&str>,
) -> (Vec<String>, Seats, Option<String>) {
    let seats = assign(&members, known, nodes, None, label);
    let Some(change) = change else {
        return (members, seats, None);
    };
    let avoided = known.get(&change.0).map(|seat| seat.name.as_str());
    let others = members::with(&members, &change);
    let moved = assign(&others, known, nodes, avoided, label);
    if moved.contains_key(&change.1) {
        (others, moved, None)
    } else {
        (members, seats, Some(change.0))
    }
}

/// Monitors that are in the site of this node already.
fn neighbours(seats: &Seats, node: &str, nodes: &[Node], label: Option<&str>) -> usize {
    let site = |name: &str| {
        let node = nodes.iter().find(|node| node.name_any() == name)?;
        node.labels().get(label?)
    };
    let Some(own) = site(node) else { return 0 };
    seats
        .values()
        .filter(|seat| site(&seat.name) == Some(own))
        .count()
}

fn seat(node: &Node) -> Option<Seat> {
    let status = node.status.as_ref()?;
    let mut addresses = status.addresses.iter().flatten();
    let address = addresses.find(|address| address.type_ == INTERNAL)?;
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    let name = node.name_any();
    let hostname = node.labels().get("kubernetes.io/hostname").cloned();
    ready.then(|| Seat {
        hostname: hostname.unwrap_or_else(|| name.clone()),
        address: address.address.clone(),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, address: &str, ready: &str) -> Node {
        let status = json!({"addresses": [{"type": "Hostname", "address": name}, {"type": INTERNAL, "address": address}],
            "conditions": [{"type": "Ready", "status": ready}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).expect("a node")
    }

    fn ids(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn a_monitor_keeps_its_node_and_shares_it_with_none() {
        let nodes = [
            node("n2", "10.0.0.2", "True"),
            node("n1", "10.0.0.1", "True"),
            node("n0", "10.0.0.9", "False"),
        ];
        let first = assign(&ids("a"), &Seats::new(), &nodes, None, None);
        assert_eq!(first["a"].address, "10.0.0.1");
        let map = ConfigMap {
            data: Some([(MAPPING.to_owned(), written(&first))].into()),
            ..ConfigMap::default()
        };
        let known = read(Some(&map));
        assert_eq!(known, first);
        // Its node is away: it waits there.
        let more = assign(&ids("abc"), &known, &nodes[..1], None, None);
        assert_eq!((more["a"].name.as_str(), more["b"].name.as_str()), ("n1", "n2"));
        assert!(!more.contains_key("c"), "there is no third node");
        assert!(
            assign(&ids("b"), &more, &[], None, None).len() == 1,
            "who went gives his seat back"
        );
    }

    #[test]
    fn the_node_of_a_lost_monitor_is_avoided() {
        let nodes = [node("n1", "10.0.0.1", "True"), node("n2", "10.0.0.2", "True")];
        let known = assign(&ids("a"), &Seats::new(), &nodes, None, None);
        assert!(assign(&ids("b"), &known, &nodes[..1], Some("n1"), None).is_empty());
        let moved = assign(&ids("b"), &known, &nodes, Some("n1"), None);
        assert_eq!(moved["b"].name, "n2");
    }

    #[test]
    fn sites_have_as_many_monitors_each() {
        let at = |name: &str, site: &str| {
            let mut node = node(name, "10.0.0.1", "True");
            node.metadata.labels = Some([("zone".to_owned(), site.to_owned())].into());
            node
        };
        let nodes = [
            at("n1", "x"),
            at("n2", "x"),
            at("n3", "x"),
            at("n4", "y"),
            at("n5", "y"),
        ];
        let sites = |seats: &Seats| seats.values().map(|seat| seat.name.clone()).collect::<Vec<_>>();
        let four = assign(&ids("abcd"), &Seats::new(), &nodes, None, Some("zone"));
        assert_eq!(sites(&four), ["n1", "n4", "n2", "n5"]);
        let plain = assign(&ids("abcd"), &Seats::new(), &nodes, None, None);
        assert_eq!(sites(&plain), ["n1", "n2", "n3", "n4"]);
        // The one that takes the place of a lost one goes to the site that lacks it.
        let next = assign(&ids("bcde"), &four, &nodes, Some("n1"), Some("zone"));
        assert_eq!(next["e"].name, "n3");
    }

    #[test]
    fn what_others_wrote_there_is_no_trouble() {
        let map = |text: &str| ConfigMap {
            data: Some([(MAPPING.to_owned(), text.to_owned())].into()),
            ..ConfigMap::default()
        };
        for text in ["", "{}", "[]", r#"{"node":{}}"#, r#"{"node":{"a":null}}"#] {
            assert!(read(Some(&map(text))).is_empty(), "{text}");
        }
        assert!(read(None).is_empty());
    }
}
