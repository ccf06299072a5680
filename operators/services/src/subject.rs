//! A service CR in the form that the reconciler works with.

use c5c3_api::common::{Cache, Database, KeystoneAuth, Messaging, ServiceCommon, ServiceStatus};
use c5c3_kit::controller::Object;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde::Serialize;

use crate::config::Ini;
use crate::descriptor::{Descriptor, Step};

/// The kinds that the one reconciler serves.
pub trait Subject: Object + Resource<Scope = NamespaceResourceScope> + Serialize {
    const DESCRIPTOR: &'static Descriptor;
    /// Field manager, label of owned objects and of metrics.
    const CONTROLLER: &'static str;

    fn common(&self) -> &ServiceCommon;
    fn service_status(&self) -> Option<&ServiceStatus>;
    fn replicas(&self, process: &str) -> i32;
    /// Each group of the descriptor with its database.
    fn databases(&self) -> Vec<(&'static str, &Database)>;
    fn cache(&self) -> Option<&Cache> {
        None
    }
    fn messaging(&self) -> Option<&Messaging> {
        None
    }
    fn keystone(&self) -> Option<&KeystoneAuth> {
        None
    }
    /// Options that follow from the spec.
    fn configure(&self, _config: &mut Ini) {}
    /// Groups whose names the user chose.
    fn free_groups(&self) -> Vec<&str> {
        Vec::new()
    }
    /// What only this service has.
    fn extras(&self) -> Extras {
        Extras::default()
    }
}

/// What only one or two services have, as data.
#[derive(Debug, Default, Clone)]
pub struct Extras {
    pub key_sets: Vec<KeySet>,
    /// Runs after the schema steps.
    pub after_schema: Option<Task>,
    pub volumes: Vec<ExtraVolume>,
    /// Options whose values are in Secrets.
    pub secret_options: Vec<SecretOption>,
    /// Conditions that hold by configuration alone: part and message.
    pub settled: Vec<(&'static str, String)>,
}

/// Keys that the operator makes and rotates.
#[derive(Debug, Clone)]
pub struct KeySet {
    /// Suffix of the Secret's name.
    pub name: &'static str,
    pub path: &'static str,
    pub part: &'static str,
    pub schedule: String,
    pub most: usize,
}

/// A step with values of its own.
#[derive(Debug, Clone)]
pub struct Task {
    pub step: Step,
    pub part: &'static str,
    pub environment: Vec<(String, String)>,
    /// Variable, Secret and key.
    pub secrets: Vec<(String, String, String)>,
}

#[derive(Debug, Clone)]
pub struct ExtraVolume {
    pub name: &'static str,
    pub path: &'static str,
    pub part: &'static str,
    pub source: VolumeSource,
}

#[derive(Debug, Clone)]
pub enum VolumeSource {
    /// A claim that the service owns: it goes with the service.
    Claim {
        size: String,
        class: Option<String>,
        shared: bool,
    },
    Secret(String),
}

#[derive(Debug, Clone)]
pub struct SecretOption {
    pub group: &'static str,
    pub option: &'static str,
    pub secret: String,
    pub key: &'static str,
}
