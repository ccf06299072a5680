//! What is known of hosts, servers and reservations, packed so that a step costs a few instructions
//! for each host: hosts are numbers in the order of their names, and each property is an array.

mod draft;
pub mod names;

pub use draft::{
    Aggregate, Amount, Contention, Draft, Features, Host, HypervisorType, Noise, Quota, Reservation,
    ReservationKind, Server, Steal,
};

use names::{Lists, NONE, Names, QuickMap, Sets};

/// Prefix of the keys of an aggregate that keep its hosts for projects.
const FOR_PROJECTS: &str = "filter_tenant_id";

/// Room kept on one host.
#[derive(Clone, Debug)]
pub struct Kept {
    pub name: String,
    pub kind: ReservationKind,
    pub host: u32,
    /// Without what its own servers use already.
    pub size: Amount,
    pub active: bool,
    /// A number of [`Fleet::projects`].
    pub project: u32,
    pub group: Option<String>,
    pub zone: Option<String>,
}

/// An immutable picture of the world. A new one replaces it; placements never wait for that.
#[derive(Clone, Default)]
pub struct Fleet {
    pub hosts: Names,
    pub unfit: Vec<Option<String>>,
    pub zones: Names,
    pub zone: Vec<u32>,
    pub hypervisor_type: Vec<HypervisorType>,
    pub arches: Names,
    pub arch: Vec<u32>,
    pub traits: Sets,
    pub aggregates: Sets,
    pub known_capacity: Vec<bool>,
    pub cpu: Vec<i64>,
    pub memory: Vec<i64>,
    pub used_cpu: Vec<i64>,
    pub used_memory: Vec<i64>,
    /// Room that reservations of each kind keep.
    pub committed: Vec<Amount>,
    pub failover: Vec<Amount>,
    pub projects: Names,
    pub allowed: Lists,
    pub restricted: Lists,
    /// Hosts whose aggregates name projects, be the list empty or not.
    pub is_restricted: Vec<bool>,
    pub cpu_modes: Sets,
    pub features: Sets,
    pub devices: Sets,
    pub servers: QuickMap<Box<str>, Server>,
    pub server_host: QuickMap<Box<str>, u32>,
    pub kept: Vec<Kept>,
    /// Commitments by project.
    pub kept_for_project: QuickMap<u32, Vec<u32>>,
    /// Failover reservations by the servers that they are for.
    pub kept_for_server: QuickMap<Box<str>, Vec<u32>>,
    pub long_term: Option<Vec<Contention>>,
    pub short_term: Option<Vec<Contention>>,
    pub noise: Option<QuickMap<u32, Vec<(u32, f64)>>>,
    pub quotas: Option<std::collections::BTreeMap<String, Quota>>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fleet({} hosts, {} servers)", self.len(), self.servers.len())
    }
}

impl Fleet {
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Nothing is known yet: steps that need hosts cannot run.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    pub fn pack(draft: Draft) -> Self {
        let Draft {
            hosts,
            servers,
            reservations,
            features,
        } = draft;
        let names = Names::sorted(hosts.keys().map(String::as_str));
        let rows = || hosts.values();
        let mut fleet = Fleet {
            traits: Sets::of(rows().map(|host| &host.traits)),
            cpu_modes: Sets::of(rows().map(|host| &host.cpu_modes)),
            features: Sets::of(rows().map(|host| &host.features)),
            devices: Sets::of(rows().map(|host| &host.devices)),
            aggregates: Sets::of(rows().map(|host| host.aggregates.iter().map(|one| &one.uuid))),
            hosts: names,
            ..Fleet::default()
        };
        // The keys of the map come in order, so these rows are in the order of the numbers.
        for host in hosts.values() {
            fleet.push(host);
        }
        fleet.place(servers, &hosts);
        fleet.keep(reservations);
        fleet.learn(features);
        fleet
    }

    fn push(&mut self, host: &Host) {
        let number = |names: &mut Names, name: &Option<String>| match name {
            Some(name) => names.add(name),
            None => NONE,
        };
        self.unfit.push(host.unfit.clone());
        self.zone.push(number(&mut self.zones, &host.zone));
        self.arch.push(number(&mut self.arches, &host.arch));
        self.hypervisor_type.push(host.hypervisor_type);
        let capacity = host.capacity.unwrap_or_default();
        self.known_capacity.push(host.capacity.is_some());
        self.cpu.push(capacity.cpu);
        self.memory.push(capacity.memory);
        let used = host.used.unwrap_or_default();
        self.used_cpu.push(used.cpu);
        self.used_memory.push(used.memory);
        self.committed.push(Amount::default());
        self.failover.push(Amount::default());
        let allowed: Vec<u32> = host
            .allowed_projects
            .iter()
            .map(|project| self.projects.add(project))
            .collect();
        self.allowed.push(allowed);
        let values = host.aggregates.iter().flat_map(|aggregate| {
            let of_projects = |(key, _): &(&String, &String)| key.starts_with(FOR_PROJECTS);
            aggregate.metadata.iter().filter(of_projects)
        });
        let named = values.flat_map(|(_, value)| value.split(','));
        let named: Vec<&str> = named.map(str::trim).filter(|name| !name.is_empty()).collect();
        self.is_restricted.push(!named.is_empty());
        let numbers: Vec<u32> = named.into_iter().map(|name| self.projects.add(name)).collect();
        self.restricted.push(numbers);
    }

    fn place(
        &mut self,
        servers: std::collections::BTreeMap<String, Server>,
        hosts: &std::collections::BTreeMap<String, Host>,
    ) {
        for (id, server) in servers {
            let host = self.hosts.find(&server.host);
            if host != NONE {
                self.server_host.insert(id.as_str().into(), host);
                if hosts.get(&server.host).is_some_and(|told| told.used.is_none()) {
                    self.used_cpu[host as usize] += server.size.cpu;
                    self.used_memory[host as usize] += server.size.memory;
                }
            }
            self.servers.insert(id.into(), server);
        }
    }

    /// A commitment is used up by the servers of its project on its host; a failover never is.
    fn keep(&mut self, reservations: std::collections::BTreeMap<String, Reservation>) {
        let mut unassigned: QuickMap<(u32, u32), Amount> = QuickMap::default();
        if reservations
            .values()
            .any(|one| one.kind == ReservationKind::CommittedResource)
        {
            for (id, host) in &self.server_host {
                let Some(server) = self.servers.get(id) else {
                    continue;
                };
                let project = self.projects.add(&server.project);
                let sum = unassigned.entry((project, *host)).or_default();
                *sum = sum.plus(server.size);
            }
        }
        for (name, reservation) in reservations {
            let project = reservation.project.as_ref();
            let project = project.map_or(NONE, |project| self.projects.add(project));
            for host in &reservation.hosts {
                let host = self.hosts.find(host);
                if host == NONE {
                    continue;
                }
                let mut size = reservation.size;
                if reservation.kind == ReservationKind::CommittedResource
                    && let Some(own) = unassigned.get_mut(&(project, host))
                {
                    let used = own.at_most(size).or_nothing();
                    *own = own.minus(used);
                    size = size.minus(used);
                }
                let sum = match reservation.kind {
                    ReservationKind::CommittedResource => &mut self.committed[host as usize],
                    ReservationKind::Failover => &mut self.failover[host as usize],
                };
                *sum = sum.plus(size);
                let number = u32::try_from(self.kept.len()).unwrap_or(NONE);
                let committed = reservation.kind == ReservationKind::CommittedResource;
                if project != NONE && committed {
                    self.kept_for_project.entry(project).or_default().push(number);
                }
                for server in reservation.servers.iter().filter(|_| !committed) {
                    let of_server = self.kept_for_server.entry(server.as_str().into());
                    of_server.or_default().push(number);
                }
                self.kept.push(Kept {
                    name: name.clone(),
                    kind: reservation.kind,
                    host,
                    size,
                    active: reservation.active,
                    project,
                    group: reservation.group.clone(),
                    zone: reservation.zone.clone(),
                });
            }
        }
    }

    fn learn(&mut self, features: Features) {
        let by_host = |told: Option<std::collections::BTreeMap<String, Contention>>| {
            let told = told?;
            let of = |host: &str| told.get(host).copied().unwrap_or_default();
            Some(self.hosts.iter().map(of).collect())
        };
        self.long_term = by_host(features.long_term);
        self.short_term = by_host(features.short_term);
        self.noise = features.noise.map(|all| {
            let mut noise: QuickMap<u32, Vec<(u32, f64)>> = QuickMap::default();
            for one in all {
                let host = self.hosts.find(&one.host);
                if host != NONE {
                    let project = self.projects.add(&one.project);
                    noise.entry(project).or_default().push((host, one.avg_cpu));
                }
            }
            noise
        });
        self.quotas = features.quotas;
    }

    pub fn capacity(&self, host: u32) -> Amount {
        Amount::new(self.cpu[host as usize], self.memory[host as usize])
    }

    pub fn used(&self, host: u32) -> Amount {
        Amount::new(self.used_cpu[host as usize], self.used_memory[host as usize])
    }

    /// How many of these servers are on each host.
    pub fn count<'a>(&self, servers: impl IntoIterator<Item = &'a str>) -> QuickMap<u32, u32> {
        let mut counts = QuickMap::default();
        for server in servers {
            if let Some(host) = self.server_host.get(server) {
                *counts.entry(*host).or_default() += 1;
            }
        }
        counts
    }
}
