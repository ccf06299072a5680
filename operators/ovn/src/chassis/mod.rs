//! One hypervisor in OVN: what its Node says, and what its pods are told.

mod settings;
mod status;

use std::net::IpAddr;

use c5c3_api::ovn::{BridgeMapping, Encapsulation, EncapsulationType, OvnChassisSpec};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

pub use settings::settings;
pub use status::ChassisStatus;

/// On a Node, as annotation or label: its address in the tunnel network, with or without a prefix.
pub const TUNNEL_ADDRESS: &str = "ovn.c5c3.io/tunnel-address";
/// The same: the link that joins it to that network and to those outside. It becomes a port of
/// [`UPLINK_BRIDGE`], which gets the address.
pub const UPLINK: &str = "ovn.c5c3.io/uplink";
/// The same: `geneve` or `vxlan`.
pub const TUNNEL_TYPE: &str = "ovn.c5c3.io/tunnel-type";
/// Annotation: `physnet1:br-phy`, several separated by commas.
pub const BRIDGE_MAPPINGS: &str = "ovn.c5c3.io/bridge-mappings";

pub const UPLINK_BRIDGE: &str = "br-phy";
/// The network behind the uplink, when nothing else is said.
const NETWORK: &str = "physnet1";
const PREFIX: u8 = 24;

/// A Node as a chassis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chassis {
    pub spec: OvnChassisSpec,
    pub uplink: Option<Uplink>,
}

/// A link of the node as a port of our own bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    pub link: String,
    /// With prefix; of the bridge.
    pub address: String,
}

/// Why a Node cannot be a chassis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("Node {node}: {mark}: {value:?} is not {wanted}; correct or remove it")]
    Mark {
        node: String,
        mark: &'static str,
        value: String,
        wanted: &'static str,
    },
    #[error("Node {node} has no address: annotate it with {TUNNEL_ADDRESS}")]
    NoAddress { node: String },
}

/// Pure. What a Node says about itself.
pub fn of_node(node: &Node) -> Result<Chassis, Unfit> {
    let name = node.name_any();
    let mark = |mark: &str| {
        let marks = [&node.metadata.annotations, &node.metadata.labels];
        marks.into_iter().flatten().find_map(|all| all.get(mark)).cloned()
    };
    let refuse = |mark: &'static str, value: &str, wanted: &'static str| Unfit::Mark {
        node: name.clone(),
        mark,
        value: value.to_owned(),
        wanted,
    };
    let tunnel = mark(TUNNEL_ADDRESS)
        .map(|text| {
            address(&text).ok_or_else(|| refuse(TUNNEL_ADDRESS, &text, "an address such as 10.193.0.7/24"))
        })
        .transpose()?;
    let type_ = match mark(TUNNEL_TYPE).as_deref() {
        None | Some("geneve") => EncapsulationType::Geneve,
        Some("vxlan") => EncapsulationType::Vxlan,
        Some(other) => return Err(refuse(TUNNEL_TYPE, other, "geneve or vxlan")),
    };
    let link = mark(UPLINK);
    if let Some(link) = link.as_deref().filter(|link| !is_name(link, 15)) {
        return Err(refuse(UPLINK, link, "the name of a link"));
    }
    let bridge_mappings = match mark(BRIDGE_MAPPINGS) {
        Some(text) => {
            mappings(&text).ok_or_else(|| refuse(BRIDGE_MAPPINGS, &text, "of the form physnet1:br-phy,…"))?
        }
        None if link.is_some() => vec![BridgeMapping {
            physical_network: NETWORK.to_owned(),
            bridge: UPLINK_BRIDGE.to_owned(),
        }],
        None => Vec::new(),
    };
    let (ip, uplink) = match (tunnel, link) {
        (Some((ip, prefix)), Some(link)) => {
            let address = format!("{ip}/{prefix}");
            (ip.to_string(), Some(Uplink { link, address }))
        }
        (None, Some(link)) => return Err(refuse(UPLINK, &link, "enough without an address for the bridge")),
        (Some((ip, _)), None) => (ip.to_string(), None),
        (None, None) => (
            internal(node).ok_or(Unfit::NoAddress { node: name.clone() })?,
            None,
        ),
    };
    Ok(Chassis {
        spec: OvnChassisSpec {
            hostname: name.clone(),
            system_id: name,
            bridge_mappings,
            encapsulation: Encapsulation { type_, ip },
        },
        uplink,
    })
}

fn internal(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let of = |kind: &str| addresses.iter().find(|address| address.type_ == kind);
    of("InternalIP").map(|found| found.address.clone())
}

fn address(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, prefix) = match text.split_once('/') {
        Some((ip, prefix)) => (ip, prefix.parse().ok()?),
        None => (text, PREFIX),
    };
    let ip: IpAddr = ip.parse().ok()?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    (prefix <= longest).then_some((ip, prefix))
}

fn mappings(text: &str) -> Option<Vec<BridgeMapping>> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let mapping = |part: &str| {
        let (network, bridge) = part.split_once(':')?;
        (is_name(network, 63) && is_name(bridge, 15)).then(|| BridgeMapping {
            physical_network: network.to_owned(),
            bridge: bridge.to_owned(),
        })
    };
    parts.map(mapping).collect()
}

/// The settings are lines of words: nothing in them may end one.
fn is_name(text: &str, longest: usize) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= longest && text.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(marks: &[(&str, &str)]) -> Node {
        let annotations: serde_json::Map<_, _> = marks
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "node-2", "annotations": annotations},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.190.0.2"}]},
        }))
        .expect("a Node")
    }

    #[test]
    fn a_node_without_marks_tunnels_from_its_own_address() {
        let chassis = of_node(&node(&[])).expect("fit");
        assert_eq!(chassis.spec.encapsulation.ip, "10.190.0.2");
        assert_eq!((chassis.uplink, chassis.spec.bridge_mappings), (None, vec![]));
    }

    #[test]
    fn an_uplink_brings_a_bridge_an_address_and_a_network() {
        let chassis = of_node(&node(&[(UPLINK, "eth1"), (TUNNEL_ADDRESS, "10.193.0.2")])).expect("fit");
        assert_eq!(chassis.spec.encapsulation.ip, "10.193.0.2");
        let uplink = chassis.uplink.expect("an uplink");
        assert_eq!(
            (uplink.link.as_str(), uplink.address.as_str()),
            ("eth1", "10.193.0.2/24")
        );
        assert_eq!(chassis.spec.bridge_mappings[0].physical_network, "physnet1");
        assert_eq!(chassis.spec.bridge_mappings[0].bridge, "br-phy");
    }

    #[test]
    fn labels_do_as_well_as_annotations() {
        let mut plain = node(&[]);
        plain.metadata.labels = Some([(TUNNEL_ADDRESS.to_owned(), "10.1.0.2".to_owned())].into());
        assert_eq!(of_node(&plain).expect("fit").spec.encapsulation.ip, "10.1.0.2");
    }

    #[test]
    fn what_is_wrong_with_a_mark_is_said() {
        for (marks, said) in [
            (
                &[(TUNNEL_ADDRESS, "10.0.0.1/33")][..],
                "\"10.0.0.1/33\" is not an address",
            ),
            (&[(TUNNEL_ADDRESS, "x\nremote=evil")], "is not an address"),
            (
                &[(UPLINK, "eth1 evil"), (TUNNEL_ADDRESS, "10.0.0.1")],
                "is not the name of a link",
            ),
            (&[(UPLINK, "eth1")], "is not enough without an address"),
            (&[(BRIDGE_MAPPINGS, "a:b:c")], "is not of the form"),
            (&[(TUNNEL_TYPE, "gre")], "is not geneve or vxlan"),
        ] {
            let error = of_node(&node(marks)).expect_err("unfit").to_string();
            assert!(
                error.starts_with("Node node-2: ovn.c5c3.io/") && error.contains(said),
                "{error}"
            );
        }
        let mut bare = node(&[]);
        bare.status = None;
        assert!(
            of_node(&bare)
                .expect_err("unfit")
                .to_string()
                .contains("has no address")
        );
    }
}
