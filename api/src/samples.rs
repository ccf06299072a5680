//! The samples of `deploy/samples` and the table of what is refused, as data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A case of `deploy/samples/bad.yaml`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What the case shows.
    pub name: String,
    /// The sample that it starts from, as a path without ending.
    pub sample: String,
    /// Merge patch laid over the sample before it is created.
    #[serde(default)]
    pub create: Value,
    /// Merge patch that follows the creation.
    #[serde(default)]
    pub update: Option<Value>,
    /// Merge patch through the status subresource that follows the creation.
    #[serde(default)]
    pub status: Option<Value>,
    /// Part of the refusal; without it the last step is accepted.
    #[serde(default)]
    pub message: Option<String>,
}

/// Why samples cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file is not what it should be.
    #[error("{path}: {reason}")]
    Parse { path: PathBuf, reason: String },
    /// A case names a sample that is not there.
    #[error("case {case:?}: there is no sample {sample:?} below deploy/samples")]
    Unknown { case: String, sample: String },
}

/// Samples by path without ending (`c5c3.io/controlplane`), and the cases.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Every sample.
    pub objects: BTreeMap<String, Value>,
    /// Every case.
    pub cases: Vec<Case>,
}

impl Samples {
    /// Reads `deploy/samples` below the repository's root.
    pub fn load(root: &Path) -> Result<Self, SampleError> {
        let directory = root.join("deploy/samples");
        let mut samples = Self::default();
        for path in crate::generate::files_below(&directory).map_err(|source| SampleError::Read {
            path: directory.clone(),
            source,
        })? {
            let name = path
                .strip_prefix(&directory)
                .unwrap_or(&path)
                .with_extension("")
                .to_string_lossy()
                .into_owned();
            if name == "bad" {
                samples.cases = read(&path)?;
            } else {
                samples.objects.insert(name, read(&path)?);
            }
        }
        Ok(samples)
    }

    /// The object that a case creates, under a name of its own.
    pub fn object(&self, case: &Case) -> Result<Value, SampleError> {
        let mut object = self
            .objects
            .get(&case.sample)
            .cloned()
            .ok_or_else(|| SampleError::Unknown {
                case: case.name.clone(),
                sample: case.sample.clone(),
            })?;
        merge(
            &mut object,
            &json!({ "metadata": { "name": case.object_name() } }),
        );
        merge(&mut object, &case.create);
        Ok(object)
    }
}

impl Case {
    /// Is there a step after the creation? Then the creation itself must succeed.
    pub fn has_second_step(&self) -> bool {
        self.update.is_some() || self.status.is_some()
    }

    /// The case's name as the name of an object.
    pub fn object_name(&self) -> String {
        let name: String = self
            .name
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        name.trim_matches('-').to_owned()
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, SampleError> {
    let text = std::fs::read_to_string(path).map_err(|source| SampleError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    serde_saphyr::from_str(&text).map_err(|error| SampleError::Parse {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })
}

/// JSON merge patch (RFC 7386); a patch that is null changes nothing.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(_) => merge(target.entry(key).or_insert_with(|| json!({})), value),
            _ => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_as_the_rfc_says() {
        let mut object = json!({ "a": "b", "c": { "d": "e", "f": "g" }, "l": [1, 2] });
        merge(
            &mut object,
            &json!({ "a": "z", "c": { "f": null }, "l": [3], "n": { "m": 1 } }),
        );
        assert_eq!(
            object,
            json!({ "a": "z", "c": { "d": "e" }, "l": [3], "n": { "m": 1 } })
        );
        merge(&mut object, &Value::Null);
        assert_eq!(object["a"], "z");
        merge(&mut object, &json!({ "a": { "b": "c" } }));
        assert_eq!(object["a"], json!({ "b": "c" }));
    }
}
