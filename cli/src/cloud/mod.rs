//! A cloud as a person sees it: what it is made of, whether it is healthy, and what blocks it.
//! Everything but reading is pure.

pub mod access;
pub mod apply;
pub mod explain;
pub mod health;
pub mod images;
pub mod login;
pub mod nodes;
pub mod pods;
pub mod profile;
pub mod progress;
pub mod sight;
pub mod snapshot;
pub mod storage;

/// Where a cloud is when nobody says otherwise.
pub const NAMESPACE: &str = "openstack";
