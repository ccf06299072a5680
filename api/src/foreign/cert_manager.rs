//! `cert-manager.io/v1`, by cert-manager.

use super::ConditionsStatus;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A certificate that is issued and renewed into a Secret.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "cert-manager.io",
    version = "v1",
    kind = "Certificate",
    plural = "certificates",
    namespaced,
    schema = "disabled",
    status = "CertificateStatus",
    shortname = "cert",
    shortname = "certs",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Secret", type_ = "string", json_path = ".spec.secretName")
)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSpec {
    pub secret_name: String,
    pub issuer_ref: IssuerRef,
    pub common_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usages: Vec<String>,
    pub duration: Option<String>,
    pub renew_before: Option<String>,
    pub private_key: Option<PrivateKey>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IssuerRef {
    pub name: String,
    pub kind: Option<String>,
    pub group: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrivateKey {
    pub algorithm: Option<String>,
    pub size: Option<i32>,
    pub rotation_policy: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    #[serde(flatten)]
    pub common: ConditionsStatus,
    pub not_after: Option<String>,
    pub renewal_time: Option<String>,
    pub revision: Option<i64>,
}
