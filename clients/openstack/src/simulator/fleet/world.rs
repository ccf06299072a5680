//! The state behind the simulated fleet, and what time does to it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use super::Violations;
use crate::fleet::{Aggregate, Guest, HypervisorRecord, Move, Service};
use crate::placement::{Inventories, Inventory};
use crate::simulator::Fault;

pub(crate) struct Provider {
    pub generation: i64,
    pub traits: BTreeSet<String>,
    pub inventories: Inventories,
}

/// Something that happens at a time.
pub(super) enum Due {
    Booted(String),
    Moved(i64),
    Confirmed(String),
}

pub(crate) struct World {
    pub clock: Duration,
    pub boot_time: Duration,
    pub move_time: Duration,
    /// How much memory a migration moves in a second; when `None`, each takes `move_time`.
    pub mib_per_second: Option<u32>,
    /// When migrations began, and how long they take; not of those that do not converge.
    pub spans: BTreeMap<i64, (Duration, Duration)>,
    /// Migrations that were completed by force.
    pub forced: BTreeSet<i64>,
    /// By host.
    pub services: BTreeMap<String, Service>,
    pub hypervisors: BTreeMap<String, HypervisorRecord>,
    /// Hosts by the id of their service, and providers by the same.
    host_of: HashMap<String, String>,
    provider_of: HashMap<String, String>,
    pub aggregates: Vec<Aggregate>,
    pub guests: BTreeMap<String, Guest>,
    pub on_host: HashMap<String, BTreeSet<String>>,
    /// Test servers by name.
    pub tests: BTreeMap<String, BTreeSet<String>>,
    pub moves: BTreeMap<i64, Move>,
    pub moves_from: HashMap<String, Vec<i64>>,
    pub providers: BTreeMap<String, Provider>,
    /// By consumer: provider and amounts.
    pub allocations: BTreeMap<String, (String, BTreeMap<String, i64>)>,
    pub broken: BTreeSet<String>,
    pub failing: BTreeMap<String, u32>,
    /// Servers that Nova refuses to restart, and how many times.
    pub refusing: BTreeMap<String, u32>,
    pub stuck: BTreeSet<String>,
    /// Hosts without power.
    pub off: BTreeSet<String>,
    /// How often each server was restarted on its host.
    pub restarts: BTreeMap<String, u32>,
    pub bed: bool,
    pub faults: VecDeque<Fault>,
    pub fault_percent: u32,
    pub random: u64,
    pub calls: u64,
    pub violations: Violations,
    pub most_moves: usize,
    due: BTreeMap<(Duration, u64), Due>,
    sequence: u64,
}

impl Default for World {
    fn default() -> Self {
        World {
            clock: Duration::ZERO,
            boot_time: Duration::from_secs(15),
            move_time: Duration::from_secs(30),
            mib_per_second: None,
            spans: BTreeMap::new(),
            forced: BTreeSet::new(),
            services: BTreeMap::new(),
            hypervisors: BTreeMap::new(),
            host_of: HashMap::new(),
            provider_of: HashMap::new(),
            aggregates: Vec::new(),
            guests: BTreeMap::new(),
            on_host: HashMap::new(),
            tests: BTreeMap::new(),
            moves: BTreeMap::new(),
            moves_from: HashMap::new(),
            providers: BTreeMap::new(),
            allocations: BTreeMap::new(),
            broken: BTreeSet::new(),
            failing: BTreeMap::new(),
            refusing: BTreeMap::new(),
            stuck: BTreeSet::new(),
            off: BTreeSet::new(),
            restarts: BTreeMap::new(),
            bed: true,
            faults: VecDeque::new(),
            fault_percent: 0,
            random: 1,
            calls: 0,
            violations: Violations::default(),
            most_moves: 0,
            due: BTreeMap::new(),
            sequence: 0,
        }
    }
}

fn id() -> String {
    Uuid::new_v4().to_string()
}

/// Migrations that are not over.
pub(crate) fn in_progress(status: &str) -> bool {
    matches!(status, "accepted" | "preparing" | "running" | "migrating")
}

impl World {
    pub(crate) fn service_mut(&mut self, host: &str) -> Option<&mut Service> {
        self.services.get_mut(host)
    }

    pub(crate) fn service_by_id(&mut self, id: &str) -> Option<&mut Service> {
        let host = self.host_of.get(id)?;
        self.services.get_mut(host)
    }

    pub(crate) fn add_host(&mut self, name: &str, vcpus: i64, ram_mb: i64) {
        let (service, provider) = (id(), id());
        self.host_of.insert(service.clone(), name.to_owned());
        self.provider_of.insert(service.clone(), provider.clone());
        self.services.insert(
            name.to_owned(),
            Service {
                id: service.clone(),
                host: name.to_owned(),
                status: "disabled".to_owned(),
                state: "up".to_owned(),
                disabled_reason: Some("New compute service disabled due to config option.".to_owned()),
                forced_down: false,
            },
        );
        self.hypervisors.insert(
            provider.clone(),
            HypervisorRecord {
                id: provider.clone(),
                hostname: name.to_owned(),
                service,
            },
        );
        let inventories = [("VCPU", vcpus), ("MEMORY_MB", ram_mb)];
        self.providers.insert(
            provider,
            Provider {
                generation: 1,
                traits: BTreeSet::from(["HW_CPU_X86_AVX".to_owned()]),
                inventories: inventories
                    .map(|(class, total)| (class.to_owned(), Inventory::of(total)))
                    .into(),
            },
        );
    }

    pub(crate) fn add_aggregate(&mut self, name: &str) {
        let number = i64::try_from(self.aggregates.len()).unwrap_or(0) + 1;
        self.aggregates.push(Aggregate {
            id: number,
            uuid: id(),
            name: name.to_owned(),
            ..Aggregate::default()
        });
    }

    pub(crate) fn provider_of(&self, host: &str) -> Option<&str> {
        let service = self.services.get(host)?;
        self.provider_of.get(&service.id).map(String::as_str)
    }

    pub(crate) fn add_server(&mut self, host: &str, name: &str, status: &str, ram_mb: i64) -> String {
        let server = id();
        let guest = Guest {
            id: server.clone(),
            name: name.to_owned(),
            status: status.to_owned(),
            host: host.to_owned(),
            ram_mb,
            ..Guest::default()
        };
        if let Some(provider) = self.provider_of(host).map(str::to_owned) {
            let held = [("VCPU".to_owned(), 1), ("MEMORY_MB".to_owned(), ram_mb)];
            self.allocations.insert(server.clone(), (provider, held.into()));
        }
        self.on_host
            .entry(host.to_owned())
            .or_default()
            .insert(server.clone());
        self.guests.insert(server.clone(), guest);
        server
    }

    pub(crate) fn remove_server(&mut self, server: &str) {
        self.allocations.remove(server);
        let Some(guest) = self.guests.remove(server) else {
            return;
        };
        if let Some(all) = self.on_host.get_mut(&guest.host) {
            all.remove(server);
        }
        if let Some(all) = self.tests.get_mut(&guest.name) {
            all.remove(server);
        }
    }

    pub(crate) fn remove_service(&mut self, host: &str) {
        if let Some(gone) = self.services.remove(host) {
            self.host_of.remove(&gone.id);
            if let Some(provider) = self.provider_of.remove(&gone.id) {
                self.hypervisors.remove(&provider);
            }
        }
    }

    pub(crate) fn is_test(&self, server: &str) -> bool {
        let named = self
            .guests
            .get(server)
            .and_then(|guest| self.tests.get(&guest.name));
        named.is_some_and(|all| all.contains(server))
    }

    pub(crate) fn knows(&self, host: &str) -> bool {
        self.services.contains_key(host)
            || self.hypervisors.values().any(|one| one.hostname == host)
            || self
                .aggregates
                .iter()
                .any(|one| one.hosts.iter().any(|member| member == host))
    }

    pub(crate) fn boot(&mut self, server: String) {
        self.at(self.boot_time, Due::Booted(server));
    }

    pub(crate) fn confirm(&mut self, server: String) {
        self.at(Duration::from_secs(1), Due::Confirmed(server));
    }

    pub(super) fn at(&mut self, after: Duration, what: Due) {
        self.sequence += 1;
        self.due.insert((self.clock + after, self.sequence), what);
    }

    fn room(&self, provider: &str, wanted: &BTreeMap<String, i64>) -> bool {
        let Some(there) = self.providers.get(provider) else {
            return false;
        };
        wanted.iter().all(|(class, amount)| {
            let used: i64 = self
                .allocations
                .values()
                .filter(|(of, _)| of == provider)
                .filter_map(|(_, held)| held.get(class))
                .sum();
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // as Placement does
            let room = |one: &Inventory| ((one.total - one.reserved) as f64 * one.allocation_ratio) as i64;
            there
                .inventories
                .get(class)
                .is_some_and(|one| used + amount <= room(one))
        })
    }

    /// Hosts that would take so much, the first few.
    pub(crate) fn candidates(&self, wanted: &BTreeMap<String, i64>, most: usize) -> Vec<(String, String)> {
        let open = self.services.values().filter(|one| one.enabled() && one.up());
        let of = |service: &Service| {
            let provider = self.provider_of(&service.host)?;
            self.room(provider, wanted)
                .then(|| (service.host.clone(), provider.to_owned()))
        };
        open.filter_map(of).take(most).collect()
    }

    pub(crate) fn start_move(&mut self, server: &str, live: bool) -> Result<(), (u16, String)> {
        let missing = || (404, format!("no server {server}"));
        let guest = self.guests.get(server).ok_or_else(missing)?;
        if guest.task.is_some() {
            self.violations.double_starts += 1;
            return Err((409, format!("server {server} is migrating")));
        }
        let fits = if live { "ACTIVE" } else { "SHUTOFF" };
        if guest.status != fits {
            return Err((
                409,
                format!("cannot move it while it is in vm_state {}", guest.status),
            ));
        }
        let source = guest.host.clone();
        if !self.services.get(&source).is_some_and(Service::up) {
            return Err((409, format!("compute service of {source} is down")));
        }
        if live {
            self.begin_move(server, &source, "live-migration", "running", "migrating");
        } else {
            self.begin_move(server, &source, "migration", "migrating", "resize_migrating");
        }
        Ok(())
    }

    pub(crate) fn begin_move(&mut self, server: &str, source: &str, kind: &str, status: &str, task: &str) {
        let number = i64::try_from(self.moves.len()).unwrap_or(0) + 1;
        self.moves.insert(
            number,
            Move {
                id: number,
                server: server.to_owned(),
                status: status.to_owned(),
                kind: kind.to_owned(),
                source: Some(source.to_owned()),
                destination: None,
            },
        );
        let all = self.moves_from.entry(source.to_owned()).or_default();
        all.push(number);
        let running = all
            .iter()
            .filter(|id| in_progress(&self.moves[id].status))
            .count();
        self.most_moves = self.most_moves.max(running);
        let mut takes = self.move_time;
        if let Some(guest) = self.guests.get_mut(server) {
            guest.task = Some(task.to_owned());
            let mib = u32::try_from(guest.ram_mb).unwrap_or_default();
            if let Some(rate) = self.mib_per_second {
                takes = Duration::from_secs(1) * mib / rate.max(1);
            }
        }
        if !(kind == "live-migration" && self.stuck.contains(server)) {
            self.spans.insert(number, (self.clock, takes));
            self.at(takes, Due::Moved(number));
        }
    }

    pub(crate) fn abort(&mut self, number: i64) {
        if let Some(one) = self.moves.get_mut(&number)
            && in_progress(&one.status)
        {
            one.status = "cancelled".to_owned();
            let server = one.server.clone();
            if let Some(guest) = self.guests.get_mut(&server) {
                guest.task = None;
            }
        }
    }

    fn moved(&mut self, number: i64) {
        let Some(one) = self
            .moves
            .get(&number)
            .cloned()
            .filter(|one| in_progress(&one.status))
        else {
            return;
        };
        let (live, evacuation) = (one.kind == "live-migration", one.kind == "evacuation");
        let fails = match self.failing.get_mut(&one.server) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        let held = self.allocations.get(&one.server).map(|(_, held)| held.clone());
        let source = one.source.unwrap_or_default();
        let mut found = self.candidates(&held.clone().unwrap_or_default(), 3);
        found.retain(|(host, _)| *host != source);
        let destination = found.into_iter().next().filter(|_| !fails);
        let Some(guest) = self.guests.get_mut(&one.server) else {
            return;
        };
        guest.task = None;
        let record = self.moves.entry(number).or_default();
        let Some((host, provider)) = destination else {
            record.status = if evacuation { "failed" } else { "error" }.to_owned();
            if evacuation {
                guest.status = "ERROR".to_owned();
            }
            return;
        };
        record.destination = Some(host.clone());
        if evacuation {
            record.status = "done".to_owned();
            guest.status = "ACTIVE".to_owned();
        } else {
            record.status = if live { "completed" } else { "finished" }.to_owned();
            if !live {
                guest.status = "VERIFY_RESIZE".to_owned();
            }
        }
        guest.host.clone_from(&host);
        if let Some(all) = self.on_host.get_mut(&source) {
            all.remove(&one.server);
        }
        self.on_host.entry(host).or_default().insert(one.server.clone());
        if let Some(held) = held {
            self.allocations.insert(one.server, (provider, held));
        }
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        let until = self.clock + time;
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= until
        {
            let ((at, _), what) = entry.remove_entry();
            self.clock = at;
            match what {
                Due::Moved(number) => self.moved(number),
                Due::Booted(server) => {
                    if let Some(guest) = self.guests.get_mut(&server) {
                        guest.task = None;
                        if self.broken.contains(&guest.host) {
                            guest.status = "ERROR".to_owned();
                            guest.fault = Some("no such bridge br-int".to_owned());
                        } else {
                            guest.status = "ACTIVE".to_owned();
                        }
                    }
                }
                Due::Confirmed(server) => {
                    if let Some(guest) = self.guests.get_mut(&server) {
                        guest.task = None;
                        guest.status = "SHUTOFF".to_owned();
                    }
                    let done = self.moves.values_mut().filter(|one| one.server == server);
                    if let Some(last) = done.last() {
                        last.status = "confirmed".to_owned();
                    }
                }
            }
        }
        self.clock = until;
    }

    pub(crate) fn next_fault(&mut self) -> Option<Fault> {
        if let Some(fault) = self.faults.pop_front() {
            return Some(fault);
        }
        if self.fault_percent == 0 {
            return None;
        }
        // xorshift: the same seed gives the same faults.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if self.random % 100 >= u64::from(self.fault_percent) {
            return None;
        }
        Some(match (self.random / 100) % 6 {
            0 => Fault::Status(500),
            1 => Fault::Status(503),
            2 => Fault::Status(409),
            3 => Fault::Timeout,
            4 => Fault::Slow(Duration::from_secs(20)),
            _ => Fault::Lost,
        })
    }
}
