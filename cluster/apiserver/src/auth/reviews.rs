//! Reviews: asking the server who someone is and what they may do.

use apimachinery::field::ErrorType;
use serde_json::{Value, json};

use super::{
    rbac::{Snapshot, Verdict},
    tokens::Verified,
};
use crate::{
    identity::{Attributes, Identity},
    registry::Kind,
    status::{ApiError, Cause},
};

/// The review with its status filled in.
pub(super) fn answer(
    roles: &Snapshot,
    identity: &Identity,
    kind: &Kind,
    namespace: &str,
    mut review: Value,
    verify: impl Fn(&str, &[String]) -> Result<Verified, String>,
) -> Result<Value, ApiError> {
    let spec = &review["spec"];
    let status = match kind.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user_info(identity)}),
        "TokenReview" => token_review(spec, verify)?,
        "SelfSubjectAccessReview" => access(&roles.authorize(identity, &wanted(kind, spec)?)),
        "SubjectAccessReview" => {
            let subject = subject(kind, spec)?;
            access(&roles.authorize(&subject, &wanted(kind, spec)?))
        }
        "LocalSubjectAccessReview" => {
            let attributes = wanted(kind, spec)?;
            if attributes.namespace != namespace || !attributes.is_resource() {
                let field = "spec.resourceAttributes.namespace";
                let message = format!(
                    "Invalid value: {:?}: must match metadata.namespace",
                    attributes.namespace
                );
                return Err(invalid(kind, field, ErrorType::Invalid, message));
            }
            access(&roles.authorize(&subject(kind, spec)?, &attributes))
        }
        "SelfSubjectRulesReview" => {
            let Some(namespace) = spec["namespace"].as_str().filter(|n| !n.is_empty()) else {
                return Err(ApiError::bad_request("no namespace on request"));
            };
            roles.rules_review(identity, namespace)
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    review["status"] = status;
    Ok(review)
}

fn invalid(kind: &Kind, field: &str, reason: ErrorType, message: String) -> ApiError {
    let cause = Cause {
        reason: reason.into(),
        message,
        field: field.to_owned(),
    };
    ApiError::invalid(&kind.group, &kind.kind, "", vec![cause])
}

fn access(verdict: &Verdict) -> Value {
    let mut status = json!({"allowed": verdict.allowed});
    if !verdict.reason.is_empty() {
        status["reason"] = json!(verdict.reason);
    }
    status
}

/// What the review asks about. Exactly one of the two kinds of attributes must be there.
fn wanted(kind: &Kind, spec: &Value) -> Result<Attributes, ApiError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, false) => {
            let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
            Ok(Attributes {
                verb: text("verb").as_str().into(),
                group: text("group"),
                version: text("version"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
                ..Attributes::default()
            })
        }
        (false, true) => Ok(Attributes {
            verb: path["verb"]
                .as_str()
                .unwrap_or_default()
                .to_lowercase()
                .as_str()
                .into(),
            path: path["path"].as_str().unwrap_or_default().to_owned(),
            ..Attributes::default()
        }),
        (true, true) => Err(invalid(
            kind,
            "spec.nonResourceAttributes",
            ErrorType::Invalid,
            "Invalid value: cannot be specified in combination with resourceAttributes".to_owned(),
        )),
        (false, false) => Err(invalid(
            kind,
            "spec.resourceAttributes",
            ErrorType::Invalid,
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
                .to_owned(),
        )),
    }
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// The groups are taken as given: nobody is authenticated in a review about others.
fn subject(kind: &Kind, spec: &Value) -> Result<Identity, ApiError> {
    let user = spec["user"].as_str().unwrap_or_default().to_owned();
    let groups = texts(&spec["groups"]);
    if user.is_empty() && groups.is_empty() {
        let message = "Invalid value: \"\": at least one of user or group must be specified".to_owned();
        return Err(invalid(kind, "spec.user", ErrorType::Invalid, message));
    }
    let extra = spec["extra"].as_object().into_iter().flatten();
    Ok(Identity {
        user,
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups,
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    })
}

fn token_review(
    spec: &Value,
    verify: impl Fn(&str, &[String]) -> Result<Verified, String>,
) -> Result<Value, ApiError> {
    let Some(token) = spec["token"].as_str().filter(|token| !token.is_empty()) else {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    };
    Ok(match verify(token, &texts(&spec["audiences"])) {
        Ok(verified) => json!({
            "authenticated": true,
            "user": user_info(&verified.identity),
            "audiences": verified.audiences,
        }),
        Err(error) => json!({"user": {}, "error": format!("[invalid bearer token, {error}]")}),
    })
}

fn user_info(identity: &Identity) -> Value {
    let mut info = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        info["uid"] = json!(identity.uid);
    }
    if !identity.extra.is_empty() {
        info["extra"] = json!(identity.extra);
    }
    info
}
