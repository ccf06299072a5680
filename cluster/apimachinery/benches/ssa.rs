//! What an apply costs beside the plain handling of JSON that no server avoids.

use apimachinery::openapi::ObjectType;
use apimachinery::ssa::{FieldManager, FieldSet, Version};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";

fn fields() -> FieldManager {
    let version = Version {
        api_version: "apps/v1".into(),
        ty: ObjectType::builtin("apps.v1.Deployment").expect("a built-in kind"),
        reset: FieldSet::of_fields(&["status"]),
    };
    FieldManager::new("apps", "v1", "Deployment", "", vec![version])
}

fn container(name: &str) -> Value {
    json!({
        "name": name,
        "image": "registry.example.com/team/app:1.2.3",
        "args": ["--config=/etc/app/config.yaml", "--verbose"],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "REGION", "value": "eu-de-1"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        ],
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "securityContext": {"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app"},
            {"name": "data", "mountPath": "/var/lib/app"},
        ],
    })
}

fn deployment() -> Value {
    let labels = json!({
        "app.kubernetes.io/name": "app",
        "app.kubernetes.io/instance": "prod",
        "app.kubernetes.io/managed-by": "bench",
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "app", "namespace": "default",
            "labels": labels,
            "annotations": {"example.com/revision": "7"},
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "app",
                    "containers": [container("app"), container("proxy")],
                    "volumes": [
                        {"name": "config", "configMap": {"name": "app"}},
                        {"name": "data", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

fn apply(fields: &FieldManager, live: Value, applied: &Value) -> Value {
    fields
        .apply(live, applied, "bench", true, NOW, |_| {})
        .expect("a good object")
}

fn benches(c: &mut Criterion) {
    let fields = fields();
    let applied = deployment();
    let live = apply(&fields, fields.empty_object(), &applied);
    let mut changed = applied.clone();
    changed["spec"]["replicas"] = json!(4);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry/app:1.2.4");
    let mut dropped = applied.clone();
    if let Some(container) = dropped["spec"]["template"]["spec"]["containers"][0].as_object_mut() {
        container.remove("livenessProbe");
    }
    let bytes = live.to_string();
    println!(
        "a Deployment of {} bytes, {} of them without managedFields",
        bytes.len(),
        applied.to_string().len()
    );

    let mut group = c.benchmark_group("deployment");
    group.bench_function("baseline: clone and serialise", |b| {
        b.iter(|| live.clone().to_string());
    });
    group.bench_function("baseline: parse", |b| {
        b.iter(|| serde_json::from_str::<Value>(&bytes));
    });
    for (name, applied) in [
        ("apply: nothing changes", &applied),
        ("apply: two fields change", &changed),
        ("apply: a field is dropped", &dropped),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched(
                || live.clone(),
                |live| apply(&fields, live, applied),
                BatchSize::SmallInput,
            );
        });
    }
    group.bench_function("create", |b| {
        b.iter_batched(
            || applied.clone(),
            |new| fields.update(&fields.empty_object(), new, "bench", NOW),
            BatchSize::SmallInput,
        );
    });
    let mut updated = live.clone();
    updated["spec"]["replicas"] = json!(5);
    group.bench_function("update: one field changes", |b| {
        b.iter_batched(
            || updated.clone(),
            |new| fields.update(&live, new, "other", NOW),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(ssa, benches);
criterion_main!(ssa);
