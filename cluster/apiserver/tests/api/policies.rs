//! ValidatingAdmissionPolicies refuse by expression, where a binding puts them in force.

use http::Method;
use serde_json::{Value, json};

use crate::support::{MAPS, Running, call, call_as, config_map, post, start};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(spec: Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "small"}, "spec": spec})
}

fn small() -> Value {
    policy(json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
        "matchConditions": [{"name": "not-mine", "expression": "object.metadata.name != 'mine'"}],
        "validations": [{"expression": "!has(object.data) || object.data.size() < 2",
            "messageExpression": "object.metadata.name + ' has ' + string(object.data.size()) + ' keys'",
            "reason": "Forbidden"}],
    }))
}

fn binding(actions: &[&str]) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "everywhere"}, "spec": {"policyName": "small", "validationActions": actions}})
}

async fn made(running: &Running, name: &str) -> (u16, Value) {
    post(
        &running.client,
        MAPS,
        config_map(name, json!({"a": "1", "b": "2"})),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_refuses_once_it_is_bound() {
    let running = start().await;
    let (code, said) = post(&running.client, POLICIES, small()).await;
    assert_eq!(code, 201, "{said}");
    assert_eq!(made(&running, "unbound").await.0, 201);
    let (code, said) = post(&running.client, BINDINGS, binding(&["Deny"])).await;
    assert_eq!(code, 201, "{said}");
    let (code, said) = made(&running, "large").await;
    assert_eq!((code, &said["reason"]), (403, &json!("Forbidden")), "{said}");
    assert_eq!(
        said["message"],
        "configmaps \"large\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'everywhere' denied \
         request: large has 2 keys"
    );
    assert_eq!(made(&running, "mine").await.0, 201, "the condition leaves it out");
    let patch = json!({"data": {"c": "3"}}).to_string();
    let path = format!("{MAPS}/unbound");
    let media = "application/merge-patch+json";
    let (code, said) = call_as(&running.client, Method::PATCH, &path, media, patch).await;
    assert_eq!(code, 403, "changes as well: {said}");
    let (code, said) = call(
        &running.client,
        Method::PUT,
        &format!("{BINDINGS}/everywhere"),
        binding(&["Audit"]),
    )
    .await;
    assert_eq!(code, 200, "{said}");
    assert_eq!(made(&running, "large").await.0, 201);
    running.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_has_no_answer_refuses_unless_it_says_otherwise() {
    let running = start().await;
    let mut odd = small();
    odd["spec"]["validations"] = json!([{"expression": "object.data.missing == 'x'"}]);
    assert_eq!(post(&running.client, POLICIES, odd.clone()).await.0, 201);
    assert_eq!(post(&running.client, BINDINGS, binding(&["Deny"])).await.0, 201);
    let (code, said) = made(&running, "any").await;
    assert_eq!(code, 422, "{said}");
    assert!(
        said["message"].as_str().unwrap().contains("no such key"),
        "{said}"
    );
    odd["spec"]["failurePolicy"] = json!("Ignore");
    let path = format!("{POLICIES}/small");
    assert_eq!(call(&running.client, Method::PUT, &path, odd).await.0, 200);
    assert_eq!(made(&running, "any").await.0, 201);
    running.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_are_checked_when_they_are_written() {
    let running = start().await;
    let mut wrong = small();
    wrong["spec"]["validations"][0]["expression"] = json!("object.");
    let (code, said) = post(&running.client, POLICIES, wrong).await;
    assert_eq!(code, 422, "{said}");
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("spec.validations[0].expression"),
        "{said}"
    );
    let mut unknown = small();
    unknown["spec"]["variables"] = json!([{"name": "x", "expression": "1"}]);
    unknown["spec"]["validations"][0]["expression"] = json!("variables.x == 2");
    assert_eq!(post(&running.client, POLICIES, unknown).await.0, 201);
    assert_eq!(post(&running.client, BINDINGS, binding(&["Deny"])).await.0, 201);
    assert_eq!(made(&running, "any").await.0, 201, "kept, not enforced");
    running.server.shutdown().await;
}
