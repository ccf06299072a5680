//! What libvirt says of the host.

use c5c3_api::hypervisor::DomainCapabilities;
use roxmltree::Node;

use crate::xml::{self, BadXml};

/// A NUMA cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCell {
    pub id: u32,
    /// In KiB.
    pub memory: u64,
    pub cpus: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub libvirt: String,
    pub hypervisor: String,
    pub arch: Option<String>,
    /// By number.
    pub cells: Vec<HostCell>,
    pub guests: Option<DomainCapabilities>,
}

/// libvirt packs a version into one number.
pub fn version(packed: u64) -> String {
    format!(
        "{}.{}.{}",
        packed / 1_000_000,
        packed / 1000 % 1000,
        packed % 1000
    )
}

/// Architecture and cells. `memory` and `cpus` are those of the whole host: what one without a
/// topology has, as one cell.
pub fn capabilities(text: &str, memory: u64, cpus: u64) -> Result<(Option<String>, Vec<HostCell>), BadXml> {
    let document = xml::parse("capabilities", text)?;
    let host = xml::at(document.root_element(), &["host"]);
    let arch = host.and_then(|host| xml::text(host, &["cpu", "arch"]));
    let cells = host.and_then(|host| xml::at(host, &["topology", "cells"]));
    let mut found: Vec<HostCell> = cells
        .map(|cells| xml::each(cells, "cell").filter_map(cell).collect())
        .unwrap_or_default();
    // libvirt has promised no order.
    found.sort_by_key(|cell| cell.id);
    found.dedup_by_key(|cell| cell.id);
    if found.is_empty() {
        found.push(HostCell { id: 0, memory, cpus });
    }
    Ok((arch.map(str::to_owned), found))
}

fn cell(node: Node<'_, '_>) -> Option<HostCell> {
    let cpus = xml::at(node, &["cpus"]).map_or(0, |cpus| xml::each(cpus, "cpu").count());
    Some(HostCell {
        id: node.attribute("id")?.parse().ok()?,
        memory: xml::at(node, &["memory"]).and_then(xml::kibibytes).unwrap_or(0),
        cpus: cpus as u64,
    })
}

/// What a guest may have, sorted.
pub fn domain_capabilities(text: &str) -> Result<DomainCapabilities, BadXml> {
    let document = xml::parse("domain capabilities", text)?;
    let root = document.root_element();
    let below = |name: &str| {
        xml::at(root, &[name])
            .into_iter()
            .flat_map(|node| node.children())
    };
    let supported = |node: &Node<'_, '_>| node.is_element() && node.attribute("supported") == Some("yes");

    let mut devices = Vec::new();
    for device in below("devices").filter(supported) {
        let name = device.tag_name().name();
        devices.push(name.to_owned());
        devices.extend(values(device, "modelType").map(|model| format!("{name}/{model}")));
    }
    let mut modes = Vec::new();
    for mode in below("cpu").filter(supported) {
        let Some(name) = mode.attribute("name") else {
            continue;
        };
        modes.push(name.to_owned());
        if values(mode, "hostPassthroughMigratable").any(|value| value == "on") {
            modes.push(format!("{name}/migratable"));
        }
    }
    let features = below("features")
        .filter(supported)
        .map(|node| node.tag_name().name().to_owned());
    let text = |name: &str| xml::text(root, &[name]).map(str::to_owned);
    Ok(DomainCapabilities {
        arch: text("arch"),
        hypervisor_type: text("domain"),
        supported_devices: sorted(devices),
        supported_cpu_modes: sorted(modes),
        supported_features: sorted(features.collect()),
    })
}

fn values<'a>(node: Node<'a, '_>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let sets = xml::each(node, "enum").filter(move |set| set.attribute("name") == Some(name));
    sets.flat_map(|set| set.children())
        .filter_map(|value| value.text())
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// A set in the API: each once, in one order.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_unpacked() {
        assert_eq!(version(9_000_000), "9.0.0");
        assert_eq!(version(11_003_012), "11.3.12");
    }

    /// Regression: cells in arbitrary order made the status change forever.
    #[test]
    fn cells_are_in_one_order_whatever_libvirt_says() {
        let cell = |id: u32| {
            format!(
                "<cell id='{id}'><memory unit='KiB'>{}</memory><cpus num='2'><cpu id='0'/><cpu id='1'/></cpus></cell>",
                1024 + id
            )
        };
        let text = |order: &[u32]| {
            let cells: String = order.iter().map(|id| cell(*id)).collect();
            format!(
                "<capabilities><host><cpu><arch>x86_64</arch></cpu><topology><cells num='3'>{cells}</cells></topology></host></capabilities>"
            )
        };
        let first = capabilities(&text(&[2, 0, 1]), 0, 0).expect("XML");
        assert_eq!(first, capabilities(&text(&[0, 1, 2]), 0, 0).expect("XML"));
        assert_eq!(first.0.as_deref(), Some("x86_64"));
        assert_eq!(
            first.1[2],
            HostCell {
                id: 2,
                memory: 1026,
                cpus: 2
            }
        );
    }

    #[test]
    fn a_host_without_a_topology_is_one_cell() {
        let (arch, cells) = capabilities("<capabilities><host/></capabilities>", 4096, 2).expect("XML");
        assert_eq!(
            (arch, cells),
            (
                None,
                vec![HostCell {
                    id: 0,
                    memory: 4096,
                    cpus: 2
                }]
            )
        );
        assert!(capabilities("<capabilities>", 0, 0).is_err());
    }

    #[test]
    fn what_guests_may_have_is_sorted() {
        let text = "<domainCapabilities><domain>kvm</domain><arch>x86_64</arch>
            <cpu><mode name='host-passthrough' supported='yes'><enum name='hostPassthroughMigratable'><value>on</value><value>off</value></enum></mode>
                 <mode name='maximum' supported='no'/><mode name='custom' supported='yes'><model usable='yes'>Nehalem</model></mode></cpu>
            <devices><video supported='yes'><enum name='modelType'><value>vga</value><value>none</value></enum></video>
                     <disk supported='yes'><enum name='bus'><value>virtio</value></enum></disk><tpm supported='no'/></devices>
            <features><sev supported='no'/><genid supported='yes'/></features></domainCapabilities>";
        let found = domain_capabilities(text).expect("XML");
        assert_eq!(found.hypervisor_type.as_deref(), Some("kvm"));
        assert_eq!(
            found.supported_devices,
            ["disk", "video", "video/none", "video/vga"]
        );
        assert_eq!(
            found.supported_cpu_modes,
            ["custom", "host-passthrough", "host-passthrough/migratable"]
        );
        assert_eq!(found.supported_features, ["genid"]);
    }
}
