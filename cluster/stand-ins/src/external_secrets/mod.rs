//! `external-secrets.io`: stores, what is read from them, and what is written to them.
//!
//! Every store keeps its secrets in Secrets of one namespace: the `kubernetes` provider in the
//! namespace that it names, the `vault` provider in `openbao-system`, one Secret for each path.
//! So objects that were made for OpenBao work unchanged, without an OpenBao.

mod conditions;
mod pull;
mod push;
mod store;
#[cfg(test)]
mod tests;
mod values;

use c5c3_kit::{Access, ClusterError};

pub use pull::ExternalSecrets;
pub use push::PushSecrets;
pub use store::{BANK, Stores};

use crate::group::Group;

/// What the controllers of this group may do.
pub fn access(access: Access) -> Access {
    access
        .with::<Stores>()
        .with::<ExternalSecrets>()
        .with::<PushSecrets>()
}

/// Runs the controllers of this group until the stop.
pub(crate) async fn run(group: &Group) -> Result<(), ClusterError> {
    let clusters = &group.clusters;
    let bank = clusters.get(BANK).unwrap_or_else(|_| clusters.home());
    tokio::try_join!(
        group.run(Stores),
        group.run(ExternalSecrets),
        group.run(PushSecrets::new(clusters.home().clone(), bank.clone())),
    )?;
    Ok(())
}
