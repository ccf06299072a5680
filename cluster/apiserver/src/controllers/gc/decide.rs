//! What becomes of one object, given its owners and dependents.

/// Whether an owner is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It is there, or cannot be judged.
    Solid,
    Absent,
    /// It is there until its dependents are gone.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// One that is owned by the object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dependent {
    /// The owner may not go before it.
    pub blocks: bool,
    /// It waits for its own dependents.
    pub waits: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub owners: &'a [OwnerState],
    pub deleting: bool,
    pub foreground: bool,
    pub orphan: bool,
    pub dependents: &'a [Dependent],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Nothing,
    Delete {
        propagation: Propagation,
        /// First say that it blocks no owner any more: owners in a circle would wait for each other.
        unblock: bool,
    },
    /// Some owners are there, others are not: forget the others.
    DropOwners,
    /// Cut the dependents loose, then let the object go.
    Orphan,
    /// No dependent holds it any more: let it go.
    Release,
}

pub(super) fn decide(item: &Item<'_>) -> Decision {
    if item.deleting && item.orphan {
        return Decision::Orphan;
    }
    if item.deleting && item.foreground {
        return if item.dependents.iter().any(|dependent| dependent.blocks) {
            Decision::Nothing
        } else {
            Decision::Release
        };
    }
    if item.deleting || item.owners.is_empty() {
        return Decision::Nothing;
    }
    let solid = item.owners.contains(&OwnerState::Solid);
    if solid {
        return if item.owners.iter().all(|owner| *owner == OwnerState::Solid) {
            Decision::Nothing
        } else {
            Decision::DropOwners
        };
    }
    if item.owners.contains(&OwnerState::Waiting) && !item.dependents.is_empty() {
        return Decision::Delete {
            propagation: Propagation::Foreground,
            unblock: item.dependents.iter().any(|dependent| dependent.waits),
        };
    }
    let propagation = match (item.orphan, item.foreground) {
        (true, _) => Propagation::Orphan,
        (_, true) => Propagation::Foreground,
        _ => Propagation::Background,
    };
    Decision::Delete {
        propagation,
        unblock: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A cluster in small: deletes and finalizers as the API has them.
    #[derive(Clone, Debug, Default)]
    struct Thing {
        owners: BTreeMap<usize, bool>,
        deleting: bool,
        foreground: bool,
        orphan: bool,
    }

    #[derive(Clone, Debug, Default)]
    struct World(BTreeMap<usize, Thing>);

    impl World {
        fn delete(&mut self, id: usize, propagation: Propagation) {
            if let Some(thing) = self.0.get_mut(&id) {
                thing.deleting = true;
                thing.foreground = propagation == Propagation::Foreground;
                thing.orphan = propagation == Propagation::Orphan;
            }
            self.settle(id);
        }

        fn settle(&mut self, id: usize) {
            let finished = |thing: &Thing| thing.deleting && !thing.foreground && !thing.orphan;
            if self.0.get(&id).is_some_and(finished) {
                self.0.remove(&id);
            }
        }

        fn decision(&self, id: usize) -> Decision {
            let thing = &self.0[&id];
            let owners: Vec<OwnerState> = thing
                .owners
                .keys()
                .map(|owner| match self.0.get(owner) {
                    None => OwnerState::Absent,
                    Some(owner) if owner.deleting && owner.foreground => OwnerState::Waiting,
                    Some(_) => OwnerState::Solid,
                })
                .collect();
            let dependents: Vec<Dependent> = self
                .0
                .values()
                .filter_map(|other| {
                    Some(Dependent {
                        blocks: *other.owners.get(&id)?,
                        waits: other.deleting && other.foreground,
                    })
                })
                .collect();
            decide(&Item {
                owners: &owners,
                deleting: thing.deleting,
                foreground: thing.foreground,
                orphan: thing.orphan,
                dependents: &dependents,
            })
        }

        fn carry_out(&mut self, id: usize, decision: Decision) {
            let present: Vec<usize> = self.0.keys().copied().collect();
            let waiting = |world: &Self, id: usize| world.0[&id].deleting && world.0[&id].foreground;
            match decision {
                Decision::Nothing => {}
                Decision::Delete { propagation, unblock } => {
                    if unblock {
                        let thing = self.0.get_mut(&id).expect("is there");
                        thing.owners.values_mut().for_each(|blocks| *blocks = false);
                    }
                    self.delete(id, propagation);
                }
                Decision::DropOwners => {
                    let keep: Vec<usize> = self.0[&id]
                        .owners
                        .keys()
                        .copied()
                        .filter(|owner| present.contains(owner) && !waiting(self, *owner))
                        .collect();
                    let thing = self.0.get_mut(&id).expect("is there");
                    thing.owners.retain(|owner, _| keep.contains(owner));
                }
                Decision::Orphan => {
                    self.0.values_mut().for_each(|other| {
                        other.owners.remove(&id);
                    });
                    self.0.get_mut(&id).expect("is there").orphan = false;
                    self.settle(id);
                }
                Decision::Release => {
                    self.0.get_mut(&id).expect("is there").foreground = false;
                    self.settle(id);
                }
            }
        }

        /// Works until nothing is left to do. Returns what was removed, in order.
        fn collect(&mut self) -> Vec<usize> {
            let mut removed = Vec::new();
            for _ in 0..10_000 {
                let next = self
                    .0
                    .keys()
                    .find(|id| self.decision(**id) != Decision::Nothing)
                    .copied();
                let Some(id) = next else {
                    return removed;
                };
                let decision = self.decision(id);
                let before: Vec<usize> = self.0.keys().copied().collect();
                self.carry_out(id, decision);
                removed.extend(before.into_iter().filter(|id| !self.0.contains_key(id)));
            }
            panic!("never comes to rest: {self:?}");
        }
    }

    fn propagation() -> impl Strategy<Value = Propagation> {
        prop_oneof![
            Just(Propagation::Background),
            Just(Propagation::Foreground),
            Just(Propagation::Orphan),
        ]
    }

    /// Objects that own each other without circles, and what is deleted how.
    fn worlds() -> impl Strategy<Value = (World, Vec<(usize, Propagation)>)> {
        let owners = proptest::collection::vec(
            proptest::collection::btree_map(0..12_usize, any::<bool>(), 0..3),
            12,
        );
        let deletes = proptest::collection::vec((0..12_usize, propagation()), 1..5);
        (owners, deletes).prop_map(|(owners, deletes)| {
            let things = owners.into_iter().enumerate().map(|(id, owners)| {
                let owners = owners.into_iter().filter(|(owner, _)| *owner < id).collect();
                (
                    id,
                    Thing {
                        owners,
                        ..Thing::default()
                    },
                )
            });
            (World(things.collect()), deletes)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn at_rest_no_garbage_is_left_and_nothing_else_is_gone((start, deletes) in worlds()) {
            let mut world = start.clone();
            let mut deleted = Vec::new();
            for (id, propagation) in deletes {
                if !world.0.contains_key(&id) {
                    continue;
                }
                deleted.push(id);
                world.delete(id, propagation);
                world.collect();
            }
            // All owners gone and yet there.
            for (id, thing) in &world.0 {
                prop_assert!(!thing.deleting, "{id} hangs");
                let had = !thing.owners.is_empty();
                let alive = thing.owners.keys().any(|owner| world.0.contains_key(owner));
                prop_assert!(!had || alive, "{id} is garbage");
            }
            // Gone without cause: not deleted by anyone, and with an owner that is still there.
            for (id, thing) in &start.0 {
                if world.0.contains_key(id) || deleted.contains(id) {
                    continue;
                }
                prop_assert!(!thing.owners.is_empty(), "{id} had no owner and is gone");
                let alive = thing.owners.keys().any(|owner| world.0.contains_key(owner));
                prop_assert!(!alive, "{id} still had an owner and is gone");
            }
        }

        #[test]
        fn foreground_goes_after_what_blocks_it((mut world, _) in worlds(), root in 0..12_usize) {
            let blocking: Vec<usize> = world.0.iter()
                .filter(|(_, thing)| thing.owners.len() == 1 && thing.owners.get(&root) == Some(&true))
                .map(|(id, _)| *id)
                .collect();
            world.delete(root, Propagation::Foreground);
            let removed = world.collect();
            let position = |id: usize| removed.iter().position(|other| *other == id);
            for id in blocking {
                prop_assert!(position(id) < position(root), "{id} outlived {root}: {removed:?}");
            }
        }
    }

    #[test]
    fn owners_in_a_circle_go_together() {
        let thing = |owner: usize| Thing {
            owners: BTreeMap::from([(owner, true)]),
            ..Thing::default()
        };
        let mut world = World(BTreeMap::from([(0, thing(1)), (1, thing(0))]));
        world.delete(0, Propagation::Foreground);
        world.collect();
        assert!(world.0.is_empty(), "{world:?}");
    }
}
