//! ValidatingAdmissionPolicies: expressions that refuse what is about to be written. Pure.
//!
//! Parameters, composed variables and the authorizer are not known here: a policy that uses them is kept and
//! does nothing, which the writer is told.

use apimachinery::{
    cel::{Condition, Message},
    field::FieldError,
    selector::LabelSelectorSpec,
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::hook::{ConditionWire, VARIABLES, compiled};
use super::matching::{Reach, Rule, Subject, selector, version};
use crate::status::{ApiError, Reason, qualified};

const NAMESPACE: &str = "namespaceObject";

fn variables() -> [&'static str; 4] {
    let [object, old, request] = VARIABLES;
    [object, old, request, NAMESPACE]
}

#[derive(Debug)]
pub(super) struct Policy {
    pub name: String,
    reach: Reach,
    conditions: Vec<(String, Condition)>,
    validations: Vec<Validation>,
    /// What has no answer is refused.
    fail: bool,
}

#[derive(Debug)]
struct Validation {
    expression: String,
    condition: Condition,
    message: Option<String>,
    computed: Option<Message>,
    reason: Refusal,
}

/// Those that a policy may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Refusal {
    Unauthorized,
    Forbidden,
    #[default]
    Invalid,
    RequestEntityTooLarge,
}

/// Where a policy is in force.
#[derive(Debug)]
pub(super) struct Binding {
    pub name: String,
    pub policy: String,
    reach: Option<Reach>,
    deny: bool,
    warn: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    match_constraints: MatchWire,
    #[serde(default)]
    match_conditions: Vec<ConditionWire>,
    #[serde(default)]
    validations: Vec<ValidationWire>,
    failure_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MatchWire {
    resource_rules: Vec<Rule>,
    exclude_resource_rules: Vec<Rule>,
    namespace_selector: Option<LabelSelectorSpec>,
    object_selector: Option<LabelSelectorSpec>,
    match_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValidationWire {
    expression: String,
    message: Option<String>,
    message_expression: Option<String>,
    #[serde(default)]
    reason: Refusal,
}

impl MatchWire {
    fn reach(self) -> Result<Reach, String> {
        Ok(Reach {
            rules: self.resource_rules,
            but: self.exclude_resource_rules,
            namespaces: selector(self.namespace_selector)?,
            objects: selector(self.object_selector)?,
            exact: self.match_policy.as_deref() == Some("Exact"),
        })
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// What of a policy is not known here.
pub(super) fn beyond(object: &Value) -> Option<&'static str> {
    let spec = &object["spec"];
    let filled = |field: &str| spec[field].as_array().is_some_and(|list| !list.is_empty());
    match () {
        () if !spec["paramKind"].is_null() => Some("spec.paramKind"),
        () if filled("variables") => Some("spec.variables"),
        () if spec.to_string().contains("authorizer.") => Some("authorizer"),
        () => None,
    }
}

/// `None`: it uses what is not known here.
pub(super) fn read(object: &Value) -> Result<Option<Policy>, String> {
    if beyond(object).is_some() {
        return Ok(None);
    }
    let wire = Wire::deserialize(&object["spec"]).map_err(|error| error.to_string())?;
    let validation = |wire: ValidationWire| -> Result<Validation, String> {
        let computed = wire.message_expression.as_deref();
        Ok(Validation {
            condition: Condition::compile(&wire.expression, &variables())?,
            computed: computed
                .map(|text| Message::compile(text, &variables()))
                .transpose()?,
            expression: wire.expression,
            message: wire.message,
            reason: wire.reason,
        })
    };
    Ok(Some(Policy {
        name: name(object),
        reach: wire.match_constraints.reach()?,
        conditions: compiled(wire.match_conditions, &variables())?,
        validations: wire
            .validations
            .into_iter()
            .map(validation)
            .collect::<Result<_, _>>()?,
        fail: wire.failure_policy.as_deref() != Some("Ignore"),
    }))
}

pub(super) fn binding(object: &Value) -> Result<Binding, String> {
    let spec = &object["spec"];
    let reach = match &spec["matchResources"] {
        Value::Null => None,
        reach => Some(MatchWire::deserialize(reach).map_err(|error| error.to_string())?),
    };
    let acts = |action: &str| {
        let mut actions = spec["validationActions"].as_array().into_iter().flatten();
        actions.any(|one| one == action)
    };
    Ok(Binding {
        name: name(object),
        policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
        reach: reach.map(MatchWire::reach).transpose()?,
        deny: acts("Deny"),
        warn: acts("Warn"),
    })
}

/// What is wrong with a policy that somebody writes.
pub(crate) fn check(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    if beyond(object).is_some() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let entries = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let mut compile = |at: String, entry: &Value, field: &str, text: bool| {
        let Some(source) = entry[field].as_str() else {
            return;
        };
        let wrong = if text {
            Message::compile(source, &variables()).err()
        } else {
            Condition::compile(source, &variables()).err()
        };
        if let Some(why) = wrong {
            errors.push(FieldError::invalid(format!("{at}.{field}"), source, why));
        }
    };
    for (i, entry) in entries("validations").iter().enumerate() {
        let at = format!("spec.validations[{i}]");
        compile(at.clone(), entry, "expression", false);
        compile(at, entry, "messageExpression", true);
    }
    for (i, entry) in entries("matchConditions").iter().enumerate() {
        compile(format!("spec.matchConditions[{i}]"), entry, "expression", false);
    }
    errors
}

/// A refusal, or what the writer is told beside the answer.
pub(super) enum Verdict {
    Refused(ApiError),
    Warned(String),
}

impl Policy {
    /// Does the write concern the policy under this binding?
    pub(super) fn version(&self, binding: &Binding, subject: &Subject<'_>) -> Option<String> {
        let here = match &binding.reach {
            // Without rules of its own a binding only selects.
            Some(reach) if reach.rules.is_empty() => {
                let all = Reach {
                    rules: vec![everything()],
                    but: reach.but.clone(),
                    namespaces: reach.namespaces.clone(),
                    objects: reach.objects.clone(),
                    exact: reach.exact,
                };
                version(&all, subject).is_some()
            }
            Some(reach) => version(reach, subject).is_some(),
            None => true,
        };
        version(&self.reach, subject).filter(|_| here)
    }

    pub(super) fn judge(&self, binding: &Binding, subject: &Subject<'_>, request: &Value) -> Vec<Verdict> {
        let none = &Value::Null;
        let values = [
            ("object", subject.object.unwrap_or(none)),
            ("oldObject", subject.old.unwrap_or(none)),
            ("request", request),
            (NAMESPACE, subject.namespace.unwrap_or(none)),
        ];
        let mut said = Vec::new();
        let mut wrong = None;
        for (name, condition) in &self.conditions {
            match condition.holds(&values) {
                Ok(true) => {}
                Ok(false) => return Vec::new(),
                Err(why) => wrong = Some(format!("match condition {name:?}: {why}")),
            }
        }
        if let Some(why) = wrong {
            return self.failed(binding, subject, &why).into_iter().collect();
        }
        for validation in &self.validations {
            match validation.condition.holds(&values) {
                Ok(true) => {}
                Ok(false) => {
                    said.extend(self.told(binding, subject, validation.reason, &validation.said(&values)));
                }
                Err(why) => {
                    let why = format!("expression '{}' resulted in error: {why}", validation.expression);
                    said.extend(self.failed(binding, subject, &why));
                }
            }
        }
        said
    }

    fn failed(&self, binding: &Binding, subject: &Subject<'_>, why: &str) -> Option<Verdict> {
        if !self.fail {
            tracing::warn!("ValidatingAdmissionPolicy {}: {why}; it is ignored", self.name);
            return None;
        }
        self.told(binding, subject, Refusal::Invalid, why)
    }

    fn told(&self, binding: &Binding, subject: &Subject<'_>, reason: Refusal, why: &str) -> Option<Verdict> {
        let (own, other) = (&self.name, &binding.name);
        if binding.deny {
            let what =
                format!("ValidatingAdmissionPolicy '{own}' with binding '{other}' denied request: {why}");
            return Some(Verdict::Refused(refusal(subject, reason, &what)));
        }
        let text =
            format!("Validation failed for ValidatingAdmissionPolicy '{own}' with binding '{other}': {why}");
        binding.warn.then_some(Verdict::Warned(text))
    }
}

impl Validation {
    fn said(&self, values: &[(&str, &Value)]) -> String {
        let computed = self
            .computed
            .as_ref()
            .and_then(|message| message.text(values).ok());
        let computed = computed.filter(|text| !text.trim().is_empty());
        computed
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed expression: {}", self.expression.trim()))
    }
}

fn everything() -> Rule {
    let all = || vec!["*".to_owned()];
    Rule {
        operations: all(),
        api_groups: all(),
        api_versions: all(),
        resources: vec!["*/*".to_owned()],
        ..Rule::default()
    }
}

/// As Kubernetes does: forbidden in words, with the code of the reason.
fn refusal(subject: &Subject<'_>, reason: Refusal, what: &str) -> ApiError {
    let (code, reason) = match reason {
        Refusal::Unauthorized => (StatusCode::UNAUTHORIZED, Reason::Unauthorized),
        Refusal::Forbidden => (StatusCode::FORBIDDEN, Reason::Forbidden),
        Refusal::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid),
        Refusal::RequestEntityTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge),
    };
    let kind = subject.kind;
    let named = qualified(&kind.plural, &kind.group);
    ApiError::new(
        code,
        reason,
        format!("{named} {:?} is forbidden: {what}", subject.name),
    )
}
