//! The live state of a workload, in one form for Deployments, StatefulSets and DaemonSets.

use c5c3_kit::Applied;
use c5c3_kit::controller::Controller;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Facts;
use crate::shape::{Process, Workload};

#[derive(Debug, Clone)]
pub struct Live {
    pub metadata: ObjectMeta,
    pub template: PodTemplateSpec,
    /// How many its spec asks for; of a DaemonSet, how many nodes there are for it.
    pub replicas: Option<i32>,
    pub observed_generation: Option<i64>,
    /// Pods in all.
    pub total: i32,
    /// Pods of the newest template.
    pub updated: i32,
    /// Pods that are up.
    pub available: i32,
}

impl Facts {
    /// What runs the process, as it was read.
    pub fn live(&self, process: &Process, name: &str) -> Option<Live> {
        match process.workload {
            Workload::Deployment { .. } => self.deployments.get(name).cloned().map(Live::from),
            Workload::StatefulSet { .. } => self.stateful_sets.get(name).cloned().map(Live::from),
            Workload::DaemonSet { .. } => self.daemon_sets.get(name).cloned().map(Live::from),
        }
    }
}

impl Live {
    /// What runs the process, as the server has it after this pass.
    pub fn applied<C: Controller>(
        applied: &Applied<C>,
        process: &Process,
        namespace: &str,
        name: &str,
    ) -> Option<Self> {
        let namespace = Some(namespace);
        match process.workload {
            Workload::Deployment { .. } => applied.get::<Deployment>(namespace, name).map(Live::from),
            Workload::StatefulSet { .. } => applied.get::<StatefulSet>(namespace, name).map(Live::from),
            Workload::DaemonSet { .. } => applied.get::<DaemonSet>(namespace, name).map(Live::from),
        }
    }
}

impl From<Deployment> for Live {
    fn from(live: Deployment) -> Self {
        let status = live.status.unwrap_or_default();
        Live {
            metadata: live.metadata,
            template: live.spec.template,
            replicas: live.spec.replicas,
            observed_generation: status.observed_generation,
            total: status.replicas.unwrap_or(0),
            updated: status.updated_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
        }
    }
}

impl From<StatefulSet> for Live {
    fn from(live: StatefulSet) -> Self {
        let status = live.status.unwrap_or_default();
        let spec = live.spec;
        Live {
            metadata: live.metadata,
            template: spec.template,
            replicas: spec.replicas,
            observed_generation: status.observed_generation,
            total: status.replicas,
            updated: status.updated_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
        }
    }
}

impl From<DaemonSet> for Live {
    fn from(live: DaemonSet) -> Self {
        let status = live.status.unwrap_or_default();
        Live {
            metadata: live.metadata,
            template: live.spec.template,
            replicas: Some(status.desired_number_scheduled),
            observed_generation: status.observed_generation,
            total: status.current_number_scheduled,
            updated: status.updated_number_scheduled.unwrap_or(0),
            available: status.number_available.unwrap_or(0),
        }
    }
}
