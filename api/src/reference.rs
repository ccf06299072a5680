//! The API reference, one Markdown page for each group of ours.

use crate::{Kind, Origin, conditions, publish};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const NOTE: &str =
    "<!-- Generated from the types in api/. Run `UPDATE=1 cargo test -p c5c3-api` after a change. -->\n";

/// Path → page, and an index.
pub(crate) fn pages(kinds: &[Kind]) -> BTreeMap<PathBuf, String> {
    let mut groups: Vec<(&str, Vec<&Kind>)> = Vec::new();
    for kind in kinds.iter().filter(|k| k.origin != Origin::Foreign) {
        match groups.iter_mut().find(|(group, _)| *group == kind.group) {
            Some((_, members)) => members.push(kind),
            None => groups.push((&kind.group, vec![kind])),
        }
    }
    let mut pages: BTreeMap<PathBuf, String> = groups
        .iter()
        .map(|(group, members)| {
            (
                Path::new("docs/api").join(format!("{group}.md")),
                page(group, members),
            )
        })
        .collect();
    pages.insert(PathBuf::from("docs/api/README.md"), index(kinds, &groups));
    pages
}

fn index(kinds: &[Kind], groups: &[(&str, Vec<&Kind>)]) -> String {
    let mut out = format!("{NOTE}\n# API reference\n\n");
    out.push_str("| Group | Version | Kind | Scope | Short | What it is |\n|---|---|---|---|---|---|\n");
    for (group, members) in groups {
        for kind in members {
            let names = &kind.crd().spec.names;
            let _ = writeln!(
                out,
                "| [`{group}`]({group}.md) | {} | [{}]({group}.md#{}) | {} | {} | {} |",
                kind.version,
                kind.kind,
                kind.kind.to_lowercase(),
                scope(kind),
                names.short_names.as_deref().unwrap_or_default().join(", "),
                description(&schema(kind)),
            );
        }
    }
    out.push_str("\n## Kinds of other projects\n\n");
    out.push_str(
        "The operators create or read these. `deploy/crds/foreign/` holds definitions that accept any \
         spec and status, for clusters without the real operators.\n\n| Group | Version | Kinds |\n|---|---|---|\n",
    );
    let mut foreign: Vec<(String, String, Vec<&str>)> = Vec::new();
    for kind in kinds.iter().filter(|k| k.origin == Origin::Foreign) {
        match foreign
            .iter_mut()
            .find(|(g, v, _)| *g == kind.group && *v == kind.version)
        {
            Some((_, _, names)) => names.push(&kind.kind),
            None => foreign.push((kind.group.clone(), kind.version.clone(), vec![&kind.kind])),
        }
    }
    for (group, version, names) in foreign {
        let _ = writeln!(out, "| `{group}` | {version} | {} |", names.join(", "));
    }
    out
}

fn scope(kind: &Kind) -> &'static str {
    match (kind.origin, kind.namespaced) {
        (Origin::Composite, _) => "cluster; claim: namespace",
        (_, true) => "namespace",
        (_, false) => "cluster",
    }
}

fn schema(kind: &Kind) -> Value {
    kind.crd()
        .spec
        .versions
        .first()
        .and_then(|v| v.schema.as_ref())
        .and_then(|s| serde_json::to_value(s.open_api_v3_schema.as_ref()).ok())
        .map(|mut schema| {
            publish::whole_numbers(&mut schema);
            schema
        })
        .unwrap_or_default()
}

fn page(group: &str, kinds: &[&Kind]) -> String {
    let mut out = format!("{NOTE}\n# {group}\n");
    for kind in kinds {
        section(&mut out, kind);
    }
    out
}

fn section(out: &mut String, kind: &Kind) {
    let schema = schema(kind);
    let names = &kind.crd().spec.names;
    let _ = write!(
        out,
        "\n## {}\n\n{}\n\n`{}`, {} scope",
        kind.kind,
        description(&schema),
        kind.api_version(),
        scope(kind),
    );
    if let Some(short) = names.short_names.as_ref().filter(|s| !s.is_empty()) {
        let _ = write!(out, ", short name `{}`", short.join("`, `"));
    }
    if let Some(claim) = kind.claim() {
        let _ = write!(out, ". People write the claim `{}`", claim.spec.names.kind);
    }
    out.push_str(".\n");
    if let Some(spec) = schema.pointer("/properties/spec") {
        fields(out, "Spec", spec);
    }
    if let Some(status) = schema.pointer("/properties/status") {
        fields(out, "Status", status);
    }
    columns(out, kind);
    let types = conditions::of_kind(&kind.kind);
    if !types.is_empty() {
        let _ = writeln!(out, "\n**Conditions:** `{}`", types.join("`, `"));
    }
}

fn columns(out: &mut String, kind: &Kind) {
    let columns: Vec<String> = kind
        .crd()
        .spec
        .versions
        .iter()
        .flat_map(|v| v.additional_printer_columns.iter().flatten())
        .map(|c| match c.priority {
            Some(p) if p > 0 => format!("{} (wide)", c.name),
            _ => c.name.clone(),
        })
        .collect();
    let _ = writeln!(out, "\n**Columns:** {}", columns.join(", "));
}

struct Row {
    path: String,
    type_: String,
    presence: String,
    description: String,
    constraints: Vec<String>,
}

fn fields(out: &mut String, title: &str, schema: &Value) {
    let mut rows = Vec::new();
    walk(&mut rows, "", schema);
    let general = rules(schema);
    if rows.is_empty() && general.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n### {title}\n");
    if !rows.is_empty() {
        out.push_str(
            "| Field | Type | Required, default | Description | Constraints |\n|---|---|---|---|---|\n",
        );
        for row in rows {
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {} |",
                row.path,
                row.type_,
                row.presence,
                cell(&row.description),
                cell(&row.constraints.join("; ")),
            );
        }
    }
    if !general.is_empty() {
        out.push_str("\nRules:\n\n");
        for rule in general {
            let _ = writeln!(out, "- {rule}");
        }
    }
}

/// Text in a table must not hold a bar or a line break.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn walk(rows: &mut Vec<Row>, prefix: &str, schema: &Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in properties {
        let path = format!("{prefix}{name}");
        // Every kind has the same conditions: one row says enough.
        let conditions = path == "conditions";
        rows.push(Row {
            type_: type_name(field),
            presence: presence(field, required.contains(&name.as_str())),
            description: description(field),
            constraints: if conditions {
                Vec::new()
            } else {
                constraints(field)
            },
            path: path.clone(),
        });
        if conditions {
            continue;
        }
        walk(rows, &format!("{path}."), field);
        for (key, infix) in [("items", "[]"), ("additionalProperties", ".*")] {
            if let Some(inner) = field.get(key) {
                walk(rows, &format!("{path}{infix}."), inner);
            }
        }
    }
}

fn presence(field: &Value, required: bool) -> String {
    match field.get("default") {
        Some(default) => format!("`{default}`"),
        None if required => "required".to_owned(),
        None => String::new(),
    }
}

fn type_name(field: &Value) -> String {
    if field.get("x-kubernetes-int-or-string").is_some() {
        return "quantity".to_owned();
    }
    let nested = |key: &str| field.get(key).map(type_name);
    match field.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}", nested("items").unwrap_or_default()),
        Some("object") => match nested("additionalProperties") {
            Some(inner) => format!("map of {inner}"),
            None => "object".to_owned(),
        },
        Some("string") if field.get("format") == Some(&Value::from("date-time")) => "time".to_owned(),
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

fn description(schema: &Value) -> String {
    schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn rules(schema: &Value) -> Vec<String> {
    schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|rule| rule.get("message").and_then(Value::as_str))
        .map(ToOwned::to_owned)
        .collect()
}

fn constraints(field: &Value) -> Vec<String> {
    let Some(map) = field.as_object() else {
        return Vec::new();
    };
    let mut out = Vec::new();
    if let Some(values) = map.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(|v| format!("`{v}`")).collect();
        out.push(format!("one of {}", values.join(", ")));
    }
    out.extend(range(map, "minimum", "maximum", ""));
    out.extend(range(map, "minLength", "maxLength", " characters"));
    out.extend(range(map, "minItems", "maxItems", " items"));
    out.extend(range(map, "minProperties", "maxProperties", " entries"));
    if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
        out.push(format!("`{pattern}`"));
    }
    match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => out.push("no repeats".to_owned()),
        Some("map") => {
            let keys: Vec<&str> = map
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            out.push(format!("one for each {}", keys.join(" and ")));
        }
        _ => {}
    }
    if let Some(items) = map.get("items") {
        out.extend(constraints(items).into_iter().map(|c| format!("each: {c}")));
    }
    out.extend(rules(field));
    out
}

fn range(map: &Map<String, Value>, low: &str, high: &str, unit: &str) -> Option<String> {
    match (map.get(low), map.get(high)) {
        (Some(low), Some(high)) => Some(format!("{low} to {high}{unit}")),
        (Some(low), None) => Some(format!("{low}{unit} or more")),
        (None, Some(high)) => Some(format!("at most {high}{unit}")),
        (None, None) => None,
    }
}
