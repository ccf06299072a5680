//! Ownership of `replicas` through the scale subresource.

use serde_json::Value;

use super::managed::{Entry, Managed, Owned};
use super::path::Path;
use super::set::FieldSet;

const SCALE_VERSION: &str = "autoscaling/v1";

/// Translates `managedFields` between an object and its Scale: a Scale shows
/// who owns the replicas, and who takes them over there owns them in the object.
#[derive(Clone, Debug)]
pub struct ScaleOwnership {
    /// Path of the replicas by served version of the object; `None` for a
    /// version without scale.
    replicas: Vec<(String, Option<Path>)>,
    /// Version of the object in which the request came.
    api_version: String,
}

impl ScaleOwnership {
    #[must_use]
    pub fn new(api_version: &str, replicas: Vec<(String, Option<Path>)>) -> Self {
        Self {
            replicas,
            api_version: api_version.to_owned(),
        }
    }

    fn path(&self, api_version: &str) -> Option<&Option<Path>> {
        self.replicas
            .iter()
            .find(|(version, _)| version == api_version)
            .map(|(_, path)| path)
    }

    /// The entries of the Scale from those of the object.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub fn to_scale(&self, object: &[Value]) -> Result<Vec<Value>, String> {
        let mut scale = Managed::default();
        for entry in Managed::decode(object)?.entries {
            let Some(owned) = &entry.owned else { continue };
            if let Some(Some(path)) = self.path(&owned.api_version)
                && owned.set.contains(path)
            {
                scale.entries.push(Entry {
                    owned: Some(Owned {
                        api_version: SCALE_VERSION.to_owned(),
                        set: FieldSet::of_fields(&["spec.replicas"]),
                    }),
                    ..entry
                });
            }
        }
        Ok(scale.encode())
    }

    /// The entries of the object after its Scale was written.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub fn to_object(&self, object: &[Value], scale: &[Value]) -> Result<Vec<Value>, String> {
        let mut scale = Managed::decode(scale)?;
        let mut merged = Managed::default();
        let mut object = Managed::decode(object)?;
        for entry in &mut scale.entries {
            // Only the object's own entries have times.
            entry.time = object.entry(&entry.id).time.clone();
        }
        for mut entry in object.entries {
            let Some(owned) = &mut entry.owned else { continue };
            // Entries of a version that is gone are dropped.
            let Some(path) = self.path(&owned.api_version) else {
                continue;
            };
            if let Some(path) = path
                && owned.set.contains(path)
            {
                let known = (scale.entries.iter()).position(|scaled| scaled.id == entry.id);
                match known {
                    Some(at) => {
                        scale.entries.swap_remove(at);
                    }
                    None => {
                        let mut replicas = FieldSet::default();
                        replicas.insert(path);
                        owned.set.subtract(&replicas);
                    }
                }
            }
            merged.entries.push(entry);
        }
        let replicas = Path::fields("spec.replicas");
        for entry in scale.entries {
            let has = entry
                .owned
                .as_ref()
                .is_some_and(|owned| owned.set.contains(&replicas));
            if let (true, Some(Some(path))) = (has, self.path(&self.api_version)) {
                let mut set = FieldSet::default();
                set.insert(path);
                merged.entries.push(Entry {
                    owned: Some(Owned {
                        api_version: self.api_version.clone(),
                        set,
                    }),
                    ..entry
                });
            }
        }
        merged.drop_empty();
        Ok(merged.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ownership() -> ScaleOwnership {
        let path = Some(Path::fields("spec.replicas"));
        ScaleOwnership::new("apps/v1", vec![("apps/v1".into(), path)])
    }

    fn entry(manager: &str, operation: &str, version: &str, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": version,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    #[test]
    fn replicas_move_to_who_scales() {
        let both = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let object = [entry("a", "Apply", "apps/v1", &both)];
        let scale = ownership().to_scale(&object).unwrap();
        assert_eq!(scale, [entry("a", "Apply", SCALE_VERSION, &replicas)]);

        // Still in the Scale: nothing moved.
        assert_eq!(ownership().to_object(&object, &scale).unwrap(), object);

        let taken = [entry("hpa", "Apply", SCALE_VERSION, &replicas)];
        let paused = json!({"f:spec": {"f:paused": {}}});
        assert_eq!(
            ownership().to_object(&object, &taken).unwrap(),
            [
                entry("a", "Apply", "apps/v1", &paused),
                entry("hpa", "Apply", "apps/v1", &replicas),
            ]
        );
    }
}
