//! libvirt's statistics of every domain as metrics. They are asked for when somebody scrapes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_kit::Metrics;
use libvirt_client::{Connection, DomainStats, Value, param, stats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tokio::sync::watch;

/// A host whose libvirt hangs must still answer the scrape.
const PATIENCE: Duration = Duration::from_secs(5);
const ASKED: u32 = stats::STATE | stats::CPU | stats::BALLOON | stats::VCPU | stats::INTERFACE | stats::BLOCK;

/// Where a figure stands in libvirt's statistics.
enum Place {
    /// One of the domain.
    Domain(&'static str),
    /// One of each of its devices: list and figure.
    Device(&'static str, &'static str),
}

struct Figure {
    name: &'static str,
    help: &'static str,
    place: Place,
    counts: bool,
    /// libvirt counts in nanoseconds and KiB.
    times: f64,
}

const NANOSECOND: f64 = 1e-9;
const KIB: f64 = 1024.0;

const fn figure(name: &'static str, help: &'static str, place: Place, counts: bool, times: f64) -> Figure {
    Figure {
        name,
        help,
        place,
        counts,
        times,
    }
}

const FIGURES: &[Figure] = &[
    figure(
        "domain_state",
        "State by libvirt's number, 1 is running",
        Place::Domain("state.state"),
        false,
        1.0,
    ),
    figure(
        "domain_cpu_seconds",
        "CPU time",
        Place::Domain("cpu.time"),
        true,
        NANOSECOND,
    ),
    figure(
        "domain_vcpus",
        "Virtual CPUs",
        Place::Domain("vcpu.current"),
        false,
        1.0,
    ),
    figure(
        "domain_memory_bytes",
        "Memory that it has now",
        Place::Domain("balloon.current"),
        false,
        KIB,
    ),
    figure(
        "domain_memory_maximum_bytes",
        "Memory that it may have",
        Place::Domain("balloon.maximum"),
        false,
        KIB,
    ),
    figure(
        "domain_memory_rss_bytes",
        "Memory of the host that it uses",
        Place::Domain("balloon.rss"),
        false,
        KIB,
    ),
    figure(
        "domain_block_read_bytes",
        "Read from a disk",
        Place::Device("block", "rd.bytes"),
        true,
        1.0,
    ),
    figure(
        "domain_block_read_requests",
        "Reads of a disk",
        Place::Device("block", "rd.reqs"),
        true,
        1.0,
    ),
    figure(
        "domain_block_written_bytes",
        "Written to a disk",
        Place::Device("block", "wr.bytes"),
        true,
        1.0,
    ),
    figure(
        "domain_block_write_requests",
        "Writes to a disk",
        Place::Device("block", "wr.reqs"),
        true,
        1.0,
    ),
    figure(
        "domain_block_errors",
        "Errors of a disk",
        Place::Device("block", "errors"),
        true,
        1.0,
    ),
    figure(
        "domain_network_received_bytes",
        "Received",
        Place::Device("net", "rx.bytes"),
        true,
        1.0,
    ),
    figure(
        "domain_network_received_packets",
        "Received packets",
        Place::Device("net", "rx.pkts"),
        true,
        1.0,
    ),
    figure(
        "domain_network_receive_drops",
        "Packets lost while receiving",
        Place::Device("net", "rx.drop"),
        true,
        1.0,
    ),
    figure(
        "domain_network_sent_bytes",
        "Sent",
        Place::Device("net", "tx.bytes"),
        true,
        1.0,
    ),
    figure(
        "domain_network_sent_packets",
        "Sent packets",
        Place::Device("net", "tx.pkts"),
        true,
        1.0,
    ),
    figure(
        "domain_network_send_drops",
        "Packets lost while sending",
        Place::Device("net", "tx.drop"),
        true,
        1.0,
    ),
];

type Labels = Vec<(&'static str, String)>;

/// The figure's values, with labels.
fn samples(figure: &Figure, of: &DomainStats) -> Vec<(Labels, f64)> {
    let number = |field: &str| {
        let value = param(&of.params.0, field).and_then(Value::as_u64)?;
        Some(value as f64 * figure.times)
    };
    let labels = || {
        vec![
            ("domain", of.domain.uuid.to_string()),
            ("name", of.domain.name.clone()),
        ]
    };
    match figure.place {
        Place::Domain(field) => number(field).map(|value| (labels(), value)).into_iter().collect(),
        Place::Device(list, field) => {
            let count = param(&of.params.0, &format!("{list}.count"))
                .and_then(Value::as_u64)
                .unwrap_or(0);
            // A device has some figures: more devices than figures is not true.
            let count = count.min(of.params.0.len() as u64);
            let each = (0..count).filter_map(|index| {
                let name = param(&of.params.0, &format!("{list}.{index}.name"))?
                    .as_str()?
                    .to_owned();
                let value = number(&format!("{list}.{index}.{field}"))?;
                let mut labels = labels();
                labels.push(("device", name));
                Some((labels, value))
            });
            each.collect()
        }
    }
}

/// The last statistics that were read.
#[derive(Clone, Default)]
pub(crate) struct Figures(Arc<Mutex<Vec<DomainStats>>>);

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

impl Figures {
    fn set(&self, stats: Vec<DomainStats>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }

    /// Adds them to what is scraped, read over the connection of the moment.
    pub(crate) fn serve(metrics: &Metrics, connection: watch::Receiver<Option<Connection>>) {
        let figures = Figures::default();
        let collector = figures.clone();
        metrics.extend(|registry| registry.register_collector(Box::new(collector)));
        metrics.refresh_with(Box::new(move || {
            let (figures, connection) = (figures.clone(), connection.borrow().clone());
            Box::pin(async move {
                let read = match connection {
                    Some(connection) => connection.with_patience(PATIENCE).all_stats(ASKED).await,
                    None => Ok(Vec::new()),
                };
                // Old figures would look like a guest that does nothing.
                figures.set(read.unwrap_or_else(|error| {
                    tracing::warn!("no statistics: {error}");
                    Vec::new()
                }));
            })
        }));
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for figure in FIGURES {
            let kind = if figure.counts {
                MetricType::Counter
            } else {
                MetricType::Gauge
            };
            let mut family = encoder.encode_descriptor(figure.name, figure.help, None, kind)?;
            for (labels, value) in all.iter().flat_map(|one| samples(figure, one)) {
                let mut metric = family.encode_family(&labels)?;
                if figure.counts {
                    metric.encode_counter::<NoLabelSet, f64, f64>(&value, None)?;
                } else {
                    metric.encode_gauge(&value)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libvirt_client::xdr::List;
    use libvirt_client::{Domain, Param, Uuid};

    fn stats() -> DomainStats {
        let number = |field: &str, value| Param {
            field: field.into(),
            value: Value::ULong(value),
        };
        let text = |field: &str, value: &str| Param {
            field: field.into(),
            value: Value::Text(value.into()),
        };
        let params = vec![
            number("cpu.time", 2_500_000_000),
            number("balloon.current", 1024),
            number("block.count", 2),
            text("block.0.name", "vda"),
            number("block.0.rd.bytes", 7),
            text("block.1.name", "vdb\"\n"),
            number("block.1.rd.bytes", u64::MAX),
            number("net.count", u64::MAX),
        ];
        DomainStats {
            domain: Domain {
                name: "instance-1".into(),
                uuid: Uuid([1; 16]),
                id: 1,
            },
            params: List(params),
        }
    }

    #[test]
    fn figures_are_in_seconds_and_bytes_with_their_devices() {
        let metrics = Metrics::default();
        let figures = Figures::default();
        figures.set(vec![stats()]);
        metrics.extend(|registry| registry.register_collector(Box::new(figures)));
        let text = metrics.render();
        let id = "01010101-0101-0101-0101-010101010101";
        for line in [
            format!("c5c3_domain_cpu_seconds_total{{domain=\"{id}\",name=\"instance-1\"}} 2.5"),
            format!("c5c3_domain_memory_bytes{{domain=\"{id}\",name=\"instance-1\"}} 1048576.0"),
            format!(
                "c5c3_domain_block_read_bytes_total{{domain=\"{id}\",name=\"instance-1\",device=\"vda\"}} 7.0"
            ),
            "device=\"vdb\\\"\\n\"".to_owned(),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert!(
            !text.contains("received_bytes_total{"),
            "a device without a name is none"
        );
    }
}
