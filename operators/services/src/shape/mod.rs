//! The shape of a service: a value that is computed from its spec, and from nothing else.
//!
//! It says what the service consists of (processes, steps, databases, buses, keys, volumes, recurring
//! jobs) and what each of these is told and may know. One reconciler turns any shape into objects.

mod ovn;
mod process;
mod settings;
mod step;
mod volume;

pub use ovn::{OVN_AUTHORITY, OVN_CERTIFICATE, OVN_KEY, Ovn, OvnCaller, OvnPlace};
pub use process::{Port, Process, Requests, Rights, Runs, Tries, Update, Variable, Worker, Workload};
pub use settings::{CephOption, CephValue, Fact, Login, SecretOption, Settings};
pub use step::{Asked, KeySet, Recurring, Schema, Step, Task};
pub use volume::{CephLogin, Sharing, Volume, VolumeSource};

use std::collections::BTreeSet;

use c5c3_api::common::{Cache, Database, KeystoneAuth, Messaging, ObjectRef, ServiceCommon, ServiceStatus};
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::controller::Object;
use c5c3_kit::{HOME, Part};
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::names::Names;

/// Where a message bus listens that runs in the cluster.
pub const BUS_PORT: u16 = 5672;

/// The user of every OpenStack image.
pub const OPENSTACK_UID: i64 = 42424;

/// A kind that the one reconciler serves.
pub trait Subject: Object + Resource<Scope = NamespaceResourceScope> + Serialize {
    /// Name of the image, of the option catalogue and of the configuration directory.
    const SERVICE: &'static str;
    /// Conditions beside Ready, in order of importance.
    const PARTS: &'static [Part];
    /// It talks over a message bus: virtual hosts, users and permissions are looked after.
    const MESSAGING: bool = false;
    /// It may keep data in Ceph: CephClients are watched.
    const CEPH: bool = false;
    /// It runs on nodes: DaemonSets are looked after.
    const ON_NODES: bool = false;
    /// Its nodes have certificates: Nodes are read.
    const CERTIFIES: bool = false;
    /// It may run on a schedule: CronJobs are looked after.
    const RECURRING: bool = false;
    /// It builds on a network of OVN: OVNClusters are watched.
    const OVN: bool = false;

    /// What the schema accepts and nobody can do: an error that names it and the way out.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Pure. What the service consists of.
    fn shape(&self) -> Service;
}

impl Names {
    pub fn of<S: Subject>(subject: &S) -> Self {
        Names {
            namespace: subject.namespace().unwrap_or_default(),
            name: subject.name_any(),
            service: S::SERVICE,
        }
    }
}

/// One service, as its spec wants it.
#[derive(Debug, Clone)]
pub struct Service {
    pub names: Names,
    /// What all services take; one whose spec has less makes it up.
    pub common: ServiceCommon,
    /// None where the status has not what services with processes tell.
    pub status: Option<ServiceStatus>,
    /// How the programs find their configuration.
    pub environment: Vec<(String, String)>,
    /// What groups of processes are told; the first is that of most.
    pub settings: Vec<Settings>,
    pub databases: Vec<NamedDatabase>,
    pub buses: Vec<NamedBus>,
    pub cache: Option<Cache>,
    pub keystone: Option<KeystoneAuth>,
    pub ovn: Option<Ovn>,
    pub schema: Schema,
    pub processes: Vec<Process>,
    pub recurring: Vec<Recurring>,
    pub key_sets: Vec<KeySet>,
    /// Parts of the service that the status reports one by one.
    pub groups: Option<Groups>,
    /// Groups of options whose names the user chose.
    pub free_groups: Vec<String>,
    /// Fields of the status that follow from the spec once all processes are up.
    pub tells: Option<Value>,
    /// Conditions that this configuration does not need: part and message.
    pub not_required: Vec<(&'static str, String)>,
}

/// A database with the name by which settings refer to it.
#[derive(Debug, Clone)]
pub struct NamedDatabase {
    pub name: String,
    pub database: Database,
}

/// A message bus with the name by which settings refer to it; its virtual host bears that name too.
#[derive(Debug, Clone)]
pub struct NamedBus {
    pub name: String,
    pub bus: Messaging,
}

/// Parts of a service that the status reports one by one: cells, backends.
#[derive(Debug, Clone)]
pub struct Groups {
    /// The field of the status.
    pub field: &'static str,
    /// The field of each that tells how many of its counted process are up.
    pub count: Option<&'static str>,
    /// Steps whose last word reports each: fields of the status by name of the group.
    pub told_by: Vec<&'static str>,
    pub all: Vec<Group>,
}

#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    /// Processes that it needs.
    pub processes: Vec<String>,
    /// The one that is counted.
    pub counted: Option<String>,
    /// What steps reported about it before.
    pub known: Map<String, Value>,
}

impl Service {
    /// A service of which nothing is known but who it is.
    pub fn new<S: Subject>(subject: &S, common: ServiceCommon) -> Self {
        Service {
            names: Names::of(subject),
            common,
            status: None,
            environment: Vec::new(),
            settings: Vec::new(),
            databases: Vec::new(),
            buses: Vec::new(),
            cache: None,
            keystone: None,
            ovn: None,
            schema: Schema::default(),
            processes: Vec::new(),
            recurring: Vec::new(),
            key_sets: Vec::new(),
            groups: None,
            free_groups: Vec::new(),
            tells: None,
            not_required: Vec::new(),
        }
    }

    pub fn image(&self) -> String {
        self.common.image.reference()
    }

    /// The version of the image, as far as it tells one.
    pub fn version(&self) -> Option<String> {
        let image = &self.common.image;
        image.tag.clone().or_else(|| image.digest.clone())
    }

    /// The API: the first process with a port. It bears the name of the service.
    pub fn api(&self) -> Option<&Process> {
        self.processes.iter().find(|process| process.port().is_some())
    }

    pub fn is_api(&self, process: &Process) -> bool {
        self.api().is_some_and(|api| api.name == process.name)
    }

    pub fn database(&self, name: &str) -> Option<&Database> {
        let mut named = self.databases.iter();
        Some(&named.find(|named| named.name == name)?.database)
    }

    pub fn bus(&self, name: &str) -> Option<&Messaging> {
        let mut named = self.buses.iter();
        Some(&named.find(|named| named.name == name)?.bus)
    }

    /// Other clusters that it has processes in.
    pub fn elsewhere(&self) -> BTreeSet<&str> {
        let processes = self.processes.iter();
        processes
            .filter_map(|process| process.cluster.as_deref())
            .collect()
    }

    /// Where some settings are read. What no process reads, and what the steps read, is at home.
    pub fn places_of(&self, settings: &str) -> BTreeSet<ClusterName> {
        let readers = self.processes.iter().filter(|one| one.settings == settings);
        let mut places: BTreeSet<ClusterName> = readers.map(Process::place).collect();
        if places.is_empty() || self.schema.settings == settings {
            places.insert(HOME);
        }
        places
    }

    /// Volumes of all processes and recurring jobs, each once.
    pub fn volumes(&self) -> Vec<&Volume> {
        let mut all: Vec<&Volume> = Vec::new();
        let of_processes = self.processes.iter().flat_map(|process| &process.volumes);
        let of_runs = self.recurring.iter().flat_map(|run| &run.volumes);
        for volume in of_processes.chain(of_runs) {
            if all.iter().all(|known| known.name != volume.name) {
                all.push(volume);
            }
        }
        all
    }

    /// CephClients whose keyrings are used.
    pub fn ceph_clients(&self) -> Vec<&ObjectRef> {
        let volumes = self.volumes().into_iter();
        volumes
            .filter_map(|volume| match &volume.source {
                VolumeSource::Keyring { ceph_client, .. } => ceph_client.as_ref(),
                _ => None,
            })
            .collect()
    }
}
