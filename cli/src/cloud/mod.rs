//! A cloud from an operator's point of view: its parts, its health, and what blocks it. Everything but
//! reading is pure.

pub(crate) mod access;
pub(crate) mod accounts;
pub(crate) mod apply;
pub(crate) mod explain;
pub(crate) mod health;
pub(crate) mod images;
pub(crate) mod login;
pub(crate) mod nodes;
pub(crate) mod pods;
pub(crate) mod profile;
pub(crate) mod progress;
pub(crate) mod sight;
pub(crate) mod snapshot;
pub(crate) mod storage;

/// Where a cloud is when nobody says otherwise.
pub(crate) const NAMESPACE: &str = "openstack";
