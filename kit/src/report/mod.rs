//! What a pass makes visible: conditions, status and events.

pub mod conditions;
pub mod events;
pub(crate) mod publish;
pub(crate) mod status;
