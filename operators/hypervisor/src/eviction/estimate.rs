//! Pure: when a host is expected to be empty.
//!
//! What has been sent so far, over the time that it took, is the speed of the whole. What is still under way must also
//! arrive, and a server that waits takes about as long as those before it.

use c5c3_api::common::Time;
use c5c3_api::hypervisor::{InstanceEviction, InstanceState};
use jiff::{SignedDuration, Timestamp};

use super::view::{HostView, View};

/// A new estimate that differs by less is not worth a write.
const CLOSE: f64 = 15.0;
const CLOSE_PART: f64 = 0.1;
/// An estimate beyond this is no help to anybody.
const LONGEST: f64 = 30.0 * 24.0 * 3600.0;

/// One that is on its way.
struct Under {
    mib: f64,
    /// From 0 to 1.
    sent: f64,
    seconds: f64,
}

impl Under {
    /// At the speed so far; `None`: nothing was sent yet, or nothing is known.
    fn left(&self) -> Option<f64> {
        (self.sent > 0.0).then(|| self.seconds * (1.0 - self.sent) / self.sent)
    }
}

/// Seconds until the host is empty; `None` before the first server has moved.
fn seconds(
    elapsed: f64,
    moved_mib: f64,
    moved: f64,
    waiting_mib: f64,
    waiting: bool,
    under: &[Under],
) -> Option<f64> {
    if moved < 1.0 || moved_mib <= 0.0 || elapsed <= 0.0 {
        return None;
    }
    let sent: f64 = under.iter().map(|one| one.mib * one.sent).sum();
    let unsent: f64 = under.iter().map(|one| one.mib * (1.0 - one.sent)).sum();
    let at_this_speed = (waiting_mib + unsent) / (moved_mib + sent) * elapsed;
    // How long one takes: all that ran together, in the time since the start.
    let sent_ones: f64 = under.iter().map(|one| one.sent).sum();
    let together: f64 = under.len() as f64;
    let each = elapsed * together.max(1.0) / (moved + sent_ones).max(together.max(1.0));
    let arrives = |one: &Under| one.left().unwrap_or(each);
    let last = under.iter().map(arrives).fold(0.0, f64::max);
    let next = if waiting { each } else { 0.0 };
    Some(at_this_speed.max(last).max(next).min(LONGEST))
}

/// The estimate that is reported: the one before, while it is close to what is expected now.
pub(crate) fn completion(
    view: &View,
    host: &HostView,
    instances: &[InstanceEviction],
    started: Option<&Time>,
    (moved, moved_mib): (i32, i64),
) -> Option<Time> {
    // What cannot move has no end, and nothing starts while it is paused.
    let stays =
        |one: &&InstanceEviction| matches!(one.state, InstanceState::Failed | InstanceState::Unmovable);
    if view.deleting || view.spec.paused == Some(true) {
        return None;
    }
    let state = |id: &str| instances.iter().find(|one| one.server == id);
    let (mut under, mut waiting_mib, mut waiting) = (Vec::new(), 0.0, false);
    for guest in &host.guests {
        let Some(one) = state(&guest.id).filter(|one| !stays(one)) else {
            continue;
        };
        let mib = guest.ram_mb.max(1) as f64;
        match one.state {
            InstanceState::Migrating | InstanceState::Aborting => under.push(Under {
                mib,
                sent: one
                    .progress
                    .map_or(0.0, |percent| f64::from(percent.clamp(0, 100)) / 100.0),
                seconds: one.since.as_ref().map_or(0.0, |since| passed(since, view.now)),
            }),
            _ => {
                waiting = true;
                waiting_mib += mib;
            }
        }
    }
    if under.is_empty() && !waiting {
        return None;
    }
    let elapsed = passed(started?, view.now);
    let left = seconds(
        elapsed,
        moved_mib as f64,
        f64::from(moved),
        waiting_mib,
        waiting,
        &under,
    )?;
    let new = view
        .now
        .checked_add(SignedDuration::try_from_secs_f64(left).ok()?)
        .ok()?;
    let before = view.before.estimated_completion.as_ref();
    let is_close = |before: &&Time| {
        let off = new.duration_since(before.0).abs().as_secs_f64();
        off <= CLOSE.max(left * CLOSE_PART)
    };
    match before.filter(is_close) {
        Some(before) => Some(before.clone()),
        None => Some(Time(Timestamp::from_second(new.as_second()).unwrap_or(new))),
    }
}

fn passed(since: &Time, now: Timestamp) -> f64 {
    now.duration_since(since.0).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn under(mib: f64, sent: f64, seconds: f64) -> Under {
        Under { mib, sent, seconds }
    }

    #[test]
    fn the_speed_so_far_says_how_long_the_rest_takes() {
        for (what, found, expected) in [
            (
                "nothing has moved",
                seconds(60.0, 0.0, 0.0, 4096.0, true, &[]),
                None,
            ),
            (
                "half has moved",
                seconds(60.0, 2048.0, 4.0, 2048.0, true, &[]),
                Some(60.0),
            ),
            (
                "the last is half sent",
                seconds(60.0, 1024.0, 1.0, 0.0, false, &[under(1024.0, 0.5, 60.0)]),
                Some(60.0),
            ),
            (
                "the last goes on slowly, whatever the others did",
                seconds(60.0, 8192.0, 8.0, 0.0, false, &[under(512.0, 0.1, 50.0)]),
                Some(450.0),
            ),
        ] {
            match (found, expected) {
                (Some(found), Some(expected)) => assert!((found - expected).abs() < 1.0, "{what}: {found}"),
                (found, expected) => assert_eq!(found, expected, "{what}"),
            }
        }
    }

    proptest! {
        #[test]
        fn an_estimate_is_a_time_that_comes(
            elapsed in 0.0..1e6, moved_mib in 0.0..1e9, moved in 0.0..1e4, waiting in 0.0..1e9,
            sent in prop::collection::vec(0.0..=1.0, 0..20),
        ) {
            let ones: Vec<Under> = sent.iter().map(|sent| under(512.0, *sent, elapsed)).collect();
            if let Some(left) = seconds(elapsed, moved_mib, moved, waiting, waiting > 0.0, &ones) {
                prop_assert!(left.is_finite() && (0.0..=LONGEST).contains(&left));
            }
        }
    }
}
