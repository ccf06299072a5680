//! Fields that another manager owns with another value.

use std::fmt;

use super::managed::{ManagerId, Operation};
use super::path::Path;
use super::set::FieldSet;
use crate::field::text;

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub owner: ManagerId,
    pub path: Path,
}

impl Conflict {
    /// The manager as messages name it.
    #[must_use]
    pub fn owner_text(&self) -> String {
        let mut text = text::quote(&self.owner.manager);
        if !self.owner.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&text::quote(&self.owner.subresource));
        }
        if self.owner.operation == Operation::Update {
            text.push_str(" using ");
            text.push_str(&self.owner.api_version);
        }
        text
    }

    /// The message of the cause in a Status (`FieldManagerConflict`); its field
    /// is the path.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner_text())
    }
}

/// Why an apply was refused: HTTP 409, reason `Conflict`. The text is the
/// message of the Status; each conflict is a cause of type
/// `FieldManagerConflict`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    pub(crate) fn from_sets(mut sets: Vec<(ManagerId, FieldSet)>) -> Self {
        sets.sort_by_cached_key(|(id, _)| id.sort_key());
        Self(
            sets.iter()
                .flat_map(|(owner, set)| {
                    set.paths().into_iter().map(|path| Conflict {
                        owner: owner.clone(),
                        path,
                    })
                })
                .collect(),
        )
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return write!(
                f,
                "Apply failed with 1 conflict: {}: {}",
                only.message(),
                only.path
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last: Option<&ManagerId> = None;
        for conflict in &self.0 {
            if last != Some(&conflict.owner) {
                if last.is_some() {
                    f.write_str("\n")?;
                }
                write!(f, "conflicts with {}:", conflict.owner_text())?;
                last = Some(&conflict.owner);
            }
            write!(f, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
