//! `openstack.k-orc.cloud/v1alpha1`, by K-ORC: what is in Keystone, as objects.
//!
//! `managed` objects are made and deleted; `unmanaged` ones are found by `import` and only read.

mod access;

use super::LooseCondition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

pub use access::{
    ApplicationCredential, ApplicationCredentialResource, ApplicationCredentialSpec, PasswordRef,
    RoleAssignment, RoleAssignmentResource, RoleAssignmentSpec, User, UserResource, UserSpec,
};

/// How K-ORC logs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudCredentialsRef {
    pub cloud_name: String,
    pub secret_name: String,
}

/// Who owns the thing in OpenStack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagementPolicy {
    #[default]
    Managed,
    Unmanaged,
}

/// Finds a thing that exists: by id, or by filter.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Import {
    pub id: Option<String>,
    pub filter: Option<Filter>,
}

/// What the thing looks like.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    pub name: Option<String>,
    pub domain_ref: Option<String>,
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub service_ref: Option<String>,
    pub interface: Option<String>,
    pub user_ref: Option<String>,
    pub role_ref: Option<String>,
    pub group_ref: Option<String>,
    pub project_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What every kind reports: its id in OpenStack, and what is there under K-ORC's names
/// (`domainID`, where the spec has `domainRef`).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub id: Option<String>,
    pub resource: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
}

/// A kind of K-ORC: they differ in their resource.
// rustfmt would move the attribute to the right at each run.
#[rustfmt::skip]
macro_rules! kind {
    ($kind:literal, $plural:literal, $spec:ident, $resource:ident, $doc:literal) => {
        #[doc = $doc]
        #[skip_serializing_none]
        #[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
        #[kube(
            group = "openstack.k-orc.cloud",
            version = "v1alpha1",
            kind = $kind,
            plural = $plural,
            namespaced,
            schema = "disabled",
            status = "Status",
            category = "openstack",
            derive = "PartialEq",
            derive = "Default",
            printcolumn(name = "ID", type_ = "string", json_path = ".status.id"),
            printcolumn(
                name = "Available",
                type_ = "string",
                json_path = ".status.conditions[?(@.type==\"Available\")].status"
            ),
            printcolumn(
                name = "Message",
                type_ = "string",
                json_path = ".status.conditions[?(@.type==\"Progressing\")].message"
            )
        )]
        #[serde(rename_all = "camelCase")]
        pub struct $spec {
            pub cloud_credentials_ref: CloudCredentialsRef,
            #[serde(default)]
            pub management_policy: ManagementPolicy,
            pub import: Option<Import>,
            pub resource: Option<$resource>,
        }
    };
}
use kind;

kind!(
    "Domain",
    "domains",
    DomainSpec,
    DomainResource,
    "A domain of users and projects."
);

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DomainResource {
    pub name: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
}

kind!("Project", "projects", ProjectSpec, ProjectResource, "A project.");

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectResource {
    pub name: Option<String>,
    pub domain_ref: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

kind!("Role", "roles", RoleSpec, RoleResource, "A role.");

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleResource {
    pub name: Option<String>,
    pub domain_ref: Option<String>,
    pub description: Option<String>,
}

kind!("Group", "groups", GroupSpec, GroupResource, "A group of users.");

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupResource {
    pub name: Option<String>,
    pub domain_ref: Option<String>,
    pub description: Option<String>,
}

kind!(
    "Service",
    "services",
    ServiceSpec,
    ServiceResource,
    "A service of the catalogue."
);

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceResource {
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub type_: String,
    pub description: Option<String>,
    pub enabled: Option<bool>,
}

kind!(
    "Endpoint",
    "endpoints",
    EndpointSpec,
    EndpointResource,
    "An address of a service of the catalogue."
);

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointResource {
    pub service_ref: String,
    pub interface: String,
    pub url: String,
    pub region: Option<String>,
    pub enabled: Option<bool>,
    pub description: Option<String>,
}
