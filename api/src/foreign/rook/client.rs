use super::PhaseStatus;
use kube::{CustomResource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A Ceph user; Rook writes its key into a Secret.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephClient",
    plural = "cephclients",
    namespaced,
    schema = "disabled",
    status = "PhaseStatus",
    shortname = "cephcl",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct CephClientSpec {
    pub name: Option<String>,
    /// Name of the Secret, `rook-ceph-client-<name of the object>` by default.
    pub secret_name: Option<String>,
    /// No Secret is kept.
    pub remove_secret: Option<bool>,
    /// Daemon → capability.
    #[serde(default)]
    pub caps: BTreeMap<String, String>,
}

impl CephClient {
    /// The user's name in Ceph, without `client.`.
    pub fn user(&self) -> String {
        self.spec.name.clone().unwrap_or_else(|| self.name_any())
    }

    pub fn secret(&self) -> String {
        let named = self.spec.secret_name.clone();
        named.unwrap_or_else(|| format!("rook-ceph-client-{}", self.name_any()))
    }
}
