//! `disk-health-metrics`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Subject;
use c5c3_kit::Stop;
use clap::Args;

use super::{Identity, Shared, seconds, serve};
use crate::disks::{Asked, Event, Thresholds, Tools, event, render};
use crate::error::Error;
use crate::nats::{NatsArguments, subject};
use crate::outlet::{Outlet, with_figures};

/// Health of the node's disks, from smartctl and nvme: metrics, and events when a disk gets worse.
#[derive(Debug, Args)]
#[command(
    after_help = "Reading disks needs root. An event is published when a disk's health differs from the
previous check.

Examples:
  c5c3 prysm disk-health-metrics
  c5c3 prysm disk-health-metrics --disks /dev/sda,/dev/nvme0 --nats nats://nats:4222 --print"
)]
pub(super) struct DiskHealthMetrics {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    tools: Tools,
    #[command(flatten)]
    thresholds: Thresholds,
    #[command(flatten)]
    nats: NatsArguments,
    /// Subject of the events
    #[arg(long, default_value = "osd.disk.health", env = "NATS_SUBJECT", value_parser = subject)]
    subject: Subject,
    /// Seconds between the end of one check and the start of the next
    #[arg(long, default_value = "60", env = "INTERVAL", value_parser = seconds)]
    interval: Duration,
    /// Print every event
    #[arg(long)]
    print: bool,
}

impl DiskHealthMetrics {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let (node, instance) = self.identity.names();
        let outlet = Outlet::open(&self.nats, self.print, "prysm disk-health-metrics").await?;
        // Without smartctl there is nothing to begin with.
        let first = self.tools.look().await?;
        let asked = Arc::new(Mutex::new(Asked::default()));
        let (page, figures) = (asked.clone(), outlet.figures());
        let names = (node.clone(), instance.clone());
        let show = move || {
            let asked = page.lock().unwrap_or_else(PoisonError::into_inner);
            let text = render(&asked.disks, asked.failed.len(), &names.0, &names.1);
            with_figures(text, figures.as_deref())
        };
        let work = async {
            let mut last: HashMap<String, Event> = HashMap::new();
            let mut unreadable: Vec<String> = Vec::new();
            let mut look = Ok(first);
            loop {
                match look {
                    Ok(found) => {
                        if found.failed != unreadable {
                            for why in &found.failed {
                                tracing::warn!("{why}");
                            }
                            unreadable.clone_from(&found.failed);
                        }
                        for disk in &found.disks {
                            let event = event(disk, &self.thresholds, &node, &instance);
                            let before = last.get(&disk.device).map(Event::verdict);
                            if before != Some(event.verdict()) {
                                // Texts always become JSON.
                                outlet.say(&self.subject, serde_json::to_vec(&event).unwrap_or_default())?;
                                last.insert(disk.device.clone(), event);
                            }
                        }
                        *asked.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    }
                    Err(error) => tracing::warn!("{error}"),
                }
                tokio::time::sleep(self.interval).await;
                look = self.tools.look().await;
            }
        };
        let ended = tokio::select! {
            served = serve(&self.shared, stop, show) => served,
            worked = work => worked,
        };
        outlet.close().await;
        ended
    }
}
