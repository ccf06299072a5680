//! The state machine against a simulated runtime: whatever happens, no container runs
//! twice, and the pod gets where it should.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Probe};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use crate::pods::decide::{Action, Decision, Input, decide};
use crate::pods::memory::{Memory, Probed, Task};
use crate::pods::observe::observed::{Container, Observed, Sandbox, State};
use crate::pods::observe::view;
use crate::pods::steps::next_streak;

/// What may happen between two decisions.
#[derive(Clone, Debug)]
enum Accident {
    None,
    /// A running container ends with this code.
    Exit(u8, i32),
    /// The program forgets everything that it only remembered.
    Restart,
    /// The node dies: the sandbox is not ready, everything in it has ended.
    PowerCut,
    /// An action is started but its end is never heard of.
    LostWord,
    Delete,
}

struct World {
    pod: Pod,
    observed: Observed,
    memory: Memory,
    now: Timestamp,
    next: u32,
    finished: bool,
    node_ready: bool,
}

impl World {
    fn new(policy: &str, codes: usize) -> Self {
        let containers: Vec<_> = (0..codes).map(|i| json!({ "name": format!("c{i}") })).collect();
        let pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u" },
            "spec": { "restartPolicy": policy, "containers": containers,
                "initContainers": [{ "name": "i0" }, { "name": "side", "restartPolicy": "Always" }] },
        }))
        .unwrap();
        Self {
            pod,
            observed: Observed::default(),
            memory: Memory::default(),
            now: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000),
            next: 0,
            finished: false,
            node_ready: true,
        }
    }

    fn decide(&self) -> Decision {
        decide(&Input {
            pod: &self.pod,
            observed: &self.observed,
            memory: &self.memory,
            node_address: "10.0.0.1",
            node_ready: self.node_ready,
            now: self.now,
        })
    }

    fn step(&mut self, accident: &Accident) {
        self.happen(accident);
        let decision = self.decide();
        let final_before = view::is_final(view::phase(&self.pod));
        if final_before {
            assert_eq!(
                decision.status.phase.as_deref(),
                view::phase(&self.pod),
                "final stays"
            );
        }
        self.pod.status = Some(decision.status);
        for action in decision.actions {
            if matches!(accident, Accident::LostWord) && self.next.is_multiple_of(2) {
                self.next += 1;
                continue;
            }
            self.apply(action);
        }
        self.check();
        self.now += SignedDuration::from_secs(7);
        // Init containers end by themselves.
        for c in &mut self.observed.containers {
            if c.name == "i0" && c.state == State::Running {
                end(c, 0, self.now);
            }
        }
    }

    fn happen(&mut self, accident: &Accident) {
        match accident {
            Accident::None | Accident::LostWord => {}
            Accident::Exit(which, code) => {
                let name = format!("c{which}");
                let now = self.now;
                let running = |c: &&mut Container| c.name == name && c.state == State::Running;
                if let Some(c) = self.observed.containers.iter_mut().find(running) {
                    end(c, *code, now);
                }
            }
            Accident::Restart => self.memory = Memory::default(),
            Accident::PowerCut => {
                let now = self.now;
                self.memory = Memory::default();
                self.observed.sandboxes.iter_mut().for_each(|s| s.ready = false);
                for c in self.observed.containers.iter_mut().filter(|c| c.lives()) {
                    end(c, 255, now);
                }
            }
            Accident::Delete => {
                self.pod.metadata.deletion_timestamp = Some(Time(self.now));
                self.pod.metadata.deletion_grace_period_seconds = Some(1);
            }
        }
    }

    fn apply(&mut self, action: Action) {
        self.next += 1;
        let id = format!("id{}", self.next);
        match action {
            Action::RunSandbox { attempt } => {
                assert!(
                    self.observed.sandboxes.iter().all(|s| s.attempt != attempt),
                    "name taken"
                );
                self.observed.sandboxes.push(Sandbox {
                    id,
                    attempt,
                    ready: true,
                    created: self.now,
                    ip: Some("10.1.1.1".into()),
                });
            }
            Action::StopSandbox { id } => {
                let now = self.now;
                let all = self.observed.containers.iter_mut();
                for c in all.filter(|c| c.sandbox == id && c.lives()) {
                    end(c, 137, now);
                }
                self.observed
                    .sandboxes
                    .iter_mut()
                    .filter(|s| s.id == id)
                    .for_each(|s| s.ready = false);
                self.memory.stopped.insert(id);
            }
            Action::RemoveSandbox { id } => {
                self.observed.sandboxes.retain(|s| s.id != id);
                self.observed.containers.retain(|c| c.sandbox != id);
            }
            Action::Start {
                name,
                attempt,
                sandbox,
            } => {
                let taken = self
                    .observed
                    .containers
                    .iter()
                    .any(|c| c.name == name && c.attempt == attempt);
                assert!(!taken, "container name {name}/{attempt} taken");
                if let Some(ended) = self.observed.latest(&sandbox, &name) {
                    let streak = next_streak(ended, &self.memory);
                    self.memory.streaks.insert(name.clone(), streak);
                }
                self.observed.containers.push(Container {
                    id,
                    name,
                    attempt,
                    sandbox,
                    state: State::Running,
                    created: self.now,
                    started: Some(self.now),
                    finished: None,
                    exit_code: 0,
                    reason: String::new(),
                    message: String::new(),
                    image: String::new(),
                    image_id: String::new(),
                });
            }
            Action::Stop { id, .. } | Action::Hurry { id, .. } => {
                let now = self.now;
                self.observed
                    .containers
                    .iter_mut()
                    .filter(|c| c.id == id)
                    .for_each(|c| end(c, 143, now));
            }
            Action::Remove { id } => self.observed.containers.retain(|c| c.id != id),
            Action::Finish => {
                assert!(self.observed.sandboxes.is_empty(), "nothing is left behind");
                self.finished = true;
            }
        }
    }

    fn check(&self) {
        for c in self.observed.containers.iter().filter(|c| c.lives()) {
            let twins = self.observed.instances(&c.name).filter(|o| o.lives()).count();
            assert_eq!(twins, 1, "{} runs twice", c.name);
        }
    }
}

fn end(container: &mut Container, code: i32, now: Timestamp) {
    container.state = State::Exited;
    container.exit_code = code;
    container.finished = Some(now);
}

fn accidents() -> impl Strategy<Value = Accident> {
    prop_oneof![
        8 => Just(Accident::None),
        3 => (0u8..2, prop_oneof![Just(0), Just(1)]).prop_map(|(c, code)| Accident::Exit(c, code)),
        1 => Just(Accident::Restart),
        1 => Just(Accident::PowerCut),
        1 => Just(Accident::LostWord),
    ]
}

proptest! {
    #[test]
    fn nothing_runs_twice_and_deletion_ends(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        list in prop::collection::vec(accidents(), 0..40),
    ) {
        let mut world = World::new(policy, 2);
        for accident in &list {
            world.step(accident);
        }
        world.step(&Accident::Delete);
        for _ in 0..20 {
            if world.finished {
                break;
            }
            world.step(&Accident::None);
        }
        prop_assert!(world.finished, "{:?}", world.observed);
    }

    #[test]
    fn a_pod_that_restarts_comes_back(list in prop::collection::vec(accidents(), 0..40)) {
        let mut world = World::new("Always", 2);
        for accident in &list {
            world.step(accident);
        }
        for _ in 0..200 {
            world.step(&Accident::None);
        }
        let status = world.pod.status.clone().unwrap();
        let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        prop_assert!(ready, "{status:?}");
        prop_assert_eq!(status.phase.as_deref(), Some("Running"));
    }
}

fn run(world: &mut World, steps: usize) {
    for _ in 0..steps {
        world.step(&Accident::None);
    }
}

#[test]
fn ends_by_policy() {
    for (policy, codes, phase) in [
        ("Never", [0, 0], "Succeeded"),
        ("Never", [0, 1], "Failed"),
        ("OnFailure", [0, 0], "Succeeded"),
        ("OnFailure", [0, 1], "Running"),
        ("Always", [0, 0], "Running"),
    ] {
        let mut world = World::new(policy, 2);
        run(&mut world, 10);
        world.step(&Accident::Exit(0, codes[0]));
        world.step(&Accident::Exit(1, codes[1]));
        run(&mut world, 10);
        let status = world.pod.status.clone().unwrap();
        assert_eq!(status.phase.as_deref(), Some(phase), "{policy} {codes:?}");
        let helper = world.observed.last("side").unwrap();
        assert_eq!(
            helper.state == State::Running,
            phase == "Running",
            "{policy} {codes:?}"
        );
    }
}

#[test]
fn a_pod_that_never_restarts_is_not_started_again_after_a_power_cut() {
    let mut world = World::new("Never", 1);
    run(&mut world, 10);
    world.step(&Accident::PowerCut);
    run(&mut world, 10);
    let status = world.pod.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert!(world.observed.containers.iter().all(|c| !c.lives()));
}

#[test]
fn deadlines_end_pods() {
    let mut world = World::new("Always", 1);
    world.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(60);
    run(&mut world, 20);
    let status = world.pod.status.clone().unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.reason.as_deref()),
        (Some("Failed"), Some("DeadlineExceeded"))
    );
    assert!(world.observed.containers.iter().all(|c| !c.lives()));
}

#[test]
fn absurd_deadlines_never_come() {
    let mut world = World::new("Always", 1);
    world.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(i64::MAX);
    run(&mut world, 20);
    let status = world.pod.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_shorter_grace_hurries_a_stop_that_runs() {
    let mut world = World::new("Always", 1);
    run(&mut world, 10);
    let main = world.observed.last("c0").unwrap().id.clone();
    // The stop with an hour's grace is under way.
    world.memory.running.insert(Task::End(main.clone()));
    let due = world.now + SignedDuration::from_hours(1);
    world.memory.stopping.insert(main.clone(), due);
    world.pod.metadata.deletion_timestamp = Some(Time(world.now));
    for (grace, expected) in [
        (3600, vec![]),
        (i64::MAX, vec![]),
        (
            2,
            vec![Action::Hurry {
                id: main.clone(),
                grace: 2,
            }],
        ),
    ] {
        world.pod.metadata.deletion_grace_period_seconds = Some(grace);
        assert_eq!(world.decide().actions, expected, "{grace}");
    }
    world.memory.stopping.insert(main.clone(), world.now);
    assert_eq!(world.decide().actions, [], "it is as fast as asked for");
}

#[test]
fn pods_of_a_node_that_does_not_answer_are_not_ready() {
    let mut world = World::new("Always", 1);
    run(&mut world, 10);
    let ready = |world: &World| {
        let conditions = world.decide().status.conditions.unwrap();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready").unwrap();
        (ready.status, ready.reason)
    };
    assert_eq!(ready(&world), ("True".into(), None));
    world.node_ready = false;
    assert_eq!(ready(&world), ("False".into(), Some("NodeNotReady".into())));
}

#[test]
fn what_is_complete_does_not_run_again_in_a_new_sandbox() {
    let mut world = World::new("OnFailure", 2);
    run(&mut world, 10);
    world.step(&Accident::Exit(0, 0));
    world.step(&Accident::PowerCut);
    run(&mut world, 10);
    let state = |name: &str| {
        let status = world.pod.status.as_ref().unwrap();
        let all = status.container_statuses.as_ref().unwrap();
        let one = all.iter().find(|s| s.name == name).unwrap();
        (one.restart_count, one.state.clone().unwrap_or_default())
    };
    let (restarts, complete) = state("c0");
    assert_eq!((restarts, complete.terminated.map(|t| t.exit_code)), (0, Some(0)));
    assert!(state("c1").1.running.is_some());
    world.step(&Accident::Exit(1, 0));
    run(&mut world, 10);
    assert_eq!(world.pod.status.unwrap().phase.as_deref(), Some("Succeeded"));
}

#[test]
fn helpers_get_what_is_left_of_the_grace() {
    for (left, expected) in [(30, 30), (12, 12), (1, 2), (-5, 2)] {
        let mut world = World::new("Always", 1);
        run(&mut world, 10);
        let now = world.now;
        let main = world.observed.containers.iter_mut().find(|c| c.name == "c0");
        end(main.unwrap(), 143, now);
        world.pod.metadata.deletion_timestamp = Some(Time(now + SignedDuration::from_secs(left)));
        world.pod.metadata.deletion_grace_period_seconds = Some(30);
        let grace: Vec<_> = world
            .decide()
            .actions
            .iter()
            .map(|action| match action {
                Action::Stop { name, grace, .. } => (name.clone(), *grace),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(grace, [("side".to_owned(), expected)], "{left}");
    }
}

#[test]
fn the_probe_that_failed_says_how_long_the_end_may_take() {
    let probe = |seconds: i64| Probe {
        termination_grace_period_seconds: Some(seconds),
        ..Probe::default()
    };
    for (started, expected) in [(false, 7), (true, 5)] {
        let mut world = World::new("Always", 1);
        run(&mut world, 10);
        let containers = &mut world.pod.spec.as_mut().unwrap().containers;
        containers[0].startup_probe = Some(probe(7));
        containers[0].liveness_probe = Some(probe(5));
        let main = world.observed.containers.iter().find(|c| c.name == "c0").unwrap();
        let failed = Probed {
            started,
            ready: false,
            unhealthy: Some("failed".into()),
        };
        world.memory.probes.insert(main.id.clone(), failed);
        let actions = world.decide().actions;
        let grace = actions.iter().find_map(|action| match action {
            Action::Stop { name, grace, .. } if name == "c0" => Some(*grace),
            _ => None,
        });
        assert_eq!(grace, Some(expected), "{actions:?}");
    }
}
