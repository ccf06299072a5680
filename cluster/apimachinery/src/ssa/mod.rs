//! Server-side apply: every field of an object has owners, and an apply merges,
//! takes over and removes fields as structured-merge-diff does.
//!
//! `FieldManager` is the way in. It works on whole objects as JSON and on
//! their `metadata.managedFields`; it does no validation beyond types, no
//! storage and knows no time but the one it is given.

mod codec;
mod conflict;
mod last_applied;
#[cfg(test)]
mod laws;
mod managed;
mod manager;
mod path;
mod scale;
mod set;
mod times;
mod typed;
mod types;
mod update;
mod value;

pub use conflict::{Conflict, Conflicts};
pub use managed::{ManagerId, Operation};
pub use manager::{ApplyError, FieldManager, Updated};
pub use path::{Path, PathElement};
pub use scale::ScaleOwnership;
pub use set::FieldSet;
pub use times::keep_times;
pub use types::Version;
