//! Which piece of work comes next. A layer has two: its tree, which the layers above wait for, and
//! its blob, which only the images wait for.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    Tree(usize),
    Blob(usize),
}

/// The state of all work. Pure.
#[derive(Debug)]
pub(crate) struct Board {
    /// For each layer those directly below that still have to be made.
    waiting: Vec<Vec<usize>>,
    /// How many layers wait for it, directly or not.
    weight: Vec<usize>,
    ready: Vec<Task>,
    running: usize,
    stopped: bool,
}

impl Board {
    /// `below[i]` are the layers below layer `i`; `pending[i]` tells that it has to be made.
    pub(crate) fn new(below: &[Vec<usize>], pending: &[bool]) -> Self {
        let needed = |index: &usize| pending.get(*index).copied().unwrap_or(false);
        let waiting: Vec<Vec<usize>> = below
            .iter()
            .map(|lower| lower.iter().copied().filter(|i| needed(i)).collect())
            .collect();
        let weight = (0..below.len())
            .map(|i| below.iter().filter(|lower| lower.contains(&i)).count())
            .collect();
        let ready = (0..below.len())
            .filter(|i| needed(i) && waiting[*i].is_empty())
            .map(Task::Tree)
            .collect();
        Self {
            waiting,
            weight,
            ready,
            running: 0,
            stopped: false,
        }
    }

    /// Trees that others wait for, then blobs, so that little is lost when the build is stopped,
    /// then trees that nothing waits for.
    pub(crate) fn take(&mut self) -> Option<Task> {
        let allowed = (0..self.ready.len())
            .filter(|index| !self.stopped || matches!(self.ready[*index], Task::Blob(_)));
        let best = allowed.max_by_key(|index| match self.ready[*index] {
            Task::Tree(layer) if self.weight[layer] > 0 => (2, self.weight[layer], usize::MAX - layer),
            Task::Blob(layer) => (1, self.weight[layer], usize::MAX - layer),
            Task::Tree(layer) => (0, 0, usize::MAX - layer),
        })?;
        self.running += 1;
        Some(self.ready.swap_remove(best))
    }

    pub(crate) fn done(&mut self, task: Task) {
        self.running -= 1;
        if let Task::Tree(layer) = task {
            self.ready.push(Task::Blob(layer));
            for (index, lower) in self.waiting.iter_mut().enumerate() {
                if lower.contains(&layer) {
                    lower.retain(|other| *other != layer);
                    if lower.is_empty() {
                        self.ready.push(Task::Tree(index));
                    }
                }
            }
        }
    }

    /// No layer is begun after a failure; those that are made are still stored.
    pub(crate) fn fail(&mut self) {
        self.running -= 1;
        self.stopped = true;
    }

    /// Asked when there is nothing to take: whether there never will be.
    pub(crate) fn finished(&self) -> bool {
        self.running == 0
    }
}

/// Does all work in `schedule` threads; the first error wins.
pub(crate) fn run<E: Send>(
    board: Board,
    schedule: usize,
    work: impl Fn(Task) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let board = Mutex::new(board);
    let changed = Condvar::new();
    let first_error = Mutex::new(None);
    // A lane that panicked has not left the board half-written.
    let lane = || {
        let mut state = board.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(task) = state.take() {
                drop(state);
                let result = work(task);
                state = board.lock().unwrap_or_else(PoisonError::into_inner);
                match result {
                    Ok(()) => state.done(task),
                    Err(error) => {
                        state.fail();
                        first_error
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .get_or_insert(error);
                    }
                }
                changed.notify_all();
            } else if state.finished() {
                return;
            } else {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..schedule.max(1) {
            scope.spawn(lane);
        }
    });
    first_error
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// base(0) ← python(1) ← common(2) ← keystone(3); base ← mariadb(4)
    fn below() -> Vec<Vec<usize>> {
        vec![vec![], vec![0], vec![0, 1], vec![0, 1, 2], vec![0]]
    }

    #[test]
    fn a_layer_waits_for_those_below_and_the_long_way_goes_first() {
        let mut board = Board::new(&below(), &[true; 5]);
        assert_eq!(board.take(), Some(Task::Tree(0)));
        assert_eq!(board.take(), None);
        board.done(Task::Tree(0));
        assert_eq!(board.take(), Some(Task::Tree(1)));
        assert_eq!(board.take(), Some(Task::Blob(0)));
        assert_eq!(board.take(), Some(Task::Tree(4)));
        assert!(!board.finished());
    }

    #[test]
    fn every_task_is_done_once_and_in_order() {
        for schedule in [1, 2, 8] {
            let order = Mutex::new(Vec::new());
            run::<()>(
                Board::new(&below(), &[false, true, true, true, true]),
                schedule,
                |task| {
                    order.lock().unwrap().push(task);
                    Ok(())
                },
            )
            .unwrap();
            let mut order = order.into_inner().unwrap();
            let at = |task| order.iter().position(|done| *done == task).unwrap();
            assert!(at(Task::Tree(1)) < at(Task::Tree(2)) && at(Task::Tree(2)) < at(Task::Tree(3)));
            assert!(at(Task::Tree(4)) < at(Task::Blob(4)));
            order.sort();
            order.dedup();
            assert_eq!(order.len(), 8);
        }
    }

    #[test]
    fn after_a_failure_no_layer_is_begun_and_what_is_made_is_stored() {
        let stored = Mutex::new(Vec::new());
        let result = run(Board::new(&below(), &[true; 5]), 1, |task| match task {
            Task::Tree(1) => Err("broken"),
            Task::Tree(0) => Ok(()),
            Task::Tree(_) => panic!("began after a failure"),
            Task::Blob(layer) => {
                stored.lock().unwrap().push(layer);
                Ok(())
            }
        });
        assert_eq!((result, stored.into_inner().unwrap()), (Err("broken"), vec![0]));
    }
}
