//! Who may speak with database, cache and message bus. What is not named here can be added by policies of
//! others: they only ever allow more.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::infrastructure::{CACHE, DATABASE, MESSAGING};
use super::{Draft, whole};

fn labelled(label: &str, value: &str) -> LabelSelector {
    let label = format!("app.kubernetes.io/{label}");
    LabelSelector {
        match_labels: Some([(label, value.to_owned())].into()),
        ..LabelSelector::default()
    }
}

/// The pods of a server, under its own operator and under the stand-in alike.
fn pods(server: &str) -> LabelSelector {
    labelled("name", server)
}

/// Pods of this namespace.
fn near(pods: LabelSelector) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(pods),
        ..NetworkPolicyPeer::default()
    }
}

/// Pods of an operator, wherever it is installed.
fn operator(label: &str, value: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector::default()),
        ..near(labelled(label, value))
    }
}

fn ports(numbers: &[i32]) -> Option<Vec<NetworkPolicyPort>> {
    let port = |number: &i32| NetworkPolicyPort {
        port: Some(IntOrString::Int(*number)),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    Some(numbers.iter().map(port).collect())
}

/// The policy of one server: members speak with each other, their operator with them, and others as said.
fn policy(
    draft: &Draft<'_>,
    server: &str,
    operator: Option<NetworkPolicyPeer>,
    others: NetworkPolicyIngressRule,
) -> Value {
    let mut from = vec![near(pods(server))];
    from.extend(operator);
    let members = NetworkPolicyIngressRule {
        from: Some(from),
        ..NetworkPolicyIngressRule::default()
    };
    whole(&NetworkPolicy {
        metadata: draft.metadata(server),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pods(server)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![others, members]),
            ..NetworkPolicySpec::default()
        }),
    })
}

/// Services and their jobs are in the namespace of the cloud.
fn from_here(numbers: &[i32]) -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        from: Some(vec![near(LabelSelector::default())]),
        ports: ports(numbers),
    }
}

pub(super) fn database(draft: &Draft<'_>) -> Value {
    let operator = operator("name", "mariadb-operator");
    policy(draft, DATABASE, Some(operator), from_here(&[3306]))
}

pub(super) fn cache(draft: &Draft<'_>) -> Value {
    policy(draft, CACHE, None, from_here(&[11211]))
}

/// Agents of hypervisors use the network of their node or come from another cluster: no selector names
/// them. The bus knows each by its account.
pub(super) fn messaging(draft: &Draft<'_>) -> Value {
    let bus = NetworkPolicyIngressRule {
        ports: ports(&[5671, 5672]),
        ..NetworkPolicyIngressRule::default()
    };
    policy(draft, MESSAGING, Some(operator("part-of", "rabbitmq")), bus)
}
