//! The operator of `c5c3.io`: secrets, credentials and the control plane itself.

mod clouds_yaml;
pub mod control_plane;
pub mod credential_rotation;
pub mod crossing;
pub mod forecast;
mod orphans;
pub mod plan;
pub mod secret_aggregate;
pub mod verification;

use std::sync::Arc;

use c5c3_kit::{Access, ClusterError, Clusters, Kind, Loop, Metrics, Stop, mark_unserved, together};
use futures::FutureExt;
use verification::Verify;

/// What a deployment of the operator chooses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Look after this namespace only; all when empty.
    pub namespace: Option<String>,
    /// Kinds that nobody looks after: their objects are told so.
    pub unserved: Vec<Kind>,
    /// Who asks the services after an update.
    pub verify: Arc<dyn Verify>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            namespace: None,
            unserved: Vec::new(),
            verify: Arc::new(verification::Real::default()),
        }
    }
}

/// Runs every controller of the operator until the stop.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    settings: Settings,
    stop: Stop,
) -> Result<(), ClusterError> {
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone()).in_namespace(settings.namespace.clone())
        };
    }
    let marks = mark_unserved(
        clusters.home().clone(),
        settings.unserved.clone(),
        settings.namespace.clone(),
        stop.clone(),
    );
    let marks = tokio::spawn(marks);
    let freed = control_plane::freed(clusters.home().clone(), settings.namespace.as_deref());
    let control_planes = control_plane::ControlPlanes::new(&clusters, settings.verify.clone());
    let control_planes = controller!(control_planes).triggered_by(freed);
    let crossings = controller!(crossing::Crossings);
    let rotations = controller!(credential_rotation::CredentialRotations::new(&clusters));
    let aggregates = controller!(secret_aggregate::SecretAggregates);
    let ended = together(stop, |stop| {
        vec![
            control_planes.run(stop.clone()).boxed(),
            crossings.run(stop.clone()).boxed(),
            rotations.run(stop.clone()).boxed(),
            aggregates.run(stop).boxed(),
        ]
    })
    .await;
    marks.abort();
    ended
}

/// What the operator may do in a cluster.
pub fn access() -> Access {
    Access::default()
        .with::<control_plane::ControlPlanes>()
        .with::<crossing::Crossings>()
        .with::<credential_rotation::CredentialRotations>()
        .with::<secret_aggregate::SecretAggregates>()
        .with_lease()
}
