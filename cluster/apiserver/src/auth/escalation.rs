//! Nobody may grant more than they have: roles and bindings are checked when they are written.

use apimachinery::field::ErrorType;
use serde::Deserialize;
use serde_json::Value;

use super::rbac::{GROUP, Rule, Snapshot};
use crate::{
    identity::{Attributes, Identity},
    registry::Kind,
    status::{ApiError, Cause},
};

pub(super) fn check(
    roles: &Snapshot,
    identity: &Identity,
    kind: &Kind,
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    let may = |verb: &str, resource: &str, name: &str| {
        let attributes = Attributes {
            verb: verb.into(),
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        roles.authorize(identity, &attributes).allowed
    };
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    match kind.plural.as_str() {
        "roles" | "clusterroles" => {
            let unchanged = old.is_some_and(|old| {
                old["rules"] == new["rules"] && old["aggregationRule"] == new["aggregationRule"]
            });
            if unchanged || may("escalate", &kind.plural, name) {
                return Ok(());
            }
            // Aggregation takes rules that nobody has looked at.
            if new["aggregationRule"].is_object() {
                return Err(refuse(
                    kind,
                    name,
                    identity,
                    "must have cluster-admin privileges to use the aggregationRule",
                ));
            }
            let granted = rules(kind, name, &new["rules"])?;
            held(roles, identity, namespace, &granted)
                .map_err(|missing| lacking(kind, name, identity, &missing))
        }
        "rolebindings" | "clusterrolebindings" => {
            let reference = &new["roleRef"];
            if let Some(old) = old
                && old["roleRef"] != *reference
            {
                let cause = Cause {
                    reason: ErrorType::Invalid.into(),
                    message: format!("Invalid value: {reference}: cannot change roleRef"),
                    field: "roleRef".to_owned(),
                };
                return Err(ApiError::invalid(GROUP, &kind.kind, name, vec![cause]));
            }
            let (role_kind, role) = (
                reference["kind"].as_str().unwrap_or_default(),
                reference["name"].as_str().unwrap_or_default(),
            );
            let resource = if role_kind == "ClusterRole" {
                "clusterroles"
            } else {
                "roles"
            };
            let unchanged = old.is_some_and(|old| old["subjects"] == new["subjects"]);
            if unchanged || may("bind", resource, role) {
                return Ok(());
            }
            let Some(granted) = roles.role_rules(namespace, role_kind, role) else {
                return Err(ApiError::not_found(GROUP, resource, role));
            };
            held(roles, identity, namespace, &granted)
                .map_err(|missing| lacking(kind, name, identity, &missing))
        }
        _ => Ok(()),
    }
}

/// Rules that cannot be read cannot be weighed, so nobody may grant them.
fn rules(kind: &Kind, name: &str, value: &Value) -> Result<Vec<Rule>, ApiError> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    Vec::deserialize(value).map_err(|error| {
        let cause = Cause {
            reason: ErrorType::Invalid.into(),
            message: format!("Invalid value: the rules cannot be read: {error}"),
            field: "rules".to_owned(),
        };
        ApiError::invalid(GROUP, &kind.kind, name, vec![cause])
    })
}

/// The parts of `granted` that the identity lacks.
fn held(roles: &Snapshot, identity: &Identity, namespace: &str, granted: &[Rule]) -> Result<(), Vec<Rule>> {
    let own = roles.rules_for(identity, namespace);
    let missing: Vec<Rule> = granted
        .iter()
        .flat_map(Rule::parts)
        .filter(|part| !own.iter().any(|rule| rule.covers(part)))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

fn lacking(kind: &Kind, name: &str, identity: &Identity, missing: &[Rule]) -> ApiError {
    let list: Vec<String> = missing.iter().map(Rule::to_string).collect();
    let what = format!(
        "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{}",
        identity.user,
        identity.groups,
        list.join("\n")
    );
    ApiError::forbidden(GROUP, &kind.plural, name, &what)
}

fn refuse(kind: &Kind, name: &str, identity: &Identity, why: &str) -> ApiError {
    ApiError::forbidden(
        GROUP,
        &kind.plural,
        name,
        &format!("user {:?} {why}", identity.user),
    )
}
