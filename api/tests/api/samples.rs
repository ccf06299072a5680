//! Every sample is accepted and fits its type; every case behaves as the table says.

use crate::root;
use apimachinery::crd::{CustomResource, validate_schema};
use apimachinery::field::Path;
use apimachinery::schema::Structural;
use c5c3_api::samples::{Samples, merge};
use c5c3_api::{Kind, Origin, registry};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

fn samples() -> Samples {
    Samples::load(root()).unwrap()
}

/// What serves an object: a kind, or the claim of a composite.
struct Served {
    kind: &'static Kind,
    crd: CustomResourceDefinition,
    resource: CustomResource,
}

static SERVED: LazyLock<BTreeMap<(String, String), Served>> = LazyLock::new(|| {
    let served = |kind: &'static Kind| {
        let crd = kind.claim().unwrap_or_else(|| kind.crd().clone());
        let version = &crd.spec.versions[0];
        let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref();
        let resource = CustomResource {
            kind: crd.spec.names.kind.clone(),
            api_version: kind.api_version(),
            namespaced: crd.spec.scope == "Namespaced",
            status: true,
            schema: Structural::from_json(&serde_json::to_value(schema).unwrap()).unwrap(),
        };
        let key = (kind.api_version(), resource.kind.clone());
        (key, Served { kind, crd, resource })
    };
    registry().iter().map(served).collect()
});

fn served(object: &Value) -> &'static Served {
    &SERVED[&(text(object, "apiVersion"), text(object, "kind"))]
}

fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}

/// What an API server answers: the stored object, or the refusal.
fn create(resource: &CustomResource, mut object: Value) -> Result<Value, String> {
    let unknown = resource.schema.decode(&mut object)?;
    if !unknown.is_empty() {
        return Err(format!("unknown fields {unknown:?}"));
    }
    resource.schema.apply_defaults(&mut object);
    resource.prepare_create(&mut object);
    refusal(resource.validate_create(&object))?;
    Ok(object)
}

fn update(resource: &CustomResource, old: &Value, mut object: Value) -> Result<(), String> {
    resource.schema.decode(&mut object)?;
    resource.schema.apply_defaults(&mut object);
    resource.prepare_update(&mut object, old);
    object["metadata"]["resourceVersion"] = "1".into();
    refusal(resource.validate_update(&object, old))
}

fn update_status(resource: &CustomResource, old: &Value, mut object: Value) -> Result<(), String> {
    resource.schema.decode(&mut object)?;
    resource.prepare_status_update(&mut object, old);
    object["metadata"]["resourceVersion"] = "1".into();
    refusal(resource.validate_status_update(&object, old))
}

fn refusal<E: ToString>(errors: Vec<E>) -> Result<(), String> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n"))
}

#[test]
fn definitions_are_accepted() {
    for Served { crd, resource, .. } in SERVED.values() {
        let errors = validate_schema(resource.schema.schema(), true, &Path::root());
        assert_eq!(refusal(errors), Ok(()), "{:?}", crd.metadata.name);
    }
}

#[test]
fn every_kind_has_a_sample() {
    let sampled: BTreeSet<_> = samples()
        .objects
        .values()
        .map(|o| (text(o, "apiVersion"), text(o, "kind")))
        .collect();
    let served: BTreeSet<_> = SERVED.keys().cloned().collect();
    assert_eq!(sampled, served);
}

#[test]
fn samples_lie_where_their_kind_says() {
    for (path, object) in samples().objects {
        let kind = served(&object).kind;
        let below = if kind.origin == Origin::Foreign {
            "foreign/"
        } else {
            ""
        };
        let name = text(&object, "kind").to_lowercase();
        assert_eq!(path, format!("{below}{}/{name}", kind.group));
    }
}

/// Nothing of a sample is lost on the way through its type, save what repeats a default.
#[test]
fn samples_fit_their_types() {
    for (path, object) in samples().objects {
        let kind = served(&object).kind;
        let through = kind
            .through_type(object.clone())
            .unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(through, kind.through_type(through.clone()).unwrap(), "{path}");
        let mut lost = Vec::new();
        compare("/spec", &object["spec"], &through["spec"], &mut lost);
        for pointer in lost {
            assert_ne!(kind.origin, Origin::Foreign, "{path}: {pointer} is lost");
            let mut without = object.clone();
            remove(&mut without, &pointer);
            assert_eq!(through, kind.through_type(without).unwrap(), "{path}: {pointer}");
        }
    }
}

/// Collects what `part` has and `whole` has not.
fn compare(pointer: &str, part: &Value, whole: &Value, lost: &mut Vec<String>) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                match whole.get(key) {
                    Some(found) => compare(&pointer, value, found, lost),
                    None => lost.push(pointer),
                }
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len(), "{pointer}");
            for (index, (part, whole)) in part.iter().zip(whole).enumerate() {
                compare(&format!("{pointer}/{index}"), part, whole, lost);
            }
        }
        // A quantity is read as text.
        (Value::Number(part), Value::String(whole)) => {
            assert_eq!(part.to_string(), *whole, "{pointer}");
        }
        (part, whole) => assert_eq!(part, whole, "{pointer}"),
    }
}

fn remove(object: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    if let Some(Value::Object(map)) = object.pointer_mut(parent) {
        map.remove(key);
    }
}

/// What has no image of ours yet, so no version that is built.
const NOT_BUILT: [&str; 1] = ["cortex"];

#[test]
fn samples_name_images_that_are_built() {
    let samples = samples();
    let release = samples.objects["c5c3.io/controlplane"]["spec"]["openStackRelease"].clone();
    let file = format!("images/releases/{}/source-refs.yaml", release.as_str().unwrap());
    let built: BTreeMap<String, String> =
        serde_saphyr::from_str(&std::fs::read_to_string(root().join(file)).unwrap()).unwrap();
    let mut looked_at = 0;
    let ours = samples
        .objects
        .iter()
        .filter(|(path, _)| !path.starts_with("foreign/"));
    for (path, object) in ours {
        let mut pending = vec![object];
        while let Some(value) = pending.pop() {
            if let (Some(repository), Some(tag)) = (value["repository"].as_str(), value["tag"].as_str()) {
                let name = repository.rsplit('/').next().unwrap_or_default();
                assert_eq!(
                    built.contains_key(name),
                    !NOT_BUILT.contains(&name),
                    "{path}: {name}"
                );
                assert!(
                    built.get(name).is_none_or(|version| version == tag),
                    "{path}: {name} {tag}"
                );
                looked_at += 1;
            }
            match value {
                Value::Object(map) => pending.extend(map.values()),
                Value::Array(items) => pending.extend(items),
                _ => {}
            }
        }
    }
    assert!(looked_at >= 9, "only {looked_at} images found");
}

#[test]
fn samples_are_accepted() {
    for (path, object) in samples().objects {
        let resource = &served(&object).resource;
        if let Err(refused) = create(resource, object) {
            panic!("{path}: {refused}");
        }
    }
}

#[test]
fn cases_behave_as_the_table_says() {
    let samples = samples();
    let mut wrong = Vec::new();
    for case in &samples.cases {
        let object = samples.object(case).unwrap();
        let resource = &served(&object).resource;
        let created = create(resource, object);
        if case.has_second_step() && created.is_err() {
            wrong.push(format!("{}: creation: {created:?}", case.name));
            continue;
        }
        let outcome = created.and_then(|stored| {
            let mut changed = stored.clone();
            if let Some(patch) = &case.update {
                merge(&mut changed, patch);
                update(resource, &stored, changed)
            } else if let Some(patch) = &case.status {
                merge(&mut changed, patch);
                update_status(resource, &stored, changed)
            } else {
                Ok(())
            }
        });
        match (&case.message, outcome) {
            (None, Ok(())) => {}
            (Some(message), Err(refused)) if refused.contains(message.as_str()) => {}
            (expected, found) => {
                wrong.push(format!("{}: expected {expected:?}, found {found:?}", case.name));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        samples.cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn cases_are_named_once() {
    let samples = samples();
    let names: BTreeSet<_> = samples
        .cases
        .iter()
        .map(c5c3_api::samples::Case::object_name)
        .collect();
    assert_eq!(names.len(), samples.cases.len());
}

/// A rule without a case that it refuses is a rule that nobody tried.
#[test]
fn every_rule_has_a_case() {
    let messages: Vec<String> = samples().cases.into_iter().filter_map(|c| c.message).collect();
    let mut untried = BTreeSet::new();
    for kind in registry() {
        let mut pending = vec![serde_json::to_value(kind.crd()).unwrap()];
        while let Some(value) = pending.pop() {
            for rule in value
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let message = text(rule, "message");
                if !messages.iter().any(|m| message.contains(m.as_str())) {
                    untried.insert(format!("{}: {message}", kind.kind));
                }
            }
            match value {
                Value::Object(map) => pending.extend(map.into_iter().map(|(_, v)| v)),
                Value::Array(items) => pending.extend(items),
                _ => {}
            }
        }
    }
    assert!(untried.is_empty(), "{untried:#?}");
}
