//! Servers on simulated hosts: how long they take to leave, and what is done when they are in trouble.

use std::time::Duration;

use c5c3_api::hypervisor::{EvictionSpec, HypervisorSpec, OnboardingPhase, ReactionState, Trouble};
use openstack_client::SimulatedFleet;

use super::simulation::Simulation;
use super::{Dice, WORLDS};

/// As far off as it may be, beside half and twice: the host counts as empty some seconds after the last server left.
const SLACK: f64 = 20.0;

#[tokio::test]
async fn after_the_first_guest_the_estimate_is_within_a_factor_of_two() {
    for seed in 1..=WORLDS {
        estimate(seed).await;
    }
}

async fn estimate(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let fleet = SimulatedFleet::default();
    for name in ["node1", "node2"] {
        fleet.add_host(name, 500, 2_000_000);
    }
    fleet.set_speed(u32::try_from(5 + dice.roll(60)).expect("small"));
    let mut all = Simulation::new(fleet.clone());
    for name in ["node2", "node1"] {
        all.join(name, HypervisorSpec::default());
    }
    all.run(Duration::from_secs(600), |_| false).await;
    let parallel = 1 + dice.roll(12);
    for i in 0..parallel + 3 + dice.roll(40) {
        let size = [512, 1024, 2048, 4096][usize::try_from(dice.roll(4)).expect("small")];
        fleet.add_server("node1", &format!("s{i}"), "ACTIVE", size);
    }
    let spec = EvictionSpec {
        hypervisor: "node1".into(),
        reason: "test".into(),
        parallel: Some(i32::try_from(parallel).expect("small")),
        ..EvictionSpec::default()
    };
    all.evict("out", spec);
    let status = |all: &Simulation| all.evictions["out"].status.clone().unwrap_or_default();
    let day = Duration::from_secs(86400);
    let first = all
        .run(day, |all| status(all).moved.is_some_and(|moved| moved > 0))
        .await;
    assert!(first, "world {seed}");
    let told = status(&all);
    let start = told.started_at.expect("told").0;
    let (now, expected) = (all.now(), told.estimated_completion.expect("told").0);
    assert!(
        all.run(day, |all| all
            .fleet
            .servers()
            .iter()
            .all(|one| one.host == "node2"))
            .await
    );
    let left = |until: jiff::Timestamp| until.duration_since(now).as_secs_f64();
    let (expected, took) = (left(expected), left(all.now()));
    assert!(
        expected <= took * 2.0 + SLACK && expected * 2.0 + SLACK >= took,
        "world {seed}: {expected} s expected and {took} s taken, {parallel} at a time, started at {start}"
    );
    all.run(Duration::from_secs(60), |_| false).await;
    assert_eq!(status(&all).estimated_completion, None, "it is over");
}

/// Nova refuses for a while, as it does while it is busy with something else: that is no attempt.
#[tokio::test]
async fn a_restart_that_nova_refuses_is_no_attempt() {
    let fleet = SimulatedFleet::default();
    fleet.add_host("node1", 8, 8192);
    let mut all = Simulation::new(fleet.clone());
    all.join("node1", HypervisorSpec::default());
    let hour = Duration::from_secs(3600);
    let served = |all: &Simulation| all.phase("node1") == Some(OnboardingPhase::Succeeded);
    assert!(all.run(hour, served).await);
    let server = fleet.add_server("node1", "a", "ACTIVE", 512);
    all.report("node1", &server, Some(Trouble::Crashed));
    fleet.refuse_restarts(&server, 3);
    let reaction = |all: &Simulation| {
        let status = all.hosts["node1"].status.clone().unwrap_or_default();
        status.reactions.into_iter().find(|one| one.server == server)
    };
    let refused = |all: &Simulation| reaction(all).is_some_and(|one| one.refusals == 3);
    assert!(all.run(hour, refused).await);
    let told = reaction(&all).expect("told");
    assert_eq!((told.attempts, fleet.restarts(&server)), (0, 0), "{told:?}");
    assert!(told.message.expect("said").contains("Nova refused the request"));
    let restarted = |all: &Simulation| all.fleet.restarts(&server) == 1;
    assert!(all.run(hour, restarted).await);
    let told = reaction(&all).expect("told");
    assert_eq!(told.attempts, 1, "{told:?}");
    all.run(Duration::from_secs(20), |_| false).await;
    all.report("node1", &server, None);
    let over = |all: &Simulation| reaction(all).is_some_and(|one| one.state == ReactionState::Recovered);
    assert!(all.run(hour, over).await);
    assert_eq!(reaction(&all).expect("told").refusals, 0);
}
