//! The schemas of a document: the kinds of one version and all that they refer to.

use crate::verb::Verb;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use apimachinery::openapi::builtin_definitions as definitions;

use crate::registry::{Kind, Schema};

const OBJECT_META: &str = "meta.v1.ObjectMeta";
const LIST_META: &str = "meta.v1.ListMeta";
/// Bodies that every version has.
const COMMON: [&str; 4] = [OBJECT_META, LIST_META, "meta.v1.DeleteOptions", "meta.v1.Status"];

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The name of a kind's schema in the document.
pub(super) fn name_of(kind: &Kind) -> String {
    match &kind.schema {
        Schema::Builtin(definition) => full_name(definition),
        Schema::Custom(_) => {
            let mut parts: Vec<&str> = kind.group.split('.').collect();
            parts.reverse();
            format!("{}.{}.{}", parts.join("."), kind.version, kind.kind)
        }
    }
}

pub(super) fn list_name_of(kind: &Kind) -> String {
    let name = name_of(kind);
    let prefix = name.strip_suffix(&kind.kind).unwrap_or(&name).to_owned();
    format!("{prefix}{}", kind.list_kind)
}

/// The name that Kubernetes gives a definition in OpenAPI.
pub(super) fn full_name(definition: &str) -> String {
    let prefix = match definition.split('.').next().unwrap_or_default() {
        "meta" => "io.k8s.apimachinery.pkg.apis",
        "api" | "util" | "runtime" => "io.k8s.apimachinery.pkg",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{prefix}.{definition}")
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Schemas by name.
pub(super) fn components(kinds: &[&Kind]) -> Map<String, Value> {
    let mut found = Found::default();
    for name in COMMON {
        found.add(name);
    }
    let mut custom = Map::new();
    for kind in kinds {
        match &kind.schema {
            Schema::Builtin(definition) => found.add(definition),
            Schema::Custom(schema) => {
                custom.insert(name_of(kind), custom_schema(kind, &schema.openapi));
            }
        }
        for subresource in &kind.subresources {
            found.add_kind(&subresource.group, &subresource.version, &subresource.kind);
        }
        if kind.allows(&Verb::List) {
            custom.insert(list_name_of(kind), list_schema(kind));
        }
    }
    let mut components = found.schemas();
    components.extend(custom);
    components
}

/// Built-in definitions that are needed, with all below them.
#[derive(Default)]
struct Found(BTreeMap<String, Value>);

impl Found {
    fn add(&mut self, name: &str) {
        let mut open = vec![name.to_owned()];
        while let Some(name) = open.pop() {
            if self.0.contains_key(&name) {
                continue;
            }
            if let Some(definition) = definitions().get(&name) {
                collect_references(definition, &mut open);
                self.0.insert(name, definition.clone());
            }
        }
    }

    /// The body of a subresource, where its kind is a definition.
    fn add_kind(&mut self, group: &str, version: &str, kind: &str) {
        let short = group
            .split('.')
            .next()
            .filter(|g| !g.is_empty())
            .unwrap_or("core");
        self.add(&format!("{short}.{version}.{kind}"));
    }

    fn schemas(self) -> Map<String, Value> {
        self.0
            .into_iter()
            .map(|(name, definition)| (full_name(&name), with_full_references(definition)))
            .collect()
    }
}

fn collect_references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                into.push(name.to_owned());
            }
            for field in fields.values() {
                collect_references(field, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

/// Points `$ref` at the document's components. OpenAPI 3.0 ignores what stands beside a `$ref`, so
/// that one moves into `allOf`.
fn with_full_references(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            let target = fields
                .get("$ref")
                .and_then(Value::as_str)
                .map(|name| reference(&full_name(name)));
            let Some(target) = target else {
                let fields = fields
                    .into_iter()
                    .map(|(key, value)| (key, with_full_references(value)));
                return Value::Object(fields.collect());
            };
            fields.remove("$ref");
            if fields.is_empty() {
                return target;
            }
            fields.insert("allOf".to_owned(), json!([target]));
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(with_full_references).collect(),
        other => other,
    }
}

fn custom_schema(kind: &Kind, openapi: &Value) -> Value {
    let mut schema = if openapi.is_object() {
        openapi.clone()
    } else {
        json!({})
    };
    schema["type"] = json!("object");
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({"type": "string", "description": API_VERSION});
    schema["properties"]["kind"] = json!({"type": "string", "description": KIND});
    schema["properties"]["metadata"] = json!({
        "description": METADATA,
        "allOf": [reference(&full_name(OBJECT_META))],
    });
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind, &kind.kind)]);
    schema
}

fn list_schema(kind: &Kind) -> Value {
    json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": {
                "description": "Standard list metadata.",
                "allOf": [reference(&full_name(LIST_META))],
            },
            "items": {
                "description": format!("List of {}.", kind.plural),
                "type": "array",
                "items": reference(&name_of(kind)),
            },
        },
        "x-kubernetes-group-version-kind": [group_version_kind(kind, &kind.list_kind)],
    })
}

pub(super) fn group_version_kind(kind: &Kind, name: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": name})
}
