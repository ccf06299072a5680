//! Blocks that several kinds share.

mod backends;
mod duration;
mod pods;
mod quantity;
mod references;
mod service;
pub(crate) use service::extra_config;

pub use backends::{AppCredentialRef, CaRef, Cache, Database, KeystoneAuth, Messaging};
pub use duration::{DurationError, parse_duration};
pub use pods::{PodSettings, Toleration};
pub use quantity::parse_quantity;
pub use references::{Blocker, Image, LocalRef, ObjectRef, SecretKeyRef};
pub use service::{
    Autoscaling, Dependency, ExtraConfig, LogFormat, LogLevel, Logging, NetworkPolicy, PolicyOverrides,
    RecurringJobStatus, ServiceCommon, ServiceStatus, UpgradePhase,
};

pub use k8s_openapi::api::core::v1::ResourceRequirements;
pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Left out when it says nothing: an object that was never given is not written back.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Defaults that serde and the schema share.
pub(crate) mod default {
    pub(crate) fn yes() -> bool {
        true
    }
    pub(crate) fn replicas() -> i32 {
        3
    }
    pub(crate) fn ready() -> String {
        crate::conditions::READY.to_owned()
    }
}
