//! `kernel-metrics` and `resource-usage`.

use std::sync::{Mutex, PoisonError};

use c5c3_kit::Stop;
use clap::Args;

use super::{Identity, Shared, serve};
use crate::error::Error;
use crate::node::Proc;
use crate::node::kernel::Kernel;
use crate::node::usage::Usage;

/// Context switches, entropy and connections of the node.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm kernel-metrics
  c5c3 prysm kernel-metrics --node storage-1 --listen 127.0.0.1:9101")]
pub(super) struct KernelMetrics {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    identity: Identity,
}

/// Processors, memory, disks and network of the node.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm resource-usage
  c5c3 prysm resource-usage --node storage-1 --listen 127.0.0.1:9102")]
pub(super) struct ResourceUsage {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    identity: Identity,
}

impl KernelMetrics {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let (node, instance) = self.identity.names();
        let proc = Proc("/proc".into());
        Kernel::read(&proc)?;
        let render = move || match Kernel::read(&proc) {
            Ok(kernel) => kernel.render(&node, &instance),
            Err(error) => unreadable(&error),
        };
        serve(&self.shared, stop, render).await
    }
}

impl ResourceUsage {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let (node, instance) = self.identity.names();
        let proc = Proc("/proc".into());
        // The share of the processors is that since the page was asked for last.
        let before = Mutex::new(Usage::read(&proc)?.ticks);
        let render = move || match Usage::read(&proc) {
            Ok(usage) => {
                let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
                let then = std::mem::replace(&mut *before, usage.ticks);
                usage.render(then, &node, &instance)
            }
            Err(error) => unreadable(&error),
        };
        serve(&self.shared, stop, render).await
    }
}

/// A page without metrics is how Prometheus learns that there are none.
fn unreadable(error: &Error) -> String {
    tracing::warn!("{error}");
    String::new()
}
