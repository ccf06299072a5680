//! The fleet as sources tell it, host by host, before it is packed.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Processors and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    pub cpu: i64,
    /// MiB.
    pub memory: i64,
}

impl Amount {
    pub const fn new(cpu: i64, memory: i64) -> Self {
        Amount { cpu, memory }
    }

    pub fn plus(self, other: Amount) -> Amount {
        Amount::new(
            self.cpu.saturating_add(other.cpu),
            self.memory.saturating_add(other.memory),
        )
    }

    pub fn minus(self, other: Amount) -> Amount {
        Amount::new(
            self.cpu.saturating_sub(other.cpu),
            self.memory.saturating_sub(other.memory),
        )
    }

    pub fn times(self, count: i64) -> Amount {
        Amount::new(self.cpu.saturating_mul(count), self.memory.saturating_mul(count))
    }

    /// No part below nothing.
    pub fn or_nothing(self) -> Amount {
        Amount::new(self.cpu.max(0), self.memory.max(0))
    }

    pub fn at_most(self, other: Amount) -> Amount {
        Amount::new(self.cpu.min(other.cpu), self.memory.min(other.memory))
    }

    pub fn fits(self, room: Amount) -> bool {
        self.cpu <= room.cpu && self.memory <= room.memory
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HypervisorType {
    /// Nova calls it QEMU.
    Kvm,
    /// Cloud Hypervisor.
    Ch,
    #[default]
    Other,
}

impl HypervisorType {
    /// The word that flavours use in `capabilities:hypervisor_type`.
    pub fn in_flavours(self) -> Option<&'static str> {
        match self {
            HypervisorType::Kvm => Some("QEMU"),
            HypervisorType::Ch => Some("CH"),
            HypervisorType::Other => None,
        }
    }
}

/// A group of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aggregate {
    pub uuid: String,
    pub name: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Host {
    /// `None`: it may take servers. Otherwise why not.
    pub unfit: Option<String>,
    pub zone: Option<String>,
    pub hypervisor_type: HypervisorType,
    pub arch: Option<String>,
    pub traits: BTreeSet<String>,
    pub aggregates: Vec<Aggregate>,
    /// With overcommitment; `None` when nobody told.
    pub capacity: Option<Amount>,
    /// What its servers hold, where the source tells; else it is counted from the servers.
    pub used: Option<Amount>,
    /// Projects that may use it; all when empty.
    pub allowed_projects: BTreeSet<String>,
    pub cpu_modes: BTreeSet<String>,
    pub features: BTreeSet<String>,
    pub devices: BTreeSet<String>,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Server {
    pub name: String,
    pub host: String,
    pub project: String,
    pub status: String,
    pub size: Amount,
    pub extra_specs: BTreeMap<String, String>,
    pub zone: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ReservationKind {
    #[default]
    CommittedResource,
    Failover,
}

/// Room that is kept free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservation {
    pub kind: ReservationKind,
    pub size: Amount,
    /// Where it is wanted, and where it is: both keep the room while it moves.
    pub hosts: BTreeSet<String>,
    pub active: bool,
    pub project: Option<String>,
    pub group: Option<String>,
    pub zone: Option<String>,
    /// Servers that a failover is for.
    pub servers: BTreeSet<String>,
}

/// Contention of a host's processors in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contention {
    pub avg: f64,
    pub max: f64,
}

/// How much a project makes of its processors on a host, in percent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Noise {
    pub project: String,
    pub host: String,
    pub avg_cpu: f64,
}

/// Time that a server waited for a processor, in percent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Steal {
    pub server: String,
    pub host: String,
    pub max_pct: f64,
}

/// What a project may use in a zone, and what it uses: resource names to figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quota {
    pub limits: BTreeMap<String, i64>,
    pub used: BTreeMap<String, i64>,
}

/// Features by the knowledge that made them; `None` where there is none yet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Features {
    pub long_term: Option<BTreeMap<String, Contention>>,
    pub short_term: Option<BTreeMap<String, Contention>>,
    pub noise: Option<Vec<Noise>>,
    pub steal: Option<Vec<Steal>>,
    /// Project and zone, joined by a slash.
    pub quotas: Option<BTreeMap<String, Quota>>,
}

/// The whole world of one moment. It is also what `c5c3 cortex` writes to a file and reads back.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Draft {
    pub hosts: BTreeMap<String, Host>,
    pub servers: BTreeMap<String, Server>,
    pub reservations: BTreeMap<String, Reservation>,
    pub features: Features,
}
