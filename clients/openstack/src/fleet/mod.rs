//! Nova and Placement as an operator of hosts sees them: compute services, hypervisors, aggregates,
//! who runs where, migrations, traits and allocations.

mod nova;
mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use async_trait::async_trait;
use serde::Deserialize;

use crate::error::Result;
use crate::placement::Inventories;

/// A nova-compute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Service {
    pub id: String,
    pub host: String,
    /// `enabled` or `disabled`.
    pub status: String,
    /// `up` or `down`.
    pub state: String,
    #[serde(default)]
    pub disabled_reason: Option<String>,
    #[serde(default)]
    pub forced_down: bool,
}

impl Service {
    pub fn enabled(&self) -> bool {
        self.status == "enabled"
    }

    pub fn up(&self) -> bool {
        self.state == "up"
    }
}

/// A host as Nova's resource tracker knows it; its id is that of its resource provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HypervisorRecord {
    pub id: String,
    pub hostname: String,
    pub service: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Aggregate {
    pub id: i64,
    pub uuid: String,
    pub name: String,
    #[serde(default)]
    pub hosts: Vec<String>,
    #[serde(default)]
    pub availability_zone: Option<String>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Key of a server's metadata: a whole number, with which it is started before or after others.
pub const PRIORITY: &str = "c5c3:evacuation_priority";

/// A server as it matters to the host that runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    pub id: String,
    pub name: String,
    /// `ACTIVE`, `SHUTOFF`, `VERIFY_RESIZE` and others.
    pub status: String,
    /// What Nova does with it just now.
    pub task: Option<String>,
    pub host: String,
    pub ram_mb: i64,
    /// What its metadata say under [`PRIORITY`]: the higher comes first when a host failed; zero when they say nothing.
    pub priority: i64,
    /// Why it is in the status `ERROR`.
    pub fault: Option<String>,
}

/// A migration, past or under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Move {
    pub id: i64,
    #[serde(rename = "instance_uuid")]
    pub server: String,
    pub status: String,
    /// `live-migration`, `migration`, `evacuation`, `resize`.
    #[serde(rename = "migration_type", default)]
    pub kind: String,
    #[serde(rename = "source_compute", default)]
    pub source: Option<String>,
    #[serde(rename = "dest_compute", default)]
    pub destination: Option<String>,
}

/// How far a live migration is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MoveProgress {
    pub id: i64,
    #[serde(default)]
    pub status: String,
    #[serde(rename = "memory_total_bytes", default)]
    pub total: Option<u64>,
    #[serde(rename = "memory_remaining_bytes", default)]
    pub remaining: Option<u64>,
}

/// What a test server is made of; each by the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestBed {
    pub image: Option<String>,
    pub flavour: Option<String>,
    pub network: Option<String>,
}

/// A server on one given host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestDraft {
    pub name: String,
    pub host: String,
    pub image: String,
    pub flavour: String,
    pub network: Option<String>,
}

#[async_trait]
pub trait Fleet: Debug + Send + Sync {
    /// Every nova-compute.
    async fn compute_hosts(&self) -> Result<Vec<Service>>;
    async fn hypervisors(&self) -> Result<Vec<HypervisorRecord>>;
    async fn aggregates(&self) -> Result<Vec<Aggregate>>;
    /// Enables the service. One that was forced down stays so: whoever fenced the host has to say.
    async fn enable(&self, service: &str) -> Result<()>;
    async fn disable(&self, service: &str, reason: &str) -> Result<()>;
    /// Says that the host is down for certain, or takes that back.
    async fn force_down(&self, service: &str, down: bool) -> Result<()>;
    /// One that is gone already is as good as deleted.
    async fn delete_service(&self, service: &str) -> Result<()>;
    async fn join_aggregate(&self, aggregate: i64, host: &str) -> Result<()>;
    async fn leave_aggregate(&self, aggregate: i64, host: &str) -> Result<()>;

    /// The servers of exactly this host, of all projects.
    async fn guests_on(&self, host: &str) -> Result<Vec<Guest>>;
    async fn guest(&self, id: &str) -> Result<Option<Guest>>;
    /// Servers of exactly this name, in the project of the login.
    async fn guests_named(&self, name: &str) -> Result<Vec<Guest>>;
    /// The newest migrations away from this host.
    async fn moves_from(&self, host: &str) -> Result<Vec<Move>>;
    async fn progress(&self, server: &str) -> Result<Vec<MoveProgress>>;
    async fn live_migrate(&self, server: &str) -> Result<()>;
    async fn cold_migrate(&self, server: &str) -> Result<()>;
    async fn confirm_migration(&self, server: &str) -> Result<()>;
    async fn abort_migration(&self, server: &str, id: i64) -> Result<()>;
    /// Completes a live migration that does not converge, if need be by pausing the server.
    async fn force_complete(&self, server: &str, id: i64) -> Result<()>;
    /// Ends the server's process, if it has one, and restarts it on its host; also one that is stopped.
    async fn hard_reboot(&self, server: &str) -> Result<()>;
    /// Starts the server on another host, from its disk. Its own must be down for certain.
    async fn evacuate(&self, server: &str) -> Result<()>;

    async fn test_bed(&self, name: &str) -> Result<TestBed>;
    async fn create_test_server(&self, draft: &TestDraft) -> Result<String>;
    async fn console_of(&self, server: &str) -> Result<String>;
    /// One that is gone already is as good as deleted.
    async fn delete_server(&self, server: &str) -> Result<()>;

    /// The provider's generation and traits; `None` when there is no such provider.
    async fn provider_traits(&self, provider: &str) -> Result<Option<(i64, BTreeSet<String>)>>;
    /// Replaces them; a trait of ours that Placement does not know is made known.
    async fn set_provider_traits(
        &self,
        provider: &str,
        generation: i64,
        traits: &BTreeSet<String>,
    ) -> Result<()>;
    /// The provider's generation and what it has; `None` when there is no such provider.
    async fn provider_inventories(&self, provider: &str) -> Result<Option<(i64, Inventories)>>;
    async fn set_provider_inventories(
        &self,
        provider: &str,
        generation: i64,
        inventories: &Inventories,
    ) -> Result<()>;
    /// What each consumer holds of the provider; empty when there is no such provider.
    async fn consumers(&self, provider: &str) -> Result<BTreeMap<String, BTreeMap<String, i64>>>;
    /// Takes from the consumer what it holds of this provider, and leaves what it holds of others.
    async fn release(&self, consumer: &str, provider: &str) -> Result<()>;
    async fn delete_provider(&self, provider: &str) -> Result<()>;
    /// Providers of enabled hosts that have room for so much.
    async fn candidates(&self, resources: &BTreeMap<String, i64>) -> Result<BTreeSet<String>>;
}
