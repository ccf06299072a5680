use super::*;
use proptest::prelude::*;

const DAY: i64 = 86_400;

fn day(day: i64) -> Timestamp {
    second(day * DAY)
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn terms(valid: i64, overlap: i64, grace: i64) -> Terms {
    let days = |count: i64| SignedDuration::from_hours(count * 24);
    Terms {
        valid: days(valid),
        overlap: days(overlap).max(LEAST_OVERLAP),
        grace: days(grace),
    }
}

fn credential(number: u64, made: i64, complete: bool) -> Credential {
    Credential {
        number,
        created: day(made),
        expires: day(made + 90),
        complete,
        deleting: false,
    }
}

const USUAL: (i64, i64, i64) = (90, 7, 1);

fn usual() -> Terms {
    terms(USUAL.0, USUAL.1, USUAL.2)
}

fn using(number: u64, since: i64) -> Option<Current> {
    Some(Current {
        number,
        since: day(since),
    })
}

#[test]
fn the_first_credential_is_made_at_once() {
    let verdict = decide(usual(), &[], None, 0, day(0));
    assert_eq!(verdict.make, Some((1, day(90))));
    assert_eq!((verdict.using, verdict.next), (None, day(83)));
}

#[test]
fn one_is_used_only_when_it_is_complete() {
    let verdict = decide(usual(), &[credential(1, 0, false)], None, 0, day(0));
    assert_eq!((verdict.make, verdict.using), (None, None));
    let verdict = decide(usual(), &[credential(1, 0, true)], None, 0, day(0));
    assert_eq!(verdict.using, using(1, 0));
}

#[test]
fn day_83_a_new_one_day_90_the_old_one_expires_day_91_it_is_deleted() {
    let first = credential(1, 0, true);
    let current = using(1, 0);
    assert_eq!(
        decide(usual(), std::slice::from_ref(&first), current, 0, day(82)).make,
        None
    );
    let verdict = decide(usual(), std::slice::from_ref(&first), current, 0, day(83));
    assert_eq!((verdict.make, verdict.using), (Some((2, day(173))), current));
    let both = [first, credential(2, 83, true)];
    let verdict = decide(usual(), &both, current, 0, day(83));
    assert_eq!((verdict.make, verdict.using), (None, using(2, 83)));
    assert_eq!((verdict.delete, verdict.next_deletion), (vec![], Some(day(91))));
    let verdict = decide(usual(), &both, using(2, 83), 0, day(90));
    assert_eq!(verdict.delete, Vec::<u64>::new());
    let verdict = decide(usual(), &both, using(2, 83), 0, day(91));
    assert_eq!((verdict.delete, verdict.next), (vec![1], day(166)));
}

#[test]
fn missed_rotations_are_caught_up_with_one() {
    let verdict = decide(usual(), &[credential(1, 0, true)], using(1, 0), 0, day(1000));
    assert_eq!(
        (verdict.make, verdict.using, verdict.delete),
        (Some((2, day(1090))), None, vec![])
    );
    let both = [credential(1, 0, true), credential(2, 1000, true)];
    let verdict = decide(usual(), &both, using(1, 0), 0, day(1000));
    assert_eq!((verdict.make, verdict.using), (None, using(2, 1000)));
    assert_eq!(
        verdict.delete,
        Vec::<u64>::new(),
        "consumers need the grace period to follow"
    );
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let both = [credential(1, 0, true), credential(2, 83, true)];
    let verdict = decide(usual(), &both, using(2, 83), 0, day(-300));
    assert_eq!(
        (verdict.make, verdict.using, verdict.delete),
        (None, using(2, 83), vec![])
    );
}

#[test]
fn one_that_was_deleted_by_hand_is_replaced_under_a_new_name() {
    assert_eq!(
        decide(usual(), &[], using(4, 0), 0, day(1)).make,
        Some((5, day(91)))
    );
    assert_eq!(decide(usual(), &[], None, 6, day(1)).make, Some((7, day(91))));
    let mut going = credential(4, 0, true);
    going.deleting = true;
    let verdict = decide(usual(), &[going], using(4, 0), 0, day(1));
    assert_eq!((verdict.make, verdict.using), (Some((5, day(91))), None));
    // In the overlap the older one serves until the new one is there.
    let verdict = decide(usual(), &[credential(3, 0, true)], using(4, 83), 0, day(84));
    assert_eq!((verdict.make, verdict.using), (Some((5, day(174))), using(3, 84)));
}

#[test]
fn a_shorter_interval_holds_for_what_was_made_before() {
    let verdict = decide(
        terms(30, 7, 1),
        &[credential(1, 0, true)],
        using(1, 0),
        0,
        day(23),
    );
    assert_eq!(verdict.make, Some((2, day(53))));
}

#[test]
fn without_an_overlap_there_is_still_a_small_one() {
    let short = terms(90, 0, 0);
    let verdict = decide(
        short,
        &[credential(1, 0, true)],
        using(1, 0),
        0,
        second(90 * DAY - 3600),
    );
    assert!(verdict.make.is_some());
}

/// K-ORC and the consumers' Secret, played: K-ORC finishes what it is asked for within `delay` looks.
#[derive(Debug, Default)]
struct World {
    credentials: Vec<(Credential, u8)>,
    stable: Option<Current>,
    last: u64,
}

impl World {
    fn look(&mut self, terms: Terms, now: Timestamp, delay: u8) {
        for (credential, wait) in &mut self.credentials {
            *wait = wait.saturating_sub(1);
            credential.complete = *wait == 0;
        }
        let seen: Vec<Credential> = self.credentials.iter().map(|(c, _)| c.clone()).collect();
        let verdict = decide(terms, &seen, self.stable, self.last, now);
        assert!(
            verdict
                .delete
                .iter()
                .all(|n| Some(*n) != verdict.using.map(|c| c.number)),
            "in use"
        );
        self.stable = verdict.using.or(self.stable);
        self.credentials
            .retain(|(c, _)| !verdict.delete.contains(&c.number));
        if let Some((number, expires)) = verdict.make {
            assert!(
                self.credentials.iter().all(|(c, _)| c.number != number),
                "made twice"
            );
            self.last = self.last.max(number);
            let fresh = Credential {
                number,
                created: now,
                expires,
                complete: delay == 0,
                deleting: false,
            };
            self.credentials.push((fresh, delay));
        }
    }

    fn serves(&self, now: Timestamp) -> bool {
        let Some(current) = self.stable else { return false };
        self.credentials
            .iter()
            .any(|(c, _)| c.number == current.number && c.complete && c.expires > now)
    }
}

proptest! {
    /// With looks less than the overlap apart, and a K-ORC that answers before the overlap ends,
    /// the consumers' Secret names a living credential at every instant, wherever the clock goes.
    #[test]
    fn there_is_no_moment_without_a_valid_credential(
        valid in 2i64..120, overlap in 1i64..60, grace in 0i64..3, delay in 0u8..3,
        steps in prop::collection::vec(prop_oneof![8 => 0i64..100, 1 => -400i64..0], 1..200),
    ) {
        let overlap = overlap.min(valid - 1);
        let terms = terms(valid, overlap, grace);
        let mut now = DAY * 1000;
        let mut world = World::default();
        for _ in 0..4 {
            world.look(terms, second(now), delay);
            now += 1;
        }
        prop_assert!(world.serves(second(now)));
        // Four looks fit into the overlap: one to notice, `delay` for K-ORC, one to switch.
        let longest = overlap * DAY / 5;
        for step in steps {
            // Back as far as it likes; forward by at most a fifth of the overlap.
            now += if step < 0 { step * DAY / 10 } else { step * longest / 100 };
            prop_assert!(world.serves(second(now)), "before the look at {now}: {world:?}");
            world.look(terms, second(now), delay);
            prop_assert!(world.serves(second(now)), "after the look at {now}: {world:?}");
            prop_assert!(world.credentials.len() <= 4 + 90, "{world:?}");
        }
    }

    /// However the clock jumped and whatever was lost: a few looks later all is well again.
    #[test]
    fn it_always_heals(
        jumps in prop::collection::vec((-2000i64..2000, any::<bool>(), any::<bool>()), 1..30), delay in 0u8..3,
    ) {
        let terms = usual();
        let mut now = DAY * 10_000;
        let mut world = World::default();
        for (jump, lose_one, lose_secret) in jumps {
            now += jump * DAY;
            if lose_one { world.credentials.pop(); }
            if lose_secret { world.stable = None; }
            for _ in 0..5 {
                world.look(terms, second(now), delay);
                now += 60;
            }
            prop_assert!(world.serves(second(now)), "{world:?}");
            let made = world.last;
            for _ in 0..3 {
                world.look(terms, second(now), delay);
            }
            prop_assert_eq!(made, world.last, "nothing is made again");
        }
    }
}
