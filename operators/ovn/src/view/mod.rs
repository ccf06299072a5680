//! What the databases themselves say, kept up to date by monitors: nothing is polled.

mod read;
mod sessions;

use std::collections::BTreeMap;

use c5c3_api::ovn::RaftRole;
use jiff::Timestamp;

use crate::authority::Data;
use crate::names::Side;

pub use sessions::Sessions;

/// Servers to be asked.
#[derive(Clone, Default, PartialEq)]
pub struct Targets {
    /// Members that have an address: side, pod and remote.
    pub members: Vec<(Side, String, String)>,
    /// With TLS.
    pub certificates: Option<Data>,
}

/// What they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Roles of the members that answer, by pod.
    pub roles: BTreeMap<String, RaftRole>,
    /// Chassis by name; `None` while the southbound database is not reached.
    pub chassis: Option<BTreeMap<String, Registered>>,
    /// Why it is not.
    pub trouble: Option<String>,
    /// Databases that do not accept our certificates or have others, and what is wrong with them.
    pub untrusted: BTreeMap<Side, String>,
    /// When all chassis were last asked to answer; `None` while the northbound database is not reached.
    pub asked: Option<Option<Timestamp>>,
}

/// A chassis as the southbound database has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// When it last answered.
    pub answered: Option<Timestamp>,
}

/// Chassis are asked to answer so often, unless Neutron does it.
pub const ASK: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);
/// One that did not answer for so long is taken for dead.
pub const SILENT: jiff::SignedDuration = jiff::SignedDuration::from_mins(12);

impl Registered {
    /// One that was never asked is believed.
    pub fn lives(&self, now: Timestamp) -> bool {
        self.answered.is_none_or(|at| now.duration_since(at) < SILENT)
    }
}
