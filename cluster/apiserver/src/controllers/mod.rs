//! The controllers that belong to the API itself: what Kubernetes' controller manager does for every
//! object, whatever runs on the cluster. Each waits for changes in the store and is silent without.

mod accounts;
mod aggregation;
mod events;
mod follow;
mod gc;
mod namespaces;
mod requests;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::task::JoinHandle;

use crate::{cluster::Cluster, crds, serve::ApiService};

pub(crate) use requests::Requests;

const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Starts all controllers of one cluster. Once this returns, the namespaces that are there have their
/// ServiceAccount and the certificate of the authority.
pub(crate) async fn start(
    service: &ApiService,
    cluster: &Arc<Cluster>,
    authority: &str,
) -> Vec<JoinHandle<()>> {
    let requests = |name: &'static str| {
        let (service, cluster) = (service.clone(), cluster.clone());
        move || Requests::new(service.clone(), cluster.clone(), name)
    };
    let accounts = {
        let (requests, authority) = (requests("service-account-controller"), authority.to_owned());
        move || accounts::Accounts::new(requests(), &authority).first_pass()
    };
    let mut first = Some(accounts().await);
    let garbage = requests("generic-garbage-collector");
    let namespaces = requests("namespace-controller");
    let aggregation = requests("clusterrole-aggregation-controller");
    let events = requests("event-controller");
    let definitions = requests("custom-resource-cleaner");
    vec![
        keep("service accounts", move || {
            let (first, again) = (first.take(), accounts());
            async move {
                match first {
                    Some(ready) => ready.run().await,
                    None => again.await.run().await,
                }
            }
        }),
        keep("garbage collector", move || gc::run(garbage())),
        keep("namespaces", move || namespaces::run(namespaces())),
        keep("role aggregation", move || aggregation::run(aggregation())),
        keep("events", move || events::run(events())),
        keep("custom resource definitions", move || crds::run(definitions())),
    ]
}

/// Runs a controller. All it knows is in the store, so after a fault it starts over.
pub(crate) fn keep<F>(name: &'static str, mut begin: impl FnMut() -> F + Send + 'static) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send,
{
    tokio::spawn(async move {
        while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
            tracing::error!(controller = name, "a controller panicked and restarts");
            tokio::time::sleep(AFTER_PANIC).await;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_controller_that_panics_starts_anew() {
        let mut tries = 0;
        let done = keep("test", move || {
            tries += 1;
            async move { assert!(tries >= 2, "a fault of the test") }
        });
        done.await.expect("it ends well in the end");
    }
}
