use crate::common::{LocalRef, ObjectRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A pool of Ceph block devices.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rbd {
    /// Pool name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]+$"), length(max = 128))]
    pub pool: String,
    /// Secret with the keyring and ceph.conf.
    pub ceph_secret_ref: LocalRef,
    /// The CephClient that the keyring belongs to.
    pub ceph_client_ref: Option<ObjectRef>,
}

/// A user of Ceph.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephUser {
    /// Secret with the keyring and ceph.conf.
    pub ceph_secret_ref: LocalRef,
    /// The CephClient that the keyring belongs to.
    pub ceph_client_ref: Option<ObjectRef>,
}
