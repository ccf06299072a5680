//! Cortex is this program in another role: no file of options, no database, and an account of its own.

use c5c3_api::conditions::DEPLOYMENT_READY;
use c5c3_api::cortex::Cortex;
use c5c3_kit::{Controller, Observed};
use serde_json::{Value, json};

use crate::kinds::cortex::ACCOUNT;
use crate::reconcile::Services;
use crate::testing::*;

pub(super) fn cortex(changes: Value) -> Observed<Services<Cortex>> {
    let mut cortex = json!({
        "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Cortex",
        "metadata": {"namespace": "openstack", "name": "cortex", "uid": "x"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/c5c3", "tag": "0.1.0"}, "replicas": 2,
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
        },
    });
    if let Value::Object(changes) = changes {
        for (field, value) in changes {
            cortex["spec"][field] = value;
        }
    }
    observed(serde_json::from_value(cortex).expect("a Cortex"), facts())
}

fn pod(seen: &Observed<Services<Cortex>>) -> Value {
    let deployment = object(seen, "Deployment").expect("it runs");
    deployment["spec"]["template"]["spec"].clone()
}

#[test]
fn it_logs_in_by_its_environment_and_speaks_to_the_api_server_by_its_account() {
    let seen = cortex(json!({}));
    let pod = pod(&seen);
    assert_eq!(pod["serviceAccountName"], ACCOUNT);
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(
        pod["containers"][0]["command"],
        json!([
            "c5c3",
            "cortex",
            "serve",
            "--kubernetes",
            "--listen=[::]:8080",
            "--auth-url=http://keystone:5000/v3",
            "--log=info",
            "--namespace=openstack",
        ])
    );
    let secrets = pod["containers"][0]["envFrom"].as_array().expect("a list");
    assert_eq!(secrets.len(), 1, "its credential: {secrets:?}");
    assert_eq!((count(&seen, "Job"), count(&seen, "Database")), (0, 0));
}

#[test]
fn pipelines_of_the_spec_are_handed_over_and_told_once_it_runs() {
    let weighers = json!([{"name": "kvm_binpack", "weight": 2.5}]);
    let mut seen = cortex(json!({"pipelines": {"nova": {"enabled": true, "weighers": weighers}}}));
    let config = object(&seen, "ConfigMap").expect("configured");
    let file = config["data"]["pipelines.yaml"].as_str().expect("a file");
    let pipelines: Vec<Value> = serde_json::from_str(file).expect("a list");
    let spec = &pipelines[0]["spec"];
    assert_eq!(spec["schedulingDomain"], "nova");
    assert_eq!(
        spec["weighers"],
        json!([{"name": "kvm_binpack", "multiplier": 2.5}])
    );
    assert_eq!(spec["filters"], Value::Null, "the usual ones");
    let command = pod(&seen)["containers"][0]["command"].to_string();
    assert!(
        command.contains("--pipelines=/etc/cortex/pipelines.yaml"),
        "{command}"
    );
    assert_eq!(status(&seen, "activePipelines"), Value::Null);
    take_deployments(&mut seen);
    assert_eq!(state(&seen, DEPLOYMENT_READY).0, "Ready");
    let names = json!(["kvm-general-purpose-load-balancing", "kvm-hana-bin-packing"]);
    assert_eq!(status(&seen, "activePipelines"), names);
    assert_eq!(status(&seen, "installedRelease"), "0.1.0");
}

#[test]
fn pipelines_that_are_off_are_not_served() {
    let seen = cortex(json!({"pipelines": {"nova": {"enabled": false}, "cinder": {"enabled": true}}}));
    let config = object(&seen, "ConfigMap").expect("configured");
    let file = config["data"]["pipelines.yaml"].as_str().expect("a file");
    assert!(file.contains("\"cinder\"") && !file.contains("nova"), "{file}");
}

#[test]
fn what_it_cannot_do_is_refused_with_the_way_out() {
    let managed =
        json!({"clusterRef": {"name": "mariadb"}, "database": "cortex", "secretRef": {"name": "service-db"}});
    let source = json!({"enabled": true, "endpoint": "http://x"});
    for (field, value) in [
        ("database", managed),
        ("datasources", json!({"nova": source})),
        ("datasources", json!({"prometheus": source})),
        ("extraConfig", json!({"DEFAULT": {"debug": "true"}})),
        ("policyOverrides", json!({"rules": {"a": "b"}})),
        ("publicEndpoint", json!("http://cortex.example")),
        ("logging", json!({"level": "INFO", "format": "json"})),
    ] {
        let mut changes = json!({});
        changes[field] = value;
        let seen = cortex(changes);
        let plan = Services::<Cortex>::plan(&seen);
        let refusal = Services::<Cortex>::refusal(&plan).expect(field).to_string();
        assert!(
            refusal.starts_with(field) && refusal.contains("is not supported yet: "),
            "{refusal}"
        );
    }
}
