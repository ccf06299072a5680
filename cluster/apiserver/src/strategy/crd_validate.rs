//! Which CustomResourceDefinitions are accepted.

use apimachinery::{
    crd::validate_schema,
    field::{FieldError, Path},
    names,
    schema::Schema,
};
use serde_json::Value;

use super::crd::{ESTABLISHED, condition};

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn validate(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let wanted = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if object["metadata"]["name"] != wanted.as_str() {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid(
            "metadata.name",
            object["metadata"]["name"].clone(),
            detail,
        ));
    }
    let group = text(&spec["group"]);
    if !group.is_empty() {
        push_faults(&mut errors, "spec.group", group, names::dns1123_subdomain(group));
        if !group.contains('.') {
            let detail = "should be a domain with at least one dot";
            errors.push(FieldError::invalid("spec.group", group, detail));
        }
    }
    if !matches!(text(&spec["scope"]), "Cluster" | "Namespaced") {
        errors.push(FieldError::not_supported(
            "spec.scope",
            text(&spec["scope"]),
            ["Cluster", "Namespaced"],
        ));
    }
    errors.extend(check_names(&spec["names"]));
    errors.extend(check_versions(spec));
    // Webhook conversion would be called where `resource::version` renames versions.
    if spec["conversion"]["strategy"] == "Webhook" {
        let detail = "this server converts with strategy None only";
        errors.push(FieldError::invalid("spec.conversion.strategy", "Webhook", detail));
    }
    if let Some(old) = old {
        errors.extend(check_update(object, old));
    }
    if old.is_none_or(|old| old["spec"]["versions"] != spec["versions"]) {
        errors.extend(check_schemas(spec));
    }
    errors
}

fn push_faults(errors: &mut Vec<FieldError>, field: &str, value: &str, faults: Vec<String>) {
    errors.extend(
        faults
            .into_iter()
            .map(|fault| FieldError::invalid(field, value, fault)),
    );
}

fn check_names(wanted: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["plural", "singular", "kind", "listKind"] {
        let value = text(&wanted[field]);
        if !value.is_empty() {
            let path = format!("spec.names.{field}");
            push_faults(
                &mut errors,
                &path,
                value,
                names::dns1035_label(&value.to_lowercase()),
            );
        }
    }
    if !text(&wanted["kind"]).is_empty() && wanted["kind"] == wanted["listKind"] {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            wanted["listKind"].clone(),
            detail,
        ));
    }
    for field in ["shortNames", "categories"] {
        for (i, name) in wanted[field].as_array().into_iter().flatten().enumerate() {
            let path = format!("spec.names.{field}[{i}]");
            push_faults(&mut errors, &path, text(name), names::dns1035_label(text(name)));
        }
    }
    errors
}

fn check_versions(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storing = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if storing != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(
            "spec.versions",
            spec["versions"].clone(),
            detail,
        ));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let name = text(&version["name"]);
        let path = format!("spec.versions[{i}]");
        if seen.contains(&name) {
            let detail = "must contain unique version names";
            errors.push(FieldError::invalid(
                "spec.versions",
                spec["versions"].clone(),
                detail,
            ));
        }
        seen.push(name);
        push_faults(
            &mut errors,
            &format!("{path}.name"),
            name,
            names::dns1035_label(name),
        );
        for (j, column) in version["additionalPrinterColumns"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let path = format!("{path}.additionalPrinterColumns[{j}]");
            let kind = text(&column["type"]);
            let types = ["boolean", "date", "integer", "number", "string"];
            if !kind.is_empty() && !types.contains(&kind) {
                let detail = format!("must be one of {}", types.join(","));
                errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
            }
            let json_path = text(&column["jsonPath"]);
            if let Err(error) = apimachinery::jsonpath::JsonPath::parse(json_path) {
                errors.push(FieldError::invalid(
                    format!("{path}.jsonPath"),
                    json_path,
                    error.to_string(),
                ));
            }
        }
    }
    errors
}

fn check_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    if condition(old, ESTABLISHED) == Some("True") {
        for path in ["group", "scope", "names.plural", "names.kind"] {
            let at = |spec: &Value| {
                path.split('.')
                    .fold(spec.clone(), |value, part| value[part].clone())
            };
            if at(spec) != at(&old["spec"]) {
                errors.push(FieldError::invalid(
                    format!("spec.{path}"),
                    at(spec),
                    "field is immutable",
                ));
            }
        }
    }
    let names: Vec<&str> = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|version| text(&version["name"]))
        .collect();
    for (i, stored) in old["status"]["storedVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if !names.contains(&text(stored)) {
            let detail = "missing from spec.versions; it must stay, or no object may be stored in it";
            errors.push(FieldError::invalid(
                format!("status.storedVersions[{i}]"),
                stored.clone(),
                detail,
            ));
        }
    }
    errors
}

/// Versions that share a schema are reported once, under the name that Kubernetes gives the shared one.
fn check_schemas(spec: &Value) -> Vec<FieldError> {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let schema_of = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    let shared = versions.windows(2).all(|pair| {
        schema_of(&pair[0]) == schema_of(&pair[1]) && pair[0]["subresources"] == pair[1]["subresources"]
    });
    let mut errors = Vec::new();
    for (i, version) in versions
        .iter()
        .enumerate()
        .take(if shared { 1 } else { versions.len() })
    {
        let place = Path::new("spec");
        let path = if shared {
            place.child("validation").child("openAPIV3Schema")
        } else {
            place
                .child("versions")
                .index(i)
                .child("schema")
                .child("openAPIV3Schema")
        };
        let schema = schema_of(version);
        if !schema.is_object() {
            let path = Path::new("spec")
                .child("versions")
                .index(i)
                .child("schema")
                .child("openAPIV3Schema");
            errors.push(FieldError::required(path, "schemas are required"));
            continue;
        }
        match Schema::parse(&schema, &path) {
            Ok(schema) => {
                errors.extend(validate_schema(
                    &schema,
                    version["subresources"]["status"].is_object(),
                    &path,
                ));
            }
            Err(faults) => errors.extend(faults),
        }
    }
    errors
}
