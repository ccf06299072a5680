//! A service CR in the form that the reconciler works with.

use std::borrow::Cow;

use c5c3_api::common::{Cache, Database, KeystoneAuth, Messaging, ObjectRef, ServiceCommon, ServiceStatus};
use c5c3_kit::controller::Object;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde::Serialize;

use crate::build::Servers;
use crate::config::Ini;
use crate::descriptor::{Descriptor, Step};
use crate::error::Error;

/// The kinds that the one reconciler serves.
pub trait Subject: Object + Resource<Scope = NamespaceResourceScope> + Serialize {
    const DESCRIPTOR: &'static Descriptor;
    /// Field manager, label of owned objects and of metrics.
    const CONTROLLER: &'static str;
    /// It talks over a message bus: its virtual host, user and permission are looked after.
    const MESSAGING: bool = false;
    /// It may keep data in Ceph: CephClients are watched.
    const CEPH: bool = false;
    /// It may run on a schedule: CronJobs are looked after.
    const RECURRING: bool = false;

    /// What all services take; one whose spec has less makes it up.
    fn common(&self) -> Cow<'_, ServiceCommon>;
    /// None where the status has not what services with processes tell.
    fn service_status(&self) -> Option<&ServiceStatus>;
    /// How many of a process, when no autoscaler decides.
    fn replicas(&self, process: &str) -> i32;
    /// Each database with the group of options that it is configured in.
    fn databases(&self) -> Vec<(String, Database)>;
    fn cache(&self) -> Option<&Cache> {
        None
    }
    fn messaging(&self) -> Option<&Messaging> {
        None
    }
    fn keystone(&self) -> Option<&KeystoneAuth> {
        None
    }
    /// What the schema accepts and nothing acts on yet.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Options that follow from the spec.
    fn configure(&self, _config: &mut Ini, _cache: Option<&Servers>) {}
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
    pub recurring: Option<Recurring>,
    pub volumes: Vec<ExtraVolume>,
    /// Directories that a process writes to and that go with its pod: name and path.
    pub scratch: Vec<(&'static str, &'static str)>,
    /// The option, by group and name, that tells a process under which address the others reach it.
    pub own_address: Option<(&'static str, &'static str)>,
    /// Options whose values are in Secrets.
    pub secret_options: Vec<SecretOption>,
    /// Conditions that this configuration does not need: part and message.
    pub settled: Vec<(&'static str, String)>,
}

impl Extras {
    /// CephClients whose keyrings are used.
    pub fn ceph_clients(&self) -> impl Iterator<Item = &ObjectRef> {
        self.volumes.iter().filter_map(|volume| match &volume.source {
            VolumeSource::Secret { ceph_client, .. } => ceph_client.as_ref(),
            VolumeSource::Claim { .. } => None,
        })
    }
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
    /// So many seconds must what a key encrypted be readable.
    pub readable: Option<u64>,
    /// So many seconds more it may be read, where its key is still there.
    pub lingers: u64,
    /// The field of the status that tells of the last rotation.
    pub status: Option<&'static str>,
    /// Brings what the old primary key encrypted under the new one. The next rotation waits for it.
    pub migrate: Option<Step>,
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

/// Steps that are the purpose of the service: they run on a schedule, or once for each set of inputs.
#[derive(Debug, Clone)]
pub struct Recurring {
    pub steps: &'static [Step],
    /// Put behind the last step.
    pub arguments: Vec<String>,
    /// As cron, in UTC.
    pub schedule: Option<String>,
    /// Holds when the last run succeeded.
    pub part: &'static str,
}

#[derive(Debug, Clone)]
pub struct ExtraVolume {
    pub name: Cow<'static, str>,
    pub path: Cow<'static, str>,
    pub part: &'static str,
    pub source: VolumeSource,
}

/// Whether several pods use a claim at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    None,
    /// Not yet: one that is there already may stay as it is.
    Later,
    Now,
}

#[derive(Debug, Clone)]
pub enum VolumeSource {
    /// A claim that outlives the service, as its data should.
    Claim {
        size: String,
        class: Option<String>,
        sharing: Sharing,
    },
    /// A Secret: each key with the file that it becomes.
    Secret {
        name: String,
        files: Vec<(&'static str, String)>,
        /// The CephClient whose keyring it holds.
        ceph_client: Option<ObjectRef>,
    },
}

#[derive(Debug, Clone)]
pub struct SecretOption {
    pub group: &'static str,
    pub option: &'static str,
    pub secret: String,
    pub key: &'static str,
}
