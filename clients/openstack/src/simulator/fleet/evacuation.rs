//! Hosts that lose their power, and servers that start elsewhere from their disks.

use super::SimulatedFleet;
use super::world::World;
use crate::fleet::Service;

impl SimulatedFleet {
    /// The host loses its power or gets it back. Nova notices by itself only what [`set_up`] says.
    ///
    /// [`set_up`]: SimulatedFleet::set_up
    pub fn set_power(&self, host: &str, on: bool) {
        let mut world = self.world();
        if on {
            world.off.remove(host);
        } else {
            world.off.insert(host.to_owned());
        }
    }
}

impl World {
    pub(crate) fn start_evacuation(&mut self, server: &str) -> Result<(), (u16, String)> {
        let missing = || (404, format!("no server {server}"));
        let guest = self.guests.get(server).ok_or_else(missing)?;
        let source = guest.host.clone();
        if self.services.get(&source).is_some_and(Service::up) {
            return Err((400, format!("Compute service of {source} is still in use.")));
        }
        if guest.task.is_some() {
            self.violations.double_starts += 1;
            return Err((409, format!("server {server} is restarted already")));
        }
        if !self.off.contains(&source) {
            self.violations.two_writers += 1;
        }
        self.begin_move(server, &source, "evacuation", "accepted", "rebuilding");
        Ok(())
    }
}
