//! Who may do what: certificates and tokens say who someone is, RBAC says what they may do.

mod authority;
mod escalation;
mod files;
mod impersonation;
mod kubeconfig;
mod node;
mod rbac;
mod reviews;
mod tokens;

use std::path::Path;

use http::{HeaderMap, header, request::Parts};
use serde_json::Value;

use crate::{
    cluster::Cluster,
    identity::{Access, Attributes, Decision, Identity, PeerCertificates},
    registry::Kind,
    status::ApiError,
};

pub use authority::{Authority, ClientCertificate};
pub use files::KeyError;
pub use kubeconfig::write as write_kubeconfig;
pub use rbac::{GROUP as RBAC_GROUP, Rule, Snapshot, bootstrap};
pub use tokens::{TokenKeys, TokenSpec};

/// Certificates, tokens and RBAC of a server.
pub struct AccessControl {
    authority: Authority,
    tokens: TokenKeys,
    roles: rbac::Snapshots,
}

impl AccessControl {
    /// Reads the keys in `directory`, or makes them. `names` are names and addresses under which clients
    /// reach the server, beside localhost.
    pub fn open(directory: &Path, names: &[String]) -> Result<Self, KeyError> {
        Ok(Self {
            authority: Authority::open(directory, names)?,
            tokens: TokenKeys::open(directory)?,
            roles: rbac::Snapshots::default(),
        })
    }

    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    pub fn tokens(&self) -> &TokenKeys {
        &self.tokens
    }

    fn who(&self, cluster: &Cluster, request: &Parts) -> Result<Identity, ApiError> {
        let certificates = request.extensions.get::<PeerCertificates>();
        if let Some(leaf) = certificates.and_then(|peer| peer.0.first()) {
            return authority::identity(leaf).ok_or_else(ApiError::unauthorized);
        }
        let Some(value) = request.headers.get(header::AUTHORIZATION) else {
            return Ok(Identity::anonymous());
        };
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            return Ok(Identity::anonymous());
        };
        let verified = self.tokens.verify(cluster, token, &[]);
        verified.map(|token| token.identity).map_err(|error| {
            tracing::debug!(%error, "a bearer token was refused");
            ApiError::unauthorized()
        })
    }
}

impl Access for AccessControl {
    fn authenticate(&self, cluster: &Cluster, request: &Parts) -> Result<Identity, ApiError> {
        self.who(cluster, request)
    }

    fn impersonate(
        &self,
        cluster: &Cluster,
        identity: Identity,
        headers: &HeaderMap,
    ) -> Result<Identity, ApiError> {
        match impersonation::wanted(headers)? {
            None => Ok(identity),
            Some(wanted) => {
                let roles = self.roles.of(cluster);
                impersonation::become_other(&identity, wanted, |attributes| {
                    roles.authorize(&identity, attributes)
                })
            }
        }
    }

    fn authorize(&self, cluster: &Cluster, identity: &Identity, attributes: &Attributes) -> Decision {
        if rbac::is_master(identity) {
            return Decision::Allow;
        }
        let verdict = self.roles.of(cluster).authorize(identity, attributes);
        match node::name(identity) {
            Some(name) if !verdict.allowed && node::allows(name, attributes, cluster) => Decision::Allow,
            Some(name) if !verdict.allowed => Decision::Deny(node::refusal(name, attributes)),
            _ => verdict.decision(),
        }
    }

    fn admit(
        &self,
        cluster: &Cluster,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), ApiError> {
        if let Some(name) = node::name(identity) {
            node::admit(name, kind, old, new)?;
        }
        if kind.group != rbac::GROUP || rbac::is_master(identity) && old.is_none() {
            return Ok(());
        }
        escalation::check(&self.roles.of(cluster), identity, kind, namespace, old, new)
    }

    fn review(
        &self,
        cluster: &Cluster,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
        review: Value,
    ) -> Result<Value, ApiError> {
        let roles = self.roles.of(cluster);
        reviews::answer(&roles, identity, kind, namespace, review, |token, audiences| {
            self.tokens.verify(cluster, token, audiences)
        })
    }

    fn token(
        &self,
        cluster: &Cluster,
        identity: &Identity,
        service_account: &Value,
        request: Value,
    ) -> Result<Value, ApiError> {
        if let Some(name) = node::name(identity) {
            node::admit_token(name, cluster, service_account, &request)?;
        }
        self.tokens.request(cluster, service_account, request)
    }
}

#[cfg(test)]
mod tests;
