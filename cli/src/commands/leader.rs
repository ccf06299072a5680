//! Leader election: one replica works, the others stand by.

use std::time::Duration;

use c5c3_kit::Stop;
use c5c3_kit::lease::{Candidate, Terms};
use kube::Client;

use crate::failure::Failure;

/// A lease in the namespace that was named, or that of the current context.
pub(crate) fn terms(client: &Client, namespace: Option<&str>, name: String) -> Terms {
    Terms::new(namespace.unwrap_or(client.default_namespace()), name)
}

/// Works while it leads. Losing the lease ends the process: whoever restarts it makes it a candidate.
pub(crate) async fn lead<F>(
    mut candidate: Candidate,
    stop: Stop,
    work: impl FnOnce(Stop) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    if !candidate.lead(&stop).await {
        return Ok(());
    }
    // The work gets a stop of its own, so that the lease is given up only after the last pass.
    let (release, released) = Stop::channel();
    let (stopper, working) = Stop::channel();
    let work = work(working);
    let hold = candidate.hold(&released);
    tokio::pin!(work, hold);
    tokio::spawn(async move {
        stop.requested().await;
        stopper.stop();
    });
    let result = tokio::select! {
        result = &mut work => result,
        held = &mut hold => return held.map_err(|lost| Failure::Failed(lost.into())),
    };
    release.stop();
    // The lease runs out by itself where it cannot be given up.
    let _ = tokio::time::timeout(Duration::from_secs(5), hold).await;
    result
}
