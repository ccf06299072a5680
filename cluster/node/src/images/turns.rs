//! One at a time for each name, and names beside each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, Weak<Turn<()>>>>);

impl Turns {
    /// Waits until no other task works on `name`.
    pub(super) async fn of(&self, name: &str) -> OwnedMutexGuard<()> {
        self.turn(name).lock_owned().await
    }

    fn turn(&self, name: &str) -> Arc<Turn<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, turn| turn.strong_count() > 0);
        let held = all.get(name).and_then(Weak::upgrade);
        held.unwrap_or_else(|| {
            let turn = Arc::default();
            all.insert(name.into(), Arc::downgrade(&turn));
            turn
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_do_not_wait_for_each_other() {
        let turns = Turns::default();
        let first = turns.of("a").await;
        let _other = turns.of("b").await;
        assert!(turns.turn("a").try_lock().is_err());
        drop(first);
        drop(turns.of("a").await);
        drop(turns.of("c").await);
        assert_eq!(turns.0.lock().unwrap().len(), 2, "who is done is forgotten");
    }
}
