//! Laws that hold for any history of an object.

use std::sync::LazyLock;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{ApplyError, FieldManager, FieldSet, Version};
use crate::openapi::ObjectType;

/// Structs, maps, atomic parts, sets, list-maps and free-form data.
fn schema() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "mode": text,
                    "replicas": {"type": "integer"},
                    "labels": {"type": "object", "additionalProperties": text},
                    "frozen": {
                        "type": "object", "additionalProperties": text,
                        "x-kubernetes-map-type": "atomic",
                    },
                    "args": {"type": "array", "items": text},
                    "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": text,
                            },
                        },
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
        },
    })
}

fn fields() -> &'static FieldManager {
    static FIELDS: LazyLock<FieldManager> = LazyLock::new(|| {
        let version = Version {
            api_version: "example.com/v1".into(),
            ty: ObjectType::custom(&schema()).expect("a good schema"),
            reset: FieldSet::default(),
        };
        FieldManager::new("example.com", "v1", "Thing", "", vec![version])
    });
    &FIELDS
}

fn word() -> impl Strategy<Value = Value> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(Value::from)
}

fn words() -> impl Strategy<Value = Value> {
    btree_map("[k-m]", word(), 0..3).prop_map(|map| json!(map))
}

fn unique(items: Vec<Value>, key: impl Fn(&Value) -> Value) -> Value {
    let mut seen = Vec::new();
    let fresh = items.into_iter().filter(|item| {
        let key = key(item);
        let new = !seen.contains(&key);
        seen.push(key);
        new
    });
    fresh.collect()
}

fn port() -> impl Strategy<Value = Value> {
    (1..4i64, any::<bool>(), prop::option::of(word())).prop_map(|(port, udp, name)| {
        let mut item = json!({"port": port});
        if udp {
            item["protocol"] = json!("UDP");
        }
        if let Some(name) = name {
            item["name"] = name;
        }
        item
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let option = prop::option::of::<BoxedStrategy<Value>>;
    let port_key = |item: &Value| json!([item["port"], item["protocol"]]);
    (
        option(word().boxed()),
        option((0..3i64).prop_map(Value::from).boxed()),
        option(words().boxed()),
        option(words().boxed()),
        option(vec(word(), 0..3).prop_map(Value::from).boxed()),
        option(
            vec(word(), 0..3)
                .prop_map(|items| unique(items, Value::clone))
                .boxed(),
        ),
        option(
            vec(port(), 0..3)
                .prop_map(move |items| unique(items, port_key))
                .boxed(),
        ),
        option(words().boxed()),
    )
        .prop_map(|parts| {
            let (mode, replicas, labels, frozen, args, tags, ports, free) = parts;
            let mut spec = Map::new();
            for (name, value) in [
                ("mode", mode),
                ("replicas", replicas),
                ("labels", labels),
                ("frozen", frozen),
                ("args", args),
                ("tags", tags),
                ("ports", ports),
                ("free", free),
            ] {
                if let Some(value) = value {
                    spec.insert(name.to_owned(), value);
                }
            }
            Value::Object(spec)
        })
}

/// Nobody owns an empty set or list-map: it stays when its manager leaves, goes with its
/// last item although it is applied, and takes a struct along that has nothing else.
fn owned_spec() -> impl Strategy<Value = Value> {
    spec().prop_map(|mut spec| {
        for name in ["tags", "ports"] {
            if spec[name] == json!([]) {
                spec.as_object_mut().map(|spec| spec.remove(name));
            }
        }
        spec
    })
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "thing"},
        "spec": spec,
    })
}

#[derive(Clone, Debug)]
struct Request {
    manager: usize,
    apply: bool,
    spec: Value,
}

const MANAGERS: [&str; 3] = ["a", "b", "c"];

fn history() -> impl Strategy<Value = Vec<Request>> {
    history_of(spec())
}

fn history_of(spec: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Request>> {
    let request = (0..MANAGERS.len(), any::<bool>(), spec);
    let request = request.prop_map(|(manager, apply, spec)| Request { manager, apply, spec });
    vec(request, 1..6)
}

fn apply(live: &Value, spec: &Value, manager: &str, force: bool, time: u8) -> Result<Value, ApplyError> {
    let now = format!("2026-01-01T00:00:{time:02}Z");
    fields().apply(live.clone(), &object(spec), manager, force, &now, |_| {})
}

/// The object after a history of forced applies and updates.
fn run(history: &[Request]) -> Value {
    let mut live = fields().empty_object();
    for (time, request) in history.iter().enumerate() {
        let manager = MANAGERS[request.manager];
        live = if request.apply {
            let time = u8::try_from(time).unwrap_or(0);
            apply(&live, &request.spec, manager, true, time).expect("a forced apply works")
        } else {
            let now = format!("2026-01-01T00:00:{time:02}Z");
            let updated = fields().update(&live, object(&request.spec), manager, &now);
            assert_eq!(updated.problem, None);
            updated.object
        };
    }
    live
}

/// What a manager's Apply entry owns.
fn owned(live: &Value, manager: &str) -> Value {
    let entries = live["metadata"]["managedFields"].as_array();
    let entry = entries
        .into_iter()
        .flatten()
        .find(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
    entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn applying_twice_is_applying_once(
        history in history_of(owned_spec()),
        spec in owned_spec(),
        manager in 0..3usize,
    ) {
        let live = run(&history);
        let once = apply(&live, &spec, MANAGERS[manager], true, 30).unwrap();
        // Losing its last field leaves null in place of a struct that the
        // manager applies empty; validation refuses such an object.
        prop_assume!(!has_null(&once));
        let twice = apply(&once, &spec, MANAGERS[manager], true, 40).unwrap();
        prop_assert_eq!(&twice, &once);
        // And it needs no force any more.
        prop_assert_eq!(&apply(&once, &spec, MANAGERS[manager], false, 50).unwrap(), &once);
    }

    #[test]
    fn what_is_applied_is_there(history in history(), spec in spec()) {
        let live = run(&history);
        let new = apply(&live, &spec, "a", true, 30).unwrap();
        for name in ["mode", "replicas", "frozen", "args"] {
            if let Some(value) = spec.get(name) {
                prop_assert_eq!(&new["spec"][name], value);
            }
        }
        for (key, value) in spec["labels"].as_object().into_iter().flatten() {
            prop_assert_eq!(&new["spec"]["labels"][key], value);
        }
        for tag in spec["tags"].as_array().into_iter().flatten() {
            prop_assert!(new["spec"]["tags"].as_array().unwrap().contains(tag));
        }
    }

    #[test]
    fn leaving_keeps_what_others_own(history in history(), spec in spec()) {
        let live = run(&history);
        // Both own the same fields with the same values; then one leaves.
        let first = apply(&live, &spec, "leaving", true, 30).unwrap();
        let both = apply(&first, &spec, "staying", false, 31).unwrap();
        prop_assert_eq!(without_managed(&both), without_managed(&first));
        let left = apply(&both, &json!({}), "leaving", false, 32).unwrap();
        prop_assert_eq!(owned(&left, "staying"), owned(&both, "staying"));
        let again = apply(&left, &spec, "staying", false, 33).unwrap();
        prop_assert_eq!(without_managed(&again), without_managed(&left));
    }

    #[test]
    fn the_last_owner_takes_fields_along(spec in owned_spec()) {
        let created = apply(&fields().empty_object(), &spec, "a", false, 1).unwrap();
        let gone = apply(&created, &json!({}), "a", false, 2).unwrap();
        let rest = gone["spec"].as_object().cloned().unwrap_or_default();
        prop_assert!(rest.is_empty(), "{gone}");
        // An empty spec is still applied, and owned.
        prop_assert_eq!(owned(&gone, "a"), json!({"f:spec": {}}));
    }

    #[test]
    fn unforced_applies_never_change_what_others_own(history in history(), spec in spec()) {
        let live = run(&history);
        if let Ok(new) = apply(&live, &spec, "newcomer", false, 30) {
            for manager in MANAGERS {
                prop_assert_eq!(owned(&new, manager), owned(&live, manager));
            }
        }
    }
}
