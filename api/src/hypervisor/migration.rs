use crate::common::{Quantity, Time};
use crate::schema;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

const NAME_IS_A_UUID: &str = "self.metadata.name.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')";

/// The progress of one migration; its name is the UUID of the server.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hypervisor.c5c3.io",
    version = "v1alpha1",
    kind = "Migration",
    plural = "migrations",
    namespaced,
    status = "MigrationStatus",
    shortname = "mig",
    category = "c5c3",
    derive = "PartialEq",
    derive = "Default",
    doc = "The progress of one migration; its name is the UUID of the server.",
    validation = kube::core::Rule::new(NAME_IS_A_UUID).message(
        "metadata.name: must be the UUID of the server, in small letters; take its id, such as 3b1c3a4e-6f6c-4c2a-9b53-0c9f1f0a7c55"
    ),
    printcolumn(name = "Origin", type_ = "string", json_path = ".status.origin"),
    printcolumn(name = "Destination", type_ = "string", json_path = ".status.destination"),
    printcolumn(name = "Type", type_ = "string", json_path = ".status.type"),
    printcolumn(name = "Operation", type_ = "string", json_path = ".status.operation"),
    printcolumn(name = "Elapsed", type_ = "string", json_path = ".status.timeElapsed"),
    printcolumn(name = "Remaining", type_ = "string", json_path = ".status.dataRemaining"),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.errMsg")
)]
#[serde(rename_all = "camelCase")]
pub struct MigrationSpec {}

/// What libvirt reports about the job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStatus {
    /// Source host.
    pub origin: Option<String>,
    /// Destination host.
    pub destination: Option<String>,
    /// Kind of migration: live or cold.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// Kind of job: outgoing, running, completed, failed, cancelled.
    pub operation: Option<String>,
    /// When it started.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub started: Option<Time>,
    /// When it ended; the object is deleted an hour later.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub ended: Option<Time>,
    /// Time since it started.
    pub time_elapsed: Option<String>,
    /// Estimated time left.
    pub time_remaining: Option<String>,
    /// Time before the first byte.
    pub setup_time: Option<String>,
    /// Downtime of the instance.
    pub downtime: Option<String>,
    /// All bytes.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub data_total: Option<Quantity>,
    /// Bytes that were sent.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub data_processed: Option<Quantity>,
    /// Bytes that are left.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub data_remaining: Option<Quantity>,
    /// All memory.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub mem_total: Option<Quantity>,
    /// Memory that was sent.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub mem_processed: Option<Quantity>,
    /// Memory that is left.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub mem_remaining: Option<Quantity>,
    /// Memory sent per second.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub mem_bps: Option<Quantity>,
    /// Memory dirtied by the instance per second.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub mem_dirty_rate: Option<Quantity>,
    /// Iterations over the memory.
    pub mem_iteration: Option<i64>,
    /// Size of a page.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub mem_page_size: Option<Quantity>,
    /// Pages that were sent in full.
    pub mem_normal: Option<i64>,
    /// Pages of one repeated byte.
    pub mem_constant: Option<i64>,
    /// Pages that the destination asked for.
    pub mem_postcopy_requests: Option<i64>,
    /// All disk bytes.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub disk_total: Option<Quantity>,
    /// Disk bytes that were sent.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub disk_processed: Option<Quantity>,
    /// Disk bytes that are left.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub disk_remaining: Option<Quantity>,
    /// Disk bytes sent per second.
    #[serde(default)]
    #[schemars(schema_with = "schema::quantity")]
    pub disk_bps: Option<Quantity>,
    /// Throttling of the instance's CPUs, in percent.
    pub auto_converge_throttle: Option<String>,
    /// What went wrong.
    pub err_msg: Option<String>,
}
