//! Everything that the controllers know: a table for each kind they read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Endpoints, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::ApiResource;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::table::{Change, Key, Table};

/// A kind with a table in the [`World`].
pub trait Cached:
    Resource<DynamicType = ()> + ResourceExt + DeserializeOwned + Clone + Send + Sync + std::fmt::Debug + 'static
{
    fn table(world: &World) -> &Table<Self>;
    fn table_mut(world: &mut World) -> &mut Table<Self>;
    fn changed(change: Change<Self>) -> Changed;
}

macro_rules! kinds {
    ($($field:ident: $kind:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        pub struct World {
            $(pub $field: Table<$kind>,)*
            /// Since when it is watched. What is older may be so because nobody looked.
            pub started: Timestamp,
            /// Why the server refused the last object that an owner (by uid) wanted made.
            pub refused: BTreeMap<String, String>,
        }

        /// A change of one object, for the triggers.
        #[derive(Debug)]
        pub enum Changed {
            $($kind(Change<$kind>),)*
        }

        $(impl Cached for $kind {
            fn table(world: &World) -> &Table<Self> {
                &world.$field
            }
            fn table_mut(world: &mut World) -> &mut Table<Self> {
                &mut world.$field
            }
            fn changed(change: Change<Self>) -> Changed {
                Changed::$kind(change)
            }
        })*

        impl World {
            /// Takes in an object that the server answered with. Kinds without a table are passed over.
            pub fn learn(&mut self, object: Value) -> Option<Changed> {
                match object.get("kind").and_then(Value::as_str)? {
                    $(stringify!($kind) => {
                        let object: $kind = serde_json::from_value(object).ok()?;
                        self.$field.put(object).map(Changed::$kind)
                    })*
                    _ => None,
                }
            }

            pub fn forget(&mut self, kind: &str, key: &Key) -> Option<Changed> {
                match kind {
                    $(stringify!($kind) => self.$field.remove(key).map(Changed::$kind),)*
                    _ => None,
                }
            }
        }

        /// How the API serves a kind that the controllers write.
        pub(crate) fn resource(kind: &str) -> Option<ApiResource> {
            match kind {
                $(stringify!($kind) => Some(ApiResource::erase::<$kind>(&())),)*
                _ => None,
            }
        }

        /// Calls `$each!(Kind)` for all kinds.
        macro_rules! for_each_kind {
            ($each:ident) => { $($each!($kind);)* };
        }
        pub(crate) use for_each_kind;
    };
}

kinds! {
    pods: Pod,
    nodes: Node,
    leases: Lease,
    services: Service,
    endpoint_slices: EndpointSlice,
    endpoints: Endpoints,
    claims: PersistentVolumeClaim,
    volumes: PersistentVolume,
    storage_classes: StorageClass,
    deployments: Deployment,
    replica_sets: ReplicaSet,
    stateful_sets: StatefulSet,
    daemon_sets: DaemonSet,
    revisions: ControllerRevision,
    jobs: Job,
    cron_jobs: CronJob,
    budgets: PodDisruptionBudget,
}

impl World {
    pub fn put<K: Cached>(&mut self, object: K) -> Option<Changed> {
        K::table_mut(self).put(object).map(K::changed)
    }
}
