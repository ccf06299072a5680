//! What an ExternalSecret makes of what it read: no cluster, no clock. Messages name keys, never values.

use std::collections::BTreeMap;

use c5c3_api::foreign::external_secrets::{ExternalSecretSpec, ExternalSecretTemplate, RemoteRef};
use k8s_openapi::ByteString;

pub(crate) type Data = BTreeMap<String, ByteString>;

/// Every key that is wanted, once.
pub(crate) fn keys(spec: &ExternalSecretSpec) -> Vec<&str> {
    let from = spec.data_from.iter().map(|from| from.extract.key.as_str());
    let data = spec.data.iter().map(|data| data.remote_ref.key.as_str());
    let mut keys: Vec<&str> = from.chain(data).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The data of the target. `found` holds the keys that are in the store. What is missing is an
/// error, unless the deletion policy says that it may go.
pub(crate) fn collect(spec: &ExternalSecretSpec, found: &BTreeMap<String, Data>) -> Result<Data, String> {
    let policy = spec
        .target
        .as_ref()
        .and_then(|target| target.deletion_policy.as_deref());
    let may_go = matches!(policy, Some("Delete" | "Merge"));
    let mut collected = Data::new();
    for from in &spec.data_from {
        match found.get(&from.extract.key) {
            Some(data) => collected.extend(data.clone()),
            None if may_go => {}
            None => return Err(missing(&from.extract)),
        }
    }
    for wanted in &spec.data {
        let Some(data) = found.get(&wanted.remote_ref.key) else {
            if may_go {
                continue;
            }
            return Err(missing(&wanted.remote_ref));
        };
        let value = match &wanted.remote_ref.property {
            Some(property) => data.get(property).cloned(),
            None => Some(whole(data)),
        };
        match value {
            Some(value) => collected.insert(wanted.secret_key.clone(), value),
            None if may_go => continue,
            None => return Err(missing(&wanted.remote_ref)),
        };
    }
    match spec.target.as_ref().and_then(|target| target.template.as_ref()) {
        Some(template) if !template.data.is_empty() && !collected.is_empty() => fill(template, &collected),
        _ => Ok(collected),
    }
}

fn missing(reference: &RemoteRef) -> String {
    match &reference.property {
        Some(property) => format!("the store has no {} with the property {property}", reference.key),
        None => format!("the store has no {}", reference.key),
    }
}

/// A key without a property: all of it, as JSON.
fn whole(data: &Data) -> ByteString {
    let texts: BTreeMap<&str, _> = data
        .iter()
        .map(|(key, value)| (key.as_str(), String::from_utf8_lossy(&value.0)))
        .collect();
    // Text to text: this cannot fail.
    ByteString(serde_json::to_vec(&texts).unwrap_or_default())
}

fn fill(template: &ExternalSecretTemplate, collected: &Data) -> Result<Data, String> {
    let filled = template.data.iter().map(|(key, text)| {
        let value = replace(text, collected).map_err(|e| format!("target.template.data[{key}]: {e}"))?;
        Ok((key.clone(), ByteString(value)))
    });
    filled.collect()
}

/// `{{ .name }}` becomes the value of that name.
fn replace(text: &str, values: &Data) -> Result<Vec<u8>, String> {
    let mut filled = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, behind) = after.split_once("}}").ok_or("a {{ without its }}")?;
        let inside = inside.trim_matches('-').trim();
        let name = inside
            .strip_prefix('.')
            .filter(|name| !name.contains([' ', '|', '(']));
        let name = name.ok_or_else(|| format!("only {{{{ .name }}}} is supported here, not {inside:?}"))?;
        let value = values
            .get(name)
            .ok_or_else(|| format!("there is no value named {name}"))?;
        filled.extend_from_slice(before.as_bytes());
        filled.extend_from_slice(&value.0);
        rest = behind;
    }
    filled.extend_from_slice(rest.as_bytes());
    Ok(filled)
}

#[cfg(test)]
mod unit {
    use super::*;
    use serde_json::{Value, json};

    fn spec(value: Value) -> ExternalSecretSpec {
        serde_json::from_value(value).expect("a spec")
    }

    fn stored() -> BTreeMap<String, Data> {
        let data = [("id", "7"), ("secret", "s3")];
        let data = data.map(|(k, v)| (k.to_owned(), ByteString(v.as_bytes().to_vec())));
        BTreeMap::from([("glance/app".to_owned(), Data::from(data))])
    }

    fn texts(data: &Data) -> Value {
        data.iter()
            .map(|(k, v)| (k.clone(), String::from_utf8_lossy(&v.0).into_owned()))
            .collect()
    }

    #[test]
    fn properties_wholes_and_templates() {
        for (given, wanted) in [
            (
                json!({"data": [{"secretKey": "a", "remoteRef": {"key": "glance/app", "property": "id"}}]}),
                json!({"a": "7"}),
            ),
            (
                json!({"data": [{"secretKey": "a", "remoteRef": {"key": "glance/app"}}]}),
                json!({"a": r#"{"id":"7","secret":"s3"}"#}),
            ),
            (
                json!({"dataFrom": [{"extract": {"key": "glance/app"}}],
                       "data": [{"secretKey": "id", "remoteRef": {"key": "glance/app", "property": "secret"}}]}),
                json!({"id": "s3", "secret": "s3"}),
            ),
            (
                json!({"dataFrom": [{"extract": {"key": "glance/app"}}],
                       "target": {"template": {"data": {"url": "x://{{ .id }}:{{.secret}}@h"}}}}),
                json!({"url": "x://7:s3@h"}),
            ),
            (
                json!({"dataFrom": [{"extract": {"key": "gone"}}], "target": {"deletionPolicy": "Delete"}}),
                json!({}),
            ),
        ] {
            let data = collect(&spec(given.clone()), &stored()).expect("collects");
            assert_eq!(texts(&data), wanted, "{given}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (given, says) in [
            (
                json!({"dataFrom": [{"extract": {"key": "gone"}}]}),
                "the store has no gone",
            ),
            (
                json!({"data": [{"secretKey": "a", "remoteRef": {"key": "glance/app", "property": "x"}}]}),
                "the store has no glance/app with the property x",
            ),
            (
                json!({"dataFrom": [{"extract": {"key": "glance/app"}}],
                       "target": {"template": {"data": {"k": "{{ .x | b64enc }}"}}}}),
                "target.template.data[k]: only {{ .name }} is supported here, not \".x | b64enc\"",
            ),
            (
                json!({"dataFrom": [{"extract": {"key": "glance/app"}}],
                       "target": {"template": {"data": {"k": "{{ .x"}}}}),
                "target.template.data[k]: a {{ without its }}",
            ),
        ] {
            assert_eq!(collect(&spec(given), &stored()), Err(says.to_owned()));
        }
    }
}
