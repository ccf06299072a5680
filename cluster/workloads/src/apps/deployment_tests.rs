use super::*;
use crate::engine::task::{Task, tasks};
use crate::table::Change;
use crate::testing::Sim;
use crate::world::Changed;

fn deployment(replicas: i32, strategy: Value) -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "web", "uid": "d", "generation": 1},
        "spec": {"replicas": replicas, "strategy": strategy, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}}})
}

fn set_image(sim: &mut Sim, image: &str) {
    sim.change::<Deployment>("web", |deployment| {
        deployment.metadata.generation = deployment.metadata.generation.map(|generation| generation + 1);
        deployment.spec.template.spec.as_mut().expect("a spec").containers[0].image = Some(image.into());
    });
}

fn images(sim: &Sim) -> Vec<String> {
    let active = sim.world.pods.iter().filter(|pod| pods::is_active(pod));
    let mut all: Vec<_> = active
        .map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap())
        .collect();
    all.sort();
    all
}

fn progressing(sim: &Sim) -> (String, String) {
    let status = sim
        .world
        .deployments
        .iter()
        .next()
        .unwrap()
        .status
        .clone()
        .unwrap();
    let condition = status
        .conditions
        .unwrap()
        .into_iter()
        .find(|c| c.type_.as_deref() == Some("Progressing"))
        .unwrap();
    (condition.status.unwrap(), condition.reason.unwrap())
}

/// Runs the rollout pod by pod; returns the fewest ready and the most pods that were seen.
fn roll(sim: &mut Sim) -> (usize, usize) {
    let (mut fewest, mut most) = (usize::MAX, 0);
    for _ in 0..100 {
        sim.settle();
        fewest = fewest.min(sim.world.pods.iter().filter(|pod| pods::is_ready(pod)).count());
        most = most.max(sim.world.pods.iter().count());
        if sim.world.pods.iter().all(|pod| pods::is_ready(pod)) {
            return (fewest, most);
        }
        sim.run_pods(1);
    }
    panic!("the rollout does not end");
}

#[test]
fn a_rolling_update_keeps_within_surge_and_unavailable() {
    let cases = [
        (
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
            4,
            5,
        ),
        (
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
            3,
            4,
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "25%"}}),
            3,
            6,
        ),
        (
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            3,
            4,
        ),
    ];
    for (strategy, least, most) in cases {
        let mut sim = Sim::default();
        sim.learn(deployment(4, strategy.clone()));
        sim.run_all();
        set_image(&mut sim, "two");
        let (fewest, peak) = roll(&mut sim);
        assert!(
            fewest >= least && peak <= most,
            "{strategy}: {fewest} ready, {peak} pods"
        );
        assert_eq!(images(&sim), ["two"; 4]);
        assert_eq!(
            progressing(&sim),
            ("True".into(), "NewReplicaSetAvailable".into())
        );
    }
}

#[test]
fn recreate_ends_the_old_pods_first() {
    let mut sim = Sim::default();
    sim.learn(deployment(2, json!({"type": "Recreate"})));
    sim.run_all();
    set_image(&mut sim, "two");
    let (_, peak) = roll(&mut sim);
    assert_eq!(peak, 2);
    assert_eq!(images(&sim), ["two", "two"]);
}

#[test]
fn the_end_of_a_pod_wakes_the_deployment_that_may_wait_for_it() {
    let mut sim = Sim::default();
    sim.learn(deployment(1, json!({"type": "Recreate"})));
    sim.run_all();
    let pod = sim.world.pods.iter().next().unwrap().clone();
    let change = |after| {
        Changed::Pod(Change {
            before: Some(pod.clone()),
            after,
        })
    };
    let wakes = |changed: &Changed| {
        let tasks = tasks(&sim.world, changed);
        tasks.iter().any(|task| matches!(task, Task::Deployment(_)))
    };
    assert!(wakes(&change(None)));
    assert!(!wakes(&change(Some(pod.clone()))));
}

#[test]
fn a_template_of_the_past_brings_its_replica_set_back_as_the_newest_revision() {
    let mut sim = Sim::default();
    sim.learn(deployment(1, json!({})));
    sim.run_all();
    set_image(&mut sim, "two");
    sim.run_all();
    set_image(&mut sim, "one");
    sim.run_all();
    assert_eq!(sim.world.replica_sets.iter().count(), 2);
    assert_eq!(images(&sim), ["one"]);
    let newest = sim
        .world
        .replica_sets
        .iter()
        .max_by_key(|set| revision_of(set.as_ref()))
        .unwrap();
    assert_eq!(revision_of(newest.as_ref()), 3);
    assert_eq!(newest.annotations()[REVISION_HISTORY], "1");
    assert_eq!(
        revision_of(sim.world.deployments.iter().next().unwrap().as_ref()),
        3
    );
}

#[test]
fn a_rollout_that_stands_still_says_so_at_its_deadline() {
    let mut sim = Sim::default();
    let mut slow = deployment(1, json!({}));
    slow["spec"]["progressDeadlineSeconds"] = 60.into();
    sim.learn(slow);
    sim.settle();
    sim.pass(30);
    assert_eq!(progressing(&sim).0, "True");
    sim.pass(60);
    assert_eq!(
        progressing(&sim),
        ("False".into(), "ProgressDeadlineExceeded".into())
    );
}

#[test]
fn old_replica_sets_are_kept_to_the_limit_and_a_paused_one_only_scales() {
    let mut sim = Sim::default();
    let mut short = deployment(1, json!({}));
    short["spec"]["revisionHistoryLimit"] = 1.into();
    sim.learn(short);
    sim.run_all();
    for image in ["two", "three", "four"] {
        set_image(&mut sim, image);
        sim.run_all();
    }
    assert_eq!(sim.world.replica_sets.iter().count(), 2);

    sim.change::<Deployment>("web", |deployment| deployment.spec.paused = Some(true));
    set_image(&mut sim, "five");
    sim.change::<Deployment>("web", |deployment| deployment.spec.replicas = Some(3));
    sim.run_all();
    assert_eq!(images(&sim), ["four"; 3]);
}

#[test]
fn a_settled_deployment_asks_for_nothing() {
    let mut sim = Sim::default();
    sim.learn(deployment(2, json!({})));
    sim.run_all();
    let decision = decide(&sim.world, &("n".into(), "web".into()), crate::testing::now());
    assert_eq!(decision.actions, []);
}

#[test]
fn a_pod_lost_after_the_rollout_does_not_start_its_clock() {
    let mut sim = Sim::default();
    sim.learn(deployment(2, json!({})));
    sim.run_all();
    let name = sim.world.pods.iter().next().unwrap().name_any();
    sim.remove("Pod", &name);
    sim.settle();
    sim.jump(700);
    assert_eq!(
        progressing(&sim),
        ("True".into(), "NewReplicaSetAvailable".into())
    );
    set_image(&mut sim, "two");
    sim.settle();
    assert_eq!(
        progressing(&sim).1,
        "ReplicaSetUpdated",
        "the next one counts again"
    );
}

#[test]
fn the_cause_of_a_change_reaches_the_current_set_when_it_is_told_later() {
    let mut sim = Sim::default();
    sim.learn(deployment(1, json!({})));
    sim.run_all();
    sim.change::<Deployment>("web", |deployment| {
        let cause = (
            "kubernetes.io/change-cause".to_owned(),
            "a better image".to_owned(),
        );
        deployment.annotations_mut().extend([cause]);
    });
    sim.settle();
    let set = sim.world.replica_sets.iter().next().unwrap();
    assert_eq!(set.annotations()["kubernetes.io/change-cause"], "a better image");
    assert_eq!(set.annotations()[REVISION], "1");
}

#[test]
fn a_refused_pod_shows_on_the_deployment() {
    let mut sim = Sim::default();
    sim.learn(deployment(1, json!({})));
    sim.settle();
    let set = sim.world.replica_sets.iter().next().unwrap().name_any();
    sim.change::<ReplicaSet>(&set, |set| {
        set.status = serde_json::from_value(json!({"replicas": 0, "conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no such account"}]}))
        .unwrap();
    });
    let decision = decide(&sim.world, &("n".into(), "web".into()), crate::testing::now());
    let text = format!("{:?}", decision.actions);
    assert!(
        text.contains("ReplicaFailure") && text.contains("no such account"),
        "{text}"
    );
}

#[test]
fn a_deployment_that_is_scaled_in_a_rollout_shares_the_pods_among_its_replica_sets() {
    let mut sim = Sim::default();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    sim.learn(deployment(10, strategy));
    sim.run_all();
    // The new image never becomes ready.
    set_image(&mut sim, "broken");
    sim.settle();
    let sizes = |sim: &Sim| {
        let mut sizes: Vec<i32> = sim
            .world
            .replica_sets
            .iter()
            .map(|set| rollout::wanted(set))
            .collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&sim), [5, 8]);
    let resize = |sim: &mut Sim, to: i32| {
        sim.change::<Deployment>("web", |deployment| deployment.spec.replicas = Some(to));
        sim.settle();
    };
    resize(&mut sim, 30);
    assert_eq!(sizes(&sim), [13, 20]);
}
