//! What people see of a pass: conditions, status and events.

pub mod conditions;
pub mod events;
pub(crate) mod publish;
pub(crate) mod status;
