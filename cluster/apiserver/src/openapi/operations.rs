//! The paths of a document: which verbs a resource has and which parameters they take.

use crate::verb::Verb;
use serde_json::{Map, Value, json};

use super::schemas::{full_name, group_version_kind, list_name_of, name_of, reference};
use crate::registry::Kind;

/// `root` is `api/v1` or `apis/<group>/<version>`.
pub(super) fn paths(root: &str, kinds: &[&Kind]) -> Map<String, Value> {
    let mut paths = Map::new();
    for kind in kinds {
        let all = format!("/{root}/{}", kind.plural);
        let collection = if kind.namespaced {
            if kind.allows(&Verb::List) {
                paths.insert(all, collection_of(kind, &["get"]));
            }
            format!("/{root}/namespaces/{{namespace}}/{}", kind.plural)
        } else {
            all
        };
        let item = format!("{collection}/{{name}}");
        insert(
            &mut paths,
            collection,
            collection_of(kind, &["get", "post", "delete"]),
        );
        for subresource in &kind.subresources {
            let path = format!("{item}/{}", subresource.name);
            insert(&mut paths, path, item_of(kind, &subresource.verbs));
        }
        insert(&mut paths, item, item_of(kind, &kind.verbs));
    }
    paths
}

fn insert(paths: &mut Map<String, Value>, path: String, item: Value) {
    let has_method = ["get", "post", "put", "patch", "delete"]
        .iter()
        .any(|method| item.get(method).is_some());
    if has_method {
        paths.insert(path, item);
    }
}

fn collection_of(kind: &Kind, methods: &[&str]) -> Value {
    let mut item = json!({"parameters": path_parameters(kind, false)});
    for (method, verb, action) in [
        ("get", Verb::List, "list"),
        ("post", Verb::Create, "post"),
        ("delete", Verb::DeleteCollection, "deletecollection"),
    ] {
        if methods.contains(&method) && kind.allows(&verb) {
            item[method] = operation(kind, action);
        }
    }
    item
}

fn item_of(kind: &Kind, verbs: &[Verb]) -> Value {
    let mut item = json!({"parameters": path_parameters(kind, true)});
    for (method, verb, action) in [
        ("get", Verb::Get, "get"),
        ("post", Verb::Create, "post"),
        ("put", Verb::Update, "put"),
        ("patch", Verb::Patch, "patch"),
        ("delete", Verb::Delete, "delete"),
    ] {
        // Creation of the resource itself is at the collection.
        let here = method != "post" || !std::ptr::eq(verbs, kind.verbs.as_slice());
        if here && verbs.contains(&verb) {
            item[method] = operation(kind, action);
        }
    }
    item
}

fn operation(kind: &Kind, action: &str) -> Value {
    let object = reference(&name_of(kind));
    let answer = match action {
        "list" => reference(&list_name_of(kind)),
        "delete" | "deletecollection" => reference(&full_name("meta.v1.Status")),
        _ => object.clone(),
    };
    let mut operation = json!({
        "tags": [tag(kind)],
        "parameters": query_parameters(action),
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer}}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(kind, &kind.kind),
    });
    match action {
        "post" | "put" => {
            operation["requestBody"] = json!({"required": true, "content": {"*/*": {"schema": object}}});
        }
        "patch" => {
            let types = [
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ];
            let offered = types
                .iter()
                .filter(|t| !(kind.is_custom() && t.contains("strategic")));
            let content: Map<_, _> = offered
                .map(|media| ((*media).to_owned(), json!({"schema": {"type": "object"}})))
                .collect();
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        "delete" | "deletecollection" => {
            let options = reference(&full_name("meta.v1.DeleteOptions"));
            operation["requestBody"] = json!({"content": {"*/*": {"schema": options}}});
        }
        _ => {}
    }
    operation
}

fn tag(kind: &Kind) -> String {
    let group = kind
        .group
        .split('.')
        .next()
        .filter(|g| !g.is_empty())
        .unwrap_or("core");
    format!("{group}_{}", kind.version)
}

fn path_parameters(kind: &Kind, named: bool) -> Vec<Value> {
    let parameter = |name: &str, description: &str| {
        json!({"name": name, "in": "path", "required": true, "description": description,
            "schema": {"type": "string", "uniqueItems": true}})
    };
    let mut parameters = Vec::new();
    if named {
        parameters.push(parameter("name", &format!("name of the {}", kind.kind)));
    }
    if kind.namespaced {
        let description = "object name and auth scope, such as for teams and projects";
        parameters.push(parameter("namespace", description));
    }
    parameters
}

const SELECT: [(&str, &str); 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

const WRITE: [(&str, &str); 3] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];

const DELETE: [(&str, &str); 4] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

fn query_parameters(action: &str) -> Vec<Value> {
    let mut names = vec![("pretty", "string")];
    match action {
        "list" => names.extend(SELECT),
        "post" | "put" => names.extend(WRITE),
        "patch" => {
            names.extend(WRITE);
            names.push(("force", "boolean"));
        }
        "delete" => names.extend(DELETE),
        "deletecollection" => {
            names.extend(DELETE);
            names.extend(SELECT);
        }
        _ => {}
    }
    names
        .iter()
        .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}))
        .collect()
}
