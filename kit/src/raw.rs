//! The few API calls that the kit makes, on JSON, so that one code serves every kind.

use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, Patch, PatchParams, PostParams, Preconditions, Request,
};
use kube::core::{ApiResource, Resource};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::Key;
use crate::metrics::Metrics;

/// One kind in one cluster, written to by one controller.
#[derive(Clone)]
pub(crate) struct Store<'a> {
    pub client: &'a Client,
    pub resource: &'a ApiResource,
    pub controller: &'static str,
    pub metrics: &'a Metrics,
}

impl Store<'_> {
    fn request(&self, key: &Key) -> Request {
        Request::new(DynamicObject::url_path(self.resource, key.namespace.as_deref()))
    }

    pub async fn get(&self, key: &Key) -> kube::Result<Option<Value>> {
        let request = self.request(key).get(&key.name, &GetParams::default());
        absent(
            self.client
                .request(request.map_err(kube::Error::BuildRequest)?)
                .await,
        )
    }

    /// Server-side apply. The controller says what its fields are, so it takes them.
    pub async fn apply(&self, key: &Key, body: &Value) -> kube::Result<Value> {
        self.count("apply");
        let params = PatchParams::apply(self.controller).force();
        let request = self.request(key).patch(&key.name, &params, &Patch::Apply(body));
        self.client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await
    }

    pub async fn apply_status(&self, key: &Key, body: &Value) -> kube::Result<Option<Value>> {
        self.count("apply-status");
        let params = PatchParams::apply(self.controller).force();
        let patch = Patch::Apply(body);
        let request = self
            .request(key)
            .patch_subresource("status", &key.name, &params, &patch);
        absent(
            self.client
                .request(request.map_err(kube::Error::BuildRequest)?)
                .await,
        )
    }

    /// A JSON patch never makes an object, unlike an apply.
    pub async fn patch(&self, key: &Key, patch: json_patch::Patch) -> kube::Result<Option<Value>> {
        self.count("patch");
        let params = PatchParams {
            field_manager: Some(self.controller.to_owned()),
            ..PatchParams::default()
        };
        let request = self
            .request(key)
            .patch(&key.name, &params, &Patch::<()>::Json(patch));
        absent(
            self.client
                .request(request.map_err(kube::Error::BuildRequest)?)
                .await,
        )
    }

    /// Deletes the object with this uid and no other of the same name. `false`: it was gone already.
    pub async fn delete(&self, key: &Key, uid: &str) -> kube::Result<bool> {
        self.count("delete");
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let request = self.request(key).delete(&key.name, &params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        absent(self.client.request::<Value>(request).await).map(|answer| answer.is_some())
    }

    pub async fn create(&self, key: &Key, body: &impl Serialize) -> kube::Result<Value> {
        self.count("create");
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = self.request(key).create(&PostParams::default(), body);
        self.client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await
    }

    fn count(&self, verb: &'static str) {
        self.metrics.wrote(self.controller, &self.resource.kind, verb);
    }
}

fn absent<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
