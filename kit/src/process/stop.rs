//! Graceful stop: one signal that every task can wait for.

use tokio::sync::watch;

/// Clones see the same signal.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Triggers the stop. Dropping it does so as well.
pub struct Stopper(watch::Sender<bool>);

impl Stop {
    pub fn channel() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    /// Stops on SIGTERM and on SIGINT (Ctrl-C).
    pub fn on_signal() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (stopper, stop) = Stop::channel();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("stopping");
            stopper.stop();
        });
        Ok(stop)
    }

    pub async fn requested(&self) {
        // An error means that the stopper is gone, which is a stop as well.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

impl Stopper {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_stops() {
        let (stopper, stop) = Stop::channel();
        let other = stop.clone();
        assert!(!stop.is_requested());
        stopper.stop();
        stop.requested().await;
        other.requested().await;
        assert!(other.is_requested());
    }

    #[tokio::test]
    async fn a_dropped_stopper_stops() {
        let (stopper, stop) = Stop::channel();
        drop(stopper);
        stop.requested().await;
        assert!(stop.is_requested());
    }
}
