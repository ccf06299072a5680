//! The operator on an API server: the embedded one, or the one that C5C3_TEST_KUBECONFIG names.

mod aggregates;
mod clouds;
mod rotations;

use c5c3_control_plane::{Settings, run};
use c5c3_kit::stop::Stopper;
use c5c3_kit::{Clusters, Metrics, Stop};
use test_harness::TestCluster;

/// Runs the operator for one namespace until the stopper is dropped.
fn operate(cluster: &TestCluster, namespace: &str, settings: Settings) -> (Metrics, Stopper) {
    let (stopper, stop) = Stop::channel();
    let metrics = Metrics::default();
    let settings = Settings {
        namespace: Some(namespace.to_owned()),
        ..settings
    };
    let clusters = Clusters::of(cluster.client());
    tokio::spawn(run(clusters, metrics.clone(), settings, stop));
    (metrics, stopper)
}
