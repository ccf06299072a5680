//! Applies objects to a cluster, as `kubectl apply --server-side` does.

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cloud::health::{kind, name, text};
use crate::failure::Failure;

const MANAGER: &str = "c5c3-up";

/// Applies an object, and makes its namespace when that is missing.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<(), Failure> {
    let version = text(object, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let wanted = GroupVersionKind::gvk(group, version, kind(object));
    let (resource, capabilities) = pinned_kind(client, &wanted)
        .await
        .with_context(|| unknown(group, kind(object)))?;
    let mut object = object.clone();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => {
            // Reading a file gives every object a namespace: only the server knows the scope.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("namespace");
            }
            Api::all_with(client.clone(), &resource)
        }
        Scope::Namespaced => {
            let place = text(&object, "/metadata/namespace");
            namespace(client, place).await?;
            Api::namespaced_with(client.clone(), place, &resource)
        }
    };
    api.patch(
        name(&object),
        &PatchParams::apply(MANAGER).force(),
        &Patch::Apply(&object),
    )
    .await
    .map(drop)
    .map_err(|error| said(&object, error))
}

/// One that is there is left as it is: its labels are somebody's.
pub(crate) async fn namespace(client: &Client, name: &str) -> Result<(), Failure> {
    let api: Api<Namespace> = Api::all(client.clone());
    if api.get_metadata_opt(name).await?.is_some() {
        return Ok(());
    }
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    api.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(&object))
        .await
        .map(drop)
        .map_err(|error| said(&json!(object), error))
}

fn unknown(group: &str, kind: &str) -> String {
    let ours = c5c3_api::registry().iter().any(|known| known.group == group);
    let way_out = if ours {
        "; if it was started with --cluster-only, run `c5c3 down`, then `c5c3 up`"
    } else {
        ""
    };
    format!("the cluster has no kind {kind} in API group {group:?}{way_out}")
}

/// What the server refuses is the caller's to correct.
fn said(object: &Value, error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if (400..500).contains(&status.code) => {
            Failure::Usage(format!("{} {}: {}", kind(object), name(object), status.message))
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_our_kinds_is_named_as_such() {
        assert!(unknown("c5c3.io", "ControlPlane").contains("--cluster-only"));
        assert_eq!(
            unknown("x.io", "Toaster"),
            "the cluster has no kind Toaster in API group \"x.io\""
        );
    }
}
