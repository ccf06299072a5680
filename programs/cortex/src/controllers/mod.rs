//! Cortex's kinds in Kubernetes: specs say what to do, statuses report the result.

mod data;
mod decisions;
mod deschedulings;
mod error;
mod follow;
mod kpis;
mod pipelines;
mod reservations;

pub use decisions::keep as keep_decisions;
pub use error::Error;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop, together};
use dial::Dial;
use futures::FutureExt;
use openstack_client::Session;

use crate::service::Scheduler;
use crate::sources::prometheus::Series;
use data::{Datasources, Knowledges};
use deschedulings::Deschedulings;
use kpis::Kpis;
use pipelines::Pipelines;
use reservations::Reservations;

/// What the controllers share.
#[derive(Clone)]
pub struct Shared {
    pub scheduler: Arc<Scheduler>,
    /// Where Secrets of Datasources are.
    pub namespace: String,
    pub dial: Arc<dyn Dial>,
    /// `false`: Deschedulings are only written down.
    pub migrate: bool,
    read: Arc<Mutex<Read>>,
}

/// What was read of outside systems, by the Datasource that says so.
#[derive(Default)]
struct Read {
    sessions: BTreeMap<String, Arc<Session>>,
    series: BTreeMap<String, Vec<Series>>,
    synced: BTreeMap<String, data::Synced>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub fn new(scheduler: Arc<Scheduler>, namespace: String, dial: Arc<dyn Dial>, migrate: bool) -> Self {
        Shared {
            scheduler,
            namespace,
            dial,
            migrate,
            read: Arc::default(),
        }
    }

    fn read(&self) -> std::sync::MutexGuard<'_, Read> {
        // Only whole values are stored.
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A way to Nova, once a Datasource has one.
    fn nova(&self) -> Option<Arc<Session>> {
        self.read().sessions.values().next().cloned()
    }
}

/// Looks after the kinds until `stop`.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    shared: Shared,
    stop: Stop,
) -> Result<(), ClusterError> {
    kpis::publish(&shared, &metrics);
    let following = tokio::spawn(follow::all(clusters.home().clone(), shared.clone(), stop.clone()));
    let client = clusters.home().clone();
    let done = together(stop, |stop| {
        let (clusters, metrics) = (|| clusters.clone(), || metrics.clone());
        let of = |shared: &Shared| shared.clone();
        vec![
            Loop::new(Pipelines(of(&shared)), clusters(), metrics())
                .run(stop.clone())
                .boxed(),
            // Two at a time could give the same room away twice.
            Loop::new(Reservations(of(&shared)), clusters(), metrics())
                .concurrency(1)
                .run(stop.clone())
                .boxed(),
            Loop::new(Datasources(of(&shared)), clusters(), metrics())
                .timeout(std::time::Duration::from_secs(300))
                .run(stop.clone())
                .boxed(),
            Loop::new(Knowledges(of(&shared)), clusters(), metrics())
                .run(stop.clone())
                .boxed(),
            Loop::new(Kpis, clusters(), metrics()).run(stop.clone()).boxed(),
            Loop::new(Deschedulings(of(&shared), client), clusters(), metrics())
                .run(stop)
                .boxed(),
        ]
    })
    .await;
    following.abort();
    done
}

/// What Cortex may do in a cluster.
pub fn access() -> Access {
    Access::default()
        .with::<Pipelines>()
        .with::<Reservations>()
        .with::<Datasources>()
        .with::<Knowledges>()
        .with::<Kpis>()
        .with::<Deschedulings>()
        .with_lease()
}

#[cfg(test)]
mod tests {
    use super::access;

    #[test]
    fn secrets_are_read_at_home_alone() {
        let text = |rules: Vec<_>| serde_json::to_string(&rules).unwrap_or_default();
        assert!(!text(access().rules()).contains("secrets"));
        let home = text(access().rules_at_home());
        assert!(
            home.contains(
                r#""resourceNames":["cortex-clouds-yaml","cortex-prometheus"],"resources":["secrets"]"#
            ),
            "{home}"
        );
    }
}
