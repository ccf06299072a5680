//! Ends that the runtime reported and does not show yet: its own view follows its events by some
//! milliseconds. It is looked at again until it shows them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// What one end takes to be shown, on an idle machine.
const FIRST: Duration = Duration::from_millis(20);
/// With doubling pauses five seconds: by then the regular look is near.
const MOST: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Ends {
    /// How often was looked for each, in vain.
    looks: BTreeMap<String, u32>,
    due: Option<Instant>,
}

impl Ends {
    /// The process of this container or sandbox ended.
    pub(super) fn told(&mut self, id: String, now: Instant) {
        self.looks.insert(id, 0);
        self.wait(now);
    }

    /// When to look next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A look was taken; `alive` is what it shows.
    pub(super) fn looked(&mut self, alive: impl Fn(&str) -> bool, now: Instant) {
        self.looks.retain(|id, looks| {
            *looks += 1;
            *looks < MOST && alive(id)
        });
        self.due = None;
        self.wait(now);
    }

    /// The one with the shortest pause decides; many that end at once share a look.
    fn wait(&mut self, now: Instant) {
        let next = self
            .looks
            .values()
            .min()
            .map(|looks| now + FIRST * 2_u32.pow(*looks));
        self.due = match (self.due, next) {
            (Some(due), Some(next)) => Some(due.min(next)),
            (due, next) => due.or(next),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_until_it_is_seen() {
        let now = Instant::now();
        let mut ends = Ends::default();
        assert_eq!(ends.due(), None);
        ends.told("a".into(), now);
        assert_eq!(ends.due(), Some(now + FIRST));
        ends.looked(|_| true, now);
        assert_eq!(ends.due(), Some(now + FIRST * 2));
        ends.looked(|_| false, now);
        assert_eq!(ends.due(), None);
    }

    #[test]
    fn a_new_one_does_not_wait_for_an_older_one_and_many_share_a_look() {
        let now = Instant::now();
        let mut ends = Ends::default();
        ends.told("slow".into(), now);
        for _ in 0..5 {
            ends.looked(|_| true, now);
        }
        let later = now + Duration::from_millis(1);
        ends.told("quick".into(), later);
        assert_eq!(ends.due(), Some(later + FIRST));
        ends.told("another".into(), later + Duration::from_millis(9));
        assert_eq!(ends.due(), Some(later + FIRST));
    }

    #[test]
    fn it_is_not_looked_for_for_ever() {
        let now = Instant::now();
        let mut ends = Ends::default();
        ends.told("never".into(), now);
        let looks = (0..100).take_while(|_| {
            ends.looked(|_| true, now);
            ends.due().is_some()
        });
        assert!(looks.count() < 10);
    }
}
