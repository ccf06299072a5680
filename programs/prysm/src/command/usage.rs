//! `radosgw-usage`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_kit::Stop;
use clap::Args;

use super::{Identity, Shared, seconds, serve};
use crate::error::Error;
use crate::rgw::{Admin, Keys, Site, Target, render};

/// What users and buckets of RadosGW hold, and their quotas, from its Admin API.
#[derive(Debug, Args)]
#[command(
    after_help = "The key's user needs the rights users=read, buckets=read and metadata=read.

Examples:
  c5c3 prysm radosgw-usage --admin-url http://rgw:8080 --keys /etc/rgw-keys
  ACCESS_KEY=… SECRET_KEY=… c5c3 prysm radosgw-usage --admin-url https://rgw.example --interval 300"
)]
pub(super) struct RadosgwUsage {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    keys: Keys,
    /// Value of the label `rgw_cluster_id`
    #[arg(long, env = "RGW_CLUSTER_ID", default_value = "")]
    rgw_cluster_id: String,
    /// Seconds between the end of one check and the start of the next
    #[arg(long, default_value = "120", env = "COOLDOWN_INTERVAL", value_parser = seconds)]
    interval: Duration,
    /// Maximum number of users and of buckets shown; those that store most come first
    #[arg(long, default_value_t = 10_000)]
    max_series: usize,
}

/// What the looks have found so far.
#[derive(Default)]
struct Found {
    site: Option<Site>,
    errors: u64,
}

impl RadosgwUsage {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let admin = Admin::new(self.keys.clone())?;
        let (node, instance) = self.identity.names();
        let target = Target {
            cluster: self.rgw_cluster_id.clone(),
            node,
            instance,
        };
        let found = Arc::new(Mutex::new(Found::default()));
        let (page, most) = (found.clone(), self.max_series);
        let show = move || {
            let found = page.lock().unwrap_or_else(PoisonError::into_inner);
            render(found.site.as_ref(), &target, found.errors, most)
        };
        let looks = async {
            loop {
                let seen = admin.site().await;
                {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    match seen {
                        Ok(site) => found.site = Some(site),
                        // Old figures would look as if all were well.
                        Err(error) => {
                            tracing::warn!("{error}");
                            found.site = None;
                            found.errors += 1;
                        }
                    }
                }
                tokio::time::sleep(self.interval).await;
            }
        };
        tokio::select! {
            served = serve(&self.shared, stop, show) => served,
            () = looks => Ok(()),
        }
    }
}
