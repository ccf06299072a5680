//! What is known of a host that is emptied, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use c5c3_api::hypervisor::{EvictionSpec, EvictionStatus};
use c5c3_kit::States;
use jiff::Timestamp;
use openstack_client::{Guest, Move, MoveProgress, Service};

/// Everything that the plan is based on, read anew in each pass.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub name: String,
    pub spec: EvictionSpec,
    pub before: EvictionStatus,
    pub deleting: bool,
    /// Why there is no host to empty, when there is none.
    pub host: Result<HostView, String>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostView {
    /// `None`: Nova has none any more.
    pub service: Option<Service>,
    /// Name of the host in Nova.
    pub name: String,
    pub guests: Vec<Guest>,
    /// Migrations away from it, the newest first.
    pub moves: Vec<Move>,
    /// Of those under way, by server.
    pub progress: BTreeMap<String, MoveProgress>,
    /// Servers for which no other host has room, with what they need.
    pub no_room: BTreeMap<String, String>,
    /// Servers whose last call was refused, with the words of the refusal.
    pub refused: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Disable {
        service: String,
        reason: String,
    },
    Enable {
        service: String,
    },
    Live {
        server: String,
    },
    Cold {
        server: String,
    },
    Confirm {
        server: String,
    },
    /// Completes a migration that does not converge.
    Force {
        server: String,
        migration: i64,
    },
    Abort {
        server: String,
        migration: i64,
    },
}

impl Action {
    /// The server that it is about.
    pub fn server(&self) -> Option<&str> {
        match self {
            Action::Live { server }
            | Action::Cold { server }
            | Action::Confirm { server }
            | Action::Force { server, .. }
            | Action::Abort { server, .. } => Some(server),
            Action::Disable { .. } | Action::Enable { .. } => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub actions: Vec<Action>,
    pub states: States,
    pub status: EvictionStatus,
    pub again: Duration,
    /// Of one that is deleted: what is still under way.
    pub left: Vec<String>,
}

impl HostView {
    /// Stopped servers that arrived elsewhere and whose move nobody has confirmed.
    pub fn unconfirmed(&self) -> BTreeSet<String> {
        let waits = |one: &&Move| one.kind == "migration" && one.status == "finished";
        self.moves
            .iter()
            .filter(waits)
            .map(|one| one.server.clone())
            .collect()
    }

    /// The newest migration of a server.
    pub fn last(&self, server: &str) -> Option<&Move> {
        self.moves.iter().find(|one| one.server == server)
    }
}
