//! The heart of field ownership: what an update or an apply does to an object
//! and to its owners. Names and times are added around it.

use serde_json::Value;

use super::conflict::Conflicts;
use super::managed::{Managed, ManagerId, Owned, UNOWNED};
use super::set::FieldSet;
use super::typed::{self, Comparison, TypeProblems};
use super::types::{Missing, Versions};

/// Why ownership could not be worked out.
#[derive(Debug)]
pub(crate) enum UpdateError {
    Conflict(Conflicts),
    Problem(String),
}

impl From<TypeProblems> for UpdateError {
    fn from(problems: TypeProblems) -> Self {
        Self::Problem(problems.to_string())
    }
}

fn problem(context: &str, error: impl std::fmt::Display) -> UpdateError {
    UpdateError::Problem(format!("{context}: {error}"))
}

/// Objects of one kind at the version of a request.
pub(crate) struct Updater<'a> {
    pub versions: &'a Versions,
    /// Version of the request; both objects are in it.
    pub version: &'a str,
}

impl Updater<'_> {
    /// Takes what a replacement of the live object changed from its owners and
    /// returns it.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut Managed,
    ) -> Result<FieldSet, UpdateError> {
        self.reconcile(live, managed)?;
        let comparison = self.compare_for_all(live, new, managed, None, true)?;
        let mut set = comparison.modified;
        set.union_with(comparison.added);
        if let Some(reset) = self.versions.reset(self.version) {
            set.subtract_trees(reset);
        }
        Ok(set)
    }

    /// Merges `applied` into the live object for a manager. `None` if the object
    /// stays as it is.
    pub(super) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        managed: &mut Managed,
        manager: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, UpdateError> {
        self.reconcile(live, managed)?;
        let ty = self
            .versions
            .get(self.version)
            .map_err(|error| problem("failed to merge config", error))?;
        let mut set = typed::field_set(&ty.schema, ty.root, applied);
        if let Some(reset) = self.versions.reset(self.version) {
            set.subtract_trees(reset);
        }
        let entry = managed.entry(manager);
        let last = entry.owned.take();
        let kept = last.as_ref().is_none_or(|last| {
            last.set.is_empty() || last.api_version == self.version && set.includes(&last.set)
        });
        let still = typed::changes_nothing(&ty.schema, ty.root, live, applied);
        if kept && still {
            set.subtract(&UNOWNED);
            entry.owned = match last {
                Some(last) if last.set == set => Some(last),
                _ => {
                    entry.source = None;
                    Some(Owned {
                        api_version: self.version.to_owned(),
                        set,
                    })
                }
            };
            return Ok(None);
        }
        entry.source = None;
        entry.owned = Some(Owned {
            api_version: self.version.to_owned(),
            set,
        });
        let mut merged = if still {
            live.clone()
        } else {
            typed::merge(&ty.schema, ty.root, live, applied)
                .map_err(|error| problem("failed to merge config", error))?
        };
        if let (false, Some(last)) = (kept, last) {
            merged = self
                .prune(merged, managed, last)
                .map_err(|error| problem("failed to prune fields", error))?;
        }
        self.compare_for_all(live, &merged, managed, Some(manager), force)?;
        Ok((!super::value::equal(live, &merged)).then_some(merged))
    }

    /// Takes changed and removed fields from their owners, or reports conflicts.
    fn compare_for_all(
        &self,
        old: &Value,
        new: &Value,
        managed: &mut Managed,
        actor: Option<&ManagerId>,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let mut comparisons = vec![(
            self.version.to_owned(),
            self.compare_at(self.version, old, new)
                .map_err(|error| problem("failed to compare objects", error))?,
        )];
        let mut conflicts = Vec::new();
        for entry in &mut managed.entries {
            let Some(owned) = &entry.owned else { continue };
            if actor == Some(&entry.id) {
                continue;
            }
            let known = comparisons
                .iter()
                .position(|(version, _)| *version == owned.api_version);
            let at = match known {
                Some(at) => at,
                None => match self
                    .converted(&owned.api_version, old, "failed to convert old object: ")
                    .and_then(|()| self.converted(&owned.api_version, new, "failed to convert new object: "))
                {
                    Ok(()) => {
                        let comparison = self
                            .compare_at(&owned.api_version, old, new)
                            .map_err(|error| problem("failed to compare objects", error))?;
                        comparisons.push((owned.api_version.clone(), comparison));
                        comparisons.len() - 1
                    }
                    Err(ConvertError::Missing) => {
                        entry.owned = None;
                        continue;
                    }
                    Err(ConvertError::Problem(error)) => return Err(UpdateError::Problem(error)),
                },
            };
            let comparison = &comparisons[at].1;
            let mut taken = owned.set.intersection(&comparison.modified);
            taken.union_with(owned.set.intersection(&comparison.added));
            if !taken.is_empty() {
                conflicts.push((entry.id.clone(), taken));
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflict(Conflicts::from_sets(conflicts)));
        }
        for (id, taken) in &conflicts {
            let entry = managed.entry(id);
            entry.source = None;
            if let Some(owned) = &mut entry.owned {
                owned.set.subtract(taken);
            }
        }
        for entry in &mut managed.entries {
            let Some(owned) = &mut entry.owned else { continue };
            if actor == Some(&entry.id) {
                continue;
            }
            if let Some((_, comparison)) = comparisons
                .iter()
                .find(|(version, _)| *version == owned.api_version)
                && !comparison.removed.is_empty()
            {
                entry.source = None;
                owned.set.subtract(&comparison.removed);
            }
        }
        managed.drop_empty();
        Ok(comparisons.swap_remove(0).1)
    }

    fn compare_at(&self, version: &str, old: &Value, new: &Value) -> Result<Comparison, Missing> {
        let ty = self.versions.get(version)?;
        Ok(typed::compare(&ty.schema, ty.root, old, new).without(self.versions.reset(version)))
    }

    /// Checks objects of the request's version against another one. Conversion
    /// changes nothing but the version's name, so the values serve as they are.
    fn converted(&self, version: &str, object: &Value, context: &str) -> Result<(), ConvertError> {
        if version == self.version {
            return Ok(());
        }
        let ty = (self.versions.get(version)).map_err(|Missing(_)| ConvertError::Missing)?;
        typed::validate(&ty.schema, ty.root, object, false)
            .map_err(|problems| ConvertError::Problem(format!("{context}{problems}")))
    }

    /// Brings sets up to date with the schema; drops those of versions that are
    /// gone.
    fn reconcile(&self, live: &Value, managed: &mut Managed) -> Result<(), UpdateError> {
        for entry in &mut managed.entries {
            let Some(owned) = &mut entry.owned else { continue };
            match self.converted(&owned.api_version, live, "") {
                Ok(()) => {}
                Err(ConvertError::Missing) => {
                    entry.owned = None;
                    continue;
                }
                Err(ConvertError::Problem(error)) => return Err(UpdateError::Problem(error)),
            }
            if let Ok(ty) = self.versions.get(&owned.api_version)
                && typed::reconcile(&ty.schema, ty.root, &mut owned.set)
            {
                entry.source = None;
            }
        }
        Ok(())
    }

    /// Removes what the manager applied last time, does not apply now, and
    /// nobody else owns.
    fn prune(&self, merged: Value, managed: &Managed, last: Owned) -> Result<Value, String> {
        let version = last.api_version;
        let context = "failed to convert merged object to last applied version: ";
        match self.converted(&version, &merged, context) {
            Ok(()) => {}
            Err(ConvertError::Missing) => return Ok(merged),
            Err(ConvertError::Problem(error)) => return Err(error),
        }
        let Ok(ty) = self.versions.get(&version) else {
            return Ok(merged);
        };
        let mut last = last.set;
        last.ensure_named(&ty.schema, Some(ty.root));
        let removed = typed::remove(&ty.schema, Some(ty.root), &merged, &last);
        let pruned = self.add_back_owned(&merged, removed, &version, managed)?;
        // Only what this manager owned may go.
        let mut pruned_set = typed::field_set(&ty.schema, ty.root, &pruned);
        pruned_set.ensure_named(&ty.schema, Some(ty.root));
        let mut gone = typed::field_set(&ty.schema, ty.root, &merged);
        gone.ensure_named(&ty.schema, Some(ty.root));
        gone.subtract(&pruned_set);
        let gone = gone.intersection(&last);
        if gone.is_empty() {
            return Ok(merged);
        }
        let pruned = typed::remove(&ty.schema, Some(ty.root), &merged, &gone);
        if version != self.version {
            self.check(self.version, &pruned)?;
        }
        Ok(pruned)
    }

    /// Restores what any manager owns, version by version.
    fn add_back_owned(
        &self,
        merged: &Value,
        mut pruned: Value,
        first: &str,
        managed: &Managed,
    ) -> Result<Value, String> {
        let mut by_version: Vec<(&str, FieldSet)> = Vec::new();
        for (_, owned) in managed.owners() {
            match by_version
                .iter_mut()
                .find(|(version, _)| *version == owned.api_version)
            {
                Some((_, set)) => set.union_with(owned.set.clone()),
                None => by_version.push((&owned.api_version, owned.set.clone())),
            }
        }
        // The version of the removal first: later conversions may need its fields.
        by_version.sort_by_key(|(version, _)| *version != first);
        for (version, mut owned) in by_version {
            let Ok(ty) = self.versions.get(version) else {
                continue;
            };
            if version != first {
                self.check(version, merged).map_err(|error| {
                    format!(
                        "failed add back owned items: \
                         failed to convert merged object at version {version}: {error}"
                    )
                })?;
                self.check(version, &pruned).map_err(|error| {
                    format!(
                        "failed add back owned items: \
                         failed to convert pruned object at version {version}: {error}"
                    )
                })?;
            }
            let (schema, root) = (&ty.schema, ty.root);
            let mut gone = typed::field_set(schema, root, merged);
            gone.ensure_named(schema, Some(root));
            let mut kept = typed::field_set(schema, root, &pruned);
            kept.ensure_named(schema, Some(root));
            gone.subtract(&kept);
            owned.ensure_named(schema, Some(root));
            gone.subtract(&owned);
            pruned = if gone.is_empty() {
                merged.clone()
            } else {
                typed::remove(schema, Some(root), merged, &gone)
            };
        }
        Ok(pruned)
    }

    fn check(&self, version: &str, object: &Value) -> Result<(), String> {
        let ty = self.versions.get(version).map_err(|error| error.to_string())?;
        typed::validate(&ty.schema, ty.root, object, false).map_err(|error| error.to_string())
    }
}

enum ConvertError {
    Missing,
    Problem(String),
}
