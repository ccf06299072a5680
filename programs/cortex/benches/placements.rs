//! How many placements a core makes with the usual KVM pipeline, from the bytes of the question to
//! the bytes of the answer, and how long one takes; beside it a baseline of the same run: reading the
//! same bytes into a JSON value and sorting the hosts by weight, which no scheduler can do without.
//! Then plans for 1,000 hosts with 30,000 servers.

use std::hint::black_box;
use std::time::{Duration, Instant};

use c5c3_api::cortex::SchedulingDomain;
use c5c3_cortex::engine::{compile, defaults};
use c5c3_cortex::fleet::{Amount, Draft, Fleet, Host, HypervisorType, Server};
use c5c3_cortex::plan;
use c5c3_cortex::request::Intent;
use c5c3_cortex::service::{Scheduler, Source, World};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

fn world(hosts: usize, servers_each: usize) -> Draft {
    let mut draft = Draft::default();
    for number in 0..hosts {
        let name = format!("node{number:05}-bb{:03}", number % 97);
        let host = Host {
            zone: Some(format!("zone-{}", number % 3)),
            hypervisor_type: HypervisorType::Kvm,
            arch: Some("x86_64".to_owned()),
            traits: (0..40)
                .map(|one| format!("CUSTOM_T{}", one + number % 3))
                .collect(),
            capacity: Some(Amount::new(
                128 + (number % 4) as i64 * 64,
                (512 + (number % 4) as i64 * 256) * 1024,
            )),
            allowed_projects: if number % 10 == 0 {
                ["p0".to_owned()].into()
            } else {
                Default::default()
            },
            cpu_modes: ["host-model".to_owned()].into(),
            ..Host::default()
        };
        for one in 0..servers_each {
            let size = 1 + (one % 8) as i64;
            let server = Server {
                name: format!("s{one}"),
                host: name.clone(),
                project: format!("p{}", one % 50),
                size: Amount::new(size, size * 4096),
                ..Server::default()
            };
            draft.servers.insert(format!("{number:05}-{one:03}"), server);
        }
        draft.hosts.insert(name, host);
    }
    draft
}

fn question(draft: &Draft) -> Vec<u8> {
    let names = draft.hosts.keys();
    let hosts: Vec<Value> = names
        .clone()
        .map(|name| json!({"host": name, "hypervisor_hostname": format!("{name}.example.com")}))
        .collect();
    let weights: serde_json::Map<String, Value> = names.map(|name| (name.clone(), json!(1.0))).collect();
    let flavor = json!({"memory_mb": 8192, "vcpus": 4, "extra_specs": {
        "capabilities:hypervisor_type": "QEMU", "capabilities:cpu_arch": "x86_64", "trait:CUSTOM_T5": "required"}});
    let data = json!({"project_id": "p1", "instance_uuid": "vm", "availability_zone": "zone-1", "num_instances": 1,
        "flavor": {"nova_object.name": "Flavor", "nova_object.data": flavor}, "scheduler_hints": {}});
    json!({"spec": {"nova_object.name": "RequestSpec", "nova_object.data": data}, "context": {},
        "hosts": hosts, "weights": weights})
    .to_string()
    .into_bytes()
}

fn baseline(body: &[u8]) -> usize {
    let value: Value = serde_json::from_slice(body).expect("JSON");
    let mut hosts: Vec<&str> = value["hosts"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|host| host["host"].as_str())
        .collect();
    let weight = |host: &&str| value["weights"][*host].as_f64().unwrap_or_default();
    hosts.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    json!({"hosts": hosts}).to_string().len()
}

/// Time that this thread had a core: the rate of a core does not depend on who else wants it.
fn on_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text
        .split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn quantiles(mut run: impl FnMut(), count: usize) -> (Duration, Duration, f64) {
    let start = on_core();
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    let rate = count as f64 / (on_core() - start).as_secs_f64();
    times.sort_unstable();
    (times[count / 2], times[count * 99 / 100], rate)
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or_default()
        / 1024
}

fn placements(c: &mut Criterion) {
    for hosts in [1_000, 10_000] {
        let draft = world(hosts, 0);
        let body = question(&draft);
        let before = resident();
        let scheduler = Scheduler {
            world: World::usual(),
            ..Scheduler::default()
        };
        scheduler.world.tell(Source::OpenStack {
            hosts: draft.hosts,
            servers: draft.servers,
        });
        let memory = resident().saturating_sub(before);
        let ask = || {
            let answer = scheduler
                .answer(SchedulingDomain::Nova, &body)
                .expect("an answer");
            assert!(answer.body.len() > 20);
            black_box(answer);
        };
        let (p50, p99, rate) = quantiles(ask, 2_000_000 / hosts);
        println!(
            "{hosts} hosts: {rate:.0} placements/s on one core, p50 {p50:?}, p99 {p99:?}, {memory} MiB for the fleet"
        );
        let (p50, p99, rate) = quantiles(
            || {
                black_box(baseline(&body));
            },
            2_000_000 / hosts / 4,
        );
        println!("{hosts} hosts, baseline (read JSON, sort): {rate:.0}/s, p50 {p50:?}, p99 {p99:?}");
        let mut group = c.benchmark_group(format!("{hosts} hosts"));
        group.throughput(Throughput::Elements(1));
        group.bench_function("placement", |b| b.iter(ask));
        group.bench_function("baseline: read JSON and sort", |b| {
            b.iter(|| black_box(baseline(&body)));
        });
        group.finish();
    }
}

fn plans(_: &mut Criterion) {
    let draft = world(1_000, 30);
    let start = Instant::now();
    let fleet = Fleet::pack(draft);
    println!("1,000 hosts, 30,000 servers: packed in {:?}", start.elapsed());
    let pipeline = compile(&defaults::general()).pipeline;
    let start = Instant::now();
    let copy = Fleet::clone(&fleet);
    println!("baseline: a copy of the fleet takes {:?}", start.elapsed());
    drop(copy);
    let start = Instant::now();
    let packed = plan::pack(&fleet, &pipeline, 10_000);
    println!(
        "plan of {} moves that empties {} hosts: {:?}",
        packed.moves.len(),
        packed.emptied.len(),
        start.elapsed()
    );
    let names: Vec<String> = fleet.hosts.iter().take(20).map(str::to_owned).collect();
    let start = Instant::now();
    let drained = plan::without(&fleet, &pipeline, &names, Intent::Evacuate);
    println!(
        "20 lost hosts: {} servers placed, {} stuck: {:?}",
        drained.moves.len(),
        drained.stuck.len(),
        start.elapsed()
    );
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(5));
    targets = placements, plans
}
criterion_main!(benches);
