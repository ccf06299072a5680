//! One file per command.

use crate::failure::Failure;

pub mod agent;
pub mod cloud;
pub mod cluster;
pub mod completions;
pub mod cortex;
pub mod crds;
pub mod doctor;
pub mod hypervisor;
pub mod image;
pub mod labels_injector;
mod leader;
pub mod operator;
pub mod prysm;
pub mod rbac;
pub mod version;

/// Runs a future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}
