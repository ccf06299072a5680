//! Hosts and servers of Nova and Placement.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use openstack_client::{
    Aggregate, Fleet, HypervisorRecord, Inventories, Placement, Result, Scheduling, Service, Session,
    SizedServer, Usages,
};

use crate::fleet::{self, Amount, Host, HypervisorType, Server};

/// Calls at a time to Placement, which has no list of all inventories.
const AT_ONCE: usize = 16;
/// The zone of hosts in no aggregate that names one.
const USUAL_ZONE: &str = "nova";

/// What Placement knows of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provider {
    pub traits: BTreeSet<String>,
    pub inventories: Inventories,
    pub usages: Usages,
}

pub type Picture = (BTreeMap<String, Host>, BTreeMap<String, Server>);

/// Reads all of it: three lists, the servers page by page, three calls for each host.
pub async fn read(session: &Session) -> Result<Picture> {
    let (services, hypervisors, aggregates, servers) = futures::try_join!(
        session.compute_hosts(),
        Fleet::hypervisors(session),
        session.aggregates(),
        session.sized_servers()
    )?;
    let ids: Vec<String> = hypervisors.iter().map(|one| one.id.clone()).collect();
    let reads = ids.into_iter().map(|id| provider(session, id));
    let mut reads = futures::stream::iter(reads).buffer_unordered(AT_ONCE);
    let mut providers = BTreeMap::new();
    while let Some(read) = reads.next().await {
        // A host that went between two calls is in the next picture.
        match read {
            Ok((id, provider)) => {
                providers.insert(id, provider);
            }
            Err(error) if error.class() == openstack_client::Class::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(assemble(services, &hypervisors, &aggregates, &providers, servers))
}

async fn provider(session: &Session, id: String) -> Result<(String, Provider)> {
    let (traits, inventories, usages) = futures::try_join!(
        session.provider_traits(&id),
        session.provider_inventories(&id),
        session.usages(&id)
    )?;
    let provider = Provider {
        traits: traits.map(|(_, traits)| traits).unwrap_or_default(),
        inventories: inventories.map(|(_, all)| all).unwrap_or_default(),
        usages,
    };
    Ok((id, provider))
}

fn capacity(inventories: &Inventories) -> Option<Amount> {
    let of = |class: &str| {
        let inventory = inventories.get(class)?;
        let usable = inventory.total.saturating_sub(inventory.reserved).max(0);
        Some((usable as f64 * inventory.allocation_ratio).floor() as i64)
    };
    let cpu = of("VCPU").unwrap_or_default() + of("PCPU").unwrap_or_default();
    of("MEMORY_MB").map(|memory| Amount::new(cpu, memory))
}

fn used(usages: &Usages) -> Amount {
    let of = |class: &str| usages.get(class).copied().unwrap_or_default();
    Amount::new(of("VCPU") + of("PCPU"), of("MEMORY_MB"))
}

fn unfit(service: &Service) -> Option<String> {
    if service.forced_down {
        Some("is forced down".to_owned())
    } else if !service.enabled() {
        let why = service.disabled_reason.as_deref().unwrap_or("no reason given");
        Some(format!("is disabled: {why}"))
    } else if !service.up() {
        Some("is down".to_owned())
    } else {
        None
    }
}

/// Pure: what the answers mean together.
pub fn assemble(
    services: Vec<Service>,
    hypervisors: &[HypervisorRecord],
    aggregates: &[Aggregate],
    providers: &BTreeMap<String, Provider>,
    servers: Vec<SizedServer>,
) -> Picture {
    let mut hosts = BTreeMap::new();
    for service in services {
        // A service that has not reported any hypervisor yet takes no server.
        let Some(record) = hypervisors.iter().find(|one| one.service == service.id) else {
            continue;
        };
        let provider = providers.get(&record.id).cloned().unwrap_or_default();
        let own: Vec<&Aggregate> = aggregates
            .iter()
            .filter(|one| one.hosts.contains(&service.host))
            .collect();
        let zone = own.iter().find_map(|one| one.availability_zone.clone());
        let host = Host {
            unfit: unfit(&service),
            zone: Some(zone.unwrap_or_else(|| USUAL_ZONE.to_owned())),
            hypervisor_type: HypervisorType::Kvm,
            capacity: capacity(&provider.inventories),
            used: (!provider.inventories.is_empty()).then(|| used(&provider.usages)),
            traits: provider.traits,
            aggregates: own
                .into_iter()
                .map(|one| fleet::Aggregate {
                    uuid: one.uuid.clone(),
                    name: one.name.clone(),
                    metadata: one.metadata.clone(),
                })
                .collect(),
            ..Host::default()
        };
        hosts.insert(service.host, host);
    }
    let placed = servers.into_iter().filter_map(|server| {
        let host = server.host?;
        let zone = hosts.get(&host).and_then(|on| on.zone.clone());
        let placed = Server {
            name: server.name,
            host,
            project: server.project,
            status: server.status,
            size: Amount::new(server.vcpus, server.ram_mb),
            extra_specs: server.extra_specs,
            zone,
        };
        Some((server.id, placed))
    });
    let servers = placed.collect();
    (hosts, servers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openstack_client::Inventory;

    fn service(id: &str, host: &str) -> Service {
        Service {
            id: id.into(),
            host: host.into(),
            status: "enabled".into(),
            state: "up".into(),
            ..Service::default()
        }
    }

    #[test]
    fn answers_of_nova_and_placement_become_hosts_and_servers() {
        let mut down = service("2", "b");
        down.state = "down".into();
        let mut off = service("3", "c");
        (off.status, off.disabled_reason) = ("disabled".into(), Some("disk".into()));
        let record = |service: &str| HypervisorRecord {
            id: format!("rp{service}"),
            hostname: "x".into(),
            service: service.into(),
        };
        let aggregates = [Aggregate {
            uuid: "u".into(),
            hosts: vec!["a".into()],
            availability_zone: Some("az1".into()),
            metadata: [("filter_tenant_id".to_owned(), "p".to_owned())].into(),
            ..Aggregate::default()
        }];
        let ram = Inventory {
            reserved: 512,
            ..Inventory::of(4608)
        };
        let cpu = Inventory {
            allocation_ratio: 4.0,
            ..Inventory::of(8)
        };
        let provider = Provider {
            traits: ["T".to_owned()].into(),
            inventories: [("VCPU".to_owned(), cpu), ("MEMORY_MB".to_owned(), ram)].into(),
            usages: [("VCPU".to_owned(), 2), ("MEMORY_MB".to_owned(), 1024)].into(),
        };
        let server = SizedServer {
            id: "s".into(),
            host: Some("a".into()),
            vcpus: 2,
            ram_mb: 1024,
            ..SizedServer::default()
        };
        let unplaced = SizedServer {
            id: "t".into(),
            ..SizedServer::default()
        };
        let (hosts, servers) = assemble(
            vec![service("1", "a"), down, off, service("4", "new")],
            &[record("1"), record("2"), record("3")],
            &aggregates,
            &[("rp1".to_owned(), provider)].into(),
            vec![server, unplaced],
        );
        assert_eq!(hosts.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        let a = &hosts["a"];
        assert_eq!(
            (a.capacity, a.used),
            (Some(Amount::new(32, 4096)), Some(Amount::new(2, 1024)))
        );
        assert_eq!(
            (
                a.zone.as_deref(),
                a.aggregates[0].metadata["filter_tenant_id"].as_str()
            ),
            (Some("az1"), "p")
        );
        assert_eq!(hosts["b"].unfit.as_deref(), Some("is down"));
        assert_eq!(hosts["c"].unfit.as_deref(), Some("is disabled: disk"));
        assert_eq!(
            (hosts["b"].zone.as_deref(), hosts["b"].capacity),
            (Some("nova"), None)
        );
        assert_eq!((servers.len(), servers["s"].zone.as_deref()), (1, Some("az1")));
    }
}
