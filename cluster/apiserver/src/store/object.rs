//! Objects at rest: serialised once, with a gap for the revision that only the writer knows.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ObjectKey;

/// An object at one revision, as JSON that already holds its `resourceVersion`.
#[derive(Debug)]
pub struct Stored {
    pub key: ObjectKey,
    pub revision: u64,
    pub bytes: Bytes,
    labels: OnceLock<Vec<(String, String)>>,
}

impl Stored {
    pub fn new(key: ObjectKey, revision: u64, bytes: Bytes) -> Arc<Self> {
        Arc::new(Self {
            key,
            revision,
            bytes,
            labels: OnceLock::new(),
        })
    }

    /// The object as a tree.
    ///
    /// # Panics
    /// Never: only objects that parse are written ([`super::Store::write`] bounds their nesting) and
    /// loaded ([`Stored::is_readable`]). An unreadable one must not pass for an empty one: its
    /// finalizers would be gone.
    pub fn value(&self) -> Value {
        match serde_json::from_slice(&self.bytes) {
            Ok(value) => value,
            Err(error) => panic!("{}/{} does not parse: {error}", self.key.namespace, self.key.name),
        }
    }

    /// Whether [`Stored::value`] can read it; asked of what comes from disk.
    pub fn is_readable(&self) -> bool {
        serde_json::from_slice::<Value>(&self.bytes).is_ok()
    }

    /// Labels, read from the JSON at first use and shared by all who select by them.
    pub fn labels(&self) -> &[(String, String)] {
        #[derive(Deserialize, Default)]
        struct Labelled {
            #[serde(default)]
            metadata: Metadata,
        }
        #[derive(Deserialize, Default)]
        struct Metadata {
            #[serde(default)]
            labels: Option<std::collections::BTreeMap<String, String>>,
        }
        self.labels.get_or_init(|| {
            serde_json::from_slice::<Labelled>(&self.bytes)
                .unwrap_or_default()
                .metadata
                .labels
                .unwrap_or_default()
                .into_iter()
                .collect()
        })
    }
}

/// A serialised object without its `resourceVersion`.
#[derive(Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    gap: usize,
}

/// Deepest nesting of an object with its managed fields, which add to that of a body. Below the 127
/// that JSON readers take, our own among them, with room for the list around it.
pub(super) const NESTING: usize = 120;

impl Draft {
    /// How deep brackets nest in it.
    pub fn nesting(&self) -> usize {
        let (mut depth, mut deepest, mut in_string) = (0usize, 0, false);
        let mut bytes = self.bytes.iter();
        while let Some(byte) = bytes.next() {
            match (in_string, byte) {
                (true, b'\\') => {
                    bytes.next();
                }
                (_, b'"') => in_string = !in_string,
                (false, b'{' | b'[') => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                (false, b'}' | b']') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// The object with `revision` as its `resourceVersion`.
    pub fn seal(&self, revision: u64) -> Bytes {
        let text = revision.to_string();
        let mut bytes = Vec::with_capacity(self.bytes.len() + text.len());
        bytes.extend_from_slice(&self.bytes[..self.gap]);
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&self.bytes[self.gap..]);
        bytes.into()
    }
}

/// Serialises `object`, type and metadata first; whatever `resourceVersion` it holds gives way to the gap.
pub fn draft(object: &Value) -> Draft {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    for key in TYPE {
        if let Some(value) = map.get(key) {
            comma(&mut out);
            field(&mut out, key, value);
        }
    }
    comma(&mut out);
    let gap = metadata(
        &mut out,
        map.get("metadata").and_then(Value::as_object).unwrap_or(&empty),
    );
    for (key, value) in map
        .iter()
        .filter(|(key, _)| *key != "metadata" && !TYPE.contains(&key.as_str()))
    {
        comma(&mut out);
        field(&mut out, key, value);
    }
    out.push(b'}');
    Draft { bytes: out, gap }
}

/// Fields that say what an object is, in the order in which they are written.
const TYPE: [&str; 2] = ["kind", "apiVersion"];

/// The object without `kind` and `apiVersion`, as in lists of built-in kinds; as it is if it does not
/// start with them.
pub fn untyped(bytes: &Bytes, kind: &str, api_version: &str) -> Bytes {
    let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",");
    match bytes.strip_prefix(head.as_bytes()) {
        None => bytes.clone(),
        Some(rest) => {
            let mut out = Vec::with_capacity(rest.len() + 1);
            out.push(b'{');
            out.extend_from_slice(rest);
            out.into()
        }
    }
}

fn metadata(out: &mut Vec<u8>, map: &Map<String, Value>) -> usize {
    out.extend_from_slice(b"\"metadata\":{");
    let mut gap = None;
    for (key, value) in map {
        if key == "resourceVersion" {
            continue;
        }
        if gap.is_none() && key.as_str() > "resourceVersion" {
            gap = Some(version(out));
        }
        comma(out);
        field(out, key, value);
    }
    let gap = gap.unwrap_or_else(|| version(out));
    out.push(b'}');
    gap
}

fn version(out: &mut Vec<u8>) -> usize {
    comma(out);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    let gap = out.len();
    out.push(b'"');
    gap
}

fn comma(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn field(out: &mut Vec<u8>, key: &str, value: &Value) {
    // Writing a Value into a Vec cannot fail: keys are strings and Vec never errors.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_revision_is_the_only_difference() {
        for object in [
            json!({}),
            json!({"apiVersion": "v1"}),
            json!({"spec": {}, "status": 1}),
            json!({"apiVersion": "v1", "kind": "X", "metadata": {}, "spec": {"a": "{"}}),
            json!({"metadata": {"name": "a", "resourceVersion": "12", "uid": "u"}}),
            json!({"metadata": {"annotations": {"a": "}"}}, "zz": [1, "x"]}),
        ] {
            let sealed: Value = serde_json::from_slice(&draft(&object).seal(77)).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = json!("77");
            assert_eq!(sealed, expected, "{object}");
        }
    }

    #[test]
    fn nesting_counts_brackets_outside_of_strings() {
        for (object, nesting) in [
            (json!({}), 2),
            (json!({"a": [[{}]], "b": 1}), 4),
            (json!({"a": "[[[[\\\"{{{{"}), 2),
            (json!({"[[[\"": {"\\": []}}), 3),
        ] {
            assert_eq!(draft(&object).nesting(), nesting, "{object}");
        }
    }

    #[test]
    fn lists_leave_out_the_type() {
        let object = json!({"apiVersion": "v1", "data": {"kind": "x"}, "kind": "ConfigMap", "metadata": {"name": "a"}});
        let sealed = draft(&object).seal(1);
        let plain: Value = serde_json::from_slice(&untyped(&sealed, "ConfigMap", "v1")).unwrap();
        assert_eq!(
            plain,
            json!({"data": {"kind": "x"}, "metadata": {"name": "a", "resourceVersion": "1"}})
        );
        assert_eq!(untyped(&sealed, "Secret", "v1"), sealed);
    }

    proptest! {
        #[test]
        fn any_keys_survive(keys in proptest::collection::btree_map(".{0,12}", ".{0,12}", 0..6), revision: u64) {
            let object = json!({"kind": "X", "metadata": keys.clone(), "z": keys});
            let sealed: Value = serde_json::from_slice(&draft(&object).seal(revision)).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = json!(revision.to_string());
            prop_assert_eq!(sealed, expected);
        }
    }
}
