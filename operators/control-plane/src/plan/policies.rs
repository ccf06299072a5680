//! Who may speak with database, cache and message bus. What is not named here can be added by policies of
//! others: they only ever allow more.

use serde_json::{Value, json};

use super::Draft;
use super::infrastructure::{CACHE, DATABASE, MESSAGING};

/// The pods of a server, under its own operator and under the stand-in alike.
fn pods(server: &str) -> Value {
    json!({"matchLabels": {"app.kubernetes.io/name": server}})
}

fn ports(numbers: &[u16]) -> Value {
    let port = |number: &u16| json!({"port": number, "protocol": "TCP"});
    numbers.iter().map(port).collect()
}

/// Pods of an operator, wherever it is installed.
fn operator(label: &str, value: &str) -> Value {
    json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {format!("app.kubernetes.io/{label}"): value}}})
}

/// The policy of one server: members speak with each other, their operator with them, and others as said.
fn policy(draft: &Draft<'_>, server: &str, operator: Option<Value>, mut ingress: Vec<Value>) -> Value {
    let mut near = vec![json!({"podSelector": pods(server)})];
    near.extend(operator);
    ingress.push(json!({"from": near}));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"namespace": draft.namespace, "name": server},
        "spec": {"podSelector": pods(server), "policyTypes": ["Ingress"], "ingress": ingress},
    })
}

/// Services and their jobs are in the namespace of the cloud.
fn from_here(numbers: &[u16]) -> Value {
    json!({"from": [{"podSelector": {}}], "ports": ports(numbers)})
}

pub(super) fn database(draft: &Draft<'_>) -> Value {
    let operator = operator("name", "mariadb-operator");
    policy(draft, DATABASE, Some(operator), vec![from_here(&[3306])])
}

pub(super) fn cache(draft: &Draft<'_>) -> Value {
    policy(draft, CACHE, None, vec![from_here(&[11211])])
}

/// Agents of hypervisors use the network of their node or come from another cluster: no selector names
/// them. The bus knows each by its account.
pub(super) fn messaging(draft: &Draft<'_>) -> Value {
    let bus = json!({"ports": ports(&[5671, 5672])});
    policy(draft, MESSAGING, Some(operator("part-of", "rabbitmq")), vec![bus])
}
