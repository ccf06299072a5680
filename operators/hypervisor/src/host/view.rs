//! What is known of one host, and what follows from it: the two ends of the transition.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use c5c3_api::conditions::hypervisor::LIBVIRT_CONNECTION;
use c5c3_api::hypervisor::{HypervisorSpec, HypervisorStatus, Maintenance};
use c5c3_kit::{Note, States};
use jiff::Timestamp;
use openstack_client::{Guest, Inventories, Move, TestBed, TestDraft};

use super::checks::Complaint;
use crate::nova::{Amounts, Found, Host};
use crate::power::PowerView;
use crate::pulse::AgentView;

/// Everything that the decision about a host is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub name: String,
    pub uid: String,
    pub spec: HypervisorSpec,
    pub before: HypervisorStatus,
    pub deleting: bool,
    /// The retry that a person asks for.
    pub retry: Option<String>,
    pub node: NodeView,
    /// Why the host cannot run servers, as its agents and pods say; asked only on its way into service.
    pub complaints: Vec<Complaint>,
    pub agent: AgentView,
    /// What the Node is short of.
    pub pressure: Vec<String>,
    /// Those that keep pods away from the Node.
    pub taints: Vec<String>,
    /// How it is known that the host has no power; `None`: it may have.
    pub fence: Option<String>,
    /// Of a silent host with a management controller.
    pub power: Option<PowerView>,
    pub nova: Host,
    pub placement: PlacementView,
    /// Test servers of this host, by their exact name or the id that was stored.
    pub tests: Vec<Guest>,
    /// What the first of them said.
    pub console: String,
    /// `None`: not needed now.
    pub bed: Option<TestBed>,
    /// Servers on the host; `None`: not needed now.
    pub guests: Option<Vec<Guest>>,
    /// Servers that are in trouble or were, as Nova has them.
    pub troubled: Vec<Guest>,
    /// Servers whose last call Nova refused, with the words of the refusal.
    pub refused: BTreeMap<String, String>,
    /// Migrations away from a host without power.
    pub moves: Vec<Move>,
    /// Servers of a host without power for which no other host has room, with what they need.
    pub no_room: BTreeMap<String, String>,
    pub eviction: Option<EvictionView>,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeView {
    #[default]
    Missing,
    There {
        ready: bool,
        terminating: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementView {
    /// Id, as it was stored or as Nova has it.
    pub provider: Option<String>,
    /// Generation and traits; `None`: there is no such provider.
    pub traits: Option<(i64, BTreeSet<String>)>,
    pub inventories: Option<(i64, Inventories)>,
    /// Who holds something of it; read only when the host leaves.
    pub consumers: Vec<(String, Amounts)>,
}

/// The state of the host's Eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionView {
    pub succeeded: bool,
    pub reason: String,
    pub message: String,
}

/// A call to Nova, Placement or a management controller. All but [`CreateTest`](Action::CreateTest) may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Enable {
        service: String,
    },
    Disable {
        service: String,
        reason: String,
    },
    /// Tells Nova that the host is down for certain, or takes that back.
    ForceDown {
        service: String,
        down: bool,
    },
    /// Cuts the power of a host that nobody hears.
    PowerOff {
        host: String,
    },
    /// Restarts a server on its host.
    Restart {
        server: String,
    },
    /// Takes a server that does not stay up on its host to another one.
    Move {
        server: String,
    },
    Confirm {
        server: String,
    },
    /// Starts a server of a host without power on another one.
    Evacuate {
        server: String,
    },
    Join {
        aggregate: i64,
        host: String,
    },
    Leave {
        aggregate: i64,
        host: String,
    },
    SetTraits {
        provider: String,
        generation: i64,
        traits: BTreeSet<String>,
    },
    SetInventories {
        provider: String,
        generation: i64,
        inventories: Inventories,
    },
    CreateTest(TestDraft),
    DeleteTest {
        server: String,
    },
    DeleteService {
        service: String,
    },
    Release {
        consumer: String,
        provider: String,
    },
    DeleteProvider {
        provider: String,
    },
}

/// What to do, and what to report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub actions: Vec<Action>,
    /// Why the host is to be empty.
    pub evict: Option<String>,
    pub states: States,
    /// The fields that this operator owns.
    pub status: HypervisorStatus,
    pub again: Duration,
    /// For events: what happened to single servers.
    pub notes: Vec<Note>,
    /// Of a host that is deleted: what is still there.
    pub left: Vec<String>,
}

impl View {
    /// The host is being decommissioned.
    pub fn leaving(&self) -> bool {
        let going = matches!(
            self.node,
            NodeView::There {
                terminating: true,
                ..
            }
        );
        self.deleting || going || self.spec.maintenance == Maintenance::Termination
    }

    pub fn service(&self) -> Option<&openstack_client::Service> {
        match &self.nova.service {
            Found::One(service) => Some(service),
            _ => None,
        }
    }

    /// Whether the agent reaches libvirt; `None`: no agent says so now. What it said outlives it.
    pub fn libvirt(&self) -> Option<bool> {
        if self.agent != AgentView::Heard {
            return None;
        }
        let said = self
            .before
            .conditions
            .iter()
            .find(|c| c.type_ == LIBVIRT_CONNECTION)?;
        Some(said.status == "True")
    }
}
