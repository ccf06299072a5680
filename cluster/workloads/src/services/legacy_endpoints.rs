//! Endpoints, the older form of EndpointSlices: deprecated, and still what some clients read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::json;

use crate::action::{Action, Target, merge_diff, to_value};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// As many addresses as Kubernetes puts into one object.
const MOST: usize = 1000;

/// The action that makes the Endpoints of a Service match its slices; `slices` is empty for a Service that
/// selects no pods or is gone. Endpoints that this controller does not manage are left alone.
pub(crate) fn decide(
    existing: Option<&Endpoints>,
    service: Option<&Service>,
    slices: &[EndpointSlice],
) -> Option<Action> {
    let ours = |found: &Endpoints| found.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER);
    let wanted = service
        .filter(|_| !slices.is_empty())
        .map(|service| object(service, slices));
    match (existing, wanted) {
        (None, None) => None,
        (Some(found), _) if !ours(found) => None,
        (None, Some(wanted)) => Some(Action::create(&wanted)),
        (Some(found), None) => Some(Action::Delete {
            target: Target::of(found),
            grace: None,
        }),
        (Some(found), Some(wanted)) => {
            let labels = merge_diff(&to_value(found.labels()), &to_value(wanted.labels()));
            let mut body = json!({});
            if found.subsets.as_deref().unwrap_or_default() != wanted.subsets.as_deref().unwrap_or_default() {
                body["subsets"] = to_value(&wanted.subsets);
            }
            if let Some(labels) = labels {
                body["metadata"] = json!({"labels": labels});
            }
            (body != json!({})).then(|| Action::Patch {
                target: Target::of(found),
                subresource: None,
                body,
            })
        }
    }
}

fn object(service: &Service, slices: &[EndpointSlice]) -> Endpoints {
    let mut labels = service.labels().clone();
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.into(), String::new());
    }
    Endpoints {
        metadata: ObjectMeta {
            namespace: service.namespace(),
            name: Some(service.name_any()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets(slices)),
    }
}

/// One for each set of ports; those that serve apart from the others.
fn subsets(slices: &[EndpointSlice]) -> Vec<EndpointSubset> {
    let mut by_ports: BTreeMap<String, EndpointSubset> = BTreeMap::new();
    let mut left = MOST;
    for slice in slices.iter().cloned() {
        let ports: Vec<EndpointPort> = slice.ports.into_iter().flatten().filter_map(port).collect();
        let subset = by_ports.entry(to_value(&ports).to_string()).or_default();
        subset.ports = (!ports.is_empty()).then_some(ports);
        for endpoint in slice.endpoints.into_iter().flatten() {
            let conditions = endpoint.conditions.unwrap_or_default();
            let ready = conditions.ready.unwrap_or(false);
            if left == 0 || (conditions.terminating == Some(true) && !ready) {
                continue;
            }
            left -= 1;
            let list = if ready {
                &mut subset.addresses
            } else {
                &mut subset.not_ready_addresses
            };
            list.get_or_insert_default().push(EndpointAddress {
                ip: endpoint.addresses.into_iter().next().unwrap_or_default(),
                hostname: endpoint.hostname,
                node_name: endpoint.node_name,
                target_ref: endpoint.target_ref,
            });
        }
    }
    let filled = |subset: &EndpointSubset| subset.addresses.is_some() || subset.not_ready_addresses.is_some();
    by_ports.into_values().filter(filled).collect()
}

fn port(port: k8s_openapi::api::discovery::v1::EndpointPort) -> Option<EndpointPort> {
    Some(EndpointPort {
        name: port.name.filter(|name| !name.is_empty()),
        port: port.port?,
        protocol: port.protocol,
        app_protocol: port.app_protocol,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn service() -> Service {
        serde_json::from_value(
            json!({"metadata": {"namespace": "n", "name": "web", "labels": {"a": "b"}},
            "spec": {"selector": {"app": "web"}}}),
        )
        .expect("a service")
    }

    fn slice(ready: bool, ip: &str) -> EndpointSlice {
        let slice = json!({"metadata": {"name": "web-1"}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": [ip], "nodeName": "a", "conditions": {"ready": ready}}]});
        serde_json::from_value(slice).expect("a slice")
    }

    fn created(action: Option<Action>) -> Value {
        match action {
            Some(Action::Create(object)) => object,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn endpoints_say_what_slices_say() {
        let slices = [slice(true, "10.0.0.1"), slice(false, "10.0.0.2")];
        let made = created(decide(None, Some(&service()), &slices));
        assert_eq!(
            made["subsets"],
            json!([{"addresses": [{"ip": "10.0.0.1", "nodeName": "a"}],
                "notReadyAddresses": [{"ip": "10.0.0.2", "nodeName": "a"}],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}])
        );
        assert_eq!(made["metadata"]["labels"], json!({"a": "b", MANAGED_BY: MANAGER}));
        let found: Endpoints = serde_json::from_value(made).expect("endpoints");
        assert!(
            decide(Some(&found), Some(&service()), &slices).is_none(),
            "settled"
        );
        let changed = decide(Some(&found), Some(&service()), &slices[..1]);
        assert!(matches!(changed, Some(Action::Patch { .. })), "{changed:?}");
        assert!(matches!(
            decide(Some(&found), None, &[]),
            Some(Action::Delete { .. })
        ));
    }

    #[test]
    fn endpoints_of_others_are_left_alone() {
        let own: Endpoints = serde_json::from_value(json!({"metadata": {"namespace": "n", "name": "web"}}))
            .expect("endpoints");
        assert!(decide(Some(&own), Some(&service()), &[slice(true, "10.0.0.1")]).is_none());
        assert!(decide(Some(&own), None, &[]).is_none());
        assert!(decide(None, Some(&service()), &[]).is_none());
    }
}
