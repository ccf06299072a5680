//! Every field of a kind, and another value for it: for tests that no field is accepted and ignored.

use serde_json::{Map, Value, json};

/// Kinds of which a test proves that every field acts or is refused, by the folder of that test. A kind with a
/// controller that is neither here nor among [`UNPROVEN`] fails a test of the program.
pub const PROVEN: &[(&str, &[&str])] = &[
    (
        "operators/control-plane",
        &["ControlPlane", "SecretAggregate", "CredentialRotation"],
    ),
    (
        "operators/services",
        &[
            "Keystone",
            "Glance",
            "Placement",
            "Nova",
            "Neutron",
            "Cinder",
            "Cortex",
            "Tempest",
        ],
    ),
    ("operators/ovn", &["OVNCluster", "OVNChassis"]),
    ("operators/arbiter", &["RemoteArbiter", "RemoteCluster"]),
    ("operators/hypervisor", &["Hypervisor", "Eviction"]),
    ("agents/ovs", &["OVSTrace", "OVSCapture"]),
];

/// Kinds of which only single fields are tested: what they act on is read while they are observed, or they are
/// records that a program writes and people read.
pub const UNPROVEN: &[&str] = &[
    "Datasource",
    "Descheduling",
    "KPI",
    "Knowledge",
    "OVSNode",
    "Pipeline",
    "Reservation",
];

/// A field of a spec that has no fields of its own.
#[derive(Clone, Debug)]
pub struct Field {
    /// From the spec on; `[]` stands for an item of a list.
    pub path: Vec<String>,
    schema: Value,
}

impl Field {
    /// As people write it: `services.keystone.replicas`.
    pub fn name(&self) -> String {
        self.path.join(".").replace(".[]", "[]")
    }
}

/// The schema of a kind's spec.
pub fn spec_of(kind: &str) -> Option<Value> {
    let kind = crate::registry().iter().find(|known| known.kind == kind)?;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    kind.manifest().pointer(path).cloned()
}

/// Every field below a schema, in order.
pub fn fields(schema: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    walk(schema, &mut Vec::new(), &mut all);
    all
}

fn walk(schema: &Value, path: &mut Vec<String>, all: &mut Vec<Field>) {
    let below = |name: &str, schema: &Value, path: &mut Vec<String>, all: &mut Vec<Field>| {
        path.push(name.to_owned());
        walk(schema, path, all);
        path.pop();
    };
    match schema["properties"].as_object() {
        Some(properties) => {
            for (name, schema) in properties {
                below(name, schema, path, all);
            }
        }
        None if schema["items"]["properties"].is_object() => below("[]", &schema["items"], path, all),
        None => all.push(Field {
            path: path.clone(),
            schema: schema.clone(),
        }),
    }
}

/// The fields of a kind that change nothing in any of these specs; `digest` tells all that follows from one.
pub fn ignored(kind: &str, specs: &[Value], digest: impl Fn(&Value) -> String) -> Vec<String> {
    let Some(schema) = spec_of(kind) else {
        return vec![format!("{kind} is not a kind")];
    };
    let worlds: Vec<(&Value, String)> = specs.iter().map(|spec| (spec, digest(spec))).collect();
    let acts = |field: &Field| {
        let differs = |(spec, before): &(&Value, String)| digest(&changed(spec, &schema, field)) != *before;
        worlds.iter().any(differs)
    };
    let all = fields(&schema);
    all.iter().filter(|field| !acts(field)).map(Field::name).collect()
}

/// The spec with another value in one field. What has to stand beside it is put there, too.
pub fn changed(spec: &Value, schema: &Value, field: &Field) -> Value {
    let mut spec = spec.clone();
    set(&mut spec, schema, &field.path, field);
    spec
}

fn set(value: &mut Value, schema: &Value, path: &[String], field: &Field) {
    let Some((name, rest)) = path.split_first() else {
        *value = other(&field.schema, value, field.path.last().map_or("", String::as_str));
        return;
    };
    if name == "[]" {
        let item = &schema["items"];
        if value.as_array().is_none_or(Vec::is_empty) {
            *value = json!([whole(item)]);
        }
        return set(&mut value[0], item, rest, field);
    }
    if !value.is_object() {
        *value = whole(schema);
    }
    set(
        &mut value[name.as_str()],
        &schema["properties"][name.as_str()],
        rest,
        field,
    );
}

/// An object with what it must have.
fn whole(schema: &Value) -> Value {
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let made = required.map(|name| {
        let schema = &schema["properties"][name];
        (name.to_owned(), made(schema, name))
    });
    Value::Object(made.collect::<Map<_, _>>())
}

fn made(schema: &Value, name: &str) -> Value {
    match schema.get("default") {
        Some(default) => default.clone(),
        None if schema["properties"].is_object() => whole(schema),
        None => other(schema, &Value::Null, name),
    }
}

/// A value that the field has neither now nor by default.
fn other(schema: &Value, now: &Value, name: &str) -> Value {
    let default = &schema["default"];
    let first = |values: Vec<Value>| {
        let new = values.iter().find(|value| *value != now && *value != default);
        // Of two values one is the default: then the default is the other one.
        let other = new.or_else(|| values.iter().find(|value| *value != now));
        other.cloned().unwrap_or_default()
    };
    if let Some(values) = schema["enum"].as_array() {
        return first(values.clone());
    }
    match schema["type"].as_str() {
        Some("boolean") => {
            let known = if now.is_null() { default } else { now };
            json!(known != &json!(true))
        }
        Some("integer" | "number") => {
            let least = schema["minimum"].as_i64().unwrap_or(1);
            first((least..least + 9).rev().map(Value::from).collect())
        }
        Some("array") => {
            let item = &schema["items"];
            json!([made(item, name)])
        }
        Some("object") => match schema["additionalProperties"].as_object() {
            Some(below) => json!({"changed": other(&Value::Object(below.clone()), &Value::Null, name)}),
            None => json!({}),
        },
        _ => text(schema, name),
    }
}

/// Texts that are read as something.
fn text(schema: &Value, name: &str) -> Value {
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    match name {
        "openStackRelease" => json!("2026.1"),
        "rotationInterval" => json!("12h"),
        "checkInterval" | "timeout" => json!("17s"),
        "nodeIp" => json!("192.0.2.77"),
        _ if name.ends_with("chedule") => json!("0 3 * * 2"),
        _ if name.to_lowercase().ends_with("size") || name == "memory" => json!("77Gi"),
        _ if schema["x-kubernetes-int-or-string"] == true => json!("77"),
        _ if pattern.contains("https?") => json!("https://changed.example.com"),
        "servers" | "hosts" => json!("changed:1234"),
        _ => json!("changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_gets_another_value_and_what_must_stand_beside_it() {
        let schema = json!({"type": "object", "properties": {
            "replicas": {"type": "integer", "minimum": 1, "default": 3},
            "image": {"type": "object", "required": ["repository"], "properties": {
                "repository": {"type": "string"}, "tag": {"type": "string"}}},
            "backends": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "fast": {"type": "boolean"}}}},
            "extra": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let all = fields(&schema);
        let names: Vec<String> = all.iter().map(Field::name).collect();
        let expected = [
            "backends[].fast",
            "backends[].name",
            "extra",
            "image.repository",
            "image.tag",
            "replicas",
        ];
        assert_eq!(
            names
                .iter()
                .map(String::as_str)
                .collect::<std::collections::BTreeSet<_>>(),
            expected.into()
        );
        let with = |name: &str| {
            let field = all.iter().find(|field| field.name() == name).expect("there");
            changed(&json!({"replicas": 9}), &schema, field)
        };
        assert_eq!(with("replicas"), json!({"replicas": 8}));
        assert_eq!(
            with("image.tag")["image"],
            json!({"repository": "changed", "tag": "changed"})
        );
        assert_eq!(
            with("backends[].fast")["backends"],
            json!([{"name": "changed", "fast": true}])
        );
        assert_eq!(with("extra")["extra"], json!({"changed": "changed"}));
    }
}
