use super::*;
use serde_json::json;

fn object(api: &str, kind: &str, generation: i64, conditions: &Value) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "ns", "generation": generation},
        "status": {"conditions": conditions}})
}

fn at_work(reason: &str, text: &str) -> Health {
    Health::at_work(reason, text)
}

fn keystone(generation: i64, status: &str, reason: &str, message: &str, observed: i64) -> Value {
    let ready = json!([{"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": observed}]);
    object(
        "keystone.openstack.c5c3.io/v1alpha1",
        "Keystone",
        generation,
        &ready,
    )
}

#[test]
fn a_failure_and_a_wait_are_told_apart_by_their_reason() {
    let words = "db-sync failed: access denied for user keystone";
    assert_eq!(
        of_resource(&keystone(2, "False", "Failed", words, 2)),
        Health::failed("Failed", "db-sync failed: access denied for user keystone")
    );
    assert_eq!(
        of_resource(&keystone(2, "False", "Waiting", "MariaDB mariadb: starting", 2)),
        at_work("Waiting", "MariaDB mariadb: starting")
    );
}

#[test]
fn an_older_generation_says_nothing() {
    for status in ["True", "False"] {
        let child = of_resource(&keystone(3, status, "Failed", "old", 2));
        assert_eq!(child, not_processed());
    }
    assert_eq!(of_resource(&keystone(3, "True", "Ready", "", 3)), Health::Ready);
    let mut silent = keystone(3, "True", "Ready", "", 3);
    silent["status"]["conditions"][0]["observedGeneration"] = Value::Null;
    assert_eq!(of_resource(&silent), not_processed());
}

#[test]
fn each_project_has_its_own_way_of_saying_so() {
    let korc = |available: &str, progressing: &str| {
        object(
            "openstack.k-orc.cloud/v1alpha1",
            "User",
            1,
            &json!([
                {"type": "Available", "status": available, "reason": "x", "message": "a", "observedGeneration": 1},
                {"type": "Progressing", "status": progressing, "reason": "x", "message": "no such domain", "observedGeneration": 1},
            ]),
        )
    };
    assert_eq!(of_resource(&korc("True", "False")), Health::Ready);
    assert_eq!(
        of_resource(&korc("False", "False")),
        Health::failed("x", "no such domain")
    );
    assert_eq!(
        of_resource(&korc("False", "True")),
        at_work("x", "no such domain")
    );
    let mariadb = |status: &str| {
        object(
            "k8s.mariadb.com/v1alpha1",
            "MariaDB",
            1,
            &json!([
        {"type": "Ready", "status": status, "reason": "StatefulSetNotReady", "message": "Not ready"}]),
        )
    };
    assert_eq!(of_resource(&mariadb("True")), Health::Ready);
    assert_eq!(
        of_resource(&mariadb("False")),
        at_work("StatefulSetNotReady", "Not ready")
    );
    let rabbitmq = |done: &str| {
        object(
            "rabbitmq.com/v1beta1",
            "RabbitmqCluster",
            1,
            &json!([
                {"type": "AllReplicasReady", "status": "True", "reason": "AllPodsAreReady"},
                {"type": "ReconcileSuccess", "status": done, "reason": "UnsupportedOperation", "message": "Cluster Scale down not supported"},
            ]),
        )
    };
    assert_eq!(of_resource(&rabbitmq("True")), Health::Ready);
    assert_eq!(of_resource(&rabbitmq("Unknown")), Health::Ready);
    let mut refused = rabbitmq("False");
    refused["metadata"]["generation"] = json!(2);
    refused["status"]["observedGeneration"] = json!(1);
    assert_eq!(
        of_resource(&refused),
        Health::failed("UnsupportedOperation", "Cluster Scale down not supported")
    );
    let valkey = json!({"apiVersion": "cache.cs.sap.com/v1alpha1", "kind": "Valkey", "metadata": {"generation": 2},
        "status": {"state": "Ready", "observedGeneration": 1}});
    assert_eq!(of_resource(&valkey), not_processed());
}

fn ready(status: &str, generation: i64, seen: i64) -> Value {
    json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"generation": generation},
        "status": {"observedGeneration": seen,
            "conditions": [{"type": "Ready", "status": status, "reason": "R", "message": "M"}]}})
}

#[test]
fn ready_counts_only_for_this_generation() {
    assert_eq!(of(&ready("True", 2, 2)), Some(Health::Ready));
    assert_eq!(
        of(&ready("True", 2, 1)).and_then(|health| Some(health.trouble()?.reason.clone())),
        Some("OutOfDate".into())
    );
    assert_eq!(of(&ready("False", 2, 2)), Some(Health::failed("R", "M")));
    let silent = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane"});
    assert_eq!(
        of(&silent).and_then(|health| Some(health.trouble()?.reason.clone())),
        Some("NotReported".into())
    );
}

#[test]
fn a_pod_says_which_container_and_why() {
    let waiting = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending", "containerStatuses": [
        {"name": "api", "state": {"waiting": {"reason": "ErrImagePull", "message": "no image x"}}}]}});
    assert_eq!(
        of(&waiting),
        Some(Health::at_work("ErrImagePull", "container api: no image x"))
    );
    let unplaced = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "no node has 4 cpus"}]}});
    assert_eq!(
        of(&unplaced),
        Some(Health::at_work("Unschedulable", "no node has 4 cpus"))
    );
    let well = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"}]}});
    assert_eq!(of(&well), Some(Health::Ready));
}

#[test]
fn workloads_and_jobs_tell_by_their_counts_and_conditions() {
    let half = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}, "status": {"readyReplicas": 1}});
    assert_eq!(
        of(&half),
        Some(Health::at_work("NotEnough", "1 of 3 pods are ready"))
    );
    let done = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    assert_eq!(of(&done), Some(Health::Ready));
    assert_eq!(of(&json!({"apiVersion": "v1", "kind": "Service"})), None);
}

#[test]
fn the_blocker_is_the_one_that_the_status_names() {
    let mut glance = keystone(1, "False", "SecretMissing", "Secret s is missing", 1);
    glance["status"]["blockedBy"] = json!({"kind": "Secret", "name": "s"});
    let trouble = of_resource(&glance).trouble().cloned().expect("not ready");
    let blocker = trouble.blocker.expect("named");
    assert_eq!((blocker.kind.as_str(), blocker.name.as_str()), ("Secret", "s"));
}
