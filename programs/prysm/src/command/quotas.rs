//! `quota-usage-monitor` tells who is near the end of a quota; `quota-usage` shows what it was told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Subject;
use c5c3_kit::Stop;
use clap::Args;
use futures::StreamExt;

use super::{Identity, Shared, percent, seconds, serve};
use crate::error::Error;
use crate::exposition::{Page, Type};
use crate::nats::{NatsArguments, subject};
use crate::outlet::{Outlet, with_figures};
use crate::quotas::{Heard, near_the_end};
use crate::rgw::{Admin, Keys};

/// Publish the users of RadosGW who have used most of their quota.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm quota-usage-monitor --admin-url http://rgw:8080 --keys /keys --nats nats://nats:4222
  c5c3 prysm quota-usage-monitor --admin-url http://rgw:8080 --quota-usage-percent 90 --print")]
pub(super) struct QuotaUsageMonitor {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    nats: NatsArguments,
    /// Subject of the messages
    #[arg(long, default_value = "user.quotas.usage", env = "NATS_SUBJECT", value_parser = subject)]
    subject: Subject,
    /// Seconds between the end of one check and the start of the next
    #[arg(long, default_value = "10", env = "INTERVAL", value_parser = seconds)]
    interval: Duration,
    /// Report users who have used at least this much
    #[arg(long, default_value = "80", env = "QUOTA_USAGE_PERCENT", value_parser = percent)]
    quota_usage_percent: f64,
    /// Print every message
    #[arg(long)]
    print: bool,
}

/// How the looks go.
#[derive(Default)]
struct Looks {
    up: bool,
    errors: u64,
    told: usize,
}

impl Looks {
    fn render(&self) -> String {
        let mut page = Page::default();
        for (name, kind, help, value) in [
            (
                "prysm_target_up",
                Type::Gauge,
                "1 if RadosGW answered the last check.",
                u64::from(self.up),
            ),
            (
                "exporter_scrape_errors_total",
                Type::Counter,
                "Failed checks of RadosGW.",
                self.errors,
            ),
            (
                "prysm_quota_users_told",
                Type::Gauge,
                "Users in the last report.",
                self.told as u64,
            ),
        ] {
            page.family(name, kind, help);
            page.sample(name, [], value);
        }
        page.text()
    }
}

impl QuotaUsageMonitor {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let admin = Admin::new(self.keys.clone())?;
        let outlet = Outlet::open(&self.nats, self.print, "prysm quota-usage-monitor").await?;
        if !outlet.is_open() {
            return Err(Error::NoNats);
        }
        let (node, instance) = self.identity.names();
        let looks = Arc::new(Mutex::new(Looks::default()));
        let (page, figures) = (looks.clone(), outlet.figures());
        let show = move || {
            let text = page.lock().unwrap_or_else(PoisonError::into_inner).render();
            with_figures(text, figures.as_deref())
        };
        let work = async {
            loop {
                match admin.site().await {
                    Ok(site) => {
                        let told = near_the_end(&site.users, self.quota_usage_percent, &node, &instance);
                        {
                            let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
                            (looks.up, looks.told) = (true, told.len());
                        }
                        // Texts and numbers always become JSON.
                        outlet.say(&self.subject, serde_json::to_vec(&told).unwrap_or_default())?;
                    }
                    Err(error) => {
                        tracing::warn!("{error}");
                        let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
                        looks.up = false;
                        looks.errors += 1;
                    }
                }
                tokio::time::sleep(self.interval).await;
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

/// Show as metrics what quota-usage-monitor publishes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm quota-usage --nats nats://nats:4222
  c5c3 prysm quota-usage --nats nats://nats:4222 --quota-usage-percent 95")]
pub(super) struct QuotaUsage {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    nats: NatsArguments,
    /// Subject of the messages
    #[arg(long, default_value = "user.quotas.usage", env = "NATS_SUBJECT", value_parser = subject)]
    subject: Subject,
    /// Show users who have used at least this much
    #[arg(long, default_value = "80", env = "QUOTA_USAGE_PERCENT", value_parser = percent)]
    quota_usage_percent: f64,
    /// Forget a user after this many seconds without a report
    #[arg(long, default_value = "60", value_parser = seconds)]
    forget: Duration,
    /// Maximum number of users shown
    #[arg(long, default_value_t = 10_000)]
    max_series: usize,
}

impl QuotaUsage {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let client = self
            .nats
            .connect("prysm quota-usage")
            .await?
            .ok_or(Error::NoNats)?;
        let failed = |error: async_nats::SubscribeError| Error::Nats {
            url: self.nats.url.clone().unwrap_or_default(),
            why: error.to_string(),
        };
        let mut messages = client.subscribe(self.subject.clone()).await.map_err(failed)?;
        let heard = Heard::new(self.quota_usage_percent, self.forget, self.max_series);
        let heard = Arc::new(Mutex::new(heard));
        let page = heard.clone();
        let show = move || {
            let mut heard = page.lock().unwrap_or_else(PoisonError::into_inner);
            heard.render(Instant::now())
        };
        let listen = async {
            while let Some(message) = messages.next().await {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.take(&message.payload, Instant::now());
            }
        };
        tokio::select! {
            served = serve(&self.shared, stop, show) => served,
            // The client ends with the program only.
            () = listen => Ok(()),
        }
    }
}
