use super::super::ConditionsStatus;
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
    status = "CephClientStatus",
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
    pub security: Option<ClientSecurity>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClientSecurity {
    pub cephx: Option<Cephx>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cephx {
    /// `Disabled` (the default) or `KeyGeneration`.
    pub key_rotation_policy: Option<String>,
    /// With `KeyGeneration`: a key of an older generation is recreated.
    pub key_generation: Option<u32>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CephClientStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub info: BTreeMap<String, String>,
    /// Which key it has.
    pub cephx: Option<Cephx>,
}

impl CephClient {
    /// The user's name in Ceph, without `client.`.
    pub fn user(&self) -> String {
        self.spec.name.clone().unwrap_or_else(|| self.name_any())
    }

    /// The generation of key that is wanted; `None` while none is asked for.
    pub fn wanted_generation(&self) -> Option<u32> {
        let cephx = self.spec.security.as_ref()?.cephx.as_ref()?;
        cephx
            .key_generation
            .filter(|_| cephx.key_rotation_policy.as_deref() == Some("KeyGeneration"))
    }

    /// The generation of its key: the first is 1.
    pub fn key_generation(&self) -> u32 {
        let cephx = self.status.as_ref().and_then(|status| status.cephx.as_ref());
        cephx.and_then(|cephx| cephx.key_generation).unwrap_or(1)
    }

    pub fn secret(&self) -> String {
        let named = self.spec.secret_name.clone();
        named.unwrap_or_else(|| format!("rook-ceph-client-{}", self.name_any()))
    }
}
