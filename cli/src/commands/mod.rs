//! One file per command.

use crate::failure::Failure;

pub(crate) mod agent;
pub(crate) mod cloud;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod cortex;
pub(crate) mod crds;
pub(crate) mod doctor;
pub(crate) mod hypervisor;
pub(crate) mod image;
pub(crate) mod labels_injector;
mod leader;
pub(crate) mod operator;
pub(crate) mod ovs;
pub(crate) mod prysm;
pub(crate) mod rbac;
pub(crate) mod version;

/// Runs a future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}
