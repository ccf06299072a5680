//! The few things that are special to one kind. Everything else about a kind is data.

mod crd;
mod crd_validate;
mod cron;
mod data;
mod immutable;
mod job;
mod namespace;
mod paths;
mod pod;
mod pod_parts;
mod runtime;
mod secret;
mod service;
mod volume;
mod workload;

use apimachinery::field::FieldError;
use serde_json::Value;
use tokio::sync::MutexGuard;

use crate::{
    cluster::Cluster,
    identity::Identity,
    pod_security,
    registry::{Kind, Schema},
    serve::{Call, Warnings},
    status::{ApiError, Reason, Result},
};

pub use crd::{ESTABLISHED, FINALIZER as CRD_FINALIZER, condition, judge_names, set_condition};
pub use service::ServiceNetwork;

/// Where a write happens.
pub struct Context<'a> {
    pub cluster: &'a Cluster,
    pub identity: &'a Identity,
    pub kind: &'a Kind,
    pub subresource: &'a str,
    pub warnings: &'a Warnings,
}

impl<'a> Context<'a> {
    pub fn of(call: &'a Call, kind: &'a Kind, subresource: &'a str) -> Self {
        Context {
            cluster: &call.cluster,
            identity: &call.identity,
            kind,
            subresource,
            warnings: &call.warnings,
        }
    }

    pub fn resource(&self) -> (&str, &str) {
        (self.kind.group.as_str(), self.kind.plural.as_str())
    }
}

/// Held over a whole write of kinds whose objects must agree with each other.
pub async fn write_guard<'a>(context: &Context<'a>) -> Option<MutexGuard<'a, ()>> {
    match context.resource() {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            Some(context.cluster.crd_writes.lock().await)
        }
        ("", "services") => Some(context.cluster.services.writes().lock().await),
        _ => None,
    }
}

/// What the server's own admission adds or refuses, before anything else.
pub fn admit(context: &Context<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    if old.is_none()
        && let Schema::Custom(schema) = &context.kind.schema
        && let Some(crd) = context.cluster.get(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "",
            &schema.crd,
        )
        && !crd.value()["metadata"]["deletionTimestamp"].is_null()
    {
        return Err(ApiError::new(
            http::StatusCode::METHOD_NOT_ALLOWED,
            Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    match context.resource() {
        ("", "pods") if old.is_none() => pod::admit(context, object),
        _ => Ok(()),
    }
}

/// What a refusal before naming calls the object. Kubernetes' admission says the prefix too: a
/// name made up by the server says nothing to whoever asked, and another with each try.
pub fn sent_name(object: &Value) -> &str {
    let given = ["name", "generateName"].iter().find_map(|field| {
        object["metadata"][*field]
            .as_str()
            .filter(|name| !name.is_empty())
    });
    given.unwrap_or("Unknown")
}

/// Fields that the server fills in.
pub fn prepare(context: &Context<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    match context.resource() {
        ("", "namespaces") => namespace::prepare(object, old),
        ("", "secrets") => secret::prepare(object),
        ("", "services") => service::prepare(context, object, old)?,
        ("", "pods") => pod::prepare(object, old),
        ("batch", "jobs") => job::prepare(object, old),
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::prepare(context, object, old),
        _ => {}
    }
    Ok(())
}

/// Faults that the schema does not express.
pub fn validate(context: &Context<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = match old {
        Some(old) if context.subresource != "status" => immutable::validate(context, object, old),
        _ => Vec::new(),
    };
    if context.subresource == "status" {
        return errors;
    }
    match context.resource() {
        ("apps", _) | ("batch", "jobs") => errors.extend(workload::validate(context.kind, object)),
        ("batch", "cronjobs") => errors.extend(cron::validate(object)),
        ("", "services") => errors.extend(service::validate(context, object, old)),
        ("", "pods") => errors.extend(pod::validate(context, object, old)),
        ("", "configmaps") => errors.extend(data::config_map(object)),
        ("", "secrets") => errors.extend(secret::validate(object)),
        ("", "persistentvolumes") => errors.extend(paths::persistent_volume(object)),
        ("", "podtemplates") => errors.extend(workload::template(&object["template"], "template")),
        ("", "replicationcontrollers") => {
            errors.extend(workload::template(&object["spec"]["template"], "spec.template"));
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            errors.extend(crd_validate::validate(object, old));
        }
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => errors.extend(crate::admission::check(object)),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            errors.extend(crate::admission::check_policy(object));
        }
        _ => {}
    }
    errors
}

/// The last word on an object that is valid: rules that a namespace has for what is in it.
pub fn judge(context: &Context<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    pod_security::judge(context, object, old)
}

/// Called once a write is visible.
pub fn after_write(context: &Context<'_>) {
    if context
        .kind
        .is("apiextensions.k8s.io", "customresourcedefinitions")
    {
        crate::crds::refresh(context.cluster);
    }
}

/// Objects that may not be deleted.
pub fn check_delete(context: &Context<'_>, live: &Value) -> Result<()> {
    if context.kind.is("", "namespaces") {
        return namespace::check_delete(live);
    }
    Ok(())
}

/// Seconds that a deleted object has left: only pods that run somewhere get any.
pub fn grace_period(kind: &Kind, live: &Value, asked: Option<i64>) -> i64 {
    if kind.is("", "pods") {
        pod::grace_period(live, asked)
    } else {
        0
    }
}
