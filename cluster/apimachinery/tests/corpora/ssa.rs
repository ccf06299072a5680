//! Server-side apply: histories of one object, request by request.

use std::collections::BTreeMap;

use apimachinery::crd::CustomResource;
use apimachinery::field::FieldError;
use apimachinery::openapi::ObjectType;
use apimachinery::schema::Structural;
use apimachinery::ssa::{ApplyError, FieldManager, FieldSet, Version};
use serde_json::{Map, Value, json};

use super::cases::{diff, document, run};

#[test]
fn ssa() {
    let schemas = document("ssa-schemas.json");
    let kinds: BTreeMap<String, Kind> = schemas["schemas"]
        .as_object()
        .expect("the document has schemas")
        .iter()
        .map(|(name, kind)| (name.clone(), Kind::new(kind, &schemas["definitions"])))
        .collect();
    run("ssa.jsonl", |case| {
        let kind = &kinds[case["schema"].as_str().unwrap_or_default()];
        let mut history = History {
            live: None,
            want_live: Value::Null,
            want_managed: json!([]),
        };
        for (i, step) in case["steps"].as_array().into_iter().flatten().enumerate() {
            history
                .step(kind, step, i + 1)
                .map_err(|reason| format!("step {} ({}): {reason}", i + 1, step["op"]))?;
        }
        Ok(())
    });
}

/// A kind of the corpus with its endpoints.
struct Kind {
    versions: Vec<String>,
    /// Field managers by version and subresource.
    managers: BTreeMap<(String, String), FieldManager>,
    /// Fields that a built-in endpoint does not change.
    reset: BTreeMap<String, Vec<String>>,
    /// Strategies of a custom resource by version.
    custom: BTreeMap<String, CustomResource>,
}

impl Kind {
    fn new(source: &Value, definitions: &Value) -> Self {
        let text = |name: &str| source[name].as_str().unwrap_or_default();
        let ty = if source.get("schema").is_some() {
            ObjectType::custom(&source["schema"])
        } else {
            let definitions = definitions.as_object().expect("definitions");
            ObjectType::from_definitions(definitions, text("definition"))
        }
        .unwrap_or_else(|error| panic!("{}: {error}", text("kind")));
        let strings = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let versions = strings(&source["versions"]);
        let reset: BTreeMap<String, Vec<String>> = source["resetFields"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(endpoint, fields)| (endpoint.clone(), strings(fields)))
            .collect();
        let mut managers = BTreeMap::new();
        for version in &versions {
            for subresource in ["", "status"] {
                let fields: Vec<&str> = (reset.get(subresource).into_iter().flatten())
                    .map(String::as_str)
                    .collect();
                let served = versions
                    .iter()
                    .map(|version| Version {
                        api_version: api_version(text("group"), version),
                        ty: ty.clone(),
                        reset: FieldSet::of_fields(&fields),
                    })
                    .collect();
                managers.insert(
                    (version.clone(), subresource.to_owned()),
                    FieldManager::new(text("group"), version, text("kind"), subresource, served),
                );
            }
        }
        let custom = |version: &String| {
            let resource = CustomResource {
                kind: text("kind").to_owned(),
                api_version: api_version(text("group"), version),
                namespaced: true,
                status: reset.contains_key("status"),
                schema: Structural::from_json(source.get("schema")?).expect("a good schema"),
            };
            Some((version.clone(), resource))
        };
        Self {
            custom: versions.iter().filter_map(custom).collect(),
            versions,
            managers,
            reset,
        }
    }
}

fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// The object so far, and what it should be.
struct History {
    live: Option<Value>,
    want_live: Value,
    want_managed: Value,
}

impl History {
    fn step(&mut self, kind: &Kind, step: &Value, number: usize) -> Result<(), String> {
        let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
        let version = match text("version") {
            version if version.is_empty() => kind.versions[0].clone(),
            version => version,
        };
        let subresource = text("subresource");
        let fields = &kind.managers[&(version.clone(), subresource.clone())];
        let custom = kind.custom.get(&version);
        let now = format!("1970-01-01T00:00:{number:02}Z");
        let mut object = step["object"].clone();
        let mut live = self.live.clone().unwrap_or_else(|| fields.empty_object());
        live["apiVersion"] = fields.empty_object()["apiVersion"].clone();
        let mut hidden = None;
        let outcome = if text("op") == "apply" {
            let force = step["force"] == true;
            let default = |object: &mut Value| {
                if let Some(custom) = custom {
                    custom.schema.apply_defaults(object);
                }
            };
            fields.apply(live.clone(), &object, &text("manager"), force, &now, default)
        } else {
            if let Some(custom) = custom {
                custom.schema.decode(&mut object)?;
                custom.schema.apply_defaults(&mut object);
            }
            let updated = fields.update(&live, object, &text("manager"), &now);
            hidden = updated.problem;
            Ok(updated.object)
        };
        let old = self.live.is_some().then_some(live);
        let outcome = outcome
            .map_err(|error| failure(&error))
            .and_then(|object| match custom {
                Some(custom) => admit_custom(custom, object, old.as_ref(), &subresource),
                None => Ok(admit_builtin(kind, object, old.as_ref(), &subresource)),
            });
        match (outcome, step.get("error")) {
            (Err(got), Some(want)) => diff("error", &got, want)?,
            (Err(got), None) => return Err(format!("fails unexpectedly: {got}")),
            (Ok(_), Some(want)) => return Err(format!("does not fail with {want}")),
            (Ok(object), None) => {
                self.live = Some(object);
            }
        }
        let got = hidden.as_deref();
        let want = step["hiddenError"].as_str();
        if got != want {
            return Err(format!("hidden error: got {got:?}, want {want:?}"));
        }
        self.check(step)
    }

    fn check(&mut self, step: &Value) -> Result<(), String> {
        if let Some(live) = step.get("live") {
            self.want_live = live.clone();
        }
        if let Some(managed) = step.get("managedFields") {
            self.want_managed = managed.clone();
        }
        let mut live = self.live.clone().unwrap_or_default();
        let managed = live
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|metadata| metadata.remove("managedFields"));
        let managed = managed.map_or(json!([]), |entries| as_in_corpus(&entries));
        diff("managedFields", &managed, &self.want_managed)?;
        diff("object", &live, &self.want_live)
    }
}

/// What the registry does to a custom resource before it is stored.
fn admit_custom(
    custom: &CustomResource,
    mut object: Value,
    old: Option<&Value>,
    subresource: &str,
) -> Result<Value, Value> {
    let errors = match (old, subresource) {
        (None, _) => {
            custom.prepare_create(&mut object);
            custom.validate_create(&object)
        }
        (Some(old), "status") => {
            custom.prepare_status_update(&mut object, old);
            custom.validate_status_update(&stored(&object), &stored(old))
        }
        (Some(old), _) => {
            let generation = old["metadata"].get("generation").cloned();
            restore(&mut object, "metadata.generation", generation);
            custom.prepare_update(&mut object, old);
            custom.validate_update(&stored(&object), &stored(old))
        }
    };
    if errors.is_empty() {
        return Ok(object);
    }
    let mut errors: Vec<Value> = errors.iter().map(error_in_corpus).collect();
    errors.sort_by_key(|error| error["message"].to_string());
    errors.dedup();
    Err(json!({"code": 422, "type": "Invalid", "errors": errors}))
}

/// Objects of the corpus have no version of the store; updates need one.
fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = json!("1");
    object
}

fn error_in_corpus(error: &FieldError) -> Value {
    json!({
        "type": error.kind.reason(),
        "field": error.field,
        "detail": error.detail,
        "message": error.to_string(),
    })
}

/// Of a built-in kind some fields cannot be changed, and nulls are dropped.
fn admit_builtin(kind: &Kind, mut object: Value, old: Option<&Value>, subresource: &str) -> Value {
    for path in kind.reset.get(subresource).into_iter().flatten() {
        let mut names = path.split('.');
        let old = old.and_then(|old| names.try_fold(old, |value, name| value.get(name)));
        restore(&mut object, path, old.cloned());
    }
    drop_nulls(&mut object);
    object
}

/// A field as it was, or not at all.
fn restore(object: &mut Value, path: &str, old: Option<Value>) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = object;
    for name in parents.split('.').filter(|name| !name.is_empty()) {
        match place.get_mut(name) {
            Some(next) => place = next,
            None => return,
        }
    }
    if let Some(place) = place.as_object_mut() {
        match old {
            Some(old) => {
                place.insert(last.to_owned(), old);
            }
            None => {
                place.remove(last);
            }
        }
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, item| !item.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Entries with the step instead of the time.
fn as_in_corpus(entries: &Value) -> Value {
    let entry = |entry: &Value| {
        let mut out: Map<String, Value> = entry.as_object().cloned().unwrap_or_default();
        assert_eq!(out.remove("fieldsType"), Some(json!("FieldsV1")));
        if let Some(Value::String(time)) = out.remove("time") {
            let time: jiff::Timestamp = time.parse().expect("a time");
            out.insert("t".into(), json!(time.as_second()));
        }
        Value::Object(out)
    };
    entries.as_array().into_iter().flatten().map(entry).collect()
}

fn failure(error: &ApplyError) -> Value {
    match error {
        ApplyError::Conflict(conflicts) => {
            let mut causes: Vec<Value> = (conflicts.0.iter())
                .map(|conflict| {
                    json!({
                        "field": conflict.path.to_string(),
                        "message": conflict.message(),
                        "type": "FieldManagerConflict",
                    })
                })
                .collect();
            causes.sort_by_key(Value::to_string);
            json!({
                "code": 409, "type": "Conflict",
                "conflicts": causes, "message": conflicts.to_string(),
            })
        }
        ApplyError::BadRequest(message) => {
            json!({"code": 400, "type": "BadRequest", "message": message})
        }
        ApplyError::Type(message) => json!({"type": "error", "message": message}),
    }
}
