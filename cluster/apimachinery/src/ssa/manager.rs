//! Field ownership of the objects of one endpoint.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::conflict::Conflicts;
use super::last_applied;
use super::managed::{Managed, ManagerId, Operation, Owned, UNOWNED, seconds};
use super::typed;
use super::types::{Version, Versions};
use super::update::{UpdateError, Updater};

/// Update entries beyond this number are merged, the oldest first.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Why an apply was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// HTTP 409, reason `Conflict`; the text is the message.
    #[error(transparent)]
    Conflict(Conflicts),
    /// HTTP 400, reason `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// The object does not fit its type. Kubernetes answers HTTP 500.
    #[error("{0}")]
    Type(String),
}

/// The outcome of a write that was not an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    /// The object as sent, with its new `managedFields`.
    pub object: Value,
    /// Why ownership could not be tracked, worth a log line: the object then
    /// keeps the `managedFields` it had, and the write goes on.
    pub problem: Option<String>,
}

/// Keeps `metadata.managedFields` for one kind at one version and endpoint (the
/// object itself or a subresource).
///
/// Creates, replacements (PUT) and all patches but apply count as updates: work
/// out the new object first, then call [`FieldManager::update`] with the live
/// one (or [`FieldManager::empty_object`]). For an apply call
/// [`FieldManager::apply`] with what the client sent.
#[derive(Clone, Debug)]
pub struct FieldManager {
    group: String,
    kind: String,
    api_version: String,
    subresource: String,
    versions: Versions,
}

impl FieldManager {
    /// For requests at `group/version` of a kind, with all served versions.
    /// `subresource` is empty for the object itself.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str, subresource: &str, versions: Vec<Version>) -> Self {
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            api_version,
            subresource: subresource.to_owned(),
            versions: Versions::new(versions),
        }
    }

    /// The live object of a create.
    #[must_use]
    pub fn empty_object(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind})
    }

    fn updater(&self) -> Updater<'_> {
        Updater {
            versions: &self.versions,
            version: &self.api_version,
        }
    }

    /// Ownership after a create, a replacement or a patch other than apply.
    /// `now` is RFC 3339 in seconds.
    #[must_use]
    pub fn update(&self, live: &Value, mut new: Value, manager: &str, now: &str) -> Updated {
        let sent = take_managed_fields(&mut new);
        let problem = match self.try_update(live, &new, sent.as_ref(), manager, now) {
            Ok(managed) => {
                set_managed_fields(&mut new, managed.encode());
                None
            }
            Err(problem) => {
                if let Some(kept) = live["metadata"].get("managedFields") {
                    set_managed_fields(&mut new, kept.as_array().cloned().unwrap_or_default());
                }
                Some(problem)
            }
        };
        Updated { object: new, problem }
    }

    fn try_update(
        &self,
        live: &Value,
        new: &Value,
        sent: Option<&Value>,
        manager: &str,
        now: &str,
    ) -> Result<Managed, String> {
        let live_entries = entries(live["metadata"].get("managedFields"));
        let mut managed = self.managed_for_update(sent, live_entries);
        // An object that nobody tracked stays so until the first apply.
        let created = live["metadata"]["uid"].as_str().unwrap_or_default().is_empty();
        if managed.is_empty() && !created {
            return Ok(managed);
        }
        self.track(live, new, &mut managed, manager, now)?;
        Ok(managed)
    }

    /// Clients may write `managedFields`, except through a subresource; those
    /// that do not know the field must not delete it by accident.
    fn managed_for_update(&self, sent: Option<&Value>, live: Option<&[Value]>) -> Managed {
        if self.subresource.is_empty() {
            let sent = entries(sent);
            if sent.is_some_and(is_reset) {
                return Managed::default();
            }
            if let Ok(managed) = Managed::decode(sent.unwrap_or_default())
                && !managed.is_empty()
            {
                return managed;
            }
        }
        Managed::decode(live.unwrap_or_default()).unwrap_or_default()
    }

    /// Gives a manager what it changed.
    fn track(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut Managed,
        manager: &str,
        now: &str,
    ) -> Result<(), String> {
        for (which, object) in [("new", new), ("live", live)] {
            self.check(object, true).map_err(|problem| {
                let name = self.describe(object);
                format!("failed to convert {which} object ({name}) to smd typed: {problem}")
            })?;
        }
        let mut set = match self.updater().update(live, new, managed) {
            Ok(set) => set,
            Err(UpdateError::Problem(problem)) => {
                let name = self.describe(new);
                return Err(format!("failed to update ManagedFields ({name}): {problem}"));
            }
            Err(UpdateError::Conflict(conflicts)) => return Err(conflicts.to_string()),
        };
        set.subtract(&UNOWNED);
        if !set.is_empty() {
            let entry = managed.entry(&self.id(manager, Operation::Update));
            entry.source = None;
            match &mut entry.owned {
                Some(owned) => owned.set.union_with(set),
                None => {
                    entry.owned = Some(Owned {
                        api_version: self.api_version.clone(),
                        set,
                    });
                }
            }
            entry.time = Some(now.to_owned());
        }
        cap_update_managers(managed);
        Ok(())
    }

    /// Merges `applied` into the live object ([`FieldManager::empty_object`] if
    /// there is none). `default` fills in the defaults of a custom resource
    /// after the merge; nobody owns them. `now` is RFC 3339 in seconds.
    ///
    /// # Errors
    /// See [`ApplyError`].
    pub fn apply(
        &self,
        mut live: Value,
        applied: &Value,
        manager: &str,
        force: bool,
        now: &str,
        default: impl Fn(&mut Value),
    ) -> Result<Value, ApplyError> {
        self.check_request(applied)?;
        let stored = match take_managed_fields(&mut live) {
            Some(list) if entries(Some(&list)).is_some() => list,
            _ => Value::Null,
        };
        let stored = if let Value::Array(stored) = stored {
            stored
        } else {
            Vec::new()
        };
        let mut managed = Managed::decode_stored(stored)
            .map_err(|problem| ApplyError::Type(format!("failed to decode managed fields: {problem}")))?;
        if managed.is_empty() {
            self.track(&self.empty_object(), &live, &mut managed, BEFORE_FIRST_APPLY, now)
                .map_err(|problem| {
                    ApplyError::Type(format!("failed to create manager for existing fields: {problem}"))
                })?;
        }
        for (which, object, duplicates) in [("patch", applied, false), ("live", &live, true)] {
            self.check(object, duplicates).map_err(|problem| {
                let name = self.describe(object);
                ApplyError::Type(format!(
                    "failed to create typed {which} object ({name}): {problem}"
                ))
            })?;
        }
        let merged = self.merge(&live, applied, &mut managed, manager, force, now)?;
        let mut object = match merged {
            Some(mut object) => {
                default(&mut object);
                object
            }
            None => live,
        };
        if manager == last_applied::MANAGER {
            last_applied::refresh(&mut object, applied);
        }
        set_managed_fields(&mut object, managed.encode());
        Ok(object)
    }

    fn merge(
        &self,
        live: &Value,
        applied: &Value,
        managed: &mut Managed,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<Option<Value>, ApplyError> {
        let id = self.id(manager, Operation::Apply);
        let upgrade = manager == last_applied::MANAGER && !force;
        let before = upgrade.then(|| managed.clone());
        let mut outcome = self.updater().apply(live, applied, managed, &id, force);
        if let (Err(UpdateError::Conflict(conflicts)), Some(before)) = (&outcome, before)
            && let Ok(ty) = self.versions.get(&self.api_version)
            && let Some(allowed) = last_applied::owned(live, ty, &self.api_version, &self.kind)
        {
            let left: Vec<_> = (conflicts.0.iter())
                .filter(|conflict| !allowed.contains(&conflict.path))
                .cloned()
                .collect();
            if left.is_empty() {
                *managed = before;
                outcome = self.updater().apply(live, applied, managed, &id, true);
            } else {
                outcome = Err(UpdateError::Conflict(Conflicts(left)));
            }
        }
        let merged = outcome.map_err(|error| match error {
            UpdateError::Conflict(conflicts) => ApplyError::Conflict(conflicts),
            UpdateError::Problem(problem) => ApplyError::Type(problem),
        })?;
        let entry = managed.entry(&id);
        if let Some(owned) = &mut entry.owned {
            owned.set.subtract(&UNOWNED);
        }
        if merged.is_some() {
            entry.source = None;
            entry.time = Some(now.to_owned());
        }
        managed.drop_empty();
        Ok(merged)
    }

    fn check_request(&self, applied: &Value) -> Result<(), ApplyError> {
        let api_version = applied["apiVersion"].as_str().unwrap_or_default();
        let kind = applied["kind"].as_str().unwrap_or_default();
        if api_version != self.api_version || kind != self.kind {
            return Err(ApplyError::BadRequest(format!(
                "invalid object type: {}",
                type_text(api_version, kind)
            )));
        }
        if entries(applied["metadata"].get("managedFields")).is_some() {
            return Err(ApplyError::BadRequest(
                "metadata.managedFields must be nil".into(),
            ));
        }
        Ok(())
    }

    fn check(&self, object: &Value, duplicates: bool) -> Result<(), String> {
        let ty = (self.versions.get(&self.api_version)).map_err(|error| error.to_string())?;
        typed::validate(&ty.schema, ty.root, object, duplicates).map_err(|problems| problems.to_string())
    }

    fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        ManagerId::new(manager, operation, &self.api_version, &self.subresource)
    }

    /// The object as messages name it.
    fn describe(&self, object: &Value) -> String {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let version = self.api_version.rsplit('/').next().unwrap_or(&self.api_version);
        format!(
            "{}/{}; {}/{version}, Kind={}",
            text("namespace"),
            text("name"),
            self.group,
            self.kind
        )
    }
}

/// A type as Kubernetes prints it.
fn type_text(api_version: &str, kind: &str) -> String {
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] => format!("/{version}, Kind={kind}"),
        [group, version] => format!("{group}/{version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

/// The entries of `managedFields`; `None` if it is no list of entries.
fn entries(managed_fields: Option<&Value>) -> Option<&[Value]> {
    let list = managed_fields?.as_array()?;
    let text = |value: &Value| value.is_null() || value.is_string();
    let readable = |entry: &Value| {
        entry.is_object()
            && ["manager", "operation", "apiVersion", "fieldsType", "subresource"]
                .iter()
                .all(|name| text(&entry[*name]))
            && match &entry["time"] {
                Value::Null => true,
                Value::String(time) => time.parse::<jiff::Timestamp>().is_ok(),
                _ => false,
            }
    };
    list.iter().all(readable).then_some(list)
}

/// No entries, or a single one without content, asks to forget all owners.
fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [Value::Object(only)] => only.values().all(|value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object
        .get_mut("metadata")?
        .as_object_mut()?
        .remove("managedFields")
}

fn set_managed_fields(object: &mut Value, entries: Vec<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if entries.is_empty() {
        return;
    }
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// Merges the oldest update entries of a version until there are few enough.
fn cap_update_managers(managed: &mut Managed) {
    let mut updaters: Vec<(i64, String, ManagerId)> = managed
        .entries
        .iter()
        .filter(|entry| entry.id.operation == Operation::Update && entry.owned.is_some())
        .map(|entry| (seconds(entry), String::new(), entry.id.clone()))
        .collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATE_MANAGERS {
        return;
    }
    for updater in &mut updaters {
        updater.1 = updater.2.sort_key();
    }
    updaters.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut first_of_version: Vec<(String, ManagerId)> = Vec::new();
    for (_, _, id) in updaters {
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let entry = managed.entry(&id);
        let time = entry.time.clone();
        let Some(version) = entry.owned.as_ref().map(|owned| owned.api_version.clone()) else {
            continue;
        };
        let Some((_, first)) = first_of_version.iter().find(|(seen, _)| *seen == version) else {
            first_of_version.push((version, id));
            continue;
        };
        let bucket = ManagerId::new(ANCIENT, Operation::Update, &version, "");
        if managed.get(&bucket).is_none() {
            let owned = managed.entry(&first.clone()).owned.take();
            managed.entry(&bucket).owned = owned;
        }
        let merged = managed.entry(&id).owned.take();
        let entry = managed.entry(&bucket);
        entry.source = None;
        match (&mut entry.owned, merged) {
            (Some(owned), Some(merged)) => owned.set.union_with(merged.set),
            (slot, merged) => *slot = merged,
        }
        entry.time = time;
        count -= 1;
    }
}
