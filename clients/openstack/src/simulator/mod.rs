//! A cloud in memory that behaves like the real one where our controllers can tell, with faults on
//! demand. For tests of scale and of errors; what works is proven with the real services.

mod fleet;
mod identity;
mod images;
mod placement;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::clouds::Cloud;
use crate::error::{Cause, Error, Result};
use crate::identity::{Assignment, Connect, Fields, Identity};
use crate::images::Image;
use crate::placement::Allocation;

pub use fleet::{SimulatedFleet, Violations};

/// Something that goes wrong with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The service answers with this status.
    Status(u16),
    /// Nothing comes back.
    Timeout,
    /// The call is carried out, but the answer is lost.
    Lost,
    /// The answer takes so long.
    Slow(Duration),
}

/// Calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub logins: u64,
    pub reads: u64,
    pub writes: u64,
}

#[derive(Default)]
pub(crate) struct World {
    /// Things by collection and id.
    things: BTreeMap<String, BTreeMap<String, Fields>>,
    passwords: BTreeMap<String, String>,
    secrets: BTreeMap<String, String>,
    assignments: BTreeSet<Assignment>,
    images: BTreeMap<String, (Image, Bytes)>,
    providers: placement::Providers,
    allocations: BTreeMap<String, Allocation>,
    faults: VecDeque<Fault>,
    write_faults: VecDeque<Fault>,
    latency: Duration,
    down: bool,
    calls: Calls,
}

/// A simulated cloud. Clones are the same cloud; a session is one that is logged in.
#[derive(Clone)]
pub struct Simulator {
    world: Arc<Mutex<World>>,
    cloud: Option<Cloud>,
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator").field("cloud", &self.cloud).finish()
    }
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new("admin")
    }
}

/// What a call does, for counting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Login,
    Read,
    Write,
}

impl Simulator {
    /// As `keystone-manage bootstrap` leaves a cloud, with this password for its admin.
    pub fn new(password: &str) -> Self {
        let simulator = Self {
            world: Arc::default(),
            cloud: None,
        };
        identity::bootstrap(&mut simulator.world(), password);
        simulator
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next calls go wrong this way, one fault for each.
    pub fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        self.world().faults.extend(faults);
    }

    /// The same for the next calls that change something.
    pub fn inject_into_writes(&self, faults: impl IntoIterator<Item = Fault>) {
        self.world().write_faults.extend(faults);
    }

    pub fn set_latency(&self, latency: Duration) {
        self.world().latency = latency;
    }

    /// Nothing can be reached until it is up again.
    pub fn set_down(&self, down: bool) {
        self.world().down = down;
    }

    pub fn calls(&self) -> Calls {
        self.world().calls
    }

    /// Things of a collection such as `users`, without a login: to look behind the scenes.
    pub fn count(&self, collection: &str) -> usize {
        self.world().things.get(collection).map_or(0, BTreeMap::len)
    }

    /// Waits as the network would, then does the work unless a fault is due.
    pub(crate) async fn call<T>(
        &self,
        doing: String,
        act: Act,
        work: impl FnOnce(&mut World) -> std::result::Result<T, (u16, String)> + Send,
    ) -> Result<T> {
        let (latency, down, fault) = {
            let mut world = self.world();
            match act {
                Act::Login => world.calls.logins += 1,
                Act::Read => world.calls.reads += 1,
                Act::Write => world.calls.writes += 1,
            }
            let fault = match act {
                Act::Write => world.write_faults.pop_front(),
                Act::Login | Act::Read => None,
            };
            let fault = fault.or_else(|| world.faults.pop_front());
            (world.latency, world.down, fault)
        };
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        if down {
            let (to, why) = ("simulator".to_owned(), "it is down".to_owned());
            return Err(Error::new(doing, Cause::Connect { to, why }));
        }
        let lost = match fault {
            Some(Fault::Status(status)) => {
                let message = "injected".to_owned();
                return Err(Error::new(doing, Cause::Answer { status, message }));
            }
            Some(Fault::Timeout) => return Err(Error::new(doing, Cause::Timeout(latency))),
            Some(Fault::Lost) => true,
            Some(Fault::Slow(time)) => {
                tokio::time::sleep(time).await;
                false
            }
            None => false,
        };
        let done = work(&mut self.world());
        if lost {
            return Err(Error::new(doing, Cause::Broken("injected".to_owned())));
        }
        done.map_err(|(status, message)| Error::new(doing, Cause::Answer { status, message }))
    }
}

impl Connect for Simulator {
    fn connect(&self, cloud: Cloud) -> Result<Arc<dyn Identity>> {
        Ok(Arc::new(Self {
            world: self.world.clone(),
            cloud: Some(cloud),
        }))
    }
}
