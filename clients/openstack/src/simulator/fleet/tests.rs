use std::time::Duration;

use super::SimulatedFleet;
use crate::error::Class;
use crate::fleet::{Fleet, TestDraft};
use crate::simulator::Fault;

async fn two_hosts() -> SimulatedFleet {
    let fleet = SimulatedFleet::default();
    for host in ["node1", "node2"] {
        fleet.add_host(host, 8, 8192);
        let id = fleet.service(host).expect("there").id;
        fleet.enable(&id).await.expect("enabled");
    }
    fleet
}

#[tokio::test]
async fn a_live_migration_takes_its_time_and_cannot_start_twice() {
    let fleet = two_hosts().await;
    let id = fleet.add_server("node1", "a", "ACTIVE", 512);
    fleet.live_migrate(&id).await.expect("started");
    let again = fleet.live_migrate(&id).await.expect_err("twice");
    assert_eq!(
        (again.class(), fleet.violations().double_starts),
        (Class::Conflict, 1)
    );
    fleet.advance(Duration::from_secs(29));
    assert_eq!(fleet.guests_on("node1").await.expect("a list").len(), 1);
    fleet.advance(Duration::from_secs(1));
    assert_eq!(fleet.guests_on("node2").await.expect("a list").len(), 1);
    assert_eq!(
        fleet.moves_from("node1").await.expect("a list")[0].status,
        "completed"
    );
}

#[tokio::test]
async fn what_does_not_converge_goes_on_until_it_is_aborted() {
    let fleet = two_hosts().await;
    let id = fleet.add_server("node1", "a", "ACTIVE", 512);
    fleet.never_converge(&id, true);
    fleet.live_migrate(&id).await.expect("started");
    fleet.advance(Duration::from_secs(3600));
    let number = fleet.progress(&id).await.expect("read")[0].id;
    fleet.abort_migration(&id, number).await.expect("aborted");
    assert_eq!(fleet.guest(&id).await.expect("read").expect("there").task, None);
}

#[tokio::test]
async fn what_does_not_converge_is_completed_by_force_once() {
    let fleet = two_hosts().await;
    let id = fleet.add_server("node1", "a", "ACTIVE", 512);
    fleet.never_converge(&id, true);
    fleet.live_migrate(&id).await.expect("started");
    fleet.advance(Duration::from_secs(3600));
    let number = fleet.progress(&id).await.expect("read")[0].id;
    fleet.force_complete(&id, number).await.expect("asked");
    fleet.force_complete(&id, number).await.expect_err("asked before");
    fleet.advance(Duration::from_secs(2));
    assert_eq!(fleet.guests_on("node2").await.expect("a list").len(), 1);
    fleet.force_complete(&id, number).await.expect_err("it is over");
}

#[tokio::test]
async fn progress_is_what_was_sent() {
    let fleet = two_hosts().await;
    let id = fleet.add_server("node1", "a", "ACTIVE", 1000);
    fleet.set_speed(10);
    fleet.live_migrate(&id).await.expect("started");
    fleet.advance(Duration::from_secs(25));
    let seen = fleet.progress(&id).await.expect("read").remove(0);
    assert_eq!(seen.remaining.zip(seen.total), Some(((3 << 30) / 4, 1 << 30)));
    fleet.advance(Duration::from_secs(75));
    assert!(fleet.progress(&id).await.expect("read").is_empty());
}

#[tokio::test]
async fn a_lost_answer_is_a_call_that_worked() {
    let fleet = two_hosts().await;
    fleet.inject([Fault::Lost]);
    let draft = TestDraft {
        name: "t".into(),
        host: "node1".into(),
        ..TestDraft::default()
    };
    fleet.create_test_server(&draft).await.expect_err("lost");
    assert_eq!(fleet.guests_named("t").await.expect("a list").len(), 1);
}

#[tokio::test]
async fn a_host_with_servers_keeps_its_service_and_provider() {
    let fleet = two_hosts().await;
    fleet.add_server("node1", "a", "ACTIVE", 512);
    let service = fleet.service("node1").expect("there").id;
    assert_eq!(
        fleet.delete_service(&service).await.expect_err("used").class(),
        Class::Conflict
    );
    assert!(fleet.knows("node1"));
}
