//! Plans that Cortex does not carry out by itself: what if hosts are drained or lost, and which servers
//! to move to empty hosts. Pure; each step builds on the one before.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::engine::{self, Context, Explanation, Pipeline};
use crate::fleet::names::NONE;
use crate::fleet::{Amount, Fleet, Server};
use crate::request::{Flavor, Intent, Options, Request, Spec};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    pub server: String,
    pub name: String,
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    pub server: String,
    pub name: String,
    pub from: String,
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub moves: Vec<Move>,
    /// Servers that fit nowhere.
    pub stuck: Vec<Stuck>,
    /// Hosts that would be empty.
    pub emptied: Vec<String>,
}

/// Servers of each host, large ones first: small ones fill the gaps.
fn by_host(fleet: &Fleet) -> Vec<Vec<(String, Server)>> {
    let mut hosts = vec![Vec::new(); fleet.len()];
    for (id, host) in &fleet.server_host {
        if let Some(server) = fleet.servers.get(id) {
            hosts[*host as usize].push((id.to_string(), server.clone()));
        }
    }
    for servers in &mut hosts {
        servers.sort_unstable_by(|(one, a), (other, b)| b.size.cmp(&a.size).then_with(|| one.cmp(other)));
    }
    hosts
}

fn question(id: &str, server: &Server, from: &str, intent: Intent) -> Request<'static> {
    let extra_specs = server.extra_specs.clone();
    let spec = Spec {
        project: server.project.clone(),
        instance: id.to_owned(),
        zone: server.zone.clone(),
        num_instances: 1,
        intent,
        source_host: Some(from.to_owned()),
        resource_group: extra_specs.get("quota:hw_version").cloned(),
        ignore_hosts: vec![from.to_owned()],
        flavor: Flavor {
            name: String::new(),
            memory_mb: server.size.memory,
            vcpus: server.size.cpu,
            extra_specs,
        },
        ..Spec::default()
    };
    Request {
        spec,
        options: Options {
            allow_other_hosts: true,
            ..Options::default()
        },
        ..Request::default()
    }
}

/// A fleet on which servers are moved in thought.
struct Rehearsal {
    fleet: Fleet,
    pipeline: Pipeline,
}

impl Rehearsal {
    fn new(fleet: &Fleet, pipeline: &Pipeline) -> Self {
        let mut pipeline = pipeline.clone();
        // All hosts are asked about.
        pipeline.ignore_preselection = true;
        Rehearsal {
            fleet: fleet.clone(),
            pipeline,
        }
    }

    /// The best host for it, or why there is none.
    fn place(&self, id: &str, server: &Server, from: u32, intent: Intent) -> Result<u32, String> {
        let request = question(id, server, self.fleet.hosts.name(from), intent);
        let context = Context {
            fleet: &self.fleet,
            request: &request,
        };
        let outcome = engine::run(&self.pipeline, context);
        let found = outcome.ordered.iter().map(|candidate| candidate.host);
        let mut found = found.filter(|host| *host != NONE && *host != from);
        found.next().ok_or_else(|| Explanation::of(&outcome).text)
    }

    fn shift(&mut self, id: &str, size: Amount, from: u32, to: u32) {
        for (host, sign) in [(from, -1), (to, 1)] {
            self.fleet.used_cpu[host as usize] += sign * size.cpu;
            self.fleet.used_memory[host as usize] += sign * size.memory;
        }
        self.fleet.server_host.insert(id.into(), to);
    }
}

/// What becomes of the servers when these hosts are drained ([`Intent::LiveMigrate`]) or lost
/// ([`Intent::Evacuate`]). Unknown names are left out.
pub fn without(fleet: &Fleet, pipeline: &Pipeline, hosts: &[String], intent: Intent) -> Plan {
    let mut rehearsal = Rehearsal::new(fleet, pipeline);
    let gone: BTreeSet<u32> = hosts
        .iter()
        .map(|name| fleet.hosts.find(name))
        .filter(|host| *host != NONE)
        .collect();
    for host in &gone {
        rehearsal.fleet.unfit[*host as usize] = Some("leaves".to_owned());
    }
    let all = by_host(fleet);
    let mut leaving: Vec<(u32, &(String, Server))> = gone
        .iter()
        .flat_map(|host| all[*host as usize].iter().map(|server| (*host, server)))
        .collect();
    leaving.sort_by(|(_, (one, a)), (_, (other, b))| b.size.cmp(&a.size).then_with(|| one.cmp(other)));
    let mut plan = Plan::default();
    let mut left: BTreeSet<u32> = BTreeSet::new();
    for (from, (id, server)) in leaving {
        let (id, name) = (id.clone(), server.name.clone());
        let source = fleet.hosts.name(from).to_owned();
        match rehearsal.place(&id, server, from, intent) {
            Ok(to) => {
                rehearsal.shift(&id, server.size, from, to);
                let to = fleet.hosts.name(to).to_owned();
                plan.moves.push(Move {
                    server: id,
                    name,
                    from: source,
                    to,
                });
            }
            Err(why) => {
                left.insert(from);
                plan.stuck.push(Stuck {
                    server: id,
                    name,
                    from: source,
                    why,
                });
            }
        }
    }
    let emptied = gone.iter().filter(|host| !left.contains(host));
    plan.emptied = emptied.map(|host| fleet.hosts.name(*host).to_owned()).collect();
    plan
}

/// Empties hosts, the least used first, as long as all of their servers find room on hosts that are
/// in use. Nothing is moved twice, and no more than `most` servers are.
pub fn pack(fleet: &Fleet, pipeline: &Pipeline, most: usize) -> Plan {
    let mut rehearsal = Rehearsal::new(fleet, pipeline);
    let all = by_host(fleet);
    let share = |host: u32| {
        let (capacity, used) = (fleet.capacity(host), fleet.used(host));
        if capacity.memory > 0 {
            used.memory as f64 / capacity.memory as f64
        } else {
            1.0
        }
    };
    let count = u32::try_from(fleet.len()).unwrap_or(NONE);
    let mut order: Vec<u32> = (0..count)
        .filter(|host| fleet.unfit[*host as usize].is_none())
        .collect();
    order.sort_by(|one, other| share(*one).total_cmp(&share(*other)).then(one.cmp(other)));
    let mut plan = Plan::default();
    // What is empty stays empty, and what took servers keeps them.
    for host in &order {
        if all[*host as usize].is_empty() {
            rehearsal.fleet.unfit[*host as usize] = Some("stays empty".to_owned());
        }
    }
    let mut took: BTreeSet<u32> = BTreeSet::new();
    for host in order {
        let servers = &all[host as usize];
        if servers.is_empty() || took.contains(&host) || plan.moves.len() + servers.len() > most {
            continue;
        }
        let was = rehearsal.fleet.unfit[host as usize].replace("is being emptied".to_owned());
        let mut done: Vec<(&String, &Server, u32)> = Vec::new();
        let fits =
            servers.iter().all(
                |(id, server)| match rehearsal.place(id, server, host, Intent::LiveMigrate) {
                    Ok(to) => {
                        rehearsal.shift(id, server.size, host, to);
                        done.push((id, server, to));
                        true
                    }
                    Err(_) => false,
                },
            );
        if !fits {
            for (id, server, to) in done {
                rehearsal.shift(id, server.size, to, host);
            }
            rehearsal.fleet.unfit[host as usize] = was;
            // The rest is fuller still: none of these would be emptied either.
            break;
        }
        let name = |host: u32| fleet.hosts.name(host).to_owned();
        plan.emptied.push(name(host));
        for (id, server, to) in done {
            took.insert(to);
            plan.moves.push(Move {
                server: id.clone(),
                name: server.name.clone(),
                from: name(host),
                to: name(to),
            });
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{host, server, world};
    use crate::engine::{compile, defaults};
    use crate::fleet::{Draft, Reservation, ReservationKind};

    fn of(draft: Draft, plan: impl Fn(&Fleet, &Pipeline) -> Plan) -> (Vec<String>, Vec<String>, Vec<String>) {
        let plan = plan(&Fleet::pack(draft), &compile(&defaults::general()).pipeline);
        let moves = plan
            .moves
            .iter()
            .map(|one| format!("{}:{}>{}", one.server, one.from, one.to));
        let stuck = plan
            .stuck
            .iter()
            .map(|one| format!("{}: {}", one.server, one.why));
        (moves.collect(), stuck.collect(), plan.emptied)
    }

    fn three() -> Draft {
        let mut draft = world(&[("a", host()), ("b", host()), ("c", host())]);
        for (id, on, cpu) in [("big", "a", 12), ("small", "a", 4), ("other", "b", 8)] {
            draft.servers.insert(id.into(), server(on, "p", cpu, cpu * 4096));
        }
        draft
    }

    #[test]
    fn servers_of_a_host_that_goes_find_room_or_are_named() {
        let gone = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (moves, stuck, emptied) = of(three(), |fleet, pipeline| {
            without(fleet, pipeline, &gone(&["a", "unknown"]), Intent::LiveMigrate)
        });
        // The large one first; the small one then goes where more is left.
        assert_eq!(moves, ["big:a>c", "small:a>b"]);
        assert_eq!((stuck.len(), emptied), (0, gone(&["a"])));
        let (moves, stuck, emptied) = of(three(), |fleet, pipeline| {
            without(fleet, pipeline, &gone(&["a", "c"]), Intent::Evacuate)
        });
        assert_eq!((moves, emptied), (vec!["small:a>b".to_owned()], gone(&["c"])));
        assert!(stuck[0].starts_with("big: none of 3 hosts is left"), "{stuck:?}");
        assert!(stuck[0].contains("b has only 8 of 12 CPUs"), "{stuck:?}");
    }

    #[test]
    fn room_that_was_kept_serves_the_lost_host_and_not_the_drained_one() {
        let mut draft = three();
        let kept = Reservation {
            kind: ReservationKind::Failover,
            size: Amount::new(16, 65536),
            hosts: ["c".to_owned()].into(),
            active: true,
            servers: ["big".to_owned()].into(),
            ..Reservation::default()
        };
        draft.reservations.insert("r".into(), kept);
        let go = |intent| {
            let (moves, stuck, _) = of(draft.clone(), |fleet, pipeline| {
                without(fleet, pipeline, &["a".to_owned()], intent)
            });
            (moves.len(), stuck.len())
        };
        assert_eq!(go(Intent::Evacuate), (2, 0));
        assert_eq!(go(Intent::LiveMigrate), (1, 1));
    }

    #[test]
    fn packing_empties_hosts_and_moves_nothing_twice() {
        let mut draft = world(&[("a", host()), ("b", host()), ("c", host()), ("d", host())]);
        for (id, on) in [("s1", "a"), ("s2", "b"), ("s3", "c")] {
            draft.servers.insert(id.into(), server(on, "p", 8, 8 * 4096));
        }
        let (moves, stuck, emptied) = of(draft.clone(), |fleet, pipeline| pack(fleet, pipeline, 100));
        assert_eq!(
            (moves, emptied),
            (vec!["s1:a>b".to_owned()], vec!["a".to_owned()])
        );
        assert!(stuck.is_empty());
        let (moves, ..) = of(draft, |fleet, pipeline| pack(fleet, pipeline, 0));
        assert!(moves.is_empty());
    }
}
