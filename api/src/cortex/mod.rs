//! `cortex.c5c3.io/v1alpha1`: smart placement.

mod data;
mod decisions;
mod deployment;
mod pipeline;

pub use data::{
    Datasource, DatasourceSpec, DatasourceStatus, DatasourceType, Dependencies, Extractor, Knowledge,
    KnowledgeSpec, KnowledgeStatus, Kpi, KpiSpec, KpiStatus, OpenStackSource, PrometheusSource,
};
pub use decisions::{
    CommittedResource, Decision, DecisionSpec, DecisionStatus, Descheduling, DeschedulingSpec,
    DeschedulingStatus, Failover, PastDecision, Reservation, ReservationPhase, ReservationSpec,
    ReservationStatus, ReservationType, StepResult,
};
pub use deployment::{
    Cortex, CortexDatasources, CortexPipelines, CortexSpec, CortexStatus, DatasourceToggle, FilterName,
    PipelineToggle, WeigherWeight,
};
pub use pipeline::{Pipeline, PipelineSpec, PipelineStatus, PipelineType, Step, Weigher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is being placed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingDomain {
    #[default]
    Nova,
    Cinder,
    Manila,
}
