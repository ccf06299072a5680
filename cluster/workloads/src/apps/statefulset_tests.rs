use super::*;
use crate::testing::Sim;
use serde_json::{Value, json};

fn set(policy: &str, replicas: i32) -> Value {
    json!({"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"namespace": "n", "name": "db", "uid": "ss"},
        "spec": {"replicas": replicas, "serviceName": "db-headless", "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "db"}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}}})
}

fn names(sim: &Sim) -> Vec<String> {
    sim.world.pods.iter().map(|pod| pod.name_any()).collect()
}

#[test]
fn ordered_pods_come_one_by_one_and_leave_from_the_end() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 3));
    sim.settle();
    assert_eq!(names(&sim), ["db-0"]);
    sim.run_pods(1);
    sim.settle();
    assert_eq!(names(&sim), ["db-0", "db-1"]);
    sim.run_all();
    assert_eq!(names(&sim), ["db-0", "db-1", "db-2"]);
    let pod = sim.world.pods.get(&("n".into(), "db-1".into())).unwrap();
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("db-1"), Some("db-headless"))
    );
    assert_eq!(sim.world.claims.iter().count(), 3);

    sim.change::<StatefulSet>("db", |set| set.spec.replicas = Some(1));
    sim.settle();
    assert_eq!(names(&sim), ["db-0"]);
    assert_eq!(sim.world.claims.iter().count(), 3, "claims stay");
}

#[test]
fn parallel_pods_come_at_once() {
    let mut sim = Sim::default();
    sim.learn(set("Parallel", 3));
    sim.settle();
    assert_eq!(names(&sim).len(), 3);
}

#[test]
fn an_update_goes_from_the_end_and_stops_at_the_partition() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 3));
    sim.run_all();
    sim.change::<StatefulSet>("db", |set| {
        let spec = &mut set.spec;
        spec.template.spec.as_mut().unwrap().containers[0].image = Some("two".into());
        spec.update_strategy =
            serde_json::from_value(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}))
                .unwrap();
    });
    sim.run_all();
    let images: Vec<_> = sim
        .world
        .pods
        .iter()
        .map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap())
        .collect();
    assert_eq!(images, ["one", "two", "two"]);
}

#[test]
fn a_rollout_that_never_gets_ready_can_be_taken_back() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 2));
    sim.run_all();
    let image = |image: &'static str| {
        move |set: &mut StatefulSet| {
            set.spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
        }
    };
    sim.change::<StatefulSet>("db", image("broken"));
    sim.settle();
    assert!(sim.world.pods.iter().any(|pod| !pods::is_ready(pod)));
    sim.change::<StatefulSet>("db", image("one"));
    sim.run_all();
    assert!(sim.world.pods.iter().all(|pod| pods::is_ready(pod)));
    let status = sim
        .world
        .stateful_sets
        .iter()
        .next()
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!(sim.world.revisions.iter().count(), 2);
}

fn break_pods(sim: &mut Sim) {
    for name in names(sim) {
        sim.change::<Pod>(&name, |pod| {
            pod.status = serde_json::from_value(json!({"phase": "Running"})).expect("a status");
        });
    }
}

#[test]
fn broken_members_are_replaced_one_by_one() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut sim = Sim::default();
        sim.learn(set(policy, 3));
        sim.run_all();
        break_pods(&mut sim);
        sim.change::<StatefulSet>("db", |set| {
            set.spec.template.spec.as_mut().unwrap().containers[0].image = Some("two".into());
        });
        for round in 1..=3 {
            sim.settle();
            let updated =
                |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two");
            let new: Vec<_> = sim.world.pods.iter().filter(|pod| updated(pod)).collect();
            assert_eq!((names(&sim).len(), new.len()), (3, round), "{policy}");
            let waiting: Vec<_> = new
                .iter()
                .filter(|pod| !pods::is_ready(pod))
                .map(|pod| pod.name_any())
                .collect();
            assert_eq!(waiting.len(), 1, "{policy}");
            sim.change::<Pod>(&waiting[0], |pod| {
                pod.status = serde_json::from_value(
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                )
                .expect("a status");
            });
        }
        sim.run_all();
    }
}

#[test]
fn a_parallel_update_still_goes_from_the_end_one_by_one() {
    let mut sim = Sim::default();
    sim.learn(set("Parallel", 3));
    sim.run_all();
    sim.change::<StatefulSet>("db", |set| {
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some("two".into());
    });
    for last in ["db-2", "db-1", "db-0"] {
        sim.settle();
        let waiting: Vec<_> = sim
            .world
            .pods
            .iter()
            .filter(|pod| !pods::is_ready(pod))
            .map(|pod| pod.name_any())
            .collect();
        assert_eq!(waiting, [last]);
        sim.run_pods(1);
    }
}

#[test]
fn only_pods_of_its_names_are_adopted() {
    let mut sim = Sim::default();
    for name in ["db-x", "db-01", "other", "db-0"] {
        sim.learn(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "n", "name": name, "labels": {"app": "db"}},
            "spec": {"containers": []}}));
    }
    sim.learn(set("OrderedReady", 1));
    sim.settle();
    let owned: Vec<_> = sim
        .world
        .pods
        .iter()
        .filter(|pod| pods::controller_of(pod.as_ref()).is_some())
        .map(|pod| pod.name_any())
        .collect();
    assert_eq!(owned, ["db-0"]);
}

/// As `kubectl delete --cascade=orphan` leaves things.
fn orphan(sim: &mut Sim) {
    for pod in names(sim) {
        sim.change::<Pod>(&pod, |pod| pod.metadata.owner_references = None);
    }
    let revisions: Vec<_> = sim.world.revisions.iter().map(|one| one.name_any()).collect();
    for revision in revisions {
        sim.change::<ControllerRevision>(&revision, |one| one.metadata.owner_references = None);
    }
    sim.world.forget("StatefulSet", &("n".into(), "db".into()));
}

#[test]
fn a_set_that_comes_again_takes_over_what_was_left() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 2));
    sim.run_all();
    let uids = |sim: &Sim| -> Vec<_> { sim.world.pods.iter().filter_map(|pod| pod.uid()).collect() };
    let before = uids(&sim);
    orphan(&mut sim);
    let mut again = set("OrderedReady", 3);
    again["metadata"]["uid"] = "ss2".into();
    sim.learn(again);
    sim.run_all();
    assert_eq!(uids(&sim)[..2], before, "the pods stay");
    assert_eq!(sim.world.pods.owned_by("ss2").count(), 3);
    assert_eq!(sim.world.revisions.iter().count(), 1);
    assert_eq!(sim.world.revisions.owned_by("ss2").count(), 1);
}

#[test]
fn a_revision_of_somebody_else_is_no_obstacle() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 1));
    sim.run_all();
    let name = sim.world.revisions.iter().next().map(|one| one.name_any());
    let name = name.expect("a revision");
    let mut sim = Sim::default();
    sim.learn(
        json!({"kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": 1, "data": {},
        "metadata": {"namespace": "n", "name": name, "uid": "other"}}),
    );
    sim.learn(set("OrderedReady", 1));
    sim.run_all();
    assert_eq!(names(&sim), ["db-0"]);
    assert_eq!(sim.world.revisions.owned_by("ss").count(), 1);
    assert_eq!(sim.world.revisions.iter().count(), 2);
}

#[test]
fn a_claim_that_goes_with_its_pod_comes_back_with_it() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 1));
    sim.run_all();
    let uid = |sim: &Sim| {
        let claim = sim.world.claims.get(&("n".into(), "data-db-0".into()))?;
        claim.uid()
    };
    let first = uid(&sim);
    sim.remove("PersistentVolumeClaim", "data-db-0");
    sim.settle();
    assert_eq!(uid(&sim), first, "the pod uses it");
    sim.remove("Pod", "db-0");
    sim.run_all();
    assert_eq!(names(&sim), ["db-0"]);
    assert!(uid(&sim).is_some_and(|uid| Some(uid) != first), "a new one");
}

#[test]
fn a_pod_waits_for_its_old_claim_to_go() {
    let mut sim = Sim::default();
    let kept = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": {},
        "metadata": {"namespace": "n", "name": "data-db-0", "uid": "old", "finalizers": ["example.com/backup"],
            "deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 0}});
    sim.learn(kept);
    sim.learn(set("OrderedReady", 1));
    sim.settle();
    assert!(names(&sim).is_empty());
    sim.change::<PersistentVolumeClaim>("data-db-0", |claim| claim.metadata.finalizers = None);
    sim.remove("PersistentVolumeClaim", "data-db-0");
    sim.settle();
    assert_eq!(names(&sim), ["db-0"]);
    assert_eq!(sim.world.claims.iter().count(), 1);
}

#[test]
fn a_waiting_pod_gets_a_claim_that_is_missing() {
    let mut sim = Sim::default();
    sim.learn(set("OrderedReady", 1));
    sim.settle();
    // Somebody takes it away for good, whatever holds it.
    sim.change::<PersistentVolumeClaim>("data-db-0", |claim| claim.metadata.finalizers = None);
    sim.remove("PersistentVolumeClaim", "data-db-0");
    sim.settle();
    assert_eq!(sim.world.claims.iter().count(), 1);
}
