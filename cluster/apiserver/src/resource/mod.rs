//! Verbs on resources, the same for every kind.

mod admit;
mod body;
mod create;
mod delete;
mod eviction;
mod list;
mod options;
mod patch;
mod scale;
mod select;
mod shape;
mod special;
mod surface;
mod update;
mod version;
mod watch;
mod write;

pub(crate) use body::parse;
pub use options::now;
pub(crate) use scale::scale_of;
pub(crate) use special::BINDING;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;

use crate::{
    registry::Kind,
    serve::{self, Body, Call},
    status::{ApiError, Result},
    store::{Collection, ObjectKey, Stored},
    verb::Verb,
};

/// What a request is about.
#[derive(Clone)]
pub struct Target {
    pub kind: Arc<Kind>,
    pub collection: Collection,
    /// Empty for cluster-scoped kinds and for requests over all namespaces.
    pub namespace: String,
    name: String,
    pub subresource: String,
}

impl Target {
    fn of(call: &Call) -> Result<Self> {
        let a = &call.attributes;
        let registry = call.cluster.registry();
        let kind = registry
            .find(&a.group, &a.version, &a.resource)
            .ok_or_else(ApiError::no_route)?
            .clone();
        surface::check(&kind, &a.verb, &call.place, &a.subresource)?;
        Ok(Self {
            collection: call.cluster.collection_of(&kind),
            kind,
            namespace: call.place.namespace.clone().unwrap_or_default(),
            name: call.place.name.clone().unwrap_or_default(),
            subresource: a.subresource.clone(),
        })
    }

    /// The name in the path.
    pub fn name(&self) -> Option<&str> {
        (!self.name.is_empty()).then_some(self.name.as_str())
    }

    /// `None`: all namespaces, or the kind has none.
    pub fn list_namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }

    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.namespace, name)
    }

    pub fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.kind.group, &self.kind.plural, name)
    }

    /// The object of the path as it is stored now.
    pub fn stored(&self, call: &Call) -> Result<Arc<Stored>> {
        call.core
            .store
            .get(&self.collection, &self.key(&self.name))
            .ok_or_else(|| self.not_found(&self.name))
    }
}

/// An answer before it is written: the object, its code, and warnings for the client.
pub struct Outcome {
    pub code: StatusCode,
    pub object: Value,
    pub warnings: Vec<String>,
}

impl Outcome {
    pub fn ok(object: Value) -> Self {
        Self {
            code: StatusCode::OK,
            object,
            warnings: Vec::new(),
        }
    }
}

/// Does what an allowed request asks.
pub async fn serve(call: Call, body: Bytes) -> Result<Response<Body>> {
    let target = Target::of(&call)?;
    let verb = &call.attributes.verb;
    let mut warnings: Vec<String> = target.kind.deprecated.clone().into_iter().collect();
    let mut outcome = match (verb, target.subresource.as_str()) {
        (Verb::Watch, "") => return with_warnings(watch::watch(call, target).await, &warnings),
        (Verb::List, "") => return with_warnings(list::list(&call, &target).await, &warnings),
        (_, subresource @ ("log" | "exec" | "attach" | "portforward")) => {
            // A WebSocket begins with a GET: leave to read is no leave to run something.
            if subresource != "log" && *verb == Verb::Get {
                call.authorize_also(Verb::Create)?;
            }
            let pod = target.stored(&call)?.value();
            return crate::pods::serve(call, &target, pod).await;
        }
        (_, "proxy") => {
            return Err(ApiError::unavailable(
                "proxying to pods, services and nodes is not served",
            ));
        }
        (Verb::Get, "scale") => Outcome::ok(scale::get(&call, &target)?),
        (Verb::Get, _) => {
            let stored = target.stored(&call)?;
            let shape = shape::Shape::of(&call)?;
            if shape == shape::Shape::Object && version::is_current(&target.kind, &stored) {
                return with_warnings(Ok(serve::bytes(StatusCode::OK, stored.bytes.clone())), &warnings);
            }
            Outcome::ok(version::read(&target.kind, &stored))
        }
        (Verb::Create, "") if target.kind.is("", "bindings") => {
            special::create_binding(&call, &target, &body).await?
        }
        (Verb::Create, "") if special::is_review(&target.kind) => {
            special::review(&call, &target, &body).await?
        }
        (Verb::Create, "") => create::create(&call, &target, &body).await?,
        (Verb::Create, _) => special::create(&call, &target, &body).await?,
        (Verb::Update, "scale") => scale::update(&call, &target, &body).await?,
        (Verb::Patch, "scale") => scale::patch(&call, &target, &body).await?,
        (Verb::Update, _) => update::replace(&call, &target, &body).await?,
        (Verb::Patch, _) => patch::patch(&call, &target, &body).await?,
        (Verb::Delete, "") => delete::delete(&call, &target, &body).await?,
        (Verb::DeleteCollection, "") => delete::delete_collection(&call, &target, &body).await?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    warnings.append(&mut outcome.warnings);
    warnings.extend(call.warnings.take());
    let same_kind = outcome.object["kind"] == target.kind.kind.as_str();
    let object = if same_kind {
        shape::View::of(&call, &target.kind)?.single(outcome.object)
    } else {
        outcome.object
    };
    with_warnings(Ok(serve::json(outcome.code, &object)), &warnings)
}

fn with_warnings(response: Result<Response<Body>>, warnings: &[String]) -> Result<Response<Body>> {
    let mut response = response?;
    for warning in warnings {
        let text: String = warning.chars().filter(|c| !c.is_control()).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response
                .headers_mut()
                .append(HeaderName::from_static("warning"), value);
        }
    }
    Ok(response)
}
