//! `metadata.managedFields`: who owns what, since when.

use std::cmp::Ordering;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::codec;
use super::set::FieldSet;
use crate::field::text;

/// Fields that nobody owns.
pub(crate) static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.clusterName",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.name",
        "metadata.namespace",
        "metadata.resourceVersion",
        "metadata.selfLink",
        "metadata.uid",
    ])
});

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    /// The text in `managedFields`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What makes an entry of `managedFields` its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerId {
    pub manager: String,
    pub operation: Operation,
    /// Empty for appliers: they keep one entry across versions.
    pub api_version: String,
    pub subresource: String,
}

impl ManagerId {
    pub(crate) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.to_owned(),
        }
    }

    /// The text by which Kubernetes sorts managers.
    pub(crate) fn sort_key(&self) -> String {
        let mut out = String::from("{");
        let mut field = |name: &str, value: &str| {
            if !value.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                out.push('"');
                out.push_str(name);
                out.push_str("\":");
                out.push_str(&text::json(&Value::from(value)));
            }
        };
        field("manager", &self.manager);
        field("operation", self.operation.as_str());
        field("apiVersion", &self.api_version);
        field("subresource", &self.subresource);
        out.push('}');
        out
    }
}

/// One manager and its fields. Without fields it is not written, but its time
/// is remembered while an operation runs.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub id: ManagerId,
    /// RFC 3339.
    pub time: Option<String>,
    pub owned: Option<Owned>,
    /// The entry as it was read, while it is still true.
    pub source: Option<Value>,
}

/// Fields at the version in which they were set.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub api_version: String,
    pub set: FieldSet,
}

/// The owners of an object's fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    pub entries: Vec<Entry>,
}

impl Managed {
    /// Nobody owns anything.
    pub(super) fn is_empty(&self) -> bool {
        self.owners().next().is_none()
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = (&ManagerId, &Owned)> {
        self.entries
            .iter()
            .filter_map(|entry| Some((&entry.id, entry.owned.as_ref()?)))
    }

    pub(super) fn get(&self, id: &ManagerId) -> Option<&Owned> {
        self.entries.iter().find(|entry| entry.id == *id)?.owned.as_ref()
    }

    pub(super) fn entry(&mut self, id: &ManagerId) -> &mut Entry {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.id == *id)
            .unwrap_or_else(|| {
                self.entries.push(Entry {
                    id: id.clone(),
                    time: None,
                    owned: None,
                    source: None,
                });
                self.entries.len() - 1
            });
        &mut self.entries[at]
    }

    /// Forgets managers that own nothing any more.
    pub(super) fn drop_empty(&mut self) {
        for entry in &mut self.entries {
            if entry.owned.as_ref().is_some_and(|owned| owned.set.is_empty()) {
                entry.owned = None;
            }
        }
    }

    /// Reads the entries of a stored object; those that do not change are
    /// written back as they are.
    pub(super) fn decode_stored(entries: Vec<Value>) -> Result<Self, String> {
        let mut managed = Self::decode(&entries)?;
        // Entries with the same identity were read into one.
        if managed.entries.len() == entries.len() {
            for (entry, source) in managed.entries.iter_mut().zip(entries) {
                entry.source = Some(source);
            }
        }
        Ok(managed)
    }

    /// Reads the entries of `metadata.managedFields`.
    pub(super) fn decode(entries: &[Value]) -> Result<Self, String> {
        let mut managed = Self::default();
        for (i, entry) in entries.iter().enumerate() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                other => {
                    return Err(format!(
                        "invalid fieldsType {} in managed fields entry {i}",
                        text::quote(other)
                    ));
                }
            }
            let id = ManagerId::new(text("manager"), operation, api_version, text("subresource"));
            let set = match &entry["fieldsV1"] {
                Value::Null => FieldSet::default(),
                fields => codec::decode(fields).map_err(|error| {
                    format!("error decoding versioned set from managed fields entry {i}: {error}")
                })?,
            };
            let slot = managed.entry(&id);
            slot.time = entry["time"].as_str().map(str::to_owned);
            slot.owned = Some(Owned {
                api_version: api_version.to_owned(),
                set,
            });
        }
        Ok(managed)
    }

    /// Writes the entries, sorted as Kubernetes does.
    pub(super) fn encode(self) -> Vec<Value> {
        let mut owners: Vec<(i64, Entry, Owned)> = self
            .entries
            .into_iter()
            .filter_map(|mut entry| {
                let owned = entry.owned.take()?;
                Some((seconds(&entry), entry, owned))
            })
            .collect();
        owners.sort_by(order);
        owners
            .into_iter()
            .map(|(_, mut entry, owned)| {
                (entry.source.take()).unwrap_or_else(|| encode_entry(&entry, &owned))
            })
            .collect()
    }
}

fn order(a: &(i64, Entry, Owned), b: &(i64, Entry, Owned)) -> Ordering {
    (a.1.id.operation.cmp(&b.1.id.operation))
        .then_with(|| a.0.cmp(&b.0))
        .then_with(|| a.1.id.manager.cmp(&b.1.id.manager))
        .then_with(|| a.2.api_version.cmp(&b.2.api_version))
        .then_with(|| a.1.id.subresource.cmp(&b.1.id.subresource))
}

/// Seconds since the epoch of an entry; no time is the epoch.
pub(crate) fn seconds(entry: &Entry) -> i64 {
    entry
        .time
        .as_ref()
        .and_then(|time| time.parse::<jiff::Timestamp>().ok())
        .map_or(0, jiff::Timestamp::as_second)
}

fn encode_entry(entry: &Entry, owned: &Owned) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            out.insert(name.to_owned(), Value::from(value));
        }
    };
    put("manager", &entry.id.manager);
    put("operation", entry.id.operation.as_str());
    put("apiVersion", &owned.api_version);
    put("time", entry.time.as_deref().unwrap_or_default());
    put("fieldsType", "FieldsV1");
    put("subresource", &entry.id.subresource);
    out.insert("fieldsV1".to_owned(), codec::encode(&owned.set));
    Value::Object(out)
}
