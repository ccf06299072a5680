//! The operator of `c5c3.io`: secrets, credentials and the control plane itself.

mod clouds_yaml;
pub mod control_plane;
pub mod credential_rotation;
pub mod plan;
pub mod secret_aggregate;

use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop};

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
    macro_rules! controller {
        ($controller:expr) => {
            Loop::new($controller, clusters.clone(), metrics.clone())
                .in_namespace(settings.namespace.clone())
                .run(stop.clone())
        };
    }
    let freed = control_plane::freed(clusters.home().clone(), settings.namespace.as_deref());
    let control_planes = control_plane::ControlPlanes::new(&clusters);
    let control_planes = Loop::new(control_planes, clusters.clone(), metrics.clone())
        .in_namespace(settings.namespace.clone())
        .triggered_by(freed)
        .run(stop.clone());
    futures::try_join!(
        control_planes,
        controller!(credential_rotation::CredentialRotations),
        controller!(secret_aggregate::SecretAggregates),
    )?;
    Ok(())
}

/// What the operator may do in a cluster.
pub fn access() -> Access {
    Access::default()
        .with::<control_plane::ControlPlanes>()
        .with::<credential_rotation::CredentialRotations>()
        .with::<secret_aggregate::SecretAggregates>()
        .with_lease()
}
