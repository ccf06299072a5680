//! How far live migrations are, and what does not arrive by itself.

use std::time::Duration;

use super::world::{Due, World, in_progress};
use crate::fleet::{Move, MoveProgress};

impl World {
    /// Memory is sent evenly; of what does not converge half is always left.
    pub(crate) fn progress_of(&self, one: &Move) -> MoveProgress {
        let total: u64 = 1 << 30;
        let remaining = match self.spans.get(&one.id) {
            Some((began, takes)) => {
                let part = self.clock.saturating_sub(*began).as_millis() * u128::from(total);
                let sent = part.checked_div(takes.as_millis()).unwrap_or_default();
                total.saturating_sub(u64::try_from(sent).unwrap_or(total))
            }
            None => total / 2,
        };
        MoveProgress {
            id: one.id,
            status: one.status.clone(),
            total: Some(total),
            remaining: Some(remaining),
        }
    }

    pub(crate) fn force_complete(&mut self, server: &str, number: i64) -> Result<(), (u16, String)> {
        let running = |one: &&Move| one.server == server && in_progress(&one.status);
        if self.moves.get(&number).filter(running).is_none() {
            return Err((404, format!("no migration {number} of {server} is running")));
        }
        if !self.forced.insert(number) {
            return Err((400, format!("migration {number} is being completed already")));
        }
        self.at(Duration::from_secs(2), Due::Moved(number));
        Ok(())
    }
}
