use crate::common::{
    Condition, Dependency, ExtraConfig, Image, KeystoneAuth, PodSettings, ResourceRequirements, Time,
    is_default,
};
use crate::schema;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A new value runs the tests once, now; `status.runNow` has the last one that was acted on.
pub const RUN_NOW: &str = "c5c3.io/run-now";
/// What that run is about: `smoke`, or a regular expression; the tests of the spec when left out.
pub const RUN_ONLY: &str = "c5c3.io/run-only";

/// Integration tests of a cloud.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "tempest.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Tempest",
    plural = "tempests",
    namespaced,
    status = "TempestStatus",
    category = "c5c3",
    category = "openstack",
    derive = "PartialEq",
    doc = "Integration tests of a cloud.",
    printcolumn(
        name = "Passed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"TestsPassed\")].status"
    ),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.results.failed"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.results.total"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastRun")
)]
#[serde(rename_all = "camelCase")]
pub struct TempestSpec {
    /// The image to run.
    pub image: Image,
    /// When to run, as cron; once when left out.
    #[serde(default)]
    #[schemars(schema_with = "schema::cron")]
    pub schedule: Option<String>,
    /// Credentials with which it logs in to Keystone.
    pub keystone: KeystoneAuth,
    /// What is tested.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tests: TempestTests,
    /// Wait for these objects first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"])
    )]
    pub depends_on: Vec<Dependency>,
    /// Requests and limits of the run.
    #[serde(default)]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Placement of the run's pod, and secrets for pulling its image.
    pub pods: Option<PodSettings>,
    /// Options of tempest.conf, which override what is discovered in the cloud: section, option, value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::common::extra_config")]
    pub extra_config: ExtraConfig,
}

/// What is tested.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempestTests {
    /// Services to test; all that are in the catalogue when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub services: Vec<String>,
    /// Tests that run at a time.
    #[serde(default = "TempestTests::four")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: i32,
    /// Only tests that match; `smoke` selects Tempest's smoke tests.
    #[serde(default)]
    #[schemars(schema_with = "schema::regex")]
    pub include_regex: Option<String>,
    /// Leave out tests that match.
    #[serde(default)]
    #[schemars(schema_with = "schema::regex")]
    pub exclude_regex: Option<String>,
}

impl TempestTests {
    fn four() -> i32 {
        4
    }
}

impl Default for TempestTests {
    fn default() -> Self {
        Self {
            services: Vec::new(),
            concurrency: Self::four(),
            include_regex: None,
            exclude_regex: None,
        }
    }
}

/// What was seen of the tests.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempestStatus {
    /// Conditions that describe the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The object that prevents this one from becoming ready.
    pub blocked_by: Option<crate::common::Blocker>,
    /// The generation that was processed.
    pub observed_generation: Option<i64>,
    /// When the last run started.
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub last_run: Option<Time>,
    /// How long it took.
    pub last_duration: Option<String>,
    /// Its outcome.
    pub results: Option<TempestResults>,
    /// The last value of the annotation c5c3.io/run-now that was processed.
    pub run_now: Option<String>,
    /// The version of the image whose tests passed last.
    pub installed_release: Option<String>,
}

/// Outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TempestResults {
    /// Tests that passed.
    pub passed: i32,
    /// Tests that failed.
    pub failed: i32,
    /// Tests that were skipped.
    pub skipped: i32,
    /// All of them.
    pub total: i32,
    /// Resources that the tests left behind, which were deleted.
    pub left_over: i32,
    /// Tests that failed; a long list is cut off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub failures: Vec<TempestFailure>,
}

/// A test that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TempestFailure {
    /// Its name.
    pub test: String,
    /// Last lines of its error.
    pub words: String,
}
