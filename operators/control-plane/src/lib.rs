//! The operator of `c5c3.io`: secrets, credentials and the control plane itself.

pub mod secret_aggregate;

use c5c3_kit::{ClusterError, Clusters, Loop, Metrics, Stop};

/// What a deployment of the operator chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Look after this namespace only; all when empty.
    pub namespace: Option<String>,
}

/// Runs every controller of the operator until the stop.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    settings: Settings,
    stop: Stop,
) -> Result<(), ClusterError> {
    Loop::new(secret_aggregate::SecretAggregates, clusters, metrics)
        .in_namespace(settings.namespace)
        .run(stop)
        .await
}
