//! Users, their roles, and what they log in with.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{CloudCredentialsRef, Import, ManagementPolicy, Status, kind};

const PASSWORD: &str = "password";

/// One key of a Secret. K-ORC itself takes the name alone and reads the key `password`; both forms
/// are read, and its own is written where it will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "PasswordForm", into = "PasswordForm")]
pub struct PasswordRef {
    pub name: String,
    pub key: String,
}

impl PasswordRef {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            key: PASSWORD.to_owned(),
        }
    }
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum PasswordForm {
    Name(String),
    Key { name: String, key: Option<String> },
}

impl From<PasswordForm> for PasswordRef {
    fn from(form: PasswordForm) -> Self {
        let (name, key) = match form {
            PasswordForm::Name(name) => (name, None),
            PasswordForm::Key { name, key } => (name, key),
        };
        Self {
            name,
            key: key.unwrap_or_else(|| PASSWORD.to_owned()),
        }
    }
}

impl From<PasswordRef> for PasswordForm {
    fn from(password: PasswordRef) -> Self {
        if password.key == PASSWORD {
            return PasswordForm::Name(password.name);
        }
        PasswordForm::Key {
            name: password.name,
            key: Some(password.key),
        }
    }
}

kind!("User", "users", UserSpec, UserResource, "A user.");

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserResource {
    pub name: Option<String>,
    pub domain_ref: Option<String>,
    pub default_project_ref: Option<String>,
    pub password_ref: Option<PasswordRef>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
}

/// A role that a user has on a project. Keystone gives it no id, so its status has none.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "openstack.k-orc.cloud",
    version = "v1alpha1",
    kind = "RoleAssignment",
    plural = "roleassignments",
    namespaced,
    schema = "disabled",
    status = "Status",
    category = "openstack",
    derive = "PartialEq",
    derive = "Default",
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
pub struct RoleAssignmentSpec {
    pub cloud_credentials_ref: CloudCredentialsRef,
    #[serde(default)]
    pub management_policy: ManagementPolicy,
    pub import: Option<Import>,
    pub resource: Option<RoleAssignmentResource>,
}

/// What it looks like in Keystone: one of user and group, one of project and domain.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleAssignmentResource {
    pub role_ref: String,
    pub user_ref: Option<String>,
    pub group_ref: Option<String>,
    pub project_ref: Option<String>,
    pub domain_ref: Option<String>,
}

kind!(
    "ApplicationCredential",
    "applicationcredentials",
    ApplicationCredentialSpec,
    ApplicationCredentialResource,
    "A secret with which a user logs in for one project and some roles."
);

/// What it looks like in Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationCredentialResource {
    pub name: Option<String>,
    pub description: Option<String>,
    pub user_ref: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub role_refs: Vec<String>,
    pub expires_at: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    pub unrestricted: Option<bool>,
    pub secret_ref: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_named_in_either_form() {
        let read = |text: &str| serde_json::from_str::<PasswordRef>(text).expect(text);
        let expected = |key: &str| PasswordRef {
            name: "n".to_owned(),
            key: key.to_owned(),
        };
        assert_eq!(read(r#""n""#), expected("password"));
        assert_eq!(read(r#"{"name": "n", "key": "k"}"#), expected("k"));
        assert_eq!(read(r#"{"name": "n"}"#), expected("password"));
        let written = |key: &str| serde_json::to_string(&expected(key)).expect("text");
        assert_eq!(written("password"), r#""n""#);
        assert_eq!(written("k"), r#"{"name":"n","key":"k"}"#);
    }
}
