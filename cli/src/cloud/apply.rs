//! Brings objects to a cluster as `kubectl apply --server-side` does.

use anyhow::Context;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::failure::Failure;

const MANAGER: &str = "c5c3-up";

pub async fn namespace(client: &Client, name: &str) -> Result<(), Failure> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply(client, &object).await
}

pub async fn apply(client: &Client, object: &Value) -> Result<(), Failure> {
    let api = api(client, object).await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
        .await
        .map(drop)
        .map_err(|error| said(object, error))
}

/// Whether there is one already.
pub async fn exists(client: &Client, object: &Value) -> Result<bool, Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Ok(api(client, object).await?.get_metadata_opt(name).await?.is_some())
}

async fn api(client: &Client, object: &Value) -> Result<Api<DynamicObject>, Failure> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("", text("apiVersion")));
    let wanted = GroupVersionKind::gvk(group, version, text("kind"));
    let (resource, capabilities) = pinned_kind(client, &wanted).await.with_context(|| {
        format!(
            "the cluster does not know {} of {}",
            text("kind"),
            text("apiVersion")
        )
    })?;
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    })
}

/// What the server refuses is the caller's to correct.
fn said(object: &Value, error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if (400..500).contains(&status.code) => Failure::Usage(format!(
            "{} {}: {}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default(),
            status.message
        )),
        other => other.into(),
    }
}
