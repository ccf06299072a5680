//! The calls, answered as Nova and Placement do.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::SimulatedFleet;
use super::world::{Provider, World, in_progress};
use crate::error::Result;
use crate::fleet::{
    Aggregate, Fleet, Guest, HypervisorRecord, Move, MoveProgress, Service, TestBed, TestDraft,
};
use crate::placement::Inventories;

fn missing(what: &str) -> (u16, String) {
    (404, format!("{what} is not found"))
}

fn conflict() -> (u16, String) {
    (409, "resource provider generation conflict".to_owned())
}

/// Does a user's server hold something of the provider?
fn used(world: &World, provider: &str) -> bool {
    world
        .allocations
        .iter()
        .any(|(consumer, (of, _))| of == provider && world.guests.contains_key(consumer))
}

#[async_trait]
impl Fleet for SimulatedFleet {
    async fn compute_hosts(&self) -> Result<Vec<Service>> {
        self.call("list compute services", |world| {
            Ok(world.services.values().cloned().collect())
        })
    }

    async fn hypervisors(&self) -> Result<Vec<HypervisorRecord>> {
        self.call("list hypervisors", |world| {
            Ok(world.hypervisors.values().cloned().collect())
        })
    }

    async fn aggregates(&self) -> Result<Vec<Aggregate>> {
        self.call("list aggregates", |world| Ok(world.aggregates.clone()))
    }

    async fn enable(&self, service: &str) -> Result<()> {
        self.call("enable compute service", |world| {
            let service = world.service_by_id(service).ok_or_else(|| missing(service))?;
            service.status = "enabled".to_owned();
            service.disabled_reason = None;
            Ok(())
        })
    }

    async fn disable(&self, service: &str, reason: &str) -> Result<()> {
        self.call("disable compute service", |world| {
            let service = world.service_by_id(service).ok_or_else(|| missing(service))?;
            service.status = "disabled".to_owned();
            service.disabled_reason = Some(reason.to_owned());
            Ok(())
        })
    }

    async fn force_down(&self, service: &str, down: bool) -> Result<()> {
        self.call("force compute service down", |world| {
            let off = world.off.clone();
            let service = world.service_by_id(service).ok_or_else(|| missing(service))?;
            service.forced_down = down;
            let up = !down && !off.contains(&service.host);
            service.state = if up { "up" } else { "down" }.to_owned();
            Ok(())
        })
    }

    async fn delete_service(&self, service: &str) -> Result<()> {
        self.call("delete compute service", |world| {
            let Some(host) = world.service_by_id(service).map(|one| one.host.clone()) else {
                return Ok(());
            };
            if world.on_host.get(&host).is_some_and(|all| !all.is_empty()) {
                return Err((
                    409,
                    "Unable to delete compute service that is hosting instances".to_owned(),
                ));
            }
            world.remove_service(&host);
            for aggregate in &mut world.aggregates {
                aggregate.hosts.retain(|member| *member != host);
            }
            Ok(())
        })
    }

    async fn join_aggregate(&self, aggregate: i64, host: &str) -> Result<()> {
        self.call("add host to aggregate", |world| {
            let found = world.aggregates.iter_mut().find(|one| one.id == aggregate);
            let found = found.ok_or_else(|| missing("aggregate"))?;
            if found.hosts.iter().any(|member| member == host) {
                return Err((409, "host is in the aggregate".to_owned()));
            }
            found.hosts.push(host.to_owned());
            Ok(())
        })
    }

    async fn leave_aggregate(&self, aggregate: i64, host: &str) -> Result<()> {
        self.call("take host out of aggregate", |world| {
            if let Some(found) = world.aggregates.iter_mut().find(|one| one.id == aggregate) {
                found.hosts.retain(|member| member != host);
            }
            Ok(())
        })
    }

    async fn guests_on(&self, host: &str) -> Result<Vec<Guest>> {
        self.call("list servers", |world| {
            let ids = world.on_host.get(host).into_iter().flatten();
            Ok(ids.filter_map(|id| world.guests.get(id)).cloned().collect())
        })
    }

    async fn guest(&self, id: &str) -> Result<Option<Guest>> {
        self.call("read server", |world| Ok(world.guests.get(id).cloned()))
    }

    async fn guests_named(&self, name: &str) -> Result<Vec<Guest>> {
        self.call("list servers", |world| {
            let ids = world.tests.get(name).into_iter().flatten();
            Ok(ids.filter_map(|id| world.guests.get(id)).cloned().collect())
        })
    }

    async fn moves_from(&self, host: &str) -> Result<Vec<Move>> {
        self.call("list migrations", |world| {
            let ids = world.moves_from.get(host).into_iter().flatten().rev();
            Ok(ids.filter_map(|id| world.moves.get(id)).cloned().collect())
        })
    }

    async fn progress(&self, server: &str) -> Result<Vec<MoveProgress>> {
        self.call("read migrations", |world| {
            let own = world.moves.values().filter(|one| one.server == server);
            let running = own.filter(|one| in_progress(&one.status) && one.kind == "live-migration");
            Ok(running.map(|one| world.progress_of(one)).collect())
        })
    }

    async fn live_migrate(&self, server: &str) -> Result<()> {
        self.call("move server", |world| world.start_move(server, true))
    }

    async fn cold_migrate(&self, server: &str) -> Result<()> {
        self.call("move stopped server", |world| world.start_move(server, false))
    }

    async fn hard_reboot(&self, server: &str) -> Result<()> {
        self.call("restart server", |world| {
            if let Some(left) = world.refusing.get_mut(server).filter(|left| **left > 0) {
                *left -= 1;
                return Err((
                    409,
                    "cannot restart it while it is in vm_state building".to_owned(),
                ));
            }
            let guest = world.guests.get_mut(server).ok_or_else(|| missing(server))?;
            let fits = matches!(guest.status.as_str(), "ACTIVE" | "SHUTOFF" | "PAUSED" | "ERROR");
            if !fits || guest.task.is_some() {
                return Err((409, format!("cannot restart it while it is {}", guest.status)));
            }
            guest.task = Some("reboot_started_hard".to_owned());
            *world.restarts.entry(server.to_owned()).or_default() += 1;
            world.boot(server.to_owned());
            Ok(())
        })
    }

    async fn confirm_migration(&self, server: &str) -> Result<()> {
        self.call("confirm move", |world| {
            let guest = world.guests.get_mut(server).ok_or_else(|| missing(server))?;
            if guest.status != "VERIFY_RESIZE" || guest.task.is_some() {
                return Err((409, "nothing to confirm".to_owned()));
            }
            guest.task = Some("resize_confirming".to_owned());
            world.confirm(server.to_owned());
            Ok(())
        })
    }

    async fn abort_migration(&self, _: &str, id: i64) -> Result<()> {
        self.call("abort migration", |world| {
            world.abort(id);
            Ok(())
        })
    }

    async fn force_complete(&self, server: &str, id: i64) -> Result<()> {
        self.call("complete migration", |world| world.force_complete(server, id))
    }

    async fn evacuate(&self, server: &str) -> Result<()> {
        self.call("restart server elsewhere", |world| world.start_evacuation(server))
    }

    async fn test_bed(&self, name: &str) -> Result<TestBed> {
        self.call("look for the test bed", |world| {
            let there = || world.bed.then(|| name.to_owned());
            Ok(TestBed {
                image: there(),
                flavour: there(),
                network: there(),
            })
        })
    }

    async fn create_test_server(&self, draft: &TestDraft) -> Result<String> {
        self.call("create test server", |world| {
            let open = world.services.get(&draft.host).is_some_and(Service::enabled);
            if !open {
                return Err((
                    400,
                    format!("No valid host was found: {} is disabled", draft.host),
                ));
            }
            if world.tests.get(&draft.name).is_some_and(|all| !all.is_empty()) {
                world.violations.double_starts += 1;
            }
            let id = world.add_server(&draft.host, &draft.name, "BUILD", 128);
            world
                .tests
                .entry(draft.name.clone())
                .or_default()
                .insert(id.clone());
            if let Some(guest) = world.guests.get_mut(&id) {
                guest.task = Some("spawning".to_owned());
            }
            world.boot(id.clone());
            Ok(id)
        })
    }

    async fn console_of(&self, server: &str) -> Result<String> {
        self.call("read console", |world| {
            let guest = world.guests.get(server).ok_or_else(|| missing(server))?;
            Ok(match guest.status.as_str() {
                "ACTIVE" => format!("login of {}\n", guest.name),
                _ => String::new(),
            })
        })
    }

    async fn delete_server(&self, server: &str) -> Result<()> {
        self.call("delete server", |world| {
            if world.guests.contains_key(server) && !world.is_test(server) {
                world.violations.lost += 1;
            }
            world.remove_server(server);
            Ok(())
        })
    }

    async fn provider_traits(&self, provider: &str) -> Result<Option<(i64, BTreeSet<String>)>> {
        self.call("read traits", |world| {
            let found = world.providers.get(provider);
            Ok(found.map(|one| (one.generation, one.traits.clone())))
        })
    }

    async fn set_provider_traits(
        &self,
        provider: &str,
        generation: i64,
        traits: &BTreeSet<String>,
    ) -> Result<()> {
        self.call("set traits", |world| {
            let found = provider_at(world, provider, generation)?;
            found.traits.clone_from(traits);
            Ok(())
        })
    }

    async fn provider_inventories(&self, provider: &str) -> Result<Option<(i64, Inventories)>> {
        self.call("read inventories", |world| {
            let found = world.providers.get(provider);
            Ok(found.map(|one| (one.generation, one.inventories.clone())))
        })
    }

    async fn set_provider_inventories(
        &self,
        provider: &str,
        generation: i64,
        inventories: &Inventories,
    ) -> Result<()> {
        self.call("set inventories", |world| {
            let found = provider_at(world, provider, generation)?;
            found.inventories.clone_from(inventories);
            Ok(())
        })
    }

    async fn consumers(&self, provider: &str) -> Result<BTreeMap<String, BTreeMap<String, i64>>> {
        self.call("read allocations", |world| {
            let own = world.allocations.iter().filter(|(_, (of, _))| of == provider);
            Ok(own.map(|(id, (_, held))| (id.clone(), held.clone())).collect())
        })
    }

    async fn release(&self, consumer: &str, provider: &str) -> Result<()> {
        self.call("delete allocation", |world| {
            if world
                .allocations
                .get(consumer)
                .is_none_or(|(of, _)| of != provider)
            {
                return Ok(());
            }
            if world.guests.contains_key(consumer) {
                world.violations.lost += 1;
            }
            world.allocations.remove(consumer);
            Ok(())
        })
    }

    async fn delete_provider(&self, provider: &str) -> Result<()> {
        self.call("delete provider", |world| {
            if world.allocations.values().any(|(of, _)| of == provider) {
                if used(world, provider) {
                    world.violations.orphans += 1;
                }
                return Err((
                    409,
                    "Unable to delete resource provider: it has allocations".to_owned(),
                ));
            }
            world.providers.remove(provider);
            Ok(())
        })
    }

    async fn candidates(&self, resources: &BTreeMap<String, i64>) -> Result<BTreeSet<String>> {
        self.call("look for hosts with room", |world| {
            let found = world.candidates(resources, 50).into_iter();
            Ok(found.map(|(_, provider)| provider).collect())
        })
    }
}

/// The provider, if it is of this generation; what changes it makes the next one.
fn provider_at<'a>(
    world: &'a mut World,
    provider: &str,
    generation: i64,
) -> std::result::Result<&'a mut Provider, (u16, String)> {
    let found = world.providers.get_mut(provider);
    let found = found.ok_or_else(|| missing(provider))?;
    if found.generation != generation {
        return Err(conflict());
    }
    found.generation += 1;
    Ok(found)
}
