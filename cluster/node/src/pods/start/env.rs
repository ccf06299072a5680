//! Environment of a container: literals, references and their expansion.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};

use crate::pods::start::fields::{self, PodLocation};

/// The ConfigMaps and Secrets of the pod's namespace that it names, as far as they exist.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub config_maps: BTreeMap<String, ConfigMap>,
    pub secrets: BTreeMap<String, Secret>,
}

/// Which objects the environment of a container names.
pub fn names(container: &Container) -> (Vec<String>, Vec<String>) {
    let (mut maps, mut secrets) = (Vec::new(), Vec::new());
    for from in container.env_from.iter().flatten() {
        maps.extend(from.config_map_ref.as_ref().map(|r| r.name.clone()));
        secrets.extend(from.secret_ref.as_ref().map(|r| r.name.clone()));
    }
    for source in container
        .env
        .iter()
        .flatten()
        .filter_map(|e| e.value_from.as_ref())
    {
        maps.extend(source.config_map_key_ref.as_ref().map(|r| r.name.clone()));
        secrets.extend(source.secret_key_ref.as_ref().map(|r| r.name.clone()));
    }
    (maps, secrets)
}

/// The variables in order; later ones win. `services` come first, so that a pod can
/// override them. The error is the message of `CreateContainerConfigError`.
pub fn variables(
    pod: &Pod,
    container: &Container,
    place: &PodLocation,
    sources: &Sources,
    services: &[(String, String)],
) -> Result<Vec<(String, String)>, String> {
    let mut all: Vec<(String, String)> = services.to_vec();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let mut take = |key: &str, value: &str| {
            let name = format!("{prefix}{key}");
            // Names with '=' or NUL cannot be passed on at all.
            if !name.is_empty() && !name.contains(['=', '\0']) {
                set(&mut all, name, value.into());
            }
        };
        if let Some(wanted) = &from.config_map_ref {
            match sources.config_maps.get(&wanted.name) {
                Some(map) => map.data.iter().flatten().for_each(|(k, v)| take(k, v)),
                None if wanted.optional == Some(true) => {}
                None => return Err(format!("configmap {:?} not found", wanted.name)),
            }
        }
        if let Some(wanted) = &from.secret_ref {
            match sources.secrets.get(&wanted.name) {
                Some(secret) => secret
                    .data
                    .iter()
                    .flatten()
                    .for_each(|(k, v)| take(k, &String::from_utf8_lossy(&v.0))),
                None if wanted.optional == Some(true) => {}
                None => return Err(format!("secret {:?} not found", wanted.name)),
            }
        }
    }
    for entry in container.env.iter().flatten() {
        let value = match &entry.value_from {
            None => Some(expand(entry.value.as_deref().unwrap_or_default(), &all)),
            Some(source) => referenced(pod, container, place, sources, source)?,
        };
        if let Some(value) = value {
            set(&mut all, entry.name.clone(), value);
        }
    }
    Ok(all)
}

fn set(all: &mut Vec<(String, String)>, name: String, value: String) {
    match all.iter_mut().find(|(n, _)| *n == name) {
        Some((_, old)) => *old = value,
        None => all.push((name, value)),
    }
}

/// `None` for an optional reference to what does not exist.
fn referenced(
    pod: &Pod,
    container: &Container,
    place: &PodLocation,
    sources: &Sources,
    source: &EnvVarSource,
) -> Result<Option<String>, String> {
    if let Some(wanted) = &source.field_ref {
        return fields::field(pod, place, &wanted.field_path).map(Some);
    }
    if let Some(wanted) = &source.resource_field_ref {
        return fields::resource(pod, Some(container), place, wanted).map(Some);
    }
    if let Some(wanted) = &source.config_map_key_ref {
        let optional = wanted.optional == Some(true);
        let Some(map) = sources.config_maps.get(&wanted.name) else {
            return missing(optional, format!("configmap {:?} not found", wanted.name));
        };
        let value = map.data.as_ref().and_then(|d| d.get(&wanted.key)).cloned();
        return value.map_or_else(
            || missing(optional, absent("ConfigMap", pod, &wanted.name, &wanted.key)),
            |v| Ok(Some(v)),
        );
    }
    if let Some(wanted) = &source.secret_key_ref {
        let optional = wanted.optional == Some(true);
        let Some(secret) = sources.secrets.get(&wanted.name) else {
            return missing(optional, format!("secret {:?} not found", wanted.name));
        };
        let value = secret.data.as_ref().and_then(|d| d.get(&wanted.key));
        return value.map_or_else(
            || missing(optional, absent("Secret", pod, &wanted.name, &wanted.key)),
            |v| Ok(Some(String::from_utf8_lossy(&v.0).into_owned())),
        );
    }
    Err("valueFrom names no source that is supported".into())
}

fn missing(optional: bool, message: String) -> Result<Option<String>, String> {
    if optional { Ok(None) } else { Err(message) }
}

fn absent(kind: &str, pod: &Pod, name: &str, key: &str) -> String {
    let namespace = crate::pods::observe::view::namespace(pod);
    format!("couldn't find key {key} in {kind} {namespace}/{name}")
}

/// Replaces `$(NAME)` with what is known; `$$` stands for `$`, unknown names stay.
pub fn expand(text: &str, known: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(after) = tail.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = tail.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match known.iter().find(|(n, _)| n == name) {
                Some((_, value)) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
            rest = tail;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn expansion() {
        let known = [
            ("A".to_owned(), "1".to_owned()),
            ("B".to_owned(), "$(A)".to_owned()),
        ];
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$$(A)", "$(A)"),
            ("$(NO)", "$(NO)"),
            ("$(B)", "$(A)"),
            ("$", "$"),
            ("$(A", "$(A"),
            ("$A", "$A"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    #[test]
    fn order_and_references() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" } })).unwrap();
        let container: Container = serde_json::from_value(json!({
            "name": "c",
            "envFrom": [
                { "configMapRef": { "name": "m" }, "prefix": "P_" },
                { "secretRef": { "name": "gone", "optional": true } },
            ],
            "env": [
                { "name": "X", "value": "$(P_k)!" },
                { "name": "S", "valueFrom": { "secretKeyRef": { "name": "s", "key": "pw" } } },
                { "name": "N", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "O", "valueFrom": { "configMapKeyRef":
                    { "name": "m", "key": "none", "optional": true } } },
                { "name": "X", "value": "last" },
            ]
        }))
        .unwrap();
        let mut sources = Sources::default();
        sources.config_maps.insert(
            "m".into(),
            serde_json::from_value(json!({ "data": { "k": "v" } })).unwrap(),
        );
        let place = PodLocation::default();
        let got = variables(&pod, &container, &place, &sources, &[]);
        assert_eq!(got.unwrap_err(), "secret \"s\" not found");
        sources.secrets.insert(
            "s".into(),
            serde_json::from_value(json!({ "data": { "pw": "aHVudGVy" } })).unwrap(),
        );
        let got = variables(&pod, &container, &place, &sources, &[]).unwrap();
        let text: Vec<String> = got.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(text, ["P_k=v", "X=last", "S=hunter", "N=p"]);
    }

    proptest! {
        #[test]
        fn expansion_never_fails(text in ".*") {
            let known = [("A".to_owned(), "1".to_owned())];
            let _ = expand(&text, &known);
            if !text.contains('$') {
                prop_assert_eq!(expand(&text, &known), text);
            }
        }
    }
}
