//! What stands before the pods: Service, disruption budget, autoscaler, network policy. There from
//! the start, whatever else waits.

use serde_json::{Value, json};

use super::workload::{is_scaled, workload_name};
use crate::shape::{Service, Workload};

pub fn network_objects(service: &Service) -> Vec<Value> {
    let names = &service.names;
    let common = &service.common;
    let mut objects = Vec::new();
    for process in &service.processes {
        let labels = names.process_labels(&process.name);
        let own = workload_name(service, process);
        let metadata = names.metadata(&own);
        let mut most = process.wanted().unwrap_or(1);
        if let Some(port) = process.port() {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"selector": labels, "ports": [{"name": "api", "port": port.number, "targetPort": "api"}]},
            }));
            if let Some(scaling) = common
                .autoscaling
                .as_ref()
                .filter(|_| is_scaled(service, process))
            {
                most = scaling.max_replicas;
                objects.push(json!({
                    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata,
                    "spec": {
                        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": own},
                        "minReplicas": scaling.min_replicas, "maxReplicas": scaling.max_replicas,
                        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": scaling.target_cpu_utilization}}}],
                    },
                }));
            }
            if let Some(policy) = common.network_policy.as_ref().filter(|policy| policy.enabled) {
                let mut namespaces = vec![names.namespace.clone()];
                namespaces.extend(policy.allowed_namespaces.iter().cloned());
                let from = json!([{"namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]}}]);
                objects.push(json!({
                    "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata,
                    "spec": {
                        "podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"],
                        "ingress": [{"from": from, "ports": [{"port": "api", "protocol": "TCP"}]}],
                    },
                }));
            }
        }
        if process.port().is_none() && matches!(process.workload, Workload::StatefulSet { .. }) {
            // Pods with lasting names need a Service that names them.
            objects.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"selector": labels, "clusterIP": "None"},
            }));
        }
        // With one replica a budget would only keep a node from being drained.
        if most > 1 {
            objects.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
            }));
        }
    }
    objects
}
