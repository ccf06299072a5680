//! Counts passes in flight: a stop waits until there are none.

use std::sync::Arc;

use tokio::sync::watch;

/// Clones count together.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<watch::Sender<usize>>);

impl InFlight {
    pub(crate) fn begin(&self) -> PassInFlight {
        self.0.send_modify(|count| *count += 1);
        PassInFlight(self.clone())
    }

    pub(crate) async fn drained(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Counts as one pass until it is dropped.
pub(crate) struct PassInFlight(InFlight);

impl Drop for PassInFlight {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
