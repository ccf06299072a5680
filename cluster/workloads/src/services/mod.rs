//! The endpoints of Services.

pub(crate) mod endpoints;
pub(crate) mod legacy_endpoints;
