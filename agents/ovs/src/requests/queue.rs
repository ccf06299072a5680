//! Pure: the requests of one node and the clock → what to do next. One is worked on at a time.

use std::time::Duration;

use c5c3_api::ovs::Phase;
use jiff::Timestamp;

/// When nothing is said.
const TTL: i32 = 3600;

/// What has to be known of a request.
#[derive(Clone, Debug)]
pub(crate) struct Slip {
    pub name: String,
    pub created: Option<Timestamp>,
    pub phase: Option<Phase>,
    pub ended: Option<Timestamp>,
    pub ttl: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its turn has come.
    Begin(String),
    /// Somebody began it and is gone.
    Abandon(String),
    /// Its time is over.
    Delete(String),
    /// Nothing, until something happens or this much time has passed.
    Wait(Option<Duration>),
}

/// `at_work` is the one that is worked on.
pub(crate) fn next(slips: &[Slip], at_work: Option<&str>, now: Timestamp) -> Step {
    let others = || slips.iter().filter(|slip| at_work != Some(slip.name.as_str()));
    let of_phase = |phase: Option<Phase>| others().filter(move |slip| slip.phase == phase);
    if let Some(left) = of_phase(Some(Phase::Running)).next() {
        return Step::Abandon(left.name.clone());
    }
    let waiting = of_phase(None).min_by_key(|slip| (slip.created, slip.name.as_str()));
    if let (None, Some(first)) = (at_work, waiting) {
        return Step::Begin(first.name.clone());
    }
    let over = others().filter(|slip| slip.phase.is_some());
    let due = over.map(|slip| (left(slip, now), slip));
    match due.min_by_key(|(left, slip)| (*left, slip.name.as_str())) {
        Some((left, slip)) if left.is_zero() => Step::Delete(slip.name.clone()),
        Some((left, _)) => Step::Wait(Some(left)),
        None => Step::Wait(None),
    }
}

/// Time until it is deleted.
fn left(slip: &Slip, now: Timestamp) -> Duration {
    let ttl = Duration::from_secs(u64::try_from(slip.ttl.unwrap_or(TTL)).unwrap_or(0));
    let since = slip.ended.or(slip.created).unwrap_or(now);
    // A clock that was set back makes no one wait for longer than the whole time.
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    ttl.saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn slip(name: &str, created: i64, phase: Option<Phase>, ended: Option<i64>) -> Slip {
        Slip {
            name: name.to_owned(),
            created: Some(at(created)),
            phase,
            ended: ended.map(at),
            ttl: Some(60),
        }
    }

    #[test]
    fn one_after_the_other_and_none_for_ever() {
        use Phase::{Failed, Running, Succeeded};
        let begin = |name: &str| Step::Begin(name.to_owned());
        let wait = |seconds: u64| Step::Wait(Some(Duration::from_secs(seconds)));
        let now = 100;
        for (what, slips, at_work, expected) in [
            ("nothing there", vec![], None, Step::Wait(None)),
            (
                "the oldest first",
                vec![slip("b", 2, None, None), slip("a", 3, None, None)],
                None,
                begin("b"),
            ),
            (
                "of two that came together, by name",
                vec![slip("b", 2, None, None), slip("a", 2, None, None)],
                None,
                begin("a"),
            ),
            (
                "one at a time",
                vec![slip("a", 1, Some(Running), None), slip("b", 2, None, None)],
                Some("a"),
                Step::Wait(None),
            ),
            (
                "the start is not seen yet",
                vec![slip("a", 1, None, None)],
                Some("a"),
                Step::Wait(None),
            ),
            (
                "the agent before this one began it",
                vec![slip("a", 1, Some(Running), None), slip("b", 2, None, None)],
                None,
                Step::Abandon("a".to_owned()),
            ),
            (
                "it stays for its time",
                vec![
                    slip("a", 1, Some(Succeeded), Some(70)),
                    slip("b", 1, Some(Failed), Some(60)),
                ],
                None,
                wait(20),
            ),
            (
                "and goes after it",
                vec![slip("a", 1, Some(Succeeded), Some(40))],
                Some("b"),
                Step::Delete("a".to_owned()),
            ),
            (
                "who waits goes before what is over",
                vec![slip("a", 1, Some(Failed), Some(1)), slip("b", 2, None, None)],
                None,
                begin("b"),
            ),
            (
                "a clock that was set back",
                vec![slip("a", 1, Some(Failed), Some(100_000))],
                None,
                wait(60),
            ),
        ] {
            assert_eq!(next(&slips, at_work, at(now)), expected, "{what}");
        }
    }

    #[test]
    fn an_end_that_nobody_wrote_down_is_no_panic() {
        let odd = Slip {
            created: None,
            ttl: Some(-5),
            ..slip("a", 0, Some(Phase::Failed), None)
        };
        assert_eq!(next(&[odd], None, at(0)), Step::Delete("a".to_owned()));
    }
}
