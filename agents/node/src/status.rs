//! Pure: what is seen of the host → what the agent writes into the Hypervisor's status.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::common::{Quantity, Time};
use c5c3_api::hypervisor::{
    Capabilities, Cell, HypervisorSpec, HypervisorStatus, Instance, InstanceTrouble, OperatingSystem,
};
use jiff::Timestamp;

use crate::guest::{Demand, Guest};
use crate::view::View;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
/// As many users of Ceph as a status holds.
const MOST_USERS: usize = 256;

/// The agent's fields. Before libvirt has answered once, those that come from it stay as they are:
/// an agent that starts while libvirt is away must not forget the instances.
pub fn desired(
    view: &View,
    system: OperatingSystem,
    spec: &HypervisorSpec,
    live: &HypervisorStatus,
) -> HypervisorStatus {
    let operating_system = Some(system);
    let Some(host) = &view.host else {
        return HypervisorStatus {
            operating_system,
            lib_virt_version: live.lib_virt_version.clone(),
            hypervisor_version: live.hypervisor_version.clone(),
            capabilities: live.capabilities.clone(),
            domain_capabilities: live.domain_capabilities.clone(),
            allocation: live.allocation.clone(),
            capacity: live.capacity.clone(),
            effective_capacity: live.effective_capacity.clone(),
            cells: live.cells.clone(),
            instances: live.instances.clone(),
            num_instances: live.num_instances,
            ceph_users: live.ceph_users.clone(),
            ..HypervisorStatus::default()
        };
    };
    let running = || view.guests.values().filter(|guest| guest.active);
    let mut capacity = Demand::default();
    let mut allocation = Demand::default();
    running().for_each(|guest| allocation.add(guest.all));
    let mut cells = Vec::with_capacity(host.cells.len());
    for cell in &host.cells {
        let has = Demand {
            cpus: cell.cpus.saturating_mul(1000),
            memory: cell.memory,
        };
        capacity.add(has);
        let mut taken = Demand::default();
        running()
            .filter_map(|guest| guest.cells.get(&cell.id))
            .for_each(|one| taken.add(*one));
        cells.push(Cell {
            cell_id: i64::from(cell.id),
            allocation: quantities(taken),
            capacity: quantities(has),
            effective_capacity: quantities(overcommitted(has, &spec.overcommit)),
        });
    }
    HypervisorStatus {
        operating_system,
        lib_virt_version: Some(host.libvirt.clone()),
        hypervisor_version: Some(host.hypervisor.clone()),
        capabilities: Some(Capabilities {
            cpu_arch: host.arch.clone(),
            memory: Some(kibibytes(capacity.memory)),
            cpus: Some(cores(capacity.cpus)),
        }),
        domain_capabilities: host.guests.clone(),
        allocation: quantities(allocation),
        capacity: quantities(capacity),
        effective_capacity: quantities(overcommitted(capacity, &spec.overcommit)),
        cells,
        instances: view
            .guests
            .iter()
            .map(|(id, guest)| instance(id, guest, live))
            .collect(),
        num_instances: Some(i32::try_from(view.guests.len()).unwrap_or(i32::MAX)),
        ceph_users: Some(ceph_users(view)),
        ..HypervisorStatus::default()
    }
}

/// Of all instances: one that is stopped starts with what it had.
fn ceph_users(view: &View) -> Vec<String> {
    let users = view.guests.values().flat_map(|guest| &guest.ceph_users);
    let users: BTreeSet<&String> = users.collect();
    users.into_iter().take(MOST_USERS).cloned().collect()
}

fn instance(id: &str, guest: &Guest, live: &HypervisorStatus) -> Instance {
    let told = live.instances.iter().find(|one| one.id == id);
    let told = told.and_then(|one| one.trouble.as_ref());
    let trouble = guest.trouble.map(|(kind, seen)| InstanceTrouble {
        kind,
        // An agent that restarted sees it later than the one before it.
        since: match told
            .filter(|told| told.kind == kind)
            .and_then(|told| told.since.clone())
        {
            Some(since) => Some(since),
            None => Some(Time(whole(seen))),
        },
    });
    Instance {
        id: id.to_owned(),
        name: guest.name.clone(),
        active: guest.active,
        trouble,
    }
}

/// Times of objects have no fractions.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn overcommitted(demand: Demand, ratios: &BTreeMap<String, f64>) -> Demand {
    let times = |amount: u64, resource: &str| match ratios.get(resource) {
        // A float turned into a whole number is cut at both ends, never odd.
        Some(ratio) if *ratio > 1.0 => (amount as f64 * ratio) as u64,
        _ => amount,
    };
    Demand {
        cpus: times(demand.cpus, CPU),
        memory: times(demand.memory, MEMORY),
    }
}

fn quantities(demand: Demand) -> BTreeMap<String, Quantity> {
    BTreeMap::from([
        (CPU.to_owned(), cores(demand.cpus)),
        (MEMORY.to_owned(), kibibytes(demand.memory)),
    ])
}

fn cores(thousandths: u64) -> Quantity {
    Quantity(match thousandths % 1000 {
        0 => format!("{}", thousandths / 1000),
        _ => format!("{thousandths}m"),
    })
}

/// Zero has no unit.
fn kibibytes(amount: u64) -> Quantity {
    Quantity(match amount {
        0 => "0".to_owned(),
        amount => format!("{amount}Ki"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host, HostCell};
    use crate::view::Link;
    use c5c3_api::hypervisor::Trouble;
    use proptest::prelude::*;

    fn guest(active: bool, cells: &[u32]) -> Guest {
        let all = Demand {
            cpus: 2000,
            memory: 4096,
        };
        Guest {
            name: "instance-1".into(),
            active,
            all,
            cells: cells.iter().map(|cell| (*cell, all)).collect(),
            ..Guest::default()
        }
    }

    fn view(guests: Vec<(&str, Guest)>) -> View {
        let cell = |id| HostCell {
            id,
            memory: 1 << 20,
            cpus: 8,
        };
        View {
            link: Link::Up,
            host: Some(Host {
                libvirt: "9.0.0".into(),
                hypervisor: "7.2.0".into(),
                cells: vec![cell(0), cell(1)],
                ..Host::default()
            }),
            guests: guests
                .into_iter()
                .map(|(id, guest)| (id.to_owned(), guest))
                .collect(),
        }
    }

    fn of(view: &View) -> HypervisorStatus {
        desired(
            view,
            OperatingSystem::default(),
            &HypervisorSpec::default(),
            &HypervisorStatus::default(),
        )
    }

    fn text(map: &BTreeMap<String, Quantity>) -> (&str, &str) {
        (&map[CPU].0, &map[MEMORY].0)
    }

    #[test]
    fn unbound_guests_count_for_the_host_and_for_no_cell() {
        let status = of(&view(vec![
            ("b", guest(true, &[1])),
            ("a", guest(true, &[])),
            ("c", guest(false, &[0])),
        ]));
        assert_eq!(text(&status.allocation), ("4", "8192Ki"));
        assert_eq!(text(&status.capacity), ("16", "2097152Ki"));
        let cells: Vec<_> = status
            .cells
            .iter()
            .map(|cell| (cell.cell_id, text(&cell.allocation)))
            .collect();
        assert_eq!(cells, [(0, ("0", "0")), (1, ("2", "4096Ki"))]);
        let ids: Vec<&str> = status.instances.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(status.num_instances, Some(3));
    }

    #[test]
    fn users_of_ceph_are_those_of_all_instances() {
        let with = |active: bool, users: &[&str]| Guest {
            ceph_users: users.iter().map(|user| (*user).to_owned()).collect(),
            ..guest(active, &[])
        };
        let guests = vec![
            ("a", with(true, &["nova-2", "cinder-2"])),
            ("b", with(false, &["cinder-1", "nova-2"])),
        ];
        let told = of(&view(guests)).ceph_users.expect("known");
        assert_eq!(told, ["cinder-1", "cinder-2", "nova-2"]);
        assert_eq!(
            of(&view(vec![])).ceph_users,
            Some(vec![]),
            "nobody, and that is known"
        );
    }

    #[test]
    fn a_guest_on_a_cell_that_the_host_lacks_is_no_harm() {
        let status = of(&view(vec![("a", guest(true, &[7]))]));
        assert_eq!(text(&status.allocation), ("2", "4096Ki"));
        assert_eq!(status.cells.len(), 2);
    }

    #[test]
    fn overcommit_follows_the_spec() {
        let spec = HypervisorSpec {
            overcommit: BTreeMap::from([(CPU.to_owned(), 1.5), ("other".to_owned(), 9.0)]),
            ..HypervisorSpec::default()
        };
        let status = desired(
            &view(vec![]),
            OperatingSystem::default(),
            &spec,
            &HypervisorStatus::default(),
        );
        assert_eq!(text(&status.effective_capacity), ("24", "2097152Ki"));
        assert_eq!(text(&status.cells[0].effective_capacity), ("12", "1048576Ki"));
    }

    /// Flaw: without libvirt the agent died, or its status was emptied.
    #[test]
    fn what_libvirt_said_last_stays_while_it_is_away() {
        let known = of(&view(vec![("a", guest(true, &[0]))]));
        let lost = View {
            link: Link::Down("connection refused".into()),
            ..view(vec![("a", guest(true, &[0]))])
        };
        assert_eq!(of(&lost), known, "lost while running");
        let started = View::default();
        let system = OperatingSystem::default();
        let kept = desired(&started, system, &HypervisorSpec::default(), &known);
        assert_eq!(kept, known, "lost before the agent started");
    }

    #[test]
    fn trouble_is_told_since_it_began_whoever_saw_it() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let seen = |kind, second| {
            let crashed = Guest {
                trouble: Some((kind, at(second))),
                ..guest(false, &[])
            };
            view(vec![("a", crashed)])
        };
        let since = |status: &HypervisorStatus| {
            let told = status.instances[0].trouble.clone().expect("told");
            told.since.map(|time| time.0.as_second())
        };
        let told = of(&seen(Trouble::Crashed, 100));
        assert_eq!(since(&told), Some(100));
        let system = OperatingSystem::default;
        let later = |kind| desired(&seen(kind, 200), system(), &HypervisorSpec::default(), &told);
        assert_eq!(
            since(&later(Trouble::Crashed)),
            Some(100),
            "an agent that started anew"
        );
        assert_eq!(since(&later(Trouble::IoError)), Some(200), "something else");
        let well = desired(
            &view(vec![("a", guest(true, &[]))]),
            system(),
            &HypervisorSpec::default(),
            &told,
        );
        assert_eq!(well.instances[0].trouble, None);
    }

    #[test]
    fn nothing_of_others_is_written() {
        let live = HypervisorStatus {
            service_id: Some("5".into()),
            traits: vec!["HW".into()],
            evicted: Some(true),
            internal_ip: Some("10.0.0.1".into()),
            observed_generation: Some(4),
            ..HypervisorStatus::default()
        };
        for view in [View::default(), view(vec![])] {
            let status = desired(
                &view,
                OperatingSystem::default(),
                &HypervisorSpec::default(),
                &live,
            );
            assert!(status.service_id.is_none() && status.traits.is_empty() && status.evicted.is_none());
            assert!(status.internal_ip.is_none() && status.observed_generation.is_none());
        }
    }

    proptest! {
        #[test]
        fn no_ratio_makes_it_odd(ratio in any::<f64>(), amount in any::<u64>()) {
            let ratios = BTreeMap::from([(CPU.to_owned(), ratio)]);
            let more = overcommitted(Demand { cpus: amount, memory: amount }, &ratios);
            prop_assert_eq!(more.memory, amount);
            // Beyond 2^53 a float has no units.
            prop_assert!(more.cpus >= amount || amount > 1 << 53);
        }
    }
}
