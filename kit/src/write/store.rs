//! The few API calls that the kit makes, on JSON, so that one code serves every kind.

use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, Patch, PatchParams, PostParams, Preconditions, Request,
};
use kube::core::{ApiResource, Resource};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::Key;
use crate::process::metrics::Metrics;

/// Attempts when other writers keep changing the object.
pub(crate) const TRIES: u32 = 5;

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

    pub(crate) async fn get(&self, key: &Key) -> kube::Result<Option<Value>> {
        let request = self.request(key).get(&key.name, &GetParams::default());
        absent(
            self.client
                .request(request.map_err(kube::Error::BuildRequest)?)
                .await,
        )
    }

    /// Server-side apply. The controller says what its fields are, so it takes them. A conflict
    /// when the object is not the one in `on` any more, in identity or version.
    pub(crate) async fn apply(&self, key: &Key, body: &Value, on: Option<&Value>) -> kube::Result<Value> {
        self.count("apply");
        let params = PatchParams::apply(self.controller).force();
        let patch = Patch::Apply(resting_on(body, on));
        let request = self.request(key).patch(&key.name, &params, &patch);
        self.client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await
    }

    /// The same for the status. `None`: there is no such object.
    pub(crate) async fn apply_status(
        &self,
        key: &Key,
        body: &Value,
        on: &Value,
    ) -> kube::Result<Option<Value>> {
        self.count("apply-status");
        let params = PatchParams::apply(self.controller).force();
        let patch = Patch::Apply(resting_on(body, Some(on)));
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
    pub(crate) async fn patch(&self, key: &Key, patch: json_patch::Patch) -> kube::Result<Option<Value>> {
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
    pub(crate) async fn delete(&self, key: &Key, uid: &str) -> kube::Result<bool> {
        self.count("delete");
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let request = self.request(key).delete(&key.name, &params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        absent(self.client.request::<Value>(request).await).map(|answer| answer.is_some())
    }

    pub(crate) async fn create(&self, key: &Key, body: &impl Serialize) -> kube::Result<Value> {
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

/// Both are needed: for the status of a custom resource the server passes over another uid, and
/// only by the uid it knows that an object which is gone is not to be made.
fn resting_on(body: &Value, live: Option<&Value>) -> Value {
    let mut body = body.clone();
    for field in ["uid", "resourceVersion"] {
        if let Some(value) = live.and_then(|live| live.get("metadata")?.get(field)) {
            body["metadata"][field] = value.clone();
        }
    }
    body
}

/// The object is not what the request took it for.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// The same for a JSON patch, of which the test of the version failed: an answer without a cause,
/// unlike that to an object which is not valid.
pub(crate) fn is_outrun(error: &kube::Error) -> bool {
    let caused = |status: &kube::core::Status| status.details.as_ref().is_some_and(|d| !d.causes.is_empty());
    is_conflict(error) || matches!(error, kube::Error::Api(status) if status.code == 422 && !caused(status))
}

fn absent<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_write_names_the_very_object_on_which_it_rests() {
        let body = json!({"metadata": {"name": "a"}, "status": {}});
        let live = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {}}});
        let sent = resting_on(&body, Some(&live));
        let named = json!({"name": "a", "uid": "u", "resourceVersion": "7"});
        assert_eq!(sent["metadata"], named);
        assert_eq!(resting_on(&body, None), body);
    }

    #[test]
    fn somebody_faster_is_told_apart_from_a_refusal() {
        let answer = |code: u16, causes: Value| {
            let status = json!({"status": "Failure", "code": code, "details": {"causes": causes}});
            kube::Error::Api(serde_json::from_value(status).expect("a status"))
        };
        let invalid = json!([{"field": "spec", "message": "no", "reason": "FieldValueInvalid"}]);
        for (error, outrun) in [
            (answer(409, json!([])), true),
            (answer(422, json!([])), true),
            (answer(422, invalid), false),
            (answer(403, json!([])), false),
        ] {
            assert_eq!(is_outrun(&error), outrun, "{error:?}");
        }
    }
}
