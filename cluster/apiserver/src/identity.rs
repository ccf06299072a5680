//! Who asks, and what for: the border to authentication and authorisation.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    cluster::Cluster,
    registry::Kind,
    status::{ApiError, Reason},
    verb::Verb,
};

/// Who sent a request. In-process clients put one into the request's extensions; for the others
/// [`Access`] finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";

impl Identity {
    pub fn new(user: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        if user != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            user: user.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// Someone who did not say who they are.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }

    /// The server's own clients.
    pub fn admin() -> Self {
        Self::new("system:admin", &[MASTERS])
    }
}

/// DER certificates that the client proved in the TLS handshake, leaf first. The listener puts them
/// into the request's extensions.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificates(pub Vec<Vec<u8>>);

/// What a request wants to do, as authorisation sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: Verb,
    pub group: String,
    pub version: String,
    /// Empty: not a resource, see `path`.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// Without the `/clusters/<name>` prefix.
    pub path: String,
    /// The field selector of a list or watch, as it was sent.
    pub field_selector: String,
}

impl Attributes {
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// With the reason if there is one to tell.
    Deny(String),
}

/// Who may do what. Implemented by [`crate::auth::AccessControl`].
pub trait Access: Send + Sync {
    /// Finds out who sent a request, by certificate or token.
    fn authenticate(&self, cluster: &Cluster, request: &http::request::Parts) -> Result<Identity, ApiError>;

    /// Who the request's headers ask to act as, if `identity` may; `identity` itself if they ask nothing.
    fn impersonate(
        &self,
        cluster: &Cluster,
        identity: Identity,
        headers: &http::HeaderMap,
    ) -> Result<Identity, ApiError>;

    /// Asked before every request.
    fn authorize(&self, cluster: &Cluster, identity: &Identity, attributes: &Attributes) -> Decision;

    /// Asked before an object is written, for rights that hang on its content: nobody may grant more
    /// than they have.
    fn admit(
        &self,
        _cluster: &Cluster,
        _identity: &Identity,
        _kind: &Kind,
        _namespace: &str,
        _old: Option<&Value>,
        _new: &Value,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Answers a TokenReview, SubjectAccessReview and the like: the object with its status filled in.
    fn review(
        &self,
        cluster: &Cluster,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
        review: Value,
    ) -> Result<Value, ApiError>;

    /// Issues a token for a ServiceAccount: the TokenRequest with its status filled in.
    fn token(
        &self,
        cluster: &Cluster,
        identity: &Identity,
        service_account: &Value,
        request: Value,
    ) -> Result<Value, ApiError>;
}

/// The message of a refused request, as Kubernetes words it.
pub fn refusal(identity: &Identity, attributes: &Attributes, reason: &str) -> ApiError {
    let user = &identity.user;
    let tail = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    let Attributes {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name,
        path,
        ..
    } = attributes;
    if !attributes.is_resource() {
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}{tail}");
        return ApiError::new(http::StatusCode::FORBIDDEN, Reason::Forbidden, message)
            .with_causes(Vec::new());
    }
    let resource = if subresource.is_empty() {
        resource.clone()
    } else {
        format!("{resource}/{subresource}")
    };
    let scope = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    let what =
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}{tail}");
    ApiError::forbidden(group, &attributes.resource, name, &what)
}
