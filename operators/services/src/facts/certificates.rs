//! Certificates of nodes. They are tended where the world is read: keys are random, and deciding stays pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use c5c3_authority::{Data, Holder};
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::{HOME, ReadError, Reader};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt;

use super::{Facts, elsewhere};
use crate::error::Error;
use crate::names::Names;
use crate::shape::{Process, Service, Volume, VolumeSource, Workload};

/// The authority, and what nodes have of it. It holds keys, so there is no Debug.
#[derive(Clone, Default)]
pub struct NodeCertificates {
    /// The volume that they are mounted as; their Secret is named after it.
    pub volume: String,
    /// At home, and mounted nowhere.
    pub authority: Data,
    /// In each cluster that has such nodes.
    pub by_cluster: BTreeMap<ClusterName, Data>,
}

/// Processes whose nodes have certificates, with the volume and the titles of these.
fn certified(service: &Service) -> impl Iterator<Item = (&Process, &Volume, &'static [&'static str])> {
    let processes = service.processes.iter();
    processes.filter_map(|process| {
        let mut volumes = process.volumes.iter();
        volumes.find_map(|volume| match volume.source {
            VolumeSource::NodeCertificates { titles } => Some((process, volume, titles)),
            _ => None,
        })
    })
}

pub(super) async fn tend(service: &Service, reader: &Reader, facts: &mut Facts) -> Result<(), Error> {
    let names = &service.names;
    let title = format!(
        "authority of {} {}/{}",
        names.service, names.namespace, names.name
    );
    for (process, volume, titles) in certified(service) {
        let place = process.place();
        if !facts.reaches(&place) {
            continue;
        }
        let (nodes, stored) = if place == HOME {
            read(reader.clone(), names, process, volume).await?
        } else {
            let read = elsewhere::ask(reader, &place, |there| read(there, names, process, volume));
            match read.await {
                Ok(found) => found,
                Err(why) => {
                    facts.elsewhere.insert(place.to_string(), Err(why));
                    continue;
                }
            }
        };
        let now = Timestamp::now();
        if facts.certificates.is_none() {
            let secret = names.authority_of(&volume.name);
            let secret = reader.get::<Secret>(&names.namespace, &secret).await?;
            let stored = secret.and_then(|secret| secret.data);
            let authority = c5c3_authority::authority(&title, stored.unwrap_or_default(), now)?;
            facts.certificates = Some(NodeCertificates {
                volume: volume.name.clone(),
                authority,
                by_cluster: BTreeMap::new(),
            });
        }
        if let Some(all) = &mut facts.certificates {
            let holders = holders(&nodes, titles);
            let made = c5c3_authority::certificates(&title, &all.authority, &holders, &stored, now)?;
            all.by_cluster.insert(place, made);
        }
    }
    Ok(())
}

/// The nodes of a process, and the certificates that are there.
async fn read(
    there: Reader,
    names: &Names,
    process: &Process,
    volume: &Volume,
) -> Result<(Vec<Node>, Data), ReadError> {
    let Workload::DaemonSet { nodes, .. } = &process.workload else {
        return Ok(Default::default());
    };
    let labels: Vec<String> = nodes
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let mut nodes = there.list_all::<Node>(&labels.join(",")).await?;
    nodes.retain(|node| node.metadata.deletion_timestamp.is_none());
    let secret = names.suffixed(&volume.name);
    let secret = there.get::<Secret>(&names.namespace, &secret).await?;
    Ok((nodes, secret.and_then(|secret| secret.data).unwrap_or_default()))
}

/// One for each title and node. Who is called by an address is found by it; a name alone would do for
/// nobody, so a node without an address has none yet.
fn holders(nodes: &[Node], titles: &[&str]) -> Vec<Holder> {
    let mut all = Vec::new();
    for node in nodes {
        let status = node.status.as_ref();
        let addresses = status
            .and_then(|status| status.addresses.as_ref())
            .into_iter()
            .flatten();
        let internal = addresses.filter(|address| address.type_ == "InternalIP");
        let addresses: BTreeSet<IpAddr> = internal.filter_map(|one| one.address.parse().ok()).collect();
        if addresses.is_empty() {
            continue;
        }
        let name = node.name_any();
        all.extend(titles.iter().map(|title| Holder {
            file: format!("{title}-{name}"),
            organization: Some((*title).to_owned()),
            common_name: name.clone(),
            names: vec![name.clone()],
            addresses: addresses.iter().copied().collect(),
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_known_by_its_name_and_its_inner_addresses() {
        let node = |name: &str, addresses: serde_json::Value| {
            let node = json!({"metadata": {"name": name}, "status": {"addresses": addresses}});
            serde_json::from_value::<Node>(node).expect("a node")
        };
        let of = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let both = [
            of("InternalIP", "10.0.0.2"),
            of("InternalIP", "fd00::2"),
            of("ExternalIP", "192.0.2.1"),
        ];
        let nodes = [node("a", json!(both)), node("b", json!([of("Hostname", "b")]))];
        let holders = holders(&nodes, &["libvirt", "qemu"]);
        let files: Vec<&str> = holders.iter().map(|holder| holder.file.as_str()).collect();
        assert_eq!(files, ["libvirt-a", "qemu-a"], "b has no address yet");
        let addresses: Vec<String> = holders[0].addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.2", "fd00::2"]);
    }
}
