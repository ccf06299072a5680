//! Tasks that a cluster cannot do without.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PAUSE: Duration = Duration::from_secs(1);

/// Runs a task until it ends by itself. One that panics is logged and restarted.
pub(crate) fn keep<F>(
    name: &'static str,
    stop: CancellationToken,
    make: impl Fn() -> F + Send + 'static,
) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            if AssertUnwindSafe(make()).catch_unwind().await.is_ok() {
                return;
            }
            tracing::error!("{name} panicked and is started again");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_panic_is_not_the_end() {
        let runs = Arc::new(AtomicU32::new(0));
        let count = runs.clone();
        let task = keep("a test", CancellationToken::new(), move || {
            let count = count.clone();
            async move {
                assert!(count.fetch_add(1, Ordering::SeqCst) == 2, "not yet");
            }
        });
        task.await.unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_stopped_one_stays_away() {
        let stop = CancellationToken::new();
        let end = stop.clone();
        let task = keep("a test", stop, move || {
            let end = end.clone();
            async move {
                end.cancel();
                panic!("once");
            }
        });
        task.await.unwrap();
    }
}
