//! What a volume holds.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume, VolumeProjection,
};

use super::{TokenRequest, token_request};
use crate::pods::Claimed;
use crate::pods::start::env::Sources;
use crate::pods::start::fields::{self, PodLocation};
use crate::pods::start::resources;

#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub data: Vec<u8>,
    pub mode: u32,
}

impl std::fmt::Debug for File {
    // Contents may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, mode {:o}", self.data.len(), self.mode)
    }
}

pub type Files = BTreeMap<String, File>;

/// One volume, ready to be put in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Files that change together; in memory when they are secret.
    Files {
        files: Files,
        memory: bool,
    },
    Empty {
        memory: bool,
        limit: Option<u64>,
    },
    /// A path of the node.
    Host {
        path: PathBuf,
        kind: String,
    },
    /// A directory that outlives the pod.
    Persistent {
        path: PathBuf,
        read_only: bool,
    },
}

/// What was found for a pod's references.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub sources: Sources,
    pub claims: BTreeMap<String, Claimed>,
    pub tokens: BTreeMap<TokenRequest, String>,
}

/// The content of a volume, or the message of `FailedMount`.
pub fn content(pod: &Pod, volume: &Volume, place: &PodLocation, found: &Found) -> Result<Content, String> {
    if let Some(source) = &volume.config_map {
        let mode = mode(source.default_mode);
        let map = found.sources.config_maps.get(&source.name).map(config_map_data);
        let what = format!("configmap {:?}", source.name);
        let files = keys(map, source.items.as_deref(), mode, source.optional, &what)?;
        return Ok(Content::Files { files, memory: false });
    }
    if let Some(source) = &volume.secret {
        let name = source.secret_name.clone().unwrap_or_default();
        let (secret, mode) = (found.sources.secrets.get(&name), mode(source.default_mode));
        let what = format!("secret {name:?}");
        let secret = secret.map(secret_data);
        let files = keys(secret, source.items.as_deref(), mode, source.optional, &what)?;
        return Ok(Content::Files { files, memory: true });
    }
    if let Some(source) = &volume.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        let files = downward(pod, place, items, mode(source.default_mode))?;
        return Ok(Content::Files { files, memory: false });
    }
    if let Some(source) = &volume.projected {
        let mut files = Files::new();
        for part in source.sources.iter().flatten() {
            files.extend(projection(pod, place, part, mode(source.default_mode), found)?);
        }
        return Ok(Content::Files { files, memory: true });
    }
    if let Some(source) = &volume.empty_dir {
        let limit = source.size_limit.as_ref().and_then(resources::quantity);
        return Ok(Content::Empty {
            memory: source.medium.as_deref() == Some("Memory"),
            limit: limit
                .and_then(|q| u64::try_from(q.value()).ok())
                .filter(|v| *v > 0),
        });
    }
    if let Some(source) = &volume.host_path {
        return Ok(Content::Host {
            path: source.path.clone().into(),
            kind: source.type_.clone().unwrap_or_default(),
        });
    }
    if let Some(source) = &volume.persistent_volume_claim {
        let missing = || Err(format!("persistentvolumeclaim {:?} not found", source.claim_name));
        let claimed = found.claims.get(&source.claim_name).cloned();
        return Ok(Content::Persistent {
            path: claimed.unwrap_or_else(missing)?,
            read_only: source.read_only == Some(true),
        });
    }
    Err(format!(
        "volume {:?} has a kind that embedded nodes do not have; they have configMap, secret, \
         projected, downwardAPI, emptyDir, hostPath and persistentVolumeClaim",
        volume.name
    ))
}

fn mode(given: Option<i32>) -> u32 {
    given.map_or(0o644, |m| m.unsigned_abs() & 0o7777)
}

fn config_map_data(map: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = map
        .data
        .iter()
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone().into_bytes()));
    let binary = map
        .binary_data
        .iter()
        .flatten()
        .map(|(k, v)| (k.clone(), v.0.clone()));
    text.chain(binary).collect()
}

fn secret_data(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data.iter().flatten();
    data.map(|(k, v)| (k.clone(), v.0.clone())).collect()
}

/// Files of a ConfigMap or Secret; none when it is missing and optional.
fn keys(
    data: Option<BTreeMap<String, Vec<u8>>>,
    items: Option<&[KeyToPath]>,
    mode: u32,
    optional: Option<bool>,
    what: &str,
) -> Result<Files, String> {
    match data {
        Some(data) => pick(&data, items, mode, optional, what),
        None if optional == Some(true) => Ok(Files::new()),
        None => Err(format!("{what} not found")),
    }
}

/// All keys, or those that `items` names, under the paths it gives.
fn pick(
    data: &BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    mode: u32,
    optional: Option<bool>,
    what: &str,
) -> Result<Files, String> {
    let Some(items) = items.filter(|i| !i.is_empty()) else {
        return data
            .iter()
            .map(|(key, bytes)| {
                let data = bytes.clone();
                Ok((file_name(key, what)?, File { data, mode }))
            })
            .collect();
    };
    let mut files = Files::new();
    for item in items {
        match data.get(&item.key) {
            Some(bytes) => {
                let mode = item.mode.map_or(mode, |m| self::mode(Some(m)));
                files.insert(
                    inner(&item.path)?,
                    File {
                        data: bytes.clone(),
                        mode,
                    },
                );
            }
            None if optional == Some(true) => {}
            None => return Err(format!("{what} references non-existent key: {}", item.key)),
        }
    }
    Ok(files)
}

/// A key that is the name of a file, as the API wants every key to be.
fn file_name(key: &str, what: &str) -> Result<String, String> {
    match apimachinery::names::config_map_key(key).first() {
        None => Ok(key.into()),
        Some(fault) => Err(format!("{what} has the key {key:?}: {fault}")),
    }
}

/// A path that stays inside its volume.
fn inner(path: &str) -> Result<String, String> {
    let inside = Path::new(path)
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    let hidden = path.starts_with("..");
    if inside && !path.is_empty() && !hidden {
        Ok(path.into())
    } else {
        Err(format!(
            "path {path:?} must be relative and must not contain '..'"
        ))
    }
}

fn downward(
    pod: &Pod,
    place: &PodLocation,
    items: &[DownwardAPIVolumeFile],
    mode: u32,
) -> Result<Files, String> {
    let mut files = Files::new();
    for item in items {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => fields::field(pod, place, &field.field_path)?,
            (None, Some(resource)) => fields::resource(pod, None, place, resource)?,
            (None, None) => return Err(format!("downwardAPI item {:?} names no field", item.path)),
        };
        let mode = item.mode.map_or(mode, |m| self::mode(Some(m)));
        files.insert(
            inner(&item.path)?,
            File {
                data: value.into_bytes(),
                mode,
            },
        );
    }
    Ok(files)
}

fn projection(
    pod: &Pod,
    place: &PodLocation,
    part: &VolumeProjection,
    mode: u32,
    found: &Found,
) -> Result<Files, String> {
    if let Some(source) = &part.config_map {
        let map = found.sources.config_maps.get(&source.name).map(config_map_data);
        let what = format!("configmap {:?}", source.name);
        return keys(map, source.items.as_deref(), mode, source.optional, &what);
    }
    if let Some(source) = &part.secret {
        let secret = found.sources.secrets.get(&source.name).map(secret_data);
        let what = format!("secret {:?}", source.name);
        return keys(secret, source.items.as_deref(), mode, source.optional, &what);
    }
    if let Some(source) = &part.downward_api {
        return downward(pod, place, source.items.as_deref().unwrap_or_default(), mode);
    }
    if let Some(source) = &part.service_account_token {
        let token = found
            .tokens
            .get(&token_request(source))
            .ok_or("no token for the service account yet")?;
        let file = File {
            data: token.clone().into_bytes(),
            mode,
        };
        return Ok(Files::from([(inner(&source.path)?, file)]));
    }
    Err("a projected source has a kind that embedded nodes do not have".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(source: serde_json::Value) -> Volume {
        let mut value = json!({ "name": "v" });
        value
            .as_object_mut()
            .unwrap()
            .extend(source.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn found() -> Found {
        let mut found = Found::default();
        found.sources.config_maps.insert(
            "m".into(),
            serde_json::from_value(json!({ "data": { "a": "1", "b": "2" } })).unwrap(),
        );
        found
    }

    fn of(source: serde_json::Value) -> Result<Content, String> {
        content(
            &Pod::default(),
            &volume(source),
            &PodLocation::default(),
            &found(),
        )
    }

    #[test]
    fn items_and_modes() {
        let Content::Files { files, memory } = of(json!({ "configMap": { "name": "m", "defaultMode": 0o400,
                "items": [{ "key": "a", "path": "x/y", "mode": 0o777 }] } }))
        .unwrap() else {
            panic!()
        };
        assert!(!memory);
        assert_eq!(
            files["x/y"],
            File {
                data: b"1".into(),
                mode: 0o777
            }
        );
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (source, said) in [
            (
                json!({ "configMap": { "name": "no" } }),
                "configmap \"no\" not found",
            ),
            (
                json!({ "secret": { "secretName": "no" } }),
                "secret \"no\" not found",
            ),
            (
                json!({ "configMap": { "name": "m", "items": [{ "key": "z", "path": "z" }] } }),
                "non-existent key: z",
            ),
            (
                json!({ "configMap": { "name": "m", "items": [{ "key": "a", "path": "../z" }] } }),
                "must be relative",
            ),
            (json!({ "nfs": { "server": "s", "path": "/" } }), "do not have"),
        ] {
            let error = of(source).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(of(json!({ "secret": { "secretName": "no", "optional": true } })).is_ok());
    }

    #[test]
    fn a_key_that_is_a_way_is_refused() {
        for key in ["../../../tmp/x", "/tmp/x", "a/b", "..", "..data", ".", ""] {
            let mut found = found();
            let map = serde_json::from_value(json!({ "data": { key: "1" } })).unwrap();
            found.sources.config_maps.insert("bad".into(), map);
            let volume = volume(json!({ "configMap": { "name": "bad" } }));
            let said = content(&Pod::default(), &volume, &PodLocation::default(), &found).unwrap_err();
            assert!(said.contains(&format!("has the key {key:?}")), "{said}");
        }
    }

    #[test]
    fn secrets_do_not_show_in_debug_text() {
        let file = File {
            data: b"hunter2".into(),
            mode: 0o400,
        };
        assert_eq!(format!("{file:?}"), "7 bytes, mode 400");
    }
}
