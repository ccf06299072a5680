//! The operator's transitions over a simulated Nova: time on the simulated clock, beside what it costs here.

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use std::time::{Duration, Instant};

use c5c3_api::hypervisor::{EvictionSpec, HypervisorSpec, OnboardingPhase};
use openstack_client::SimulatedFleet;
use simulation::Simulation;

const DAY: Duration = Duration::from_secs(86400);

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap_or_default();
    let kib: u64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    kib / 1024
}

async fn onboarding(hosts: usize, servers: usize) {
    let fleet = SimulatedFleet::default();
    fleet.add_aggregate("zone-a");
    fleet.set_faults(5, 7);
    let mut all = Simulation::new(fleet.clone());
    for i in 0..hosts {
        let name = format!("node{i}");
        fleet.add_host(&name, 64, 65536);
        for number in 0..servers {
            fleet.add_server(&name, &format!("s{number}"), "ACTIVE", 512);
        }
        let spec = HypervisorSpec {
            aggregates: vec!["zone-a".into()],
            ..HypervisorSpec::default()
        };
        all.join(&name, spec);
    }
    let start = Instant::now();
    let mut left: Vec<String> = all.hosts.keys().cloned().collect();
    let done = all
        .run(DAY, |all| {
            let served = |name: &mut String| all.phase(name) == Some(OnboardingPhase::Succeeded);
            while left.pop_if(served).is_some() {}
            left.is_empty()
        })
        .await;
    assert!(done && fleet.servers().len() == hosts * servers);
    println!(
        "{hosts:>6} hosts with {servers:>3} servers each onboarded, 5 % of calls fail or are slow: {:>6.1} s on the simulated clock, {:>6.1} s here, {} passes, {} calls, {} MiB",
        fleet.clock().as_secs_f64(),
        start.elapsed().as_secs_f64(),
        all.passes,
        fleet.calls(),
        memory(),
    );
}

/// Time on the simulated clock until a host of a hundred servers is empty.
async fn eviction(parallel: i32) -> Duration {
    let fleet = SimulatedFleet::default();
    for name in ["node1", "node2"] {
        fleet.add_host(name, 200, 200_000);
    }
    let mut all = Simulation::new(fleet.clone());
    for name in ["node1", "node2"] {
        all.join(name, HypervisorSpec::default());
    }
    let ready = |all: &Simulation| {
        all.hosts
            .keys()
            .all(|name| all.phase(name) == Some(OnboardingPhase::Succeeded))
    };
    assert!(all.run(DAY, ready).await);
    for i in 0..100 {
        fleet.add_server("node1", &format!("s{i}"), "ACTIVE", 512);
    }
    let start = fleet.clock();
    let spec = EvictionSpec {
        hypervisor: "node1".into(),
        reason: "bench".into(),
        parallel: Some(parallel),
        ..EvictionSpec::default()
    };
    all.evict("out", spec);
    let empty = |all: &Simulation| all.fleet.servers().iter().all(|server| server.host == "node2");
    assert!(all.run(DAY, empty).await);
    fleet.clock() - start
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // A hundred servers on each of ten thousand hosts would need about a GiB for the simulator alone.
    for (hosts, servers) in [(1000, 0), (1000, 100), (10_000, 0), (10_000, 10)] {
        onboarding(hosts, servers).await;
    }
    // A poll each 10 s sees a migration of 30 s at 40 s: the next begins then.
    let one_by_one = Duration::from_secs(100 * 40);
    for parallel in [4, 20] {
        let took = eviction(parallel).await;
        println!(
            "100 servers evicted, {parallel:>2} at a time: {:>6.1} s on the simulated clock; one by one with polls of 10 s {:.0} s: {:.1} times",
            took.as_secs_f64(),
            one_by_one.as_secs_f64(),
            one_by_one.as_secs_f64() / took.as_secs_f64(),
        );
    }
}
