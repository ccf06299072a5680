//! The lines that the pods of a node read.

use c5c3_api::ovn::EncapsulationType;

use super::{Chassis, UPLINK_BRIDGE};

/// Pure. One `key=value` a line; values hold no spaces but for those of an uplink.
pub fn settings(chassis: &Chassis, remote: &str, gateway: bool) -> String {
    let spec = &chassis.spec;
    let kind = match spec.encapsulation.type_ {
        EncapsulationType::Geneve => "geneve",
        EncapsulationType::Vxlan => "vxlan",
    };
    let mappings: Vec<String> = spec
        .bridge_mappings
        .iter()
        .map(|mapping| format!("{}:{}", mapping.physical_network, mapping.bridge))
        .collect();
    let mut lines = vec![
        format!("system-id={}", spec.system_id),
        format!("hostname={}", spec.hostname),
        format!("remote={remote}"),
        format!("encap-type={kind}"),
        format!("encap-ip={}", spec.encapsulation.ip),
    ];
    if !mappings.is_empty() {
        lines.push(format!("bridge-mappings={}", mappings.join(",")));
    }
    if gateway {
        lines.push("gateway=yes".to_owned());
    }
    if let Some(uplink) = &chassis.uplink {
        lines.push(format!(
            "uplink={UPLINK_BRIDGE} {} {}",
            uplink.link, uplink.address
        ));
    }
    lines.join("\n") + "\n"
}
