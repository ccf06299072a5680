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
        lost: false,
        on_request: false,
        stopped: false,
        made: complete,
    }
}

fn decide(
    terms: Terms,
    credentials: &[Credential],
    current: Option<Current>,
    last: u64,
    now: Timestamp,
) -> Verdict {
    let seen = Seen {
        credentials,
        current,
        last,
        ..Seen::default()
    };
    super::decide(terms, &seen, now)
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
fn consumers_stay_while_keystone_is_away() {
    // In the overlap K-ORC looks at one after the other: the new one is not there first.
    let both = |first, second| [credential(1, 0, first), credential(2, 83, second)];
    for (first, second) in [(true, false), (false, false), (false, true), (true, true)] {
        let verdict = decide(usual(), &both(first, second), using(2, 83), 0, day(84));
        assert_eq!(verdict.using, using(2, 83), "{first} {second}");
    }
    // But one that expired serves nobody, and one that is not there either.
    let expired = decide(usual(), &both(true, true), using(1, 0), 0, day(91));
    assert_eq!(expired.using, using(2, 91));
    let verdict = decide(usual(), &both(true, false)[..1], using(2, 83), 0, day(84));
    assert_eq!(verdict.using, using(1, 84));
}

#[test]
fn one_whose_secret_is_lost_is_replaced() {
    let mut lost = credential(2, 83, false);
    lost.lost = true;
    let verdict = decide(usual(), &[credential(1, 0, true), lost], using(1, 0), 0, day(84));
    assert_eq!((verdict.make, verdict.using), (Some((3, day(174))), using(1, 0)));
    assert_eq!(verdict.delete, [2]);
}

fn refused(number: u64, made: i64) -> Credential {
    Credential {
        stopped: true,
        ..credential(number, made, false)
    }
}

#[test]
fn what_k_orc_gave_up_on_is_tried_again_after_a_pause_that_grows() {
    let minutes = |count: i64| second(83 * DAY + count * 60);
    let first = credential(1, 0, true);
    for (number, pause) in [(2, 1), (3, 2), (4, 4), (7, 32), (8, 60), (1000, 60)] {
        let all = [first.clone(), refused(number, 83)];
        let before = decide(usual(), &all, using(1, 0), 0, second(83 * DAY + pause * 60 - 1));
        assert_eq!((before.make, before.next), (None, minutes(pause)), "{number}");
        assert_eq!((before.stopped, before.delete), (Some(number), vec![]));
        assert_eq!(before.using, using(1, 0));
        let after = decide(usual(), &all, using(1, 0), 0, minutes(pause));
        assert_eq!(after.make.map(|(number, _)| number), Some(number + 1));
    }
    // Whoever asks need not wait.
    let all = [first.clone(), refused(2, 83)];
    let seen = Seen {
        credentials: &all,
        current: using(1, 0),
        asked: true,
        ..Seen::default()
    };
    assert!(super::decide(usual(), &seen, day(83)).make.is_some());
    // A clock that went back waits no longer than one that did not.
    for now in [day(10), minutes(-1)] {
        assert!(decide(usual(), &all, using(1, 0), 0, now).make.is_some());
    }
}

#[test]
fn what_was_never_made_goes_when_a_newer_one_is_known() {
    let first = credential(1, 0, true);
    let all = |third: Credential| [first.clone(), refused(2, 83), third];
    let verdict = decide(usual(), &all(credential(3, 83, false)), using(1, 0), 0, day(83));
    assert_eq!((verdict.delete, verdict.stopped), (vec![], Some(2)));
    let verdict = decide(usual(), &all(refused(3, 83)), using(1, 0), 0, day(83));
    assert_eq!((verdict.delete, verdict.stopped), (vec![2], Some(3)));
    let verdict = decide(usual(), &all(credential(3, 83, true)), using(1, 0), 0, day(83));
    assert_eq!((verdict.delete, verdict.stopped), (vec![2], None));
    // One in use is replaced at once, and lives as long as any other.
    let mut first = refused(1, 0);
    first.made = true;
    let verdict = decide(usual(), std::slice::from_ref(&first), using(1, 0), 0, day(10));
    assert_eq!((verdict.make, verdict.using), (Some((2, day(100))), using(1, 0)));
    let verdict = decide(
        usual(),
        &[first, credential(2, 10, true)],
        using(1, 0),
        0,
        day(10),
    );
    assert_eq!((verdict.delete, verdict.next_deletion), (vec![], Some(day(91))));
}

#[test]
fn a_rotation_on_request_overlaps_and_ends_when_the_last_consumer_moved() {
    let first = credential(1, 0, true);
    let mut seen = Seen {
        credentials: std::slice::from_ref(&first),
        current: using(1, 0),
        asked: true,
        ..Seen::default()
    };
    let verdict = super::decide(usual(), &seen, day(10));
    assert_eq!((verdict.make, verdict.using), (Some((2, day(100))), using(1, 0)));
    assert!(verdict.delete.is_empty());
    let second = Credential {
        on_request: true,
        ..credential(2, 10, true)
    };
    let both = [first.clone(), second];
    seen = Seen {
        credentials: &both,
        asked: false,
        ..seen
    };
    // Even without a grace period nothing goes in the pass that moves the consumers.
    for grace in [0, 1] {
        let verdict = super::decide(terms(90, 7, grace), &seen, day(10));
        assert_eq!((verdict.using, verdict.delete), (using(2, 10), vec![]));
    }
    seen.current = using(2, 10);
    seen.behind = true;
    let verdict = super::decide(terms(90, 7, 0), &seen, day(12));
    assert_eq!(verdict.delete, Vec::<u64>::new(), "somebody uses it");
    assert_eq!(verdict.next_deletion, Some(after(day(12), CONSUMERS_LOOK)));
    seen.followed = true;
    let verdict = super::decide(terms(90, 7, 0), &seen, day(12));
    assert_eq!(verdict.delete, Vec::<u64>::new(), "somebody uses it");
    assert_eq!(
        verdict.next_deletion,
        Some(after(day(12), FOLLOWED_LOOK)),
        "a watch reports when nobody does"
    );
    seen.behind = false;
    let verdict = super::decide(usual(), &seen, after(day(10), SignedDuration::from_hours(1)));
    assert_eq!((verdict.delete, verdict.next_deletion), (vec![], Some(day(11))));
    assert_eq!(super::decide(usual(), &seen, day(11)).delete, [1]);
    assert_eq!(super::decide(terms(90, 7, 0), &seen, day(10)).delete, [1]);
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

/// K-ORC and the consumers' Secret, played: K-ORC finishes what it is asked for within `delay` looks
/// and may lose sight of any of them (`away`, by bits) at any look.
#[derive(Debug, Default)]
struct World {
    credentials: Vec<(Credential, u8)>,
    stable: Option<Current>,
    last: u64,
    /// Consumers that did not follow yet.
    behind: bool,
    /// As many of the next are refused.
    refuse: u64,
}

impl World {
    fn look(&mut self, terms: Terms, now: Timestamp, delay: u8, away: u8, asked: bool) {
        for (credential, wait) in &mut self.credentials {
            *wait = wait.saturating_sub(1);
            credential.complete =
                *wait == 0 && !credential.stopped && away >> (credential.number % 8) & 1 == 0;
        }
        let credentials: Vec<Credential> = self.credentials.iter().map(|(c, _)| c.clone()).collect();
        let seen = Seen {
            credentials: &credentials,
            current: self.stable,
            last: self.last,
            asked,
            behind: self.behind,
            followed: false,
        };
        let verdict = super::decide(terms, &seen, now);
        let using = verdict.using.map(|c| c.number);
        assert!(verdict.delete.iter().all(|n| Some(*n) != using), "in use");
        if let (Some(before), Some(after)) = (self.stable, using) {
            let lives = credentials
                .iter()
                .any(|c| c.number == before.number && c.expires > now);
            assert!(after >= before.number || !lives, "back to {after}: {self:?}");
        }
        if self.behind {
            let valid = |n: &u64| credentials.iter().any(|c| c.number == *n && c.expires > now);
            assert!(
                !verdict.delete.iter().any(valid),
                "consumers still use it: {self:?}"
            );
        }
        if verdict.using.is_some() {
            self.behind = verdict.using != self.stable;
        }
        self.stable = verdict.using.or(self.stable);
        self.credentials
            .retain(|(c, _)| !verdict.delete.contains(&c.number));
        if let Some((number, expires)) = verdict.make {
            assert!(
                self.credentials.iter().all(|(c, _)| c.number != number),
                "made twice"
            );
            self.last = self.last.max(number);
            let stopped = self.refuse > 0;
            self.refuse = self.refuse.saturating_sub(1);
            let fresh = Credential {
                number,
                created: now,
                expires,
                complete: delay == 0 && !stopped,
                deleting: false,
                lost: false,
                on_request: asked,
                stopped,
                made: !stopped,
            };
            self.credentials.push((fresh, delay));
        }
    }

    /// The credential is in Keystone, whether K-ORC sees it or not.
    fn serves(&self, now: Timestamp) -> bool {
        let Some(current) = self.stable else { return false };
        self.credentials
            .iter()
            .any(|(c, wait)| c.number == current.number && *wait == 0 && c.expires > now)
    }
}

proptest! {
    /// With looks less than the overlap apart, and a K-ORC that answers before the overlap ends,
    /// the consumers' Secret names a living credential at every instant, wherever the clock goes,
    /// whoever asks for rotations; and it never goes back to an older one.
    #[test]
    fn there_is_no_moment_without_a_valid_credential(
        valid in 2i64..120, overlap in 1i64..60, grace in 0i64..3, delay in 0u8..3,
        steps in prop::collection::vec(
            (prop_oneof![8 => 0i64..100, 1 => -400i64..0], prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0u8..10),
            1..200,
        ),
    ) {
        let overlap = overlap.min(valid - 1);
        let terms = terms(valid, overlap, grace);
        let mut now = DAY * 1000;
        let mut world = World::default();
        for _ in 0..4 {
            world.look(terms, second(now), delay, 0, false);
            now += 1;
        }
        prop_assert!(world.serves(second(now)));
        // Eight looks fit into the overlap: one to notice, `delay` for K-ORC, one to switch, and
        // as many again for a K-ORC that was away in between.
        let longest = overlap * DAY / 9;
        let mut dark = 0;
        for (step, away, whim) in steps {
            // Back as far as it likes; forward by at most a ninth of the overlap.
            now += if step < 0 { step * DAY / 10 } else { step * longest / 100 };
            prop_assert!(world.serves(second(now)), "before the look at {now}: {world:?}");
            let away = if dark < 3 { away } else { 0 };
            dark = if away == 0 { 0 } else { dark + 1 };
            world.look(terms, second(now), delay, away, whim == 0);
            prop_assert!(world.serves(second(now)), "after the look at {now}: {world:?}");
            prop_assert!(world.credentials.len() <= 4 + 200, "{world:?}");
        }
    }

    /// However often K-ORC refuses and however the clock jumps: it is tried again, but not all the
    /// time, consumers keep what they have, and nothing of it is left in the end.
    #[test]
    fn refusals_pass(
        refuse in 0u64..200, jumps in prop::collection::vec((0i64..120, -3000i64..3000), 0..4), delay in 0u8..3,
    ) {
        let mut now = DAY * 1000;
        let mut world = World::default();
        for _ in 0..4 {
            world.look(usual(), second(now), delay, 0, false);
        }
        now += 83 * DAY;
        world.refuse = refuse;
        for minute in 0..120 {
            for (_, jump) in jumps.iter().filter(|(at, _)| *at == minute) {
                now += jump;
            }
            world.look(usual(), second(now), delay, 0, false);
            prop_assert!(world.serves(second(now)), "{world:?}");
            prop_assert!(world.credentials.len() <= 4, "{world:?}");
            now += 60;
        }
        // Six tries in the first hour, then one each hour; a jump may end a pause.
        prop_assert!(world.last <= 1 + 8 + 2 * jumps.len() as u64, "{world:?}");
        world.refuse = 0;
        for _ in 0..70 {
            world.look(usual(), second(now), delay, 0, false);
            now += 120;
        }
        prop_assert!(world.serves(second(now)) && world.stable.is_some_and(|current| current.number > 1));
        prop_assert!(world.credentials.iter().all(|(c, _)| !c.stopped), "{world:?}");
    }

    /// However the clock jumped and whatever was lost: a few looks later all is healthy again.
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
                world.look(terms, second(now), delay, 0, false);
                now += 60;
            }
            prop_assert!(world.serves(second(now)), "{world:?}");
            let made = world.last;
            for _ in 0..3 {
                world.look(terms, second(now), delay, 0, false);
            }
            prop_assert_eq!(made, world.last, "nothing is made again");
        }
    }
}
