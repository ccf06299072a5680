use c5c3_api::common::Time;
use c5c3_api::hypervisor::{EvictionSpec, EvictionStatus, InstanceEviction, InstanceState};
use jiff::{SignedDuration, Timestamp};
use openstack_client::{Guest, Move, MoveProgress, Service};

use super::planner::plan;
use super::view::{Action, HostView, Step, View};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn ago(seconds: i64) -> Option<Time> {
    Some(Time(now() - SignedDuration::from_secs(seconds)))
}

fn guest(id: &str, status: &str, task: Option<&str>) -> Guest {
    Guest {
        id: id.into(),
        name: format!("name-{id}"),
        status: status.into(),
        task: task.map(str::to_owned),
        host: "node1".into(),
        ram_mb: 512,
        ..Guest::default()
    }
}

fn view(guests: Vec<Guest>) -> View {
    View {
        name: "node1".into(),
        spec: EvictionSpec {
            hypervisor: "node1".into(),
            reason: "disk".into(),
            ..EvictionSpec::default()
        },
        before: EvictionStatus::default(),
        deleting: false,
        host: Ok(HostView {
            service: Some(Service {
                id: "s1".into(),
                host: "node1".into(),
                status: "disabled".into(),
                state: "up".into(),
                disabled_reason: Some("c5c3: maintenance (manual): disk".into()),
                forced_down: false,
            }),
            name: "node1".into(),
            guests,
            ..HostView::default()
        }),
        now: now(),
    }
}

fn host(view: &mut View) -> &mut HostView {
    view.host.as_mut().expect("a host")
}

fn migrating(id: &str, attempts: i32, seconds: i64) -> InstanceEviction {
    InstanceEviction {
        server: id.into(),
        name: format!("name-{id}"),
        state: InstanceState::Migrating,
        attempts,
        since: ago(seconds),
        ..InstanceEviction::default()
    }
}

fn evicting(step: &Step) -> (&str, &str) {
    let state = step.states.get("Evicting").expect("told");
    (state.truth.as_str(), state.reason.as_str())
}

fn one<'a>(step: &'a Step, id: &str) -> &'a InstanceEviction {
    let mut all = step.status.instances.iter();
    all.find(|one| one.server == id).expect("there")
}

#[test]
fn the_service_is_closed_before_anything_moves() {
    let mut view = view(vec![guest("a", "ACTIVE", None)]);
    host(&mut view).service.as_mut().expect("there").status = "enabled".into();
    let step = plan(&view);
    assert_eq!(
        step.actions,
        [Action::Disable {
            service: "s1".into(),
            reason: "c5c3: eviction node1".into()
        }]
    );
}

#[test]
fn each_server_moves_as_its_status_allows() {
    for (status, task, expected) in [
        ("ACTIVE", None, Some(Action::Live { server: "a".into() })),
        ("PAUSED", None, Some(Action::Live { server: "a".into() })),
        ("SHUTOFF", None, Some(Action::Cold { server: "a".into() })),
        ("BUILD", None, None),
        ("ERROR", None, None),
        ("SUSPENDED", None, None),
        ("VERIFY_RESIZE", None, None),
        ("ACTIVE", Some("rebooting"), None),
        ("ACTIVE", Some("migrating"), None),
    ] {
        let step = plan(&view(vec![guest("a", status, task)]));
        assert_eq!(step.actions.first().cloned(), expected, "{status} {task:?}");
    }
}

#[test]
fn no_more_at_a_time_than_the_budget_the_largest_first() {
    let mut guests: Vec<Guest> = (0..9).map(|i| guest(&format!("g{i}"), "ACTIVE", None)).collect();
    guests[0].task = Some("migrating".into());
    guests[7].ram_mb = 4096;
    let mut view = view(guests);
    assert_eq!(plan(&view).actions.len(), 3, "four by default, one is under way");
    assert_eq!(plan(&view).actions[0], Action::Live { server: "g7".into() });
    view.spec.parallel = Some(20);
    assert_eq!(plan(&view).actions.len(), 8);
    view.spec.paused = Some(true);
    let step = plan(&view);
    assert_eq!((step.actions.len(), evicting(&step)), (0, ("True", "Paused")));
}

#[test]
fn a_late_one_is_called_back_and_tried_again_until_it_is_left_for_later() {
    let mut late = view(vec![guest("a", "ACTIVE", Some("migrating"))]);
    late.before.instances = vec![migrating("a", 1, 1801)];
    let progress = MoveProgress {
        id: 7,
        status: "running".into(),
        total: Some(1000),
        remaining: Some(250),
    };
    host(&mut late).progress.insert("a".into(), progress);
    let step = plan(&late);
    assert_eq!(
        step.actions,
        [Action::Abort {
            server: "a".into(),
            migration: 7
        }]
    );
    assert_eq!(
        (one(&step, "a").state, one(&step, "a").progress),
        (InstanceState::Aborting, Some(75))
    );

    let mut back = view(vec![guest("a", "ACTIVE", None)]);
    back.before.instances = vec![InstanceEviction {
        state: InstanceState::Aborting,
        ..migrating("a", 1, 5)
    }];
    host(&mut back).moves = vec![Move {
        id: 7,
        server: "a".into(),
        status: "cancelled".into(),
        ..Move::default()
    }];
    let step = plan(&back);
    assert_eq!(
        (step.actions.len(), one(&step, "a").state),
        (0, InstanceState::Waiting),
        "a pause first"
    );
    assert!(
        one(&step, "a")
            .message
            .as_deref()
            .expect("said")
            .contains("cancelled")
    );
    back.before.instances = step.status.instances;
    back.now += SignedDuration::from_secs(11);
    let again = plan(&back);
    assert_eq!((again.actions.len(), one(&again, "a").attempts), (1, 2));

    back.before.instances = vec![migrating("a", 3, 5)];
    let failed = plan(&back);
    assert_eq!(
        (failed.actions.len(), evicting(&failed)),
        (0, ("False", "Failed"))
    );
    back.before.instances = failed.status.instances;
    back.now += SignedDuration::from_mins(11);
    assert_eq!(plan(&back).actions.len(), 1, "not given up for ever");
}

#[test]
fn nova_is_asked_once_to_complete_what_does_not_converge() {
    let mut slow = view(vec![guest("a", "ACTIVE", Some("migrating"))]);
    let progress = MoveProgress {
        id: 7,
        status: "running".into(),
        total: Some(1000),
        remaining: Some(250),
    };
    host(&mut slow).progress.insert("a".into(), progress);
    let after = |seconds| {
        let mut view = slow.clone();
        view.before.instances = vec![migrating("a", 1, seconds)];
        plan(&view)
    };
    assert!(after(900).actions.is_empty(), "half of the time is not over");
    let asked = after(901);
    let force = Action::Force {
        server: "a".into(),
        migration: 7,
    };
    assert_eq!(asked.actions, [force]);
    assert_eq!(
        (one(&asked, "a").state, one(&asked, "a").forced),
        (InstanceState::Migrating, Some(true))
    );
    let abort = Action::Abort {
        server: "a".into(),
        migration: 7,
    };
    assert_eq!(after(1801).actions, [abort], "too late to be asked");
    slow.before = asked.status;
    slow.now += SignedDuration::from_secs(5);
    assert!(plan(&slow).actions.is_empty(), "once");
    // The next try may be completed by force as well.
    host(&mut slow).progress.clear();
    host(&mut slow).guests[0].task = None;
    let ended = plan(&slow);
    assert_eq!(one(&ended, "a").forced, None);
}

#[test]
fn what_cannot_move_is_named_and_is_no_success() {
    let mut view = view(vec![guest("a", "ERROR", None), guest("b", "ACTIVE", None)]);
    host(&mut view).no_room.insert("b".into(), "VCPU 64".into());
    host(&mut view).moves = vec![Move {
        id: 7,
        server: "a".into(),
        status: "error".into(),
        ..Move::default()
    }];
    let step = plan(&view);
    assert_eq!(evicting(&step), ("False", "Failed"));
    let said = &step.states.get("PreflightChecksSucceeded").expect("told").message;
    assert!(
        said.contains("name-a (a): is in status ERROR")
            && said.contains("7, ended as \"error\"")
            && said.contains("room for VCPU 64"),
        "{said}"
    );
    assert_eq!(step.status.outstanding_ram_mb, Some(1024));
    // Room appears: it goes on by itself.
    host(&mut view).no_room.clear();
    view.before = step.status;
    assert_eq!(plan(&view).actions, [Action::Live { server: "b".into() }]);
}

#[test]
fn a_host_that_is_down_moves_nothing() {
    let mut view = view(vec![guest("a", "ACTIVE", None)]);
    host(&mut view).service.as_mut().expect("there").state = "down".into();
    let step = plan(&view);
    assert!(step.actions.is_empty());
    assert!(
        one(&step, "a")
            .message
            .as_deref()
            .expect("said")
            .contains("evacuated")
    );
}

#[test]
fn empty_is_what_stays_empty() {
    let mut view = view(Vec::new());
    let first = plan(&view);
    assert_eq!(
        evicting(&first),
        ("True", "Running"),
        "a late arrival may be on its way"
    );
    view.before = first.status;
    view.now += SignedDuration::from_secs(10);
    let second = plan(&view);
    assert_eq!(evicting(&second), ("False", "Succeeded"));
    view.before = second.status;
    host(&mut view).guests = vec![guest("late", "ACTIVE", None)];
    let third = plan(&view);
    assert_eq!((evicting(&third), third.actions.len()), (("True", "Running"), 1));
    assert_eq!(third.status.empty_since, None);
}

#[test]
fn a_stopped_server_that_arrived_is_confirmed_before_the_host_counts_as_empty() {
    let mut view = view(Vec::new());
    view.before.empty_since = ago(60);
    view.before.started_at = ago(90);
    host(&mut view).moves = vec![
        Move {
            id: 2,
            server: "a".into(),
            status: "finished".into(),
            kind: "migration".into(),
            ..Move::default()
        },
        Move {
            id: 1,
            server: "theirs".into(),
            status: "finished".into(),
            kind: "resize".into(),
            ..Move::default()
        },
    ];
    let step = plan(&view);
    assert_eq!(step.actions, [Action::Confirm { server: "a".into() }]);
    assert_eq!(evicting(&step), ("True", "Running"));
}

#[test]
fn deletion_starts_nothing_waits_for_what_runs_and_enables_by_reason() {
    let mut view = view(vec![
        guest("a", "ACTIVE", Some("migrating")),
        guest("b", "ACTIVE", None),
    ]);
    view.deleting = true;
    let theirs = plan(&view);
    assert_eq!((theirs.actions.len(), theirs.left.len()), (0, 1));
    host(&mut view).service.as_mut().expect("there").disabled_reason = Some("c5c3: eviction node1".into());
    host(&mut view).guests.remove(0);
    let ours = plan(&view);
    assert_eq!(ours.actions, [Action::Enable { service: "s1".into() }]);
    assert!(!ours.left.is_empty(), "until it is seen enabled");
    host(&mut view).service.as_mut().expect("there").status = "enabled".into();
    assert!(plan(&view).left.is_empty());
}

#[test]
fn without_a_host_nothing_is_claimed() {
    let mut view = view(Vec::new());
    view.host = Err("there is no Hypervisor node1".into());
    let step = plan(&view);
    assert_eq!((evicting(&step), step.actions.len()), (("False", "Failed"), 0));
}
