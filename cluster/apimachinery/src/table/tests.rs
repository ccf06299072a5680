use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().expect("is a time")
}

fn check(kind: &str, object: &Value, want: &[(&str, Value)]) {
    for (column, cell) in want {
        let got = builtin::cell(kind, column, object, now());
        assert_eq!(&got, cell, "{kind} {column} of {object}");
    }
}

fn pod(spec: &Value, status: &Value) -> Value {
    json!({
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T23:59:00Z"},
        "spec": spec, "status": status,
    })
}

#[test]
fn a_running_pod() {
    let object = pod(
        &json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n",
               "readinessGates": [{"conditionType": "x"}]}),
        &json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "x", "status": "True"}],
        "containerStatuses": [
            {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
             "lastState": {"terminated": {"finishedAt": "2026-01-01T23:00:00Z"}}},
            {"name": "b", "ready": false, "restartCount": 0, "state": {"running": {}}},
        ]}),
    );
    check(
        "Pod",
        &object,
        &[
            ("Name", json!("p")),
            ("Ready", json!("1/2")),
            ("Status", json!("Running")),
            ("Restarts", json!("2 (60m ago)")),
            ("Age", json!("60s")),
            ("IP", json!("10.0.0.1")),
            ("Node", json!("n")),
            ("Nominated Node", json!("<none>")),
            ("Readiness Gates", json!("1/1")),
        ],
    );
}

#[test]
fn pods_in_trouble() {
    let containers = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
    let waiting = |reason: &str| json!([{"name": "a", "state": {"waiting": {"reason": reason}}}]);
    for (status, want) in [
        (json!({"phase": "Pending"}), "Pending"),
        (json!({"phase": "Pending", "reason": "Evicted"}), "Evicted"),
        (
            json!({"phase": "Running", "containerStatuses": waiting("CrashLoopBackOff")}),
            "CrashLoopBackOff",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            "Init:0/1",
        ),
        (
            json!({"phase": "Pending",
                   "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]}),
            "Init:ExitCode:3",
        ),
        (
            json!({"phase": "Failed", "containerStatuses":
                   [{"name": "a", "state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "Signal:9",
        ),
        (
            json!({"phase": "Succeeded", "containerStatuses":
                   [{"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            "Completed",
        ),
        (
            json!({"phase": "Pending",
                   "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "SchedulingGated",
        ),
    ] {
        check("Pod", &pod(&containers, &status), &[("Status", json!(want))]);
    }
    let mut leaving = pod(&containers, &json!({"phase": "Running"}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    check("Pod", &leaving, &[("Status", json!("Terminating"))]);
}

#[test]
fn other_kinds() {
    check(
        "Deployment",
        &json!({"metadata": {"name": "d"}, "spec": {"replicas": 3,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
                "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
        &[
            ("Ready", json!("2/3")),
            ("Up-to-date", json!(3)),
            ("Available", json!(1)),
            ("Age", json!("<unknown>")),
            ("Containers", json!("c")),
            ("Images", json!("i:1")),
            ("Selector", json!("app=x")),
        ],
    );
    check(
        "Service",
        &json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.9", "selector": {"a": "b"},
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
        &[
            ("Cluster-IP", json!("10.0.0.9")),
            ("External-IP", json!("<none>")),
            ("Port(s)", json!("80:30080/TCP,53/UDP")),
            ("Selector", json!("a=b")),
        ],
    );
    check(
        "Node",
        &json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/a": ""}},
                "spec": {"unschedulable": true},
                "status": {"conditions": [{"type": "Ready", "status": "False"}],
                           "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                           "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64"}}}),
        &[
            ("Status", json!("NotReady,SchedulingDisabled")),
            ("Roles", json!("a,worker")),
            ("Internal-IP", json!("1.2.3.4")),
            ("External-IP", json!("<none>")),
            ("OS-Image", json!("<unknown>")),
            ("Kernel-Version", json!("6.1 (amd64)")),
        ],
    );
    check(
        "Job",
        &json!({"spec": {"completions": 2}, "status": {"succeeded": 1,
                "startTime": "2026-01-01T23:58:00Z", "completionTime": "2026-01-01T23:58:10Z",
                "conditions": [{"type": "Complete", "status": "True"}]}}),
        &[
            ("Status", json!("Complete")),
            ("Completions", json!("1/2")),
            ("Duration", json!("10s")),
        ],
    );
    check(
        "PersistentVolumeClaim",
        &json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1024Mi"}}}),
        &[
            ("Status", json!("Bound")),
            ("Capacity", json!("1Gi")),
            ("Access Modes", json!("RWO")),
            ("StorageClass", json!("fast")),
            ("VolumeAttributesClass", json!("<unset>")),
        ],
    );
    check(
        "Event",
        &json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal",
                "reason": "Started", "message": " text ", "lastTimestamp": "2026-01-01T23:59:30Z",
                "source": {"component": "kubelet", "host": "n"}}),
        &[
            ("Last Seen", json!("30s")),
            ("Object", json!("pod/p")),
            ("Message", json!("text")),
            ("Source", json!("kubelet, n")),
            ("Count", json!(1)),
        ],
    );
    check(
        "HorizontalPodAutoscaler",
        &json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}]}}),
        &[
            ("Targets", json!("cpu: <unknown>/80%")),
            ("MinPods", json!("<unset>")),
        ],
    );
    check(
        "ResourceQuota",
        &json!({"status": {"hard": {"limits.cpu": "2", "pods": "10"}, "used": {"pods": "3"}}}),
        &[
            ("Request", json!("pods: 3/10")),
            ("Limit", json!("limits.cpu: 0/2")),
        ],
    );
}

#[test]
fn custom_columns() {
    let column = |name: &str, kind: &str, priority, description: &str| Column {
        name: name.to_string(),
        kind: kind.to_string(),
        format: String::new(),
        description: description.to_string(),
        priority,
    };
    let view = TableView::custom([
        (
            column("Ready", "string", 0, ""),
            ".status.conditions[?(@.type==\"Ready\")].status",
        ),
        (column("N", "integer", 0, ""), ".spec.n"),
        (column("Wide", "string", 1, "more"), ".spec.o"),
        (column("Age", "date", 0, ""), ".metadata.creationTimestamp"),
    ])
    .expect("paths are valid");
    let object = json!({
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T22:00:00Z"},
        "spec": {"n": 2.9, "o": {"k": [1]}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let row = view.row(&object, IncludeObject::Metadata, now());
    assert_eq!(row["cells"], json!(["a", "True", 2, "{\"k\":[1]}", "120m"]));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    let empty = view.cells(&json!({"metadata": {"name": "b"}, "spec": {"n": "text"}}), now());
    assert_eq!(json!(empty), json!(["b", null, null, null, null]));
    let table = view.table([&object], IncludeObject::None, true, now());
    assert_eq!(table["columnDefinitions"][3]["priority"], 1);
    assert_eq!(table["columnDefinitions"][3]["description"], "more");
    assert_eq!(table["rows"][0]["cells"][0], "a");

    let plain = TableView::custom([]).expect("the default column is valid");
    assert_eq!(plain.columns()[1].name, "Age");
    assert!(TableView::custom([(column("X", "string", 0, ""), ".a[")]).is_err());
}
