//! Role-based access control: a pure function of the role objects.

mod bindings;
mod defaults;
mod rule;
mod snapshot;

pub use defaults::bootstrap;
pub use rule::Rule;
pub use snapshot::Snapshot;
pub(super) use snapshot::Snapshots;
pub(super) use snapshot::is_master;

#[cfg(test)]
pub(super) use defaults::all as default_objects;

use crate::identity::Decision;

pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The answer to a question, with the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: bool,
    pub reason: String,
}

impl Verdict {
    fn allowed(reason: String) -> Self {
        Self {
            allowed: true,
            reason,
        }
    }

    fn denied(reason: String) -> Self {
        Self {
            allowed: false,
            reason,
        }
    }

    pub fn decision(self) -> Decision {
        if self.allowed {
            Decision::Allow
        } else {
            Decision::Deny(self.reason)
        }
    }
}
