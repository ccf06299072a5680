//! Whether a CustomResourceDefinition as a whole is accepted.

use serde_json::{Value, json};

use super::version::{columns, deprecation, scale, selectable};
use super::{openapi, strategy};
use crate::field::{FieldError, Path, text};
use crate::names;
use crate::schema::{Schema, Structural};

/// Fills in what a definition may leave out: singular, listKind and the conversion strategy.
pub fn apply_defaults(crd: &mut Value) {
    let Some(Value::Object(spec)) = crd.get_mut("spec") else {
        return;
    };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        for (field, default) in [
            ("singular", kind.to_lowercase()),
            ("listKind", format!("{kind}List")),
        ] {
            let missing = names.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
            if missing && !kind.is_empty() {
                names.insert(field.to_owned(), Value::from(default));
            }
        }
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
}

/// Errors of a new definition, after defaulting.
pub fn validate_create(crd: &Value) -> Vec<FieldError> {
    let mut errors = names::validate_create(
        crd.get("metadata").unwrap_or(&Value::Null),
        false,
        names::NameRule::Subdomain,
    );
    let spec = &crd["spec"];
    let name = text_at(&crd["metadata"], "name");
    let want = format!("{}.{}", text_at(&spec["names"], "plural"), text_at(spec, "group"));
    if name != want {
        errors.push(FieldError::invalid(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    errors.extend(validate_spec(spec));
    errors
}

/// Errors of a definition that replaces another one.
pub fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    let null = Value::Null;
    let mut errors = names::validate_update(
        crd.get("metadata").unwrap_or(&null),
        old.get("metadata").unwrap_or(&null),
    );
    errors.extend(validate_spec(&crd["spec"]));
    let mut fixed = |pointer: &str, field: &str| {
        let (new, was) = (crd.pointer(pointer), old.pointer(pointer));
        if new != was {
            let value = new.cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    };
    if is_established(old) {
        fixed("/spec/scope", "spec.scope");
        fixed("/spec/names/kind", "spec.names.kind");
    }
    fixed("/spec/group", "spec.group");
    fixed("/spec/names/plural", "spec.names.plural");
    let stored = old.pointer("/status/storedVersions").and_then(Value::as_array);
    for (i, version) in stored.into_iter().flatten().filter_map(Value::as_str).enumerate() {
        let kept = versions(&crd["spec"])
            .iter()
            .any(|v| text_at(v, "name") == version);
        if !kept {
            errors.push(FieldError::invalid(
                Path::new("status").child("storedVersions").index(i),
                version,
                format!("missing from spec.versions; {version} was previously a storage version, and must remain in \
                         spec.versions until a storage migration ensures no data remains persisted in {version} and \
                         removes {version} from status.storedVersions"),
            ));
        }
    }
    errors
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// One served version of a definition, ready to write objects with.
pub fn resource(crd: &Value, version: &str) -> Result<strategy::CustomResource, Vec<FieldError>> {
    let spec = &crd["spec"];
    let Some((i, entry)) = versions(spec)
        .iter()
        .enumerate()
        .find(|(_, v)| text_at(v, "name") == version)
    else {
        let at = Path::new("spec").child("versions");
        return Err(vec![FieldError::not_found(at, version)]);
    };
    let at = Path::new("spec")
        .child("versions")
        .index(i)
        .child("schema")
        .child("openAPIV3Schema");
    let schema = Schema::parse(&entry["schema"]["openAPIV3Schema"], &at)?;
    Ok(strategy::CustomResource {
        kind: text_at(&spec["names"], "kind").to_owned(),
        api_version: format!("{}/{version}", text_at(spec, "group")),
        namespaced: text_at(spec, "scope") == "Namespaced",
        status: entry
            .pointer("/subresources/status")
            .is_some_and(|s| !s.is_null()),
        schema: Structural::new(schema),
    })
}

pub(super) fn text_at<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn versions(spec: &Value) -> &[Value] {
    spec.get("versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn validate_spec(spec: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let group = text_at(spec, "group");
    let at = path.child("group");
    if group.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else {
        let faults = names::dns1123_subdomain(group);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(at, group, faults.join(",")));
        } else if !group.contains('.') {
            errors.push(FieldError::invalid(
                at,
                group,
                "should be a domain with at least one dot",
            ));
        }
    }
    one_of(
        text_at(spec, "scope"),
        &["Cluster", "Namespaced"],
        &path.child("scope"),
        &mut errors,
    );
    validate_versions(spec, &path, &mut errors);
    validate_names(&spec["names"], &path.child("names"), &mut errors);
    validate_conversion(spec.get("conversion"), &path.child("conversion"), &mut errors);
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        errors.push(FieldError::invalid(
            path.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
    errors
}

fn one_of(value: &str, accepted: &[&str], at: &Path, errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(at, value, accepted));
    }
}

/// What all versions have in common is checked, and named in errors, once for all of them.
fn shared(versions: &[Value], field: &str) -> bool {
    let (first, rest) = match versions.split_first() {
        Some((first, rest)) => (first.get(field).unwrap_or(&Value::Null), rest),
        None => return false,
    };
    rest.iter().all(|v| v.get(field).unwrap_or(&Value::Null) == first)
}

fn validate_versions(spec: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let all = versions(spec);
    let at = path.child("versions");
    for (i, version) in all.iter().enumerate() {
        let at = at.index(i);
        let name = text_at(version, "name");
        let faults = names::dns1035_label(name);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(at.child("name"), name, faults.join(",")));
        }
        deprecation(version, &at, errors);
        let status = version
            .pointer("/subresources/status")
            .is_some_and(|s| !s.is_null());
        let schema = &version["schema"]["openAPIV3Schema"];
        let schema_at = if shared(all, "schema") {
            path.child("validation").child("openAPIV3Schema")
        } else {
            at.child("schema").child("openAPIV3Schema")
        };
        if schema.is_null() {
            let at = at.child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(at, ""));
        } else if i == 0 || !shared(all, "schema") {
            match Schema::parse(schema, &schema_at) {
                Ok(schema) => {
                    errors.extend(openapi::validate(&schema, status, &schema_at));
                    let at = if shared(all, "selectableFields") {
                        path
                    } else {
                        &at
                    };
                    selectable(version, &schema, at, errors);
                }
                Err(faults) => errors.extend(faults),
            }
        }
        if i == 0 || !shared(all, "subresources") {
            let at = if shared(all, "subresources") { path } else { &at };
            scale(
                &version["subresources"]["scale"],
                &at.child("subresources"),
                errors,
            );
        }
        if i == 0 || !shared(all, "additionalPrinterColumns") {
            let at = if shared(all, "additionalPrinterColumns") {
                path
            } else {
                &at
            };
            columns(version, &at.child("additionalPrinterColumns"), errors);
        }
    }
    if let Some(name) = all.first().map(|v| text_at(v, "name")) {
        let faults = names::dns1035_label(name);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(path.child("version"), name, faults.join(",")));
        }
    }
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(&at, json!(all), detail).showing(printed(all)));
    };
    let named: Vec<&str> = all.iter().map(|v| text_at(v, "name")).collect();
    if (1..named.len()).any(|i| named[..i].contains(&named[i])) {
        refuse("must contain unique version names");
    }
    if all.iter().filter(|v| v["storage"] == json!(true)).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
}

/// Versions as errors show them: without schemas and columns.
fn printed(versions: &[Value]) -> String {
    let one = |v: &Value| {
        let flag = |field: &str| v.get(field) == Some(&Value::Bool(true));
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            text::json(v.get("name").unwrap_or(&Value::Null)),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            text::json(v.get("deprecationWarning").unwrap_or(&Value::Null)),
        )
    };
    let all: Vec<String> = versions.iter().map(one).collect();
    format!("[{}]", all.join(","))
}

fn validate_names(values: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text_at(values, field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    for field in ["plural", "singular"] {
        let name = text_at(values, field);
        let faults = names::dns1035_label(name);
        if !name.is_empty() && !faults.is_empty() {
            errors.push(FieldError::invalid(path.child(field), name, faults.join(",")));
        }
    }
    for field in ["kind", "listKind"] {
        let name = text_at(values, field);
        let faults = names::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !faults.is_empty() {
            errors.push(FieldError::invalid(
                path.child(field),
                name,
                format!(
                    "may have mixed case, but should otherwise match: {}",
                    faults.join(",")
                ),
            ));
        }
    }
    let (kind, list) = (text_at(values, "kind"), text_at(values, "listKind"));
    if !kind.is_empty() && kind == list {
        errors.push(FieldError::invalid(
            path.child("listKind"),
            list,
            "kind and listKind may not be the same",
        ));
    }
    for field in ["shortNames", "categories"] {
        let list = values.get(field).and_then(Value::as_array);
        for (i, name) in list.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            let faults = names::dns1035_label(name);
            if !faults.is_empty() {
                errors.push(FieldError::invalid(
                    path.child(field).index(i),
                    name,
                    faults.join(","),
                ));
            }
        }
    }
}

/// Webhooks are not served yet: a definition that needs one is refused rather than half served.
fn validate_conversion(conversion: Option<&Value>, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(conversion) = conversion.filter(|c| !c.is_null()) else {
        return;
    };
    let strategy = text_at(conversion, "strategy");
    one_of(strategy, &["None", "Webhook"], &path.child("strategy"), errors);
    let webhook = conversion.get("webhook").is_some_and(|w| !w.is_null());
    if strategy == "Webhook" {
        errors.push(FieldError::invalid(
            path.child("strategy"),
            strategy,
            "conversion webhooks are not supported here; use None",
        ));
    } else if webhook {
        errors.push(FieldError::forbidden(
            path.child("webhookClientConfig"),
            "should not be set when strategy is not set to Webhook",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
                    }}},
                    "additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.a"}],
                    "selectableFields": [{"jsonPath": ".spec.a"}],
                    "subresources": {"status": {}}
                }]
            }
        })
    }

    #[test]
    fn a_plain_definition_is_accepted() {
        let mut crd = crd();
        apply_defaults(&mut crd);
        assert_eq!(crd["spec"]["names"]["listKind"], "ThingList");
        assert_eq!(validate_create(&crd), vec![]);
        let resource = resource(&crd, "v1").expect("readable");
        assert!(resource.status && resource.namespaced);
        assert_eq!(resource.api_version, "example.com/v1");
    }

    #[test]
    fn faults_are_named() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 9] = [
            (
                |c| c["spec"]["group"] = json!("x"),
                "spec.group: Invalid value: \"x\": should be a domain with at least one dot",
            ),
            (
                |c| c["spec"]["scope"] = json!("Any"),
                "spec.scope: Unsupported value: \"Any\": supported values: \"Cluster\", \"Namespaced\"",
            ),
            (
                |c| c["spec"]["names"]["listKind"] = json!("Thing"),
                "spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same",
            ),
            (
                |c| c["metadata"]["name"] = json!("x.example.com"),
                "metadata.name: Invalid value: \"x.example.com\": must be spec.names.plural+\".\"+spec.group",
            ),
            (
                |c| c["spec"]["versions"][0]["additionalPrinterColumns"][0]["type"] = json!("x"),
                "spec.additionalPrinterColumns[0].type: Invalid value: \"x\": must be one of boolean,date,integer,number,string",
            ),
            (
                |c| c["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = json!("string"),
                "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
            ),
            (
                |c| c["spec"]["versions"][0]["schema"] = json!({}),
                "spec.versions[0].schema.openAPIV3Schema: Required value",
            ),
            (
                |c| c["spec"]["conversion"] = json!({"strategy": "Webhook"}),
                "spec.conversion.strategy: Invalid value: \"Webhook\": conversion webhooks are not supported here; use None",
            ),
            (
                |c| c["spec"]["versions"][0]["selectableFields"][0]["jsonPath"] = json!(".spec.b"),
                "spec.selectableFields[0].jsonPath: Invalid value: \".spec.b\": is an invalid path: does not refer to a valid field",
            ),
        ];
        for (change, want) in cases {
            let mut crd = crd();
            change(&mut crd);
            apply_defaults(&mut crd);
            let errors: Vec<String> = validate_create(&crd).iter().map(ToString::to_string).collect();
            assert!(errors.iter().any(|e| e == want), "want {want}, got {errors:?}");
        }
    }

    #[test]
    fn names_and_stored_versions_stay() {
        let mut old = crd();
        apply_defaults(&mut old);
        old["metadata"]["resourceVersion"] = json!("1");
        old["status"] = json!({
            "storedVersions": ["v0"],
            "conditions": [{"type": "Established", "status": "True"}]
        });
        let mut new = old.clone();
        new["spec"]["scope"] = json!("Cluster");
        let errors: Vec<String> = validate_update(&new, &old)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            errors
                .iter()
                .any(|e| e.starts_with("spec.scope: Invalid value: \"Cluster\": field is immutable")),
            "{errors:?}"
        );
        assert!(
            errors.iter().any(|e| e.starts_with("status.storedVersions[0]")),
            "{errors:?}"
        );
    }
}
