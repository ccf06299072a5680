//! Lines per second through decoder and counters, beside finding the same lines and doing nothing; and
//! the memory that this takes, garbage included.

use std::hint::black_box;
use std::time::Instant;

use c5c3_prysm::ops_log::{Counters, Decoder, Limits, choose};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const LINES: usize = 20_000;
/// Times that the log is read to measure memory and the rate beside the goal.
const ROUNDS: usize = 100;
/// In pieces of 64 KiB: 1 GiB.
const GARBAGE: usize = 16_384;
/// Lines in a second on one core, and the memory of the whole process in MiB.
const GOAL: (f64, u64) = (300_000.0, 30);

fn log() -> Vec<u8> {
    let mut log = Vec::new();
    for index in 0..LINES {
        let (tenant, bucket) = (index % 50, index % 500);
        let line = serde_json::json!({
            "bucket": format!("bucket-{bucket}"), "object": format!("key-{index}"),
            "time": "2026-01-01T00:00:00.000000Z", "time_local": "2026-01-01T00:00:00.000000+0000",
            "remote_addr": "10.0.0.7", "user": format!("tenant-{tenant}$user"), "operation": "get_obj",
            "uri": format!("GET /bucket-{bucket}/key-{index} HTTP/1.1"), "http_status": "200",
            "error_code": "", "bytes_sent": 4096, "bytes_received": 0, "object_size": 4096, "total_time": 7,
            "user_agent": "aws-sdk", "referrer": "", "trans_id": "tx000000000000000000001-00",
            "authentication_type": "Keystone", "access_key_id": "", "temp_url": false,
        });
        log.extend_from_slice(line.to_string().as_bytes());
        log.push(b'\n');
    }
    log
}

fn ops_log(criterion: &mut Criterion) {
    let log = log();
    let mut group = criterion.benchmark_group("ops-log");
    group.throughput(Throughput::Elements(LINES as u64));
    group.bench_function("baseline: split into lines", |bencher| {
        bencher.iter(|| {
            black_box(&log)
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .count()
        });
    });
    for (name, track) in [("usual metrics", vec![]), ("all metrics", vec!["all".to_owned()])] {
        let families = choose(&track).expect("families");
        group.bench_function(name, |bencher| {
            let mut counters = Counters::new(families.clone(), "rgw-0", Limits::default(), true);
            bencher.iter(|| {
                let mut decoder = Decoder::default();
                for chunk in log.chunks(1 << 16) {
                    decoder.feed(chunk, |entry, _| _ = counters.count(entry));
                }
                assert_eq!(decoder.malformed, 0);
            });
            black_box(counters.entries);
        });
    }
    group.finish();
}

/// Two million lines and 1 GiB of garbage, as the producer reads them.
fn memory(_: &mut Criterion) {
    let log = log();
    let mut counters = Counters::new(choose(&[]).expect("families"), "rgw-0", Limits::default(), true);
    let mut decoder = Decoder::default();
    let before = most_resident();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for chunk in log.chunks(1 << 16) {
            decoder.feed(chunk, |entry, _| _ = counters.count(entry));
        }
    }
    let rate = (ROUNDS * LINES) as f64 / start.elapsed().as_secs_f64();
    println!("ops-log/rate: {rate:.0} lines/s on one core (goal {:.0})", GOAL.0);
    let mut state = 0x9e37_79b9_u32;
    let mut garbage = vec![0; 1 << 16];
    let start = Instant::now();
    for _ in 0..GARBAGE {
        for byte in &mut garbage {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        decoder.feed(&garbage, |entry, _| _ = counters.count(entry));
    }
    println!(
        "ops-log/garbage: {} MiB in {:.1?}, all of it passed over",
        (GARBAGE * garbage.len()) >> 20,
        start.elapsed()
    );
    assert_eq!(counters.entries, (ROUNDS * LINES) as u64);
    let (before, after) = (before / 1024, most_resident() / 1024);
    println!(
        "ops-log/memory: at most {after} MiB resident (goal {}), of which {before} MiB are the log itself and the test",
        GOAL.1
    );
}

/// In KiB.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    value.unwrap_or_default()
}

criterion_group!(benches, memory, ops_log);
criterion_main!(benches);
