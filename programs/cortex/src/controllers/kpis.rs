//! KPI: a figure of the fleet as a metric.

use std::convert::Infallible;

use c5c3_api::cortex::Kpi;
use c5c3_kit::{Applied, Controller, Decision, Metrics, Observed, Part, Reader, Report, States};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Error, Shared};
use crate::fleet::Amount;

/// Capacity, use and reserved room of each host.
const HOSTS: &str = "kvm_host_capacity";
/// Servers of each host.
const SERVERS: &str = "kvm_host_servers";
const KNOWN: [&str; 2] = [HOSTS, SERVERS];

#[derive(Clone, Debug)]
pub(crate) struct Kpis;

impl Controller for Kpis {
    type Kind = Kpi;
    type Facts = ();
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "cortex-kpis";
    const PARTS: &'static [Part] = &[];

    async fn observe(&self, _: &Kpi, _: &Reader) -> Result<(), Error> {
        Ok(())
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        Ok(Decision::hold())
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        let name = observed.object.spec.impl_.as_str();
        let states = if KNOWN.contains(&name) {
            States::default()
        } else {
            let text = format!("impl: {name} is unknown; use one of {}", KNOWN.join(", "));
            States::default().blocked_by("Unknown", text)
        };
        Report::new(states)
    }
}

#[derive(Debug)]
struct Figures(Shared);

/// From now on figures that a KPI asks for are in the metrics.
pub(crate) fn publish(shared: &Shared, metrics: &Metrics) {
    let figures = Box::new(Figures(shared.clone()));
    metrics.extend(|registry| registry.register_collector(figures));
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let world = &self.0.scheduler.world;
        let (wanted, fleet) = (world.kpis(), world.fleet());
        let hosts = || (0..).zip(fleet.hosts.iter());
        if wanted.contains(HOSTS) {
            let kinds: [(&str, &dyn Fn(u32) -> Amount); 3] = [
                ("capacity", &|host| fleet.capacity(host)),
                ("used", &|host| fleet.used(host)),
                ("reserved", &|host| {
                    fleet.committed[host as usize].plus(fleet.failover[host as usize])
                }),
            ];
            for (kind, of) in kinds {
                for (resource, pick) in [("cpus", 0), ("memory_mebibytes", 1)] {
                    let name = format!("cortex_host_{kind}_{resource}");
                    let mut family = encoder.encode_descriptor(&name, kind, None, MetricType::Gauge)?;
                    for (number, host) in hosts() {
                        let amount = of(number);
                        let value = if pick == 0 { amount.cpu } else { amount.memory };
                        let labels = [("host", host)];
                        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                    }
                }
            }
        }
        if wanted.contains(SERVERS) {
            let mut counts = vec![0_i64; fleet.len()];
            for host in fleet.server_host.values() {
                counts[*host as usize] += 1;
            }
            let mut family =
                encoder.encode_descriptor("cortex_host_servers", "servers", None, MetricType::Gauge)?;
            for (number, host) in hosts() {
                let labels = [("host", host)];
                let count: u32 = number;
                ConstGauge::new(counts[count as usize]).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
