//! What is in front of the pods: Service, disruption budget, autoscaler and network policy. Created
//! first, whatever else is waiting.

use std::collections::BTreeMap;

use c5c3_api::common::{Autoscaling, NetworkPolicy as Allowed};
use c5c3_kit::Wanted;
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::core::v1::{Service as NetworkService, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::workload::{is_scaled, matching, workload_name};
use crate::shape::{Service, Workload};

type Labels = BTreeMap<String, String>;

pub fn network_objects(service: &Service) -> Vec<Wanted> {
    let names = &service.names;
    let common = &service.common;
    let mut objects = Vec::new();
    for process in &service.processes {
        let labels = names.process_labels(&process.name);
        let own = workload_name(service, process);
        let metadata = names.metadata(&own);
        let mut most = process.wanted().unwrap_or(1);
        if let Some(port) = process.port() {
            objects.push(Wanted::of(&front(&metadata, &labels, port.number)));
            let scaling = common.autoscaling.as_ref();
            if let Some(scaling) = scaling.filter(|_| is_scaled(service, process)) {
                most = scaling.max_replicas;
                objects.push(Wanted::of(&autoscaler(&metadata, &own, scaling)));
            }
            if let Some(allowed) = common.network_policy.as_ref().filter(|policy| policy.enabled) {
                objects.push(Wanted::of(&policy(&metadata, &labels, &names.namespace, allowed)));
            }
        }
        if process.port().is_none() && matches!(process.workload, Workload::StatefulSet { .. }) {
            objects.push(Wanted::of(&headless(&metadata, &labels)));
        }
        // With one replica a budget would only keep a node from being drained.
        if most > 1 {
            objects.push(Wanted::of(&budget(&metadata, &labels)));
        }
    }
    objects
}

fn front(metadata: &ObjectMeta, labels: &Labels, port: u16) -> NetworkService {
    NetworkService {
        metadata: metadata.clone(),
        spec: Some(ServiceSpec {
            selector: Some(labels.clone()),
            ports: Some(vec![ServicePort {
                name: Some("api".to_owned()),
                port: port.into(),
                target_port: Some(IntOrString::String("api".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..NetworkService::default()
    }
}

/// Pods with lasting names need a Service that names them.
fn headless(metadata: &ObjectMeta, labels: &Labels) -> NetworkService {
    NetworkService {
        metadata: metadata.clone(),
        spec: Some(ServiceSpec {
            selector: Some(labels.clone()),
            cluster_ip: Some("None".to_owned()),
            ..ServiceSpec::default()
        }),
        ..NetworkService::default()
    }
}

fn autoscaler(metadata: &ObjectMeta, deployment: &str, scaling: &Autoscaling) -> HorizontalPodAutoscaler {
    HorizontalPodAutoscaler {
        metadata: metadata.clone(),
        spec: HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: "Deployment".to_owned(),
                name: deployment.to_owned(),
            },
            min_replicas: Some(scaling.min_replicas),
            max_replicas: scaling.max_replicas,
            metrics: Some(vec![MetricSpec {
                type_: "Resource".to_owned(),
                resource: Some(ResourceMetricSource {
                    name: "cpu".to_owned(),
                    target: MetricTarget {
                        type_: "Utilization".to_owned(),
                        average_utilization: Some(scaling.target_cpu_utilization),
                        ..MetricTarget::default()
                    },
                }),
                ..MetricSpec::default()
            }]),
            ..HorizontalPodAutoscalerSpec::default()
        },
        ..HorizontalPodAutoscaler::default()
    }
}

fn policy(metadata: &ObjectMeta, labels: &Labels, own: &str, allowed: &Allowed) -> NetworkPolicy {
    let mut namespaces = vec![own.to_owned()];
    namespaces.extend(allowed.allowed_namespaces.iter().cloned());
    let from = NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "kubernetes.io/metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(namespaces),
            }]),
            ..LabelSelector::default()
        }),
        ..NetworkPolicyPeer::default()
    };
    NetworkPolicy {
        metadata: metadata.clone(),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(matching(labels.clone())),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![from]),
                ports: Some(vec![NetworkPolicyPort {
                    port: Some(IntOrString::String("api".to_owned())),
                    protocol: Some("TCP".to_owned()),
                    ..NetworkPolicyPort::default()
                }]),
            }]),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn budget(metadata: &ObjectMeta, labels: &Labels) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata.clone(),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(matching(labels.clone())),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}
