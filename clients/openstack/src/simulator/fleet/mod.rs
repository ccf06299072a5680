//! Nova and Placement with many hosts in memory: boots and migrations take time on a clock that the
//! test moves, and calls go wrong at random or on demand. It keeps count of what must never happen.

mod calls;
mod convergence;
mod evacuation;
#[cfg(test)]
mod tests;
mod world;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Fault;
use crate::error::{Cause, Error, Result};
use crate::fleet::{Guest, Service};
use world::World;

/// A simulated cloud of hosts. Clones are the same cloud.
#[derive(Clone, Default)]
pub struct SimulatedFleet {
    world: Arc<Mutex<World>>,
}

impl fmt::Debug for SimulatedFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedFleet")
    }
}

/// What must never happen, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// A second test server of a name, or a second migration of a server.
    pub double_starts: u32,
    /// A server of a user was deleted, or lost what it holds in Placement.
    pub lost: u32,
    /// A service or provider was deleted while servers used it.
    pub orphans: u32,
    /// A server was started elsewhere while its host had power: two hosts write to one disk.
    pub two_writers: u32,
}

impl SimulatedFleet {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host whose nova-compute is up and disabled, as one that is new.
    pub fn add_host(&self, name: &str, vcpus: i64, ram_mb: i64) {
        self.world().add_host(name, vcpus, ram_mb);
    }

    /// nova-compute of the host stops or comes back.
    pub fn set_up(&self, host: &str, up: bool) {
        if let Some(service) = self.world().service_mut(host) {
            let up = up && !service.forced_down;
            service.state = if up { "up" } else { "down" }.to_owned();
        }
    }

    /// Guests on this host never boot.
    pub fn set_broken(&self, host: &str, broken: bool) {
        let mut world = self.world();
        if broken {
            world.broken.insert(host.to_owned());
        } else {
            world.broken.remove(host);
        }
    }

    pub fn add_aggregate(&self, name: &str) {
        self.world().add_aggregate(name);
    }

    /// Image, flavour and network of test servers are there.
    pub fn set_test_bed(&self, there: bool) {
        self.world().bed = there;
    }

    /// A server of some user.
    pub fn add_server(&self, host: &str, name: &str, status: &str, ram_mb: i64) -> String {
        self.world().add_server(host, name, status, ram_mb)
    }

    /// Its next migrations fail, so many times.
    pub fn fail_moves(&self, server: &str, times: u32) {
        self.world().failing.insert(server.to_owned(), times);
    }

    /// Its live migration does not converge until it is aborted, or completed by force.
    pub fn never_converge(&self, server: &str, stuck: bool) {
        let mut world = self.world();
        if stuck {
            world.stuck.insert(server.to_owned());
        } else {
            world.stuck.remove(server);
        }
    }

    pub fn set_status(&self, server: &str, status: &str) {
        if let Some(guest) = self.world().guests.get_mut(server) {
            guest.status = status.to_owned();
        }
    }

    /// Nova refuses to restart it, so many times.
    pub fn refuse_restarts(&self, server: &str, times: u32) {
        self.world().refusing.insert(server.to_owned(), times);
    }

    /// How often the server was restarted on its host.
    pub fn restarts(&self, server: &str) -> u32 {
        self.world().restarts.get(server).copied().unwrap_or_default()
    }

    /// How long a boot and a migration take.
    pub fn set_times(&self, boot: Duration, migration: Duration) {
        let mut world = self.world();
        (world.boot_time, world.move_time) = (boot, migration);
    }

    /// How fast a migration moves memory; what it moves then decides how long it takes.
    pub fn set_speed(&self, mib_per_second: u32) {
        self.world().mib_per_second = Some(mib_per_second);
    }

    /// How many migrations were completed by force.
    pub fn forced(&self) -> usize {
        self.world().forced.len()
    }

    /// Somebody else changes a service, behind our back.
    pub fn meddle(&self, host: &str, change: impl FnOnce(&mut Service)) {
        if let Some(service) = self.world().service_mut(host) {
            change(service);
        }
    }

    /// Of every hundred calls so many go wrong, in one of the ways that networks know.
    pub fn set_faults(&self, percent: u32, seed: u64) {
        let mut world = self.world();
        (world.fault_percent, world.random) = (percent, seed | 1);
    }

    /// The next calls go wrong this way, one fault for each.
    pub fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        self.world().faults.extend(faults);
    }

    /// Time goes on: what is due happens.
    pub fn advance(&self, time: Duration) {
        self.world().advance(time);
    }

    pub fn clock(&self) -> Duration {
        self.world().clock
    }

    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    pub fn violations(&self) -> Violations {
        self.world().violations
    }

    /// Most migrations that were under way from one host at a time.
    pub fn most_moves(&self) -> usize {
        self.world().most_moves
    }

    pub fn service(&self, host: &str) -> Option<Service> {
        self.world().service_mut(host).map(|service| service.clone())
    }

    /// Every server, test servers too.
    pub fn servers(&self) -> Vec<Guest> {
        self.world().guests.values().cloned().collect()
    }

    /// One server, as it is now.
    pub fn server(&self, id: &str) -> Option<Guest> {
        self.world().guests.get(id).cloned()
    }

    pub fn has_power(&self, host: &str) -> bool {
        !self.world().off.contains(host)
    }

    pub fn members(&self, aggregate: &str) -> Vec<String> {
        let world = self.world();
        let found = world.aggregates.iter().find(|one| one.name == aggregate);
        found.map(|one| one.hosts.clone()).unwrap_or_default()
    }

    /// Is anything left of the host in Nova or Placement?
    pub fn knows(&self, host: &str) -> bool {
        self.world().knows(host)
    }

    fn call<T>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut World) -> std::result::Result<T, (u16, String)>,
    ) -> Result<T> {
        let mut world = self.world();
        world.calls += 1;
        let fault = world.next_fault();
        let lost = match fault {
            Some(Fault::Status(status)) => {
                let message = "injected".to_owned();
                return Err(Error::new(doing, Cause::Answer { status, message }));
            }
            Some(Fault::Timeout) => return Err(Error::new(doing, Cause::Timeout(Duration::from_secs(30)))),
            Some(Fault::Lost) => true,
            // The world goes on meanwhile.
            Some(Fault::Slow(time)) => {
                world.advance(time);
                false
            }
            None => false,
        };
        let done = work(&mut world);
        if lost {
            return Err(Error::new(doing, Cause::Broken("injected".to_owned())));
        }
        done.map_err(|(status, message)| Error::new(doing, Cause::Answer { status, message }))
    }
}
