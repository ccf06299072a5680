//! The objects of which a cluster's topology is made.

use c5c3_api::foreign::ConditionsStatus;
use c5c3_api::foreign::rabbitmq::{ClusterReference, Permission, User, Vhost};
use c5c3_kit::controller::Object;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::definitions;

/// Name and password of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

/// What a piece is made of, beside its own object.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub credentials: Option<Credentials>,
    /// The user that a permission is for.
    pub username: Option<String>,
}

/// An object that becomes a few definitions in a cluster.
pub trait Piece: Object + Resource<Scope = NamespaceResourceScope> {
    const CONTROLLER: &'static str;
    const FINALIZER: &'static str;
    fn cluster(&self) -> &ClusterReference;
    /// The Secret that brings the credentials; `Some(None)`: they are made.
    fn credentials(&self) -> Option<Option<&str>> {
        None
    }
    /// The virtual host and the User object that must be there first.
    fn needs(&self) -> (Option<&str>, Option<&str>) {
        (None, None)
    }
    /// `None` while a part is missing.
    fn definitions(&self, parts: &Parts) -> Option<Value>;
    /// How the cluster forgets it.
    fn farewell(&self, parts: &Parts) -> Option<String>;
}

/// A status with conditions.
pub(crate) trait Conditioned {
    fn conditions(&self) -> Option<&ConditionsStatus>;
}

impl Conditioned for Vhost {
    fn conditions(&self) -> Option<&ConditionsStatus> {
        self.status.as_ref()
    }
}

impl Conditioned for User {
    fn conditions(&self) -> Option<&ConditionsStatus> {
        self.status.as_ref().map(|status| &status.common)
    }
}

impl Piece for Vhost {
    const CONTROLLER: &'static str = "stand-in-rabbitmq-vhost";
    const FINALIZER: &'static str = "deletion.finalizers.vhosts.rabbitmq.com";
    fn cluster(&self) -> &ClusterReference {
        &self.spec.rabbitmq_cluster_reference
    }
    fn definitions(&self, _parts: &Parts) -> Option<Value> {
        let queues = self.spec.default_queue_type.as_deref();
        Some(definitions::vhost(&self.spec.name, queues))
    }
    fn farewell(&self, _parts: &Parts) -> Option<String> {
        Some(definitions::delete_vhost(&self.spec.name))
    }
}

impl Piece for User {
    const CONTROLLER: &'static str = "stand-in-rabbitmq-user";
    const FINALIZER: &'static str = "deletion.finalizers.users.rabbitmq.com";
    fn cluster(&self) -> &ClusterReference {
        &self.spec.rabbitmq_cluster_reference
    }
    fn credentials(&self) -> Option<Option<&str>> {
        let named = self.spec.import_credentials_secret.as_ref();
        Some(named.map(|secret| secret.name.as_str()))
    }
    fn definitions(&self, parts: &Parts) -> Option<Value> {
        let Credentials { username, password } = parts.credentials.as_ref()?;
        Some(definitions::user(username, password, &self.spec.tags))
    }
    fn farewell(&self, parts: &Parts) -> Option<String> {
        let told = self.status.as_ref().and_then(|status| status.username.as_deref());
        let named = parts.credentials.as_ref().map(|c| c.username.as_str());
        told.or(named).map(definitions::delete_user)
    }
}

impl Piece for Permission {
    const CONTROLLER: &'static str = "stand-in-rabbitmq-permission";
    const FINALIZER: &'static str = "deletion.finalizers.permissions.rabbitmq.com";
    fn cluster(&self) -> &ClusterReference {
        &self.spec.rabbitmq_cluster_reference
    }
    fn needs(&self) -> (Option<&str>, Option<&str>) {
        let user = self.spec.user_reference.as_ref().map(|user| user.name.as_str());
        (Some(&self.spec.vhost), user)
    }
    fn definitions(&self, parts: &Parts) -> Option<Value> {
        let user = self.spec.user.as_deref().or(parts.username.as_deref())?;
        let rule = |rule: &Option<String>| rule.clone().unwrap_or_default();
        let rules = &self.spec.permissions;
        Some(definitions::permission(
            user,
            &self.spec.vhost,
            &rule(&rules.configure),
            &rule(&rules.write),
            &rule(&rules.read),
        ))
    }
    fn farewell(&self, parts: &Parts) -> Option<String> {
        let user = self.spec.user.as_deref().or(parts.username.as_deref())?;
        Some(definitions::clear_permissions(user, &self.spec.vhost))
    }
}

/// The Secret with a user's credentials.
pub(crate) fn credentials_secret(user: &impl ResourceExt) -> String {
    format!("{}-user-credentials", user.name_any())
}
