//! Actions become requests.

use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::Clients;
use crate::action::{Action, Target, text};
use crate::world::resource;

/// Why an action was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Failure {
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }

    /// In the server's words, where they are its.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Api(kube::Error::Api(status)) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// What the server answered.
pub(crate) enum Learned {
    Object(Value),
    Gone(Target),
    /// Another object has the name.
    Taken,
    Nothing,
}

fn api(client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>, kube::Error> {
    // Actions name only kinds of the table.
    let resource = resource(kind).ok_or(kube::Error::LinesCodecMaxLineLengthExceeded)?;
    Ok(match namespace {
        "" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

pub(crate) async fn carry_out(clients: &Clients, action: Action) -> Result<Learned, Failure> {
    let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    let client = match &action {
        Action::Bind { .. } => &clients.scheduler,
        _ => &clients.controllers,
    };
    match action {
        Action::Create(object) => {
            let api = api(
                client,
                text(&object, "/kind"),
                text(&object, "/metadata/namespace"),
            )?;
            let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
            match api.create(&PostParams::default(), &object).await {
                Ok(made) => Ok(learned(made)),
                // Somebody was faster, and the watch will tell; or another has the name and may go.
                Err(kube::Error::Api(status)) if status.code == 409 && object.metadata.name.is_some() => {
                    Ok(Learned::Taken)
                }
                Err(error) => Err(error.into()),
            }
        }
        Action::Patch {
            target,
            subresource,
            body,
        } => {
            let api = api(client, &target.kind, &target.key.0)?;
            let (params, patch) = (PatchParams::default(), Patch::Merge(&body));
            let answer = match subresource {
                Some(sub) => api.patch_subresource(sub, &target.key.1, &params, &patch).await,
                None => api.patch(&target.key.1, &params, &patch).await,
            };
            match answer {
                Ok(object) if is_over(&object.metadata) => Ok(Learned::Gone(target)),
                Ok(object) => Ok(learned(object)),
                Err(error) if gone(&error) => Ok(Learned::Nothing),
                Err(error) => Err(error.into()),
            }
        }
        Action::Delete { target, grace } => {
            let api = api(client, &target.kind, &target.key.0)?;
            let params = DeleteParams {
                grace_period_seconds: grace,
                propagation_policy: Some(kube::api::PropagationPolicy::Background),
                preconditions: Some(Preconditions {
                    uid: Some(target.uid.clone()).filter(|uid| !uid.is_empty()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match api.delete(&target.key.1, &params).await {
                Ok(answer) => Ok(
                    match answer
                        .left()
                        .filter(|object| object.metadata.deletion_timestamp.is_some())
                    {
                        Some(object) => learned(object),
                        None => Learned::Gone(target),
                    },
                ),
                Err(error) if gone(&error) => Ok(Learned::Gone(target)),
                // Another object has the name by now.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Learned::Nothing),
                Err(error) => Err(error.into()),
            }
        }
        Action::Bind { target, node } => {
            let api = api(client, "Pod", &target.key.0)?;
            let binding = binding(&target, node);
            let _: Value = match api
                .create_subresource("binding", &target.key.1, &PostParams::default(), &binding)
                .await
            {
                Ok(answer) => answer,
                Err(error) if gone(&error) => return Ok(Learned::Nothing),
                Err(error) => return Err(error.into()),
            };
            // Read back, so that the next pod is placed with this one in sight.
            Ok(api
                .get_opt(&target.key.1)
                .await?
                .map_or(Learned::Nothing, learned))
        }
        // The engine writes events and removes directories.
        Action::Event { .. } | Action::RemoveDirectory { .. } => Ok(Learned::Nothing),
    }
}

fn binding(target: &Target, node: String) -> Binding {
    Binding {
        metadata: ObjectMeta {
            namespace: Some(target.key.0.clone()),
            name: Some(target.key.1.clone()),
            uid: Some(target.uid.clone()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node),
            ..ObjectReference::default()
        },
    }
}

/// The server answers the removal of a deleted object's last finalizer with the object, although it no
/// longer exists.
fn is_over(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
}

fn learned(mut object: DynamicObject) -> Learned {
    object.managed_fields_mut().clear();
    serde_json::to_value(object).map_or(Learned::Nothing, Learned::Object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_deleted_object_that_nothing_keeps_is_gone() {
        let over = |meta: Value| is_over(&serde_json::from_value(meta).expect("metadata"));
        let deleted = "2026-01-01T00:00:00Z";
        assert!(over(
            json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0})
        ));
        assert!(over(json!({"deletionTimestamp": deleted, "finalizers": []})));
        assert!(!over(json!({"name": "lives"})));
        assert!(!over(json!({"deletionTimestamp": deleted, "finalizers": ["x"]})));
        assert!(
            !over(json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30})),
            "a pod that is ending"
        );
    }
}
