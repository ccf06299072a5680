//! Lines per second through decoder and counters, beside finding the same lines and doing nothing.

use std::hint::black_box;

use c5c3_prysm::ops_log::{Counters, Decoder, Limits, choose};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const LINES: usize = 20_000;

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
                    decoder.feed(chunk, |entry, _| counters.count(entry));
                }
                assert_eq!(decoder.malformed, 0);
            });
            black_box(counters.entries);
        });
    }
    group.finish();
}

criterion_group!(benches, ops_log);
criterion_main!(benches);
