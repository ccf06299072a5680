//! How many passes are under way: a stop waits for them.

use std::sync::Arc;

use tokio::sync::watch;

/// Clones count together.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Arc<watch::Sender<usize>>);

impl UnderWay {
    pub fn one(&self) -> One {
        self.0.send_modify(|count| *count += 1);
        One(self.clone())
    }

    pub async fn none(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// A pass under way, until dropped.
pub(crate) struct One(UnderWay);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
