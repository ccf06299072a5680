//! Verbs on resources, the same for every kind.

use http::{Response, StatusCode};

use crate::{
    serve::{self, Body, Call},
    status::{ApiError, Result},
    store::ObjectKey,
};

/// Does what an allowed request asks.
pub async fn serve(call: Call, _body: Body) -> Result<Response<Body>> {
    let a = &call.attributes;
    let registry = call.cluster.registry();
    let kind = registry
        .find(&a.group, &a.version, &a.resource)
        .ok_or_else(ApiError::no_route)?;
    match a.verb.as_str() {
        "get" => {
            let key = ObjectKey::new(if kind.namespaced { &a.namespace } else { "" }, &a.name);
            let stored = call.core.store.get(&call.cluster.collection_of(kind), &key);
            let stored = stored.ok_or_else(|| ApiError::not_found(&a.group, &a.resource, &a.name))?;
            Ok(serve::bytes(StatusCode::OK, stored.bytes.clone()))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}
