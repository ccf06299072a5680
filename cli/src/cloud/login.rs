//! Credentials of the administrator, in the form in which OpenStack clients read them from the
//! environment.

use c5c3_api::c5c3::ControlPlane;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use openstack_client::{Auth, Cloud, DomainName, Interface, Scope, Session, UserName};

use crate::commands::cloud::status::no_cloud;
use crate::failure::Failure;

/// The Secret that holds the administrator's password.
const ADMIN: &str = "keystone-admin-credentials";

/// Variables of a login, and the release whose client fits.
pub(crate) struct Login {
    pub release: String,
    pub variables: Vec<(&'static str, String)>,
}

impl Login {
    fn value(&self, wanted: &str) -> &str {
        let mut all = self.variables.iter();
        all.find(|(name, _)| *name == wanted)
            .map_or("", |(_, value)| value)
    }

    /// A session of our own client.
    pub(crate) fn session(&self) -> Result<Session, Failure> {
        let domain = |name: &str| DomainName::Name(self.value(name).to_owned());
        let public = self.value("OS_INTERFACE") == "public";
        let cloud = Cloud {
            auth_url: self.value("OS_AUTH_URL").to_owned(),
            auth: Auth::Password {
                user: UserName::Name {
                    name: self.value("OS_USERNAME").to_owned(),
                    domain: domain("OS_USER_DOMAIN_NAME"),
                },
                password: openstack_client::Secret::new(self.value("OS_PASSWORD")),
                scope: Scope::Project {
                    name: self.value("OS_PROJECT_NAME").to_owned(),
                    domain: domain("OS_PROJECT_DOMAIN_NAME"),
                },
            },
            region: None,
            interface: if public {
                Interface::Public
            } else {
                Interface::Internal
            },
            ca: None,
        };
        Ok(Session::new(cloud)?)
    }
}

/// Reads the one cloud of a namespace.
pub(crate) async fn read(client: &Client, namespace: &str) -> Result<Login, Failure> {
    let planes: Api<ControlPlane> = Api::namespaced(client.clone(), namespace);
    let plane = planes.list(&Default::default()).await?.items.into_iter().next();
    let plane = plane.ok_or_else(|| Failure::NotFound(no_cloud(namespace)))?;
    if let Some(elsewhere) = elsewhere(&plane) {
        return Err(Failure::NotFound(elsewhere));
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let password = secrets
        .get_opt(ADMIN)
        .await?
        .and_then(|secret| secret.data?.remove("password"))
        .and_then(|value| String::from_utf8(value.0).ok())
        .ok_or_else(|| {
            Failure::NotReady(format!(
                "Secret {ADMIN} has no password yet: `c5c3 explain` says what the cloud is waiting for"
            ))
        })?;
    Ok(Login {
        release: plane.spec.open_stack_release.clone(),
        variables: variables(&plane, namespace, password),
    })
}

/// Whose Keystone it is, when it is not the cloud's own: the login is theirs.
fn elsewhere(plane: &ControlPlane) -> Option<String> {
    if plane.spec.services.keystone.common.enabled {
        return None;
    }
    let login = plane.spec.korc.cloud_credentials_ref.as_ref()?;
    Some(format!(
        "Keystone is external: log in with clouds.yaml of Secret {}, cloud {}",
        login.secret_name, login.cloud_name
    ))
}

fn variables(plane: &ControlPlane, namespace: &str, password: String) -> Vec<(&'static str, String)> {
    let public = plane.spec.services.keystone.common.public_endpoint.clone();
    let interface = if public.is_some() { "public" } else { "internal" };
    let url = public.unwrap_or_else(|| format!("http://keystone.{namespace}.svc:5000/v3"));
    let text = str::to_owned;
    // No region: a Keystone has one only, and the endpoints that K-ORC makes have none.
    vec![
        ("OS_AUTH_TYPE", text("password")),
        ("OS_AUTH_URL", url),
        ("OS_IDENTITY_API_VERSION", text("3")),
        ("OS_USERNAME", text("admin")),
        ("OS_PASSWORD", password),
        ("OS_USER_DOMAIN_NAME", text("Default")),
        ("OS_PROJECT_NAME", text("admin")),
        ("OS_PROJECT_DOMAIN_NAME", text("Default")),
        ("OS_INTERFACE", text(interface)),
    ]
}

/// For a shell: quoted so that any value survives.
pub(crate) fn exports(login: &Login) -> String {
    let quoted = |value: &str| format!("'{}'", value.replace('\'', r"'\''"));
    login
        .variables
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keystone_of_somebody_else_has_a_login_of_its_own() {
        let plane = |spec: serde_json::Value| -> ControlPlane {
            let object = serde_json::json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
                "metadata": {"name": "cloud"}, "spec": spec});
            serde_json::from_value(object).expect("a ControlPlane")
        };
        let theirs = plane(
            serde_json::json!({"openStackRelease": "2025.2", "services": {"keystone": {"enabled": false}},
            "korc": {"cloudCredentialsRef": {"secretName": "theirs", "cloudName": "prod"}}}),
        );
        let said = elsewhere(&theirs).expect("said");
        assert!(said.contains("Secret theirs, cloud prod"), "{said}");
        assert_eq!(
            elsewhere(&plane(serde_json::json!({"openStackRelease": "2025.2"}))),
            None
        );
    }

    #[test]
    fn any_password_survives_the_shell() {
        let login = Login {
            release: "2025.2".into(),
            variables: vec![("OS_PASSWORD", "it's $HOME".into())],
        };
        assert_eq!(exports(&login), "export OS_PASSWORD='it'\\''s $HOME'\n");
    }
}
