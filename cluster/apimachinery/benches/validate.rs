//! Validation of a typical custom resource, with and without rules.

use std::hint::black_box;

use apimachinery::schema::Structural;
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

fn schema(rules: bool) -> Structural {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["replicas", "image"],
                "properties": {
                    "replicas": {"type": "integer", "minimum": 0, "maximum": 100, "default": 1},
                    "image": {"type": "string", "pattern": "^[a-z0-9./:-]+$", "maxLength": 200},
                    "mode": {"type": "string", "enum": ["active", "passive"], "default": "active"},
                    "ports": {
                        "type": "array", "maxItems": 20,
                        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object", "required": ["name", "port"],
                            "properties": {
                                "name": {"type": "string", "maxLength": 15},
                                "port": {"type": "integer", "minimum": 1, "maximum": 65535}
                            }
                        }
                    },
                    "labels": {"type": "object", "maxProperties": 20, "additionalProperties": {"type": "string"}}
                }
            }
        }
    });
    if rules {
        schema["properties"]["spec"]["x-kubernetes-validations"] = json!([
            {"rule": "self.mode == 'passive' || self.replicas > 0", "message": "active needs replicas"},
            {"rule": "self.ports.all(p, p.port != 22 && p.name.startsWith('p'))"},
            {"rule": "!has(self.labels) || self.labels.all(k, k.size() < 30)"},
            {"rule": "self.image == oldSelf.image || self.replicas >= oldSelf.replicas"}
        ]);
    }
    Structural::from_json(&schema).expect("a readable schema")
}

fn object() -> Value {
    let ports: Vec<Value> = (0..10)
        .map(|i| json!({"name": format!("p{i}"), "port": 8000 + i}))
        .collect();
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {
            "replicas": 3, "image": "registry.example/app:1", "ports": ports,
            "labels": {"a": "b", "c": "d", "e": "f"}
        }
    })
}

fn benches(c: &mut Criterion) {
    let (plain, ruled) = (schema(false), schema(true));
    let mut object = object();
    plain.apply_defaults(&mut object);
    assert!(ruled.validate(&object, Some(&object)).is_empty());
    c.bench_function("validate", |b| {
        b.iter(|| plain.validate(black_box(&object), None));
    });
    c.bench_function("validate with 4 rules", |b| {
        b.iter(|| ruled.validate(black_box(&object), Some(black_box(&object))));
    });
    c.bench_function("prune and default", |b| {
        b.iter(|| {
            let mut copy = object.clone();
            let unknown = ruled.prune(&mut copy);
            ruled.apply_defaults(&mut copy);
            (unknown, copy)
        });
    });
}

criterion_group!(all, benches);
criterion_main!(all);
