//! How much of the node is used: processors, memory, disks, network.

use super::Proc;
use crate::error::Error;
use crate::exposition::{Page, Type};

const SECTOR: u64 = 512;

/// Ticks since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub busy: u64,
    pub all: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub ticks: Ticks,
    pub memory_percent: f64,
    pub disk_bytes: u64,
    pub network_bytes: u64,
}

impl Usage {
    pub(crate) fn read(proc: &Proc) -> Result<Self, Error> {
        Ok(Usage {
            ticks: ticks(&proc.read("stat")?),
            memory_percent: memory(&proc.read("meminfo")?),
            disk_bytes: disks(&proc.read_if_there("diskstats")),
            network_bytes: network(&proc.read_if_there("net/dev")),
        })
    }

    /// The processors' share of time since `before`.
    pub(crate) fn render(&self, before: Ticks, node: &str, instance: &str) -> String {
        let mut page = Page::default();
        let labels = [("node", node), ("instance", instance)];
        let all = self.ticks.all.saturating_sub(before.all);
        let busy = self.ticks.busy.saturating_sub(before.busy);
        let percent = if all == 0 {
            0.0
        } else {
            100.0 * busy as f64 / all as f64
        };
        for (name, help, value) in [
            (
                "node_cpu_usage_percent",
                "Share of time in which processors were busy.",
                percent,
            ),
            (
                "node_memory_usage_percent",
                "Share of memory that is not available.",
                self.memory_percent,
            ),
            (
                "node_disk_io_bytes",
                "Bytes read from and written to disks.",
                self.disk_bytes as f64,
            ),
            (
                "node_network_io_bytes",
                "Bytes received and sent, loopback aside.",
                self.network_bytes as f64,
            ),
        ] {
            page.family(name, Type::Gauge, help);
            page.sample(name, labels, value);
        }
        page.text()
    }
}

/// The line of all processors: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> Ticks {
    let Some(line) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else {
        return Ticks::default();
    };
    // Guests' time behind these eight is part of user and nice already.
    let values: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .filter_map(|word| word.parse().ok())
        .collect();
    let all = values.iter().sum();
    let idle: u64 = values.iter().skip(3).take(2).sum();
    Ticks {
        busy: all - idle,
        all,
    }
}

fn memory(meminfo: &str) -> f64 {
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    match (kilobytes("MemTotal:"), kilobytes("MemAvailable:")) {
        (Some(total), Some(available)) if total > 0.0 => 100.0 * (total - available) / total,
        _ => 0.0,
    }
}

/// Whole disks only: what a partition does is counted with its disk.
fn disks(diskstats: &str) -> u64 {
    let mut whole: Vec<&str> = Vec::new();
    let mut bytes: u64 = 0;
    for line in diskstats.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(read), Some(written)) = (words.get(2), words.get(5), words.get(9)) else {
            continue;
        };
        let virtual_device = ["loop", "ram", "zram", "dm-", "md"]
            .iter()
            .any(|kind| name.starts_with(kind));
        if virtual_device || whole.iter().any(|disk| is_partition(name, disk)) {
            continue;
        }
        whole.push(name);
        let sectors = |word: &str| word.parse::<u64>().unwrap_or_default();
        bytes = bytes.saturating_add((sectors(read).saturating_add(sectors(written))).saturating_mul(SECTOR));
    }
    bytes
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`; the kernel lists a disk before its partitions.
fn is_partition(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else {
        return false;
    };
    let number = if disk.ends_with(|last: char| last.is_ascii_digit()) {
        rest.strip_prefix('p').unwrap_or_default()
    } else {
        rest
    };
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn network(devices: &str) -> u64 {
    let lines = devices.lines().filter_map(|line| line.split_once(':'));
    let real = lines.filter(|(name, _)| name.trim() != "lo");
    real.map(|(_, figures)| {
        let words: Vec<u64> = figures
            .split_whitespace()
            .map(|word| word.parse().unwrap_or_default())
            .collect();
        let at = |index: usize| words.get(index).copied().unwrap_or_default();
        at(0).saturating_add(at(8))
    })
    .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        let ticks = ticks("cpu  100 10 40 800 50 0 0 0 30 0\ncpu0 1 1 1 1\n");
        assert_eq!(ticks, Ticks { busy: 150, all: 1000 });
        let usage = Usage {
            ticks,
            ..Usage::default()
        };
        let before = Ticks { busy: 100, all: 900 };
        assert!(
            usage
                .render(before, "n", "i")
                .contains("node_cpu_usage_percent{node=\"n\",instance=\"i\"} 50\n")
        );
        assert!(
            usage.render(ticks, "n", "i").contains("} 0\n"),
            "no time has passed"
        );
    }

    #[test]
    fn a_partition_is_counted_with_its_disk() {
        let stats = "8 0 sda 1 0 10 0 1 0 20 0\n8 1 sda1 1 0 10 0 1 0 20 0\n259 0 nvme0n1 1 0 5 0 1 0 5 0\n\
                     259 1 nvme0n1p1 1 0 5 0 1 0 5 0\n7 0 loop0 9 0 9 0 9 0 9 0\n8 16 sdab 1 0 1 0 1 0 1 0\nbroken\n";
        assert_eq!(disks(stats), (30 + 10 + 2) * 512);
    }

    #[test]
    fn loopback_is_no_traffic() {
        let devices =
            "Inter-|   Receive\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 5 0 0 0 0 0 0 0 7 0\n";
        assert_eq!(network(devices), 12);
    }

    #[test]
    fn memory_is_what_is_not_available() {
        assert!((memory("MemTotal: 200 kB\nMemFree: 1 kB\nMemAvailable: 50 kB\n") - 75.0).abs() < 1e-9);
        assert!(memory("").abs() < 1e-9);
    }
}
