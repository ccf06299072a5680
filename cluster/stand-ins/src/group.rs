//! Controllers that run together.

use c5c3_kit::{ClusterError, Clusters, Controller, Loop, Metrics, Stop};
use kube::Client;

/// What each of them runs with.
pub(crate) struct Group {
    pub clusters: Clusters,
    metrics: Metrics,
    stop: Stop,
}

impl Group {
    pub(crate) fn new(clusters: &Clusters, metrics: &Metrics, stop: &Stop) -> Self {
        Group {
            clusters: clusters.clone(),
            metrics: metrics.clone(),
            stop: stop.clone(),
        }
    }

    /// Of the cluster where the objects are.
    pub(crate) fn client(&self) -> Client {
        self.clusters.home().clone()
    }

    /// Runs a controller until the stop.
    pub(crate) async fn run<C: Controller>(&self, controller: C) -> Result<(), ClusterError> {
        let running = Loop::new(controller, self.clusters.clone(), self.metrics.clone());
        running.run(self.stop.clone()).await
    }
}
