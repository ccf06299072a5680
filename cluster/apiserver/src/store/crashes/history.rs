//! Is a history of one key linearizable? Writes are compare-and-swap; one without an answer may have
//! happened, then or at any time until the next start, or never.

use std::collections::BTreeSet;

/// What a key holds: a value that was written once only.
pub(crate) type Value = Option<u64>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Swap {
    pub expected: Value,
    pub new: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Done,
    Exists,
    NotFound,
    Conflict,
    Unknown,
}

impl Outcome {
    /// The state after the swap if this outcome is right for it.
    fn follows(self, swap: Swap, state: Value) -> Option<Value> {
        let (right, after) = match self {
            Outcome::Done => (state == swap.expected, swap.new),
            Outcome::Exists => (swap.expected.is_none() && state.is_some(), state),
            Outcome::NotFound => (swap.expected.is_some() && state.is_none(), state),
            Outcome::Conflict => {
                let other = swap.expected.is_some() && state.is_some() && state != swap.expected;
                (other, state)
            }
            Outcome::Unknown => (true, state),
        };
        right.then_some(after)
    }
}

/// Everything that may be true of a key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// States, each with the open swaps that led to it.
    possible: BTreeSet<(Value, u64)>,
    open: Vec<Swap>,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            possible: BTreeSet::from([(None, 0)]),
            open: Vec::new(),
        }
    }
}

impl Key {
    /// Swaps that ran side by side, with what each was told.
    pub(crate) fn swaps(&mut self, batch: &[(Swap, Outcome)]) -> Result<(), String> {
        let unknown = batch.iter().filter(|(_, outcome)| *outcome == Outcome::Unknown);
        self.open.extend(unknown.map(|(swap, _)| *swap));
        let told: Vec<_> = batch
            .iter()
            .filter(|(_, outcome)| *outcome != Outcome::Unknown)
            .copied()
            .collect();
        let before = self.possible.clone();
        let mut after = BTreeSet::new();
        self.order(self.with_open(before.clone()), &told, &mut after);
        if after.is_empty() {
            return Err(format!("{batch:?} has no order from any of {before:?}"));
        }
        self.possible = after;
        Ok(())
    }

    /// Tries every order of what is left.
    fn order(
        &self,
        from: BTreeSet<(Value, u64)>,
        left: &[(Swap, Outcome)],
        ends: &mut BTreeSet<(Value, u64)>,
    ) {
        if left.is_empty() {
            ends.extend(from);
            return;
        }
        for i in 0..left.len() {
            let (swap, outcome) = left[i];
            let next: BTreeSet<_> = from
                .iter()
                .filter_map(|&(state, used)| Some((outcome.follows(swap, state)?, used)))
                .collect();
            if !next.is_empty() {
                let mut rest = left.to_vec();
                rest.remove(i);
                self.order(self.with_open(next), &rest, ends);
            }
        }
    }

    /// Adds the states in which some of the open swaps have happened.
    fn with_open(&self, mut states: BTreeSet<(Value, u64)>) -> BTreeSet<(Value, u64)> {
        let mut fresh: Vec<_> = states.iter().copied().collect();
        while let Some((state, used)) = fresh.pop() {
            for (i, swap) in self.open.iter().enumerate() {
                let reached = (swap.new, used | 1 << i);
                if used & (1 << i) == 0 && state == swap.expected && states.insert(reached) {
                    fresh.push(reached);
                }
            }
        }
        states
    }

    pub(crate) fn read(&mut self, seen: Value) -> Result<(), String> {
        let states = self.with_open(self.possible.clone());
        let before = self.possible.clone();
        self.possible = states.into_iter().filter(|(state, _)| *state == seen).collect();
        if self.possible.is_empty() {
            return Err(format!(
                "{seen:?} is read where only {before:?} with {:?} may be",
                self.open
            ));
        }
        Ok(())
    }

    /// After a start nothing is under way: what it read is what is.
    pub(crate) fn restarted(&mut self, seen: Value) -> Result<(), String> {
        self.read(seen)?;
        *self = Self {
            possible: BTreeSet::from([(seen, 0)]),
            open: Vec::new(),
        };
        Ok(())
    }
}

#[test]
fn histories_that_cannot_be_are_refused() {
    let make = |new| Swap {
        expected: None,
        new: Some(new),
    };
    let remove = |old| Swap {
        expected: Some(old),
        new: None,
    };
    let run = |steps: &[&[(Swap, Outcome)]], end: Value| {
        let mut key = Key::default();
        steps.iter().try_for_each(|batch| key.swaps(batch))?;
        key.restarted(end)
    };
    use Outcome::*;
    type Case<'a> = (&'a str, &'a [&'a [(Swap, Outcome)]], Value, bool);
    let cases: &[Case<'_>] = &[
        ("kept", &[&[(make(1), Done)]], Some(1), true),
        ("lost", &[&[(make(1), Done)]], None, false),
        ("unanswered, landed", &[&[(make(1), Unknown)]], Some(1), true),
        ("unanswered, not landed", &[&[(make(1), Unknown)]], None, true),
        ("deleted", &[&[(make(1), Done)], &[(remove(1), Done)]], None, true),
        (
            "deleted and back",
            &[&[(make(1), Done)], &[(remove(1), Done)]],
            Some(1),
            false,
        ),
        (
            "two made it",
            &[&[(make(1), Done), (make(2), Done)]],
            Some(2),
            false,
        ),
        (
            "one made it",
            &[&[(make(1), Exists), (make(2), Done)]],
            Some(2),
            true,
        ),
        ("refused for nothing", &[&[(make(1), Exists)]], None, false),
        (
            "aborted read",
            &[&[(make(1), Unknown), (make(2), Exists)]],
            None,
            false,
        ),
        (
            "swap of what is gone",
            &[&[(make(1), Done)], &[(remove(7), Conflict)]],
            Some(1),
            true,
        ),
        (
            "late landing",
            &[&[(make(1), Unknown)], &[(make(2), Done)], &[(remove(2), Done)]],
            Some(1),
            true,
        ),
    ];
    for (name, steps, end, right) in cases {
        let outcome = run(steps, *end);
        assert_eq!(outcome.is_ok(), *right, "{name}: {outcome:?}");
    }
}
