//! `c5c3 prysm …`: arguments and the loops around the producers.

mod disk_health;
mod node;
mod notifications;
mod ops_log;
mod quotas;
mod sidecar;
mod usage;

use std::net::SocketAddr;

use c5c3_kit::{Stop, serve::Endpoint, telemetry};
use clap::{Args, Subcommand};

use crate::error::Error;
use crate::exposition;

/// Observe storage: RadosGW operations, users and buckets, disks and nodes, as metrics and messages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm ops-log --file /var/log/ceph/ops-log.log --nats nats://nats:4222
  c5c3 prysm radosgw-usage --admin-url http://rgw:8080 --keys /etc/rgw-keys
  c5c3 prysm disk-health-metrics --nats nats://nats:4222
  c5c3 prysm kernel-metrics --listen 127.0.0.1:9101")]
pub struct PrysmCommand {
    #[command(subcommand)]
    producer: Producer,
}

#[derive(Debug, Subcommand)]
enum Producer {
    OpsLog(Box<ops_log::OpsLog>),
    RadosgwUsage(usage::RadosgwUsage),
    QuotaUsageMonitor(quotas::QuotaUsageMonitor),
    QuotaUsage(quotas::QuotaUsage),
    BucketNotify(notifications::BucketNotify),
    DiskHealthMetrics(disk_health::DiskHealthMetrics),
    KernelMetrics(node::KernelMetrics),
    ResourceUsage(node::ResourceUsage),
    SidecarWebhook(sidecar::SidecarWebhook),
}

#[derive(Debug, Args)]
struct Shared {
    /// Address that serves /metrics
    #[arg(long, default_value = "[::]:9090")]
    listen: SocketAddr,
    /// Log filter, such as info or c5c3_prysm=debug
    #[arg(long, default_value = "info", env = "C5C3_LOG")]
    log: String,
}

#[derive(Debug, Args)]
struct Identity {
    /// Value of the label `node` [default: the host's name]
    #[arg(long, env = "NODE_NAME")]
    node: Option<String>,
    /// Value of the label `instance`
    #[arg(long, env = "INSTANCE_ID", default_value = "0")]
    instance: String,
}

impl PrysmCommand {
    /// Runs until SIGTERM or Ctrl-C.
    pub async fn run(self) -> Result<(), Error> {
        let log = match &self.producer {
            Producer::OpsLog(arguments) => &arguments.shared.log,
            Producer::RadosgwUsage(arguments) => &arguments.shared.log,
            Producer::QuotaUsageMonitor(arguments) => &arguments.shared.log,
            Producer::QuotaUsage(arguments) => &arguments.shared.log,
            Producer::BucketNotify(arguments) => &arguments.shared.log,
            Producer::DiskHealthMetrics(arguments) => &arguments.shared.log,
            Producer::KernelMetrics(arguments) => &arguments.shared.log,
            Producer::ResourceUsage(arguments) => &arguments.shared.log,
            Producer::SidecarWebhook(arguments) => &arguments.shared.log,
        };
        telemetry::start(log).map_err(|why| Error::Filter(why.to_string()))?;
        let stop = Stop::on_signal().map_err(Error::Signals)?;
        match self.producer {
            Producer::OpsLog(arguments) => arguments.run(stop).await,
            Producer::RadosgwUsage(arguments) => arguments.run(stop).await,
            Producer::QuotaUsageMonitor(arguments) => arguments.run(stop).await,
            Producer::QuotaUsage(arguments) => arguments.run(stop).await,
            Producer::BucketNotify(arguments) => arguments.run(stop).await,
            Producer::DiskHealthMetrics(arguments) => arguments.run(stop).await,
            Producer::KernelMetrics(arguments) => arguments.run(stop).await,
            Producer::ResourceUsage(arguments) => arguments.run(stop).await,
            Producer::SidecarWebhook(arguments) => arguments.run(stop).await,
        }
    }
}

impl Identity {
    fn names(&self) -> (String, String) {
        let host = || {
            let name = nix::unistd::gethostname().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        (self.node.clone().unwrap_or_else(host), self.instance.clone())
    }
}

async fn serve(
    shared: &Shared,
    stop: Stop,
    render: impl Fn() -> String + Send + Sync + 'static,
) -> Result<(), Error> {
    let endpoint = Endpoint::rendering(shared.listen, exposition::CONTENT_TYPE, render)
        .await
        .map_err(|why| Error::Listen {
            address: shared.listen,
            why,
        })?;
    // Port 0 lets the system choose.
    let address = endpoint.address().unwrap_or(shared.listen);
    tracing::info!("metrics at http://{address}/metrics");
    endpoint.serve(stop).await;
    Ok(())
}

/// Whole seconds between two looks.
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(std::time::Duration::from_secs(seconds)),
        _ => Err("use 1 to 86400 seconds".to_owned()),
    }
}

/// Share of a quota.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("use 0 to 1000 percent".to_owned()),
    }
}
