//! Writing objects: server-side apply that sends nothing when nothing changed, and what belongs to whom.

pub(crate) mod apply;
pub mod fields;
pub(crate) mod own_writes;
pub mod owned;
pub mod ownership;
pub mod rewritten;
pub(crate) mod store;
