//! An embedded Kubernetes API server: several logical clusters in one process, on one store file.
//!
//! * [`Server`] starts and stops it and hands out clients.
//! * [`store`] keeps objects; [`registry`] says what is served; [`resource`] does the verbs, the same
//!   for every kind; [`strategy`] holds the few things that are special to one; `pod_security` holds
//!   pods to the standard that their namespace names.
//! * [`admission`] asks webhooks before a write.
//! * [`identity`] is the border to authentication and authorisation, [`pods`] the one to the node.
//! * [`discovery`], [`openapi`] and [`table`] are pure functions of what the registry says.

pub mod admission;
pub mod auth;
pub mod cluster;
mod controllers;
pub mod crds;
pub mod discovery;
#[doc(hidden)]
pub mod fuzzing;
pub mod identity;
pub mod openapi;
mod paths;
mod pod_security;
pub mod pods;
pub mod registry;
pub mod resource;
mod semantics;
pub mod serve;
mod server;
pub mod status;
pub mod store;
pub mod strategy;
pub mod table;
mod verb;

pub use identity::{Access, Attributes, Decision, Identity};
pub use server::{Config, Entrance, Server, StartError};
pub use status::ApiError;
pub use verb::Verb;
