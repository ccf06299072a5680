//! Random crashes of the store on a disk that loses what was not synced, and a checker of what clients
//! and watchers were told. `C5C3_CRASHES=20000` runs the long form; a failure names its seed.

mod history;
mod platter;

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use serde_json::json;
use tokio::sync::oneshot;

use super::{
    Action, Collection, EventKind, Expect, History, ObjectKey, Redb, Write, WriteError,
    commit::{Committer, Request},
    draft,
    state::State,
};
use history::{Key, Outcome, Swap, Value};
use platter::{Dice, Platter};

const KEYS: usize = 3;

fn things() -> Collection {
    Collection::new("test", "example.com", "things")
}

fn name(key: usize) -> ObjectKey {
    ObjectKey::new("ns", &format!("o{key}"))
}

/// One client that remembers everything, over all lives of the store.
struct Witness {
    dice: Dice,
    platter: Platter,
    keys: Vec<Key>,
    /// What each key held when it was last read.
    seen: [Value; KEYS],
    /// What it held before: for swaps that come too late.
    stale: [Value; KEYS],
    revisions: HashMap<u64, u64>,
    next: u64,
    newest: u64,
}

impl Witness {
    fn new(seed: u64, platter: Platter) -> Self {
        Self {
            dice: Dice(seed),
            platter,
            keys: vec![Key::default(); KEYS],
            seen: [None; KEYS],
            stale: [None; KEYS],
            revisions: HashMap::new(),
            next: 1,
            newest: 0,
        }
    }

    /// One start, some batches, one crash.
    fn life(&mut self) -> Result<(), String> {
        // Power may go during the start; once in a while it lasts for the whole life.
        let power = [5, 20, 60, 200][self.dice.roll(4)];
        let power = self.dice.roll(power);
        self.platter.power_for(Some(power));
        let sync = self.dice.roll(12);
        self.platter
            .fail_sync_after((self.dice.roll(3) == 0).then_some(sync));
        let started = Redb::on(Box::new(self.platter.clone()))
            .and_then(|disk| Ok((State::load(&disk, History::default())?, disk)));
        let done = match started {
            Ok((state, disk)) => self.work(state, disk),
            // A start that power or a sync did not let through is no fault; damage after it is.
            Err(error) => self
                .excused()
                .map_err(|()| format!("the store does not open: {error}")),
        };
        self.platter.crash(&mut self.dice);
        done
    }

    /// Opens on a quiet disk.
    fn excused(&mut self) -> Result<(), ()> {
        self.platter.crash(&mut self.dice);
        self.platter.power_for(None);
        self.platter.fail_sync_after(None);
        Redb::on(Box::new(self.platter.clone()))
            .map(|_| ())
            .map_err(|_| ())
    }

    fn work(&mut self, state: State, disk: Redb) -> Result<(), String> {
        let state = Arc::new(RwLock::new(state));
        let mut committer = Committer::new(Box::new(disk), state.clone());
        let revision = state.read().unwrap().revision();
        if revision < self.newest {
            return Err(format!("revision {revision} after {} was seen", self.newest));
        }
        let mut watched = self.look(&state, true)?;
        let mut place = revision;
        for _ in 0..1 + self.dice.roll(6) {
            self.batch(&mut committer)?;
            let listed = self.look(&state, false)?;
            let (events, complete) = state
                .read()
                .unwrap()
                .events_after(&things(), place, usize::MAX)
                .map_err(|error| error.to_string())?;
            for event in events {
                if event.object.revision <= place {
                    return Err("a watch goes back".into());
                }
                let key = event.object.key.clone();
                match event.kind {
                    EventKind::Put => watched.insert(key, event.object.revision),
                    EventKind::Delete => watched.remove(&key),
                };
            }
            place = complete;
            if watched != listed {
                return Err(format!("watched {watched:?}, listed {listed:?}"));
            }
        }
        Ok(())
    }

    /// Reads every key; returns the revisions.
    fn look(&mut self, state: &RwLock<State>, restarted: bool) -> Result<HashMap<ObjectKey, u64>, String> {
        let state = state.read().unwrap();
        self.newest = state.revision();
        let mut listed = HashMap::new();
        for key in 0..KEYS {
            let found = state.get(&things(), &name(key));
            let value = found.as_ref().and_then(|o| o.value()["value"].as_u64());
            if let (Some(object), Some(value)) = (&found, value) {
                listed.insert(name(key), object.revision);
                self.revisions.insert(value, object.revision);
            }
            let told = if restarted {
                self.keys[key].restarted(value)
            } else {
                self.keys[key].read(value)
            };
            told.map_err(|why| format!("key {key}: {why}"))?;
            if value != self.seen[key] {
                self.stale[key] = self.seen[key];
                self.seen[key] = value;
            }
        }
        Ok(listed)
    }

    fn batch(&mut self, committer: &mut Committer) -> Result<(), String> {
        let mut requests = Vec::new();
        let mut asked = Vec::new();
        for _ in 0..1 + self.dice.roll(4) {
            let key = self.dice.roll(KEYS);
            let expected = match self.dice.roll(6) {
                0 => None,
                1 => self.stale[key],
                _ => self.seen[key],
            };
            let delete = expected.is_some() && self.dice.roll(3) == 0;
            let value = self.next;
            self.next += 1;
            let object = draft(&json!({"metadata": {"name": key.to_string()}, "value": value}));
            let (answer, answered) = oneshot::channel();
            requests.push(Request {
                write: Write {
                    collection: things(),
                    key: name(key),
                    expect: expected.map_or(Expect::Absent, |old| Expect::Revision(self.revisions[&old])),
                    action: if delete {
                        Action::Delete(object)
                    } else {
                        Action::Put(object)
                    },
                },
                answer,
            });
            let new = (!delete).then_some(value);
            asked.push((key, Swap { expected, new }, answered));
        }
        committer.serve(requests);
        let mut told = vec![Vec::new(); KEYS];
        for (key, swap, mut answered) in asked {
            let outcome = match answered.try_recv().map_err(|_| "a write has no answer")? {
                Ok(_) => Outcome::Done,
                Err(WriteError::Exists) => Outcome::Exists,
                Err(WriteError::NotFound) => Outcome::NotFound,
                Err(WriteError::Conflict) => Outcome::Conflict,
                Err(_) => Outcome::Unknown,
            };
            told[key].push((swap, outcome));
        }
        for (key, told) in told.iter().enumerate() {
            self.keys[key]
                .swaps(told)
                .map_err(|why| format!("key {key}: {why}"))?;
        }
        Ok(())
    }
}

/// Lives of one store; each begins where a crash left the one before.
fn lives(seed: u64, platter: Platter, lives: usize) -> Result<(), String> {
    let mut witness = Witness::new(seed, platter);
    (0..lives).try_for_each(|life| {
        witness
            .life()
            .map_err(|why| format!("seed {seed}, life {life}: {why}"))
    })
}

#[test]
fn what_was_told_holds_over_random_crashes() {
    let crashes = std::env::var("C5C3_CRASHES").ok().and_then(|n| n.parse().ok());
    const LIVES: usize = 20;
    for seed in 0..crashes.unwrap_or(1000) / LIVES {
        lives(seed as u64, Platter::default(), LIVES).unwrap();
    }
}

#[test]
fn a_missing_sync_is_noticed() {
    let noticed = (0..10).filter(|seed| lives(*seed, Platter::lying(), 20).is_err());
    assert!(noticed.count() >= 9);
}
