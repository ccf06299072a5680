//! `ceph.rook.io/v1`, by Rook.

mod client;
mod cluster;
mod object;
mod pool;

pub use client::*;
pub use cluster::*;
pub use object::*;
pub use pool::*;

use super::ConditionsStatus;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A status with a phase.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    /// Progressing, Ready, Failure, Deleting …
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub info: BTreeMap<String, String>,
}

impl PhaseStatus {
    pub fn is_ready(&self) -> bool {
        self.phase.as_deref() == Some("Ready")
    }
}
