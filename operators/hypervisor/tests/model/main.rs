//! Random worlds on the simulated fleet: whatever goes wrong, nothing is started twice or lost, and
//! when the world heals every host gets where it should be.

mod servers;
#[path = "../simulation/mod.rs"]
mod simulation;

use std::collections::BTreeSet;
use std::time::Duration;

use c5c3_api::hypervisor::{EvictionSpec, HypervisorSpec, Maintenance, OnboardingPhase, Trouble};
use openstack_client::{SimulatedFleet, Violations};
use simulation::Simulation;

/// `make soak` runs a thousand, by C5C3_WORLDS.
const WORLDS: u64 = 60;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[tokio::test]
async fn hosts_find_their_way_whatever_happens() {
    let wished = std::env::var("C5C3_WORLDS")
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in 1..=wished.unwrap_or(WORLDS) {
        world(seed).await;
    }
}

async fn world(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let fleet = SimulatedFleet::default();
    let names: Vec<String> = (1..=3 + dice.roll(3))
        .map(|i| format!("node{}", if i == 3 { 10 } else { i }))
        .collect();
    fleet.add_aggregate("zone-a");
    fleet.set_faults(u32::try_from(dice.roll(30)).expect("small"), seed);
    let mut all = Simulation::new(fleet.clone());
    let spec = || HypervisorSpec {
        aggregates: vec!["zone-a".into()],
        custom_traits: vec!["CUSTOM_A".into()],
        overcommit: [("cpu".to_owned(), 4.0)].into(),
        ..HypervisorSpec::default()
    };
    for name in &names {
        fleet.add_host(name, 64, 65536);
        all.join(name, spec());
    }
    let mut servers = BTreeSet::new();
    for i in 0..10 + dice.roll(20) {
        let host = &names[usize::try_from(dice.roll(names.len() as u64)).expect("small")];
        let status =
            ["ACTIVE", "ACTIVE", "ACTIVE", "SHUTOFF", "ERROR"][usize::try_from(dice.roll(5)).expect("small")];
        let id = fleet.add_server(host, &format!("s{i}"), status, 512);
        if dice.roll(6) == 0 {
            fleet.fail_moves(&id, 2);
        }
        if dice.roll(10) == 0 {
            fleet.never_converge(&id, true);
        }
        servers.insert(id);
    }
    let mut leaving: BTreeSet<String> = BTreeSet::new();
    for round in 0..30 {
        let name = names[usize::try_from(dice.roll(names.len() as u64)).expect("small")].clone();
        match dice.roll(14) {
            0 => all.maintain(&name, Maintenance::Manual),
            1 => all.maintain(&name, Maintenance::Auto),
            2 => all.maintain(&name, Maintenance::Ha),
            3 | 4 => all.maintain(&name, Maintenance::None),
            5 => fleet.set_up(&name, dice.roll(2) == 0),
            6 => fleet.set_broken(&name, dice.roll(2) == 0),
            7 => fleet.meddle(&name, |service| {
                service.status = "enabled".into();
                service.disabled_reason = None;
            }),
            8 => all.retry(&name, &format!("r{round}")),
            10 => toggle(&mut all.unfit, &name),
            11 => toggle(&mut all.pressed, &name),
            12 => toggle(&mut all.mute, &name),
            13 => crash(&mut all, &mut dice),
            _ if leaving.is_empty() => {
                leaving.insert(name.clone());
                all.delete(&name);
            }
            _ => {}
        }
        let time = Duration::from_secs(5 + dice.roll(120));
        all.run(time, |_| false).await;
    }
    // The world heals.
    fleet.set_faults(0, 1);
    for all in [&mut all.unfit, &mut all.pressed, &mut all.mute] {
        all.clear();
    }
    all.mend();
    for name in &names {
        fleet.set_up(name, true);
        fleet.set_broken(name, false);
        if !leaving.contains(name) {
            all.maintain(name, Maintenance::None);
            all.retry(name, "healed");
        }
    }
    for id in &servers {
        fleet.never_converge(id, false);
        fleet.fail_moves(id, 0);
    }
    for server in fleet.servers() {
        if matches!(server.status.as_str(), "ERROR" | "SHUTOFF") && servers.contains(&server.id) {
            fleet.set_status(&server.id, "ACTIVE");
        }
    }
    let well = |all: &Simulation| {
        !all.reacts()
            && names.iter().all(|name| {
                if leaving.contains(name) {
                    !all.hosts.contains_key(name) && !all.fleet.knows(name)
                } else {
                    all.phase(name) == Some(OnboardingPhase::Succeeded)
                        && all.fleet.service(name).is_some_and(|one| one.enabled())
                        && all.fleet.members("zone-a").contains(name)
                        && !all.evictions.contains_key(name)
                }
            })
    };
    let healed = all.run(Duration::from_secs(4 * 3600), well).await;
    let phases: Vec<_> = names
        .iter()
        .map(|name| (name, all.phase(name), all.fleet.service(name)))
        .collect();
    let stuck: Vec<_> = all
        .evictions
        .values()
        .filter_map(|one| one.status.as_ref())
        .collect();
    assert!(healed, "world {seed}: {phases:?}\nleaving {leaving:?}\n{stuck:?}");
    assert_eq!(fleet.violations(), Violations::default(), "world {seed}");
    let there: BTreeSet<String> = fleet.servers().into_iter().map(|one| one.id).collect();
    assert_eq!(
        there, servers,
        "world {seed}: no server is lost, no test server is left"
    );
}

fn toggle(set: &mut BTreeSet<String>, name: &str) {
    if !set.remove(name) {
        set.insert(name.to_owned());
    }
}

/// A server fails on its host; Nova notices or not, and takes the next requests or not.
fn crash(all: &mut Simulation, dice: &mut Dice) {
    let running: Vec<_> = all
        .fleet
        .servers()
        .into_iter()
        .filter(|one| one.status == "ACTIVE" && one.task.is_none())
        .collect();
    let Some(server) = running.get(usize::try_from(dice.roll(running.len().max(1) as u64)).expect("small"))
    else {
        return;
    };
    if dice.roll(2) == 0 {
        all.fleet.set_status(&server.id, "SHUTOFF");
    }
    all.fleet
        .refuse_restarts(&server.id, u32::try_from(dice.roll(4)).expect("small"));
    let kinds = [Trouble::Crashed, Trouble::Watchdog, Trouble::IoError];
    let kind = kinds[usize::try_from(dice.roll(3)).expect("small")];
    all.report(&server.host, &server.id, Some(kind));
}

#[tokio::test]
async fn a_broken_host_is_aborted_mended_retried_and_taken_into_service() {
    let fleet = SimulatedFleet::default();
    fleet.add_host("node1", 8, 8192);
    fleet.set_broken("node1", true);
    let mut all = Simulation::new(fleet.clone());
    all.join("node1", HypervisorSpec::default());
    let hour = Duration::from_secs(3600);
    assert!(
        all.run(hour, |all| all.phase("node1") == Some(OnboardingPhase::Aborted))
            .await
    );
    let told = all.hosts["node1"]
        .status
        .as_ref()
        .and_then(|s| s.onboarding.clone())
        .expect("told");
    assert!(told.message.expect("said").contains("no such bridge br-int"));
    all.run(Duration::from_secs(60), |_| false).await;
    assert!(fleet.servers().is_empty() && !fleet.service("node1").expect("there").enabled());
    fleet.set_broken("node1", false);
    all.retry("node1", "1");
    assert!(
        all.run(hour, |all| all.phase("node1") == Some(OnboardingPhase::Succeeded))
            .await
    );
    assert!(fleet.servers().is_empty(), "the test server is gone");
}

#[tokio::test]
async fn a_host_that_left_comes_back_under_its_name() {
    let fleet = SimulatedFleet::default();
    for name in ["node1", "node10"] {
        fleet.add_host(name, 64, 65536);
    }
    let mut all = Simulation::new(fleet.clone());
    all.join("node1", HypervisorSpec::default());
    all.join("node10", HypervisorSpec::default());
    let hour = Duration::from_secs(3600);
    let both = |all: &Simulation| {
        ["node1", "node10"]
            .iter()
            .all(|name| all.phase(name) == Some(OnboardingPhase::Succeeded))
    };
    assert!(all.run(hour, both).await);
    fleet.add_server("node1", "a", "ACTIVE", 512);
    fleet.add_server("node1", "b", "SHUTOFF", 512);
    all.delete("node1");
    assert!(all.run(hour, |all| !all.hosts.contains_key("node1")).await);
    assert!(!fleet.knows("node1") && fleet.service("node10").expect("there").enabled());
    assert!(fleet.servers().iter().all(|server| server.host == "node10"));
    fleet.add_host("node1", 64, 65536);
    all.join("node1", HypervisorSpec::default());
    assert!(all.run(hour, both).await);
    assert_eq!(fleet.violations(), Violations::default());
}

#[tokio::test]
async fn a_hundred_servers_leave_under_a_budget() {
    let fleet = SimulatedFleet::default();
    for name in ["node1", "node2"] {
        fleet.add_host(name, 200, 200_000);
    }
    let mut all = Simulation::new(fleet.clone());
    all.join("node2", HypervisorSpec::default());
    all.join("node1", HypervisorSpec::default());
    let hour = Duration::from_secs(3600);
    assert!(
        all.run(hour, |all| all.phase("node1") == all.phase("node2")
            && all.phase("node1") == Some(OnboardingPhase::Succeeded))
            .await
    );
    for i in 0..100 {
        fleet.add_server("node1", &format!("s{i}"), "ACTIVE", 512);
    }
    let start = fleet.clock();
    let spec = EvictionSpec {
        hypervisor: "node1".into(),
        reason: "test".into(),
        parallel: Some(20),
        ..EvictionSpec::default()
    };
    all.evict("out", spec);
    let empty = |all: &Simulation| all.fleet.servers().iter().all(|server| server.host == "node2");
    assert!(all.run(hour, empty).await);
    let took = fleet.clock() - start;
    assert_eq!(fleet.most_moves(), 20);
    // One by one, each 30 s and seen at the next of polls that are 10 s apart.
    assert!(took * 20 < Duration::from_secs(100 * 40), "{took:?}");
    assert_eq!(fleet.violations(), Violations::default());
}

#[tokio::test]
async fn an_eviction_of_its_own_enables_again_by_its_reason() {
    let fleet = SimulatedFleet::default();
    fleet.add_host("node1", 8, 8192);
    let mut all = Simulation::new(fleet.clone());
    all.join("node1", HypervisorSpec::default());
    let hour = Duration::from_secs(3600);
    assert!(
        all.run(hour, |all| all.phase("node1") == Some(OnboardingPhase::Succeeded))
            .await
    );
    let stuck = fleet.add_server("node1", "a", "ACTIVE", 512);
    let spec = EvictionSpec {
        hypervisor: "node1".into(),
        reason: "test".into(),
        ..EvictionSpec::default()
    };
    all.evict("out", spec);
    all.run(Duration::from_secs(60), |_| false).await;
    let service = fleet.service("node1").expect("there");
    assert_eq!(service.disabled_reason.as_deref(), Some("c5c3: eviction out"));
    let told = all.evictions["out"].status.clone().expect("told");
    let evicting = told
        .conditions
        .iter()
        .find(|one| one.type_ == "Evicting")
        .expect("told");
    assert_eq!(
        (evicting.status.as_str(), evicting.reason.as_str()),
        ("False", "Failed")
    );
    assert!(
        evicting.message.contains("no other enabled host has room"),
        "{}",
        evicting.message
    );
    all.cancel("out");
    assert!(all.run(hour, |all| !all.evictions.contains_key("out")).await);
    assert!(fleet.service("node1").expect("there").enabled());
    assert_eq!(fleet.servers()[0].id, stuck, "it stayed");
}

/// What happens to a host, as Kubernetes, Nova and its guests see it.
fn strike(all: &mut Simulation, name: &str, event: u64) {
    let fleet = all.fleet.clone();
    match event {
        // The plug is pulled; when that is known is another matter.
        0 | 1 => {
            fleet.set_power(name, false);
            fleet.set_up(name, false);
            all.silent.insert(name.to_owned());
            all.mute.insert(name.to_owned());
        }
        // Frozen, or cut off from everybody.
        2 => {
            fleet.set_up(name, false);
            all.silent.insert(name.to_owned());
            all.mute.insert(name.to_owned());
        }
        // Neither its kubelet nor its nova-compute is heard, but its agent is: it runs.
        5 if fleet.has_power(name) => {
            fleet.set_up(name, false);
            all.silent.insert(name.to_owned());
            all.mute.remove(name);
        }
        6 => toggle(&mut all.deaf_plugs, name),
        3 => fleet.set_up(name, false),
        4 => {
            all.silent.insert(name.to_owned());
        }
        _ => heal(all, name),
    }
    all.wake(name);
}

fn heal(all: &mut Simulation, name: &str) {
    all.fenced.remove(name);
    all.mute.remove(name);
    all.deaf_plugs.remove(name);
    all.fleet.set_power(name, true);
    all.fleet.set_up(name, true);
    all.silent.remove(name);
    all.wake(name);
}

#[tokio::test]
async fn failed_hosts_never_have_two_writers_and_their_servers_come_back() {
    let wished = std::env::var("C5C3_WORLDS")
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in 1..=wished.unwrap_or(WORLDS) {
        failures(seed).await;
    }
}

async fn failures(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let fleet = SimulatedFleet::default();
    let names: Vec<String> = (1..=2 + dice.roll(4)).map(|i| format!("node{i}")).collect();
    let mut all = Simulation::new(fleet.clone());
    for name in &names {
        fleet.add_host(name, 64, 65536);
        let spec = HypervisorSpec {
            skip_tests: true,
            ..HypervisorSpec::default()
        };
        all.join(name, spec);
        if dice.roll(2) == 0 {
            all.plugs.insert(name.clone());
        }
    }
    all.run(Duration::from_secs(300), |_| false).await;
    let mut servers = BTreeSet::new();
    for i in 0..5 + dice.roll(20) {
        let host = &names[usize::try_from(dice.roll(names.len() as u64)).expect("small")];
        let id = fleet.add_server(host, &format!("s{i}"), "ACTIVE", 512);
        if dice.roll(6) == 0 {
            fleet.fail_moves(&id, 2);
        }
        servers.insert(id);
    }
    fleet.set_faults(u32::try_from(dice.roll(30)).expect("small"), seed);
    for _ in 0..40 {
        let name = names[usize::try_from(dice.roll(names.len() as u64)).expect("small")].clone();
        let event = dice.roll(12);
        strike(&mut all, &name, event);
        // Somebody looks at the plugs at times.
        if dice.roll(3) == 0 {
            for name in names.iter().filter(|name| !fleet.has_power(name)) {
                all.fenced.insert(name.clone());
                all.wake(name);
            }
        }
        all.run(Duration::from_secs(5 + dice.roll(90)), |_| false).await;
        assert_eq!(fleet.violations(), Violations::default(), "world {seed}");
        assert_eq!(
            all.cut_alive, 0,
            "world {seed}: a host was cut off that was heard"
        );
    }
    // All heal but one, which is off for certain.
    fleet.set_faults(0, 1);
    for name in &names {
        heal(&mut all, name);
    }
    for server in &servers {
        fleet.fail_moves(server, 0);
        fleet.set_status(server, "ACTIVE");
    }
    let in_service = |all: &Simulation, name: &String| {
        let status = all.hosts[name].status.clone().unwrap_or_default();
        let service = all.fleet.service(name);
        status.failover.is_none() && service.is_some_and(|one| one.up() && one.enabled() && !one.forced_down)
    };
    let healed = all
        .run(Duration::from_secs(3600), |all| {
            names.iter().all(|name| in_service(all, name))
        })
        .await;
    assert!(healed, "world {seed}: {:?}", fleet.service(&names[0]));
    let dead = names[0].clone();
    strike(&mut all, &dead, 0);
    all.fenced.insert(dead.clone());
    let empty = |all: &Simulation| all.fleet.servers().iter().all(|guest| guest.host != dead);
    assert!(
        all.run(Duration::from_secs(1800), empty).await,
        "world {seed}: {:?}",
        all.hosts[&dead].status
    );
    heal(&mut all, &dead);
    let back = all
        .run(Duration::from_secs(1800), |all| in_service(all, &dead))
        .await;
    assert!(back, "world {seed}: {:?}", fleet.service(&dead));
    assert_eq!(fleet.violations(), Violations::default(), "world {seed}");
    let there: BTreeSet<String> = fleet.servers().into_iter().map(|one| one.id).collect();
    assert_eq!(there, servers, "world {seed}: no server is lost");
}
