//! Pure: the figures of a job → the status of a Migration.

use c5c3_api::common::{Quantity, Time};
use c5c3_api::hypervisor::MigrationStatus;
use jiff::Timestamp;
use libvirt_client::{Param, job, param};

/// How far a job is, in the words of the API.
pub(crate) fn operation(kind: i32) -> &'static str {
    match kind {
        job::COMPLETED => "completed",
        job::FAILED => "failed",
        job::CANCELLED => "cancelled",
        job::BOUNDED | job::UNBOUNDED => "running",
        _ => "outgoing",
    }
}

/// Is it a migration away from here? Saving and dumping are jobs as well.
pub(crate) fn leaves(params: &[Param]) -> bool {
    param(params, "operation").and_then(libvirt_client::Value::as_u64) == Some(job::MIGRATION_OUT)
}

pub(crate) fn progress(kind: i32, params: &[Param], origin: &str, started: Timestamp) -> MigrationStatus {
    let number = |name: &str| param(params, name).and_then(libvirt_client::Value::as_u64);
    let bytes = |name: &str| number(name).map(|bytes| Quantity(bytes.to_string()));
    let count = |name: &str| number(name).map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let time = |name: &str| number(name).map(duration);
    let page = number("memory_page_size");
    // Pages in a second, where the API has bytes.
    let dirty = number("memory_dirty_rate").map(|pages| pages.saturating_mul(page.unwrap_or(4096)));
    let remaining = number("time_remaining").filter(|left| *left > 0);
    let runs = matches!(kind, job::BOUNDED | job::UNBOUNDED);
    let estimate = || {
        estimate(
            number("data_remaining")?,
            number("memory_bps")?,
            dirty.unwrap_or(0),
        )
    };
    MigrationStatus {
        origin: Some(origin.to_owned()),
        type_: Some("live".to_owned()),
        operation: Some(operation(kind).to_owned()),
        started: Some(Time(started)),
        time_elapsed: time("time_elapsed"),
        time_remaining: runs.then(|| remaining.or_else(estimate)).flatten().map(duration),
        setup_time: time("setup_time"),
        downtime: time("downtime"),
        data_total: bytes("data_total"),
        data_processed: bytes("data_processed"),
        data_remaining: bytes("data_remaining"),
        mem_total: bytes("memory_total"),
        mem_processed: bytes("memory_processed"),
        mem_remaining: bytes("memory_remaining"),
        mem_bps: bytes("memory_bps"),
        mem_dirty_rate: dirty.map(|bytes| Quantity(bytes.to_string())),
        mem_iteration: count("memory_iteration"),
        mem_page_size: bytes("memory_page_size"),
        mem_normal: count("memory_normal"),
        mem_constant: count("memory_constant"),
        mem_postcopy_requests: count("memory_postcopy_requests"),
        disk_total: bytes("disk_total"),
        disk_processed: bytes("disk_processed"),
        disk_remaining: bytes("disk_remaining"),
        disk_bps: bytes("disk_bps"),
        auto_converge_throttle: number("auto_converge_throttle").map(|percent| format!("{percent}%")),
        err_msg: param(params, "errmsg")
            .and_then(|text| text.as_str())
            .map(str::to_owned),
        ..MigrationStatus::default()
    }
}

/// Milliseconds until the rest is sent, while the guest writes on; none when it writes as fast.
fn estimate(left: u64, sent: u64, written: u64) -> Option<u64> {
    let net = sent.checked_sub(written).filter(|net| *net > 0)?;
    Some(left.saturating_mul(1000) / net)
}

/// As durations are written in the API: 1.5s.
fn duration(milliseconds: u64) -> String {
    match milliseconds % 1000 {
        0 => format!("{}s", milliseconds / 1000),
        rest => format!("{}.{rest:03}s", milliseconds / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libvirt_client::Value;

    fn params(pairs: &[(&str, u64)]) -> Vec<Param> {
        let one = |(field, value): &(&str, u64)| Param {
            field: (*field).to_owned(),
            value: Value::ULong(*value),
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn sizes_beyond_four_gibibytes_and_rates_are_told_in_bytes() {
        let tebibyte = 1u64 << 40;
        let running = params(&[
            ("memory_total", tebibyte),
            ("data_remaining", 3_000_000_000),
            ("memory_bps", 2_000_000_000),
            ("memory_dirty_rate", 100_000),
            ("memory_page_size", 4096),
            ("time_elapsed", 1500),
            ("downtime", 300),
        ]);
        let status = progress(job::UNBOUNDED, &running, "node-1", Timestamp::UNIX_EPOCH);
        assert_eq!(status.mem_total, Some(Quantity(tebibyte.to_string())));
        assert_eq!(status.mem_dirty_rate, Some(Quantity("409600000".into())));
        assert_eq!(status.time_elapsed.as_deref(), Some("1.500s"));
        assert_eq!(status.time_remaining.as_deref(), Some("1.886s"));
        assert_eq!(status.operation.as_deref(), Some("running"));
    }

    #[test]
    fn no_time_is_told_when_it_does_not_converge_or_is_over() {
        let hopeless = params(&[
            ("data_remaining", 10),
            ("memory_bps", 10),
            ("memory_dirty_rate", 10),
            ("memory_page_size", 1),
        ]);
        let at = |kind| progress(kind, &hopeless, "a", Timestamp::UNIX_EPOCH);
        assert_eq!(at(job::UNBOUNDED).time_remaining, None);
        let over = params(&[("data_remaining", 10), ("memory_bps", 10)]);
        let over = progress(job::COMPLETED, &over, "a", Timestamp::UNIX_EPOCH);
        assert_eq!(
            (over.time_remaining, over.operation.as_deref()),
            (None, Some("completed"))
        );
    }

    #[test]
    fn only_migrations_away_are_told() {
        assert!(leaves(&params(&[("operation", job::MIGRATION_OUT)])));
        assert!(!leaves(&params(&[("operation", job::MIGRATION_IN)])));
        assert!(!leaves(&params(&[("operation", 2)])));
        assert!(!leaves(&[]));
    }

    #[test]
    fn what_went_wrong_is_told() {
        let failed = [Param {
            field: "errmsg".into(),
            value: Value::Text("connection reset".into()),
        }];
        let status = progress(job::FAILED, &failed, "a", Timestamp::UNIX_EPOCH);
        assert_eq!(status.err_msg.as_deref(), Some("connection reset"));
        assert_eq!(duration(61_000), "61s");
    }
}
