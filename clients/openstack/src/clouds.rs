//! `clouds.yaml`, as openstackclient and K-ORC read it: the parts that decide where and as whom.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::catalogue::Interface;
use crate::secret::Secret;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudsError {
    #[error("clouds.yaml, line {line}: {message}")]
    NotYaml { line: u64, message: String },
    #[error("clouds.yaml has no cloud {name:?}; it has {known}")]
    NoCloud { name: String, known: String },
    #[error("clouds.yaml: clouds.{cloud}.{field} is missing")]
    Missing { cloud: String, field: &'static str },
    #[error("clouds.yaml: clouds.{cloud}.{field}: {reason}")]
    Invalid {
        cloud: String,
        field: &'static str,
        reason: String,
    },
}

/// One cloud: where it is and who logs in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cloud {
    /// Ends with `/v3`.
    pub auth_url: String,
    pub auth: Auth,
    pub region: Option<String>,
    pub interface: Interface,
    /// Certificates in PEM form to trust instead of the machine's.
    pub ca: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Auth {
    Password {
        user: UserName,
        password: Secret,
        scope: Scope,
    },
    ApplicationCredential {
        id: String,
        secret: Secret,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UserName {
    Id(String),
    Name { name: String, domain: DomainName },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DomainName {
    Id(String),
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Unscoped,
    ProjectId(String),
    Project { name: String, domain: DomainName },
    Domain(DomainName),
    System,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    clouds: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth_type: Option<String>,
    auth: AuthEntry,
    region_name: Option<String>,
    #[serde(alias = "endpoint_type")]
    interface: Option<Interface>,
    verify: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    auth_url: Option<String>,
    username: Option<String>,
    user_id: Option<String>,
    password: Option<Secret>,
    project_name: Option<String>,
    project_id: Option<String>,
    user_domain_name: Option<String>,
    user_domain_id: Option<String>,
    project_domain_name: Option<String>,
    project_domain_id: Option<String>,
    domain_name: Option<String>,
    domain_id: Option<String>,
    system_scope: Option<String>,
    application_credential_id: Option<String>,
    application_credential_secret: Option<Secret>,
}

impl Cloud {
    /// The cloud of that name in the text of a `clouds.yaml`. `ca` is the content of the file that
    /// `cacert` would name.
    pub fn parse(text: &str, name: &str, ca: Option<String>) -> Result<Self, CloudsError> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            // The rest of the error would show the text, passwords and all.
            let whole = error.without_snippet().to_string();
            let first = whole.lines().next().unwrap_or_default();
            let message = first.split([':', '`', '"']).next().unwrap_or_default();
            CloudsError::NotYaml {
                line: error.location().map_or(1, |location| location.line()),
                message: match message.trim() {
                    "" => "not valid YAML".to_owned(),
                    message => message.to_owned(),
                },
            }
        })?;
        let known = match file.clouds.len() {
            0 => "none".to_owned(),
            _ => file.clouds.keys().cloned().collect::<Vec<_>>().join(", "),
        };
        let entry = file.clouds.into_iter().find(|(key, _)| key == name);
        let (_, entry) = entry.ok_or_else(|| CloudsError::NoCloud {
            name: name.to_owned(),
            known,
        })?;
        entry.cloud(name, ca)
    }

    /// The same cloud, for somebody else.
    pub fn with_auth(&self, auth: Auth) -> Self {
        Self { auth, ..self.clone() }
    }
}

impl Entry {
    fn cloud(self, cloud: &str, ca: Option<String>) -> Result<Cloud, CloudsError> {
        let missing = |field| CloudsError::Missing {
            cloud: cloud.to_owned(),
            field,
        };
        let invalid = |field, reason: String| CloudsError::Invalid {
            cloud: cloud.to_owned(),
            field,
            reason,
        };
        if self.verify == Some(false) {
            let way_out = "certificates are always checked; give the CA as cacert instead".to_owned();
            return Err(invalid("verify", way_out));
        }
        let auth = self.auth;
        let auth_url = filled(auth.auth_url.clone()).ok_or_else(|| missing("auth.auth_url"))?;
        let auth_url = normal(&auth_url).map_err(|reason| invalid("auth.auth_url", reason))?;
        let wanted = self.auth_type.as_deref().unwrap_or_else(|| {
            let by_credential = auth.application_credential_id.is_some();
            if by_credential {
                "v3applicationcredential"
            } else {
                "password"
            }
        });
        let auth = match wanted {
            "password" | "v3password" => auth.password(missing)?,
            "v3applicationcredential" => Auth::ApplicationCredential {
                id: filled(auth.application_credential_id)
                    .ok_or_else(|| missing("auth.application_credential_id"))?,
                secret: auth
                    .application_credential_secret
                    .filter(|secret| !secret.reveal().is_empty())
                    .ok_or_else(|| missing("auth.application_credential_secret"))?,
            },
            other => {
                let reason = format!("{other:?} is not one of password, v3password, v3applicationcredential");
                return Err(invalid("auth_type", reason));
            }
        };
        Ok(Cloud {
            auth_url,
            auth,
            region: filled(self.region_name),
            interface: self.interface.unwrap_or_default(),
            ca,
        })
    }
}

impl AuthEntry {
    fn password(self, missing: impl Fn(&'static str) -> CloudsError) -> Result<Auth, CloudsError> {
        let password = self
            .password
            .filter(|password| !password.reveal().is_empty())
            .ok_or_else(|| missing("auth.password"))?;
        let fallback = domain(self.domain_id, self.domain_name);
        let user_domain = domain(self.user_domain_id, self.user_domain_name).or_else(|| fallback.clone());
        let user = match (filled(self.user_id), filled(self.username)) {
            (Some(id), _) => UserName::Id(id),
            (None, Some(name)) => UserName::Name {
                name,
                domain: user_domain.ok_or_else(|| missing("auth.user_domain_name"))?,
            },
            (None, None) => return Err(missing("auth.username")),
        };
        let project_domain = domain(self.project_domain_id, self.project_domain_name);
        let scope = match (filled(self.project_id), filled(self.project_name)) {
            (Some(id), _) => Scope::ProjectId(id),
            (None, Some(name)) => Scope::Project {
                name,
                domain: project_domain
                    .or(fallback)
                    .ok_or_else(|| missing("auth.project_domain_name"))?,
            },
            (None, None) if filled(self.system_scope).is_some() => Scope::System,
            (None, None) => fallback.map_or(Scope::Unscoped, Scope::Domain),
        };
        Ok(Auth::Password {
            user,
            password,
            scope,
        })
    }
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn domain(id: Option<String>, name: Option<String>) -> Option<DomainName> {
    filled(id)
        .map(DomainName::Id)
        .or_else(|| filled(name).map(DomainName::Name))
}

/// With scheme and host, and with the version at its end.
fn normal(url: &str) -> Result<String, String> {
    let parsed: http::Uri = url.parse().map_err(|e| format!("{url:?} is no URL: {e}"))?;
    if !matches!(parsed.scheme_str(), Some("http" | "https")) || parsed.host().is_none() {
        return Err(format!("{url:?} is no URL of the form http://host:5000/v3"));
    }
    let url = url.trim_end_matches('/');
    Ok(if url.ends_with("/v3") {
        url.to_owned()
    } else {
        format!("{url}/v3")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADMIN: &str = "
clouds:
  admin:
    auth:
      auth_url: http://keystone.openstack.svc:5000
      username: admin
      password: s3cret
      project_name: admin
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
    interface: internal
";

    #[test]
    fn password_and_application_credential() {
        let cloud = Cloud::parse(ADMIN, "admin", None).expect("a cloud");
        assert_eq!(cloud.auth_url, "http://keystone.openstack.svc:5000/v3");
        assert_eq!(cloud.interface, Interface::Internal);
        let Auth::Password { user, scope, .. } = &cloud.auth else {
            panic!("{cloud:?}")
        };
        let default = || DomainName::Name("Default".to_owned());
        assert_eq!(
            *user,
            UserName::Name {
                name: "admin".to_owned(),
                domain: default()
            }
        );
        assert_eq!(
            *scope,
            Scope::Project {
                name: "admin".to_owned(),
                domain: default()
            }
        );
        assert!(!format!("{cloud:?}").contains("s3cret"));

        let text = "clouds: {a: {auth_type: v3applicationcredential, auth: {auth_url: 'https://k/v3/', application_credential_id: x, application_credential_secret: y}}}";
        let cloud = Cloud::parse(text, "a", None).expect("a cloud");
        assert_eq!(cloud.auth_url, "https://k/v3");
        assert_eq!(
            cloud.auth,
            Auth::ApplicationCredential {
                id: "x".to_owned(),
                secret: Secret::new("y")
            }
        );
    }

    #[test]
    fn errors_name_the_field() {
        let without = |line: &str| {
            let kept: Vec<&str> = ADMIN.lines().filter(|l| !l.trim().starts_with(line)).collect();
            Cloud::parse(&kept.join("\n"), "admin", None).map_err(|e| e.to_string())
        };
        for (line, field) in [
            ("auth_url", "auth.auth_url"),
            ("username", "auth.username"),
            ("password", "auth.password"),
            ("user_domain_name", "auth.user_domain_name"),
            ("project_domain_name", "auth.project_domain_name"),
        ] {
            let error = without(line).expect_err(line);
            assert_eq!(error, format!("clouds.yaml: clouds.admin.{field} is missing"));
        }
        assert!(without("region_name").is_ok());
        let other = Cloud::parse(ADMIN, "root", None).expect_err("no such cloud");
        assert_eq!(
            other.to_string(),
            "clouds.yaml has no cloud \"root\"; it has admin"
        );
        let odd = ADMIN.replace("    auth:", "    auth_type: token\n    auth:");
        let odd = Cloud::parse(&odd, "admin", None).expect_err("no such type");
        assert!(
            odd.to_string()
                .contains("clouds.admin.auth_type: \"token\" is not one of"),
            "{odd}"
        );
        let url = ADMIN.replace("http://keystone.openstack.svc:5000", "keystone");
        let url = Cloud::parse(&url, "admin", None).expect_err("no url");
        assert!(url.to_string().contains("auth.auth_url"), "{url}");
    }

    #[test]
    fn a_broken_file_does_not_show_its_secrets() {
        for text in [
            ADMIN.replace("password: s3cret", "password: {a: s3cret"),
            ADMIN.replace("password: s3cret", "password: [s3cret]"),
            ADMIN.replace("interface: internal", "interface: s3cret"),
            "clouds: s3cret".to_owned(),
        ] {
            let error = Cloud::parse(&text, "admin", None).expect_err("broken");
            assert!(!error.to_string().contains("s3cret"), "{error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", name in "[a-z]{0,4}") {
            let _ = Cloud::parse(&text, &name, None);
        }

        #[test]
        fn every_address_ends_with_the_version(host in "[a-z]{1,9}", port in 1u16.., slash in "/{0,3}", version in prop_oneof![Just(""), Just("/v3")]) {
            let url = normal(&format!("http://{host}:{port}{version}{slash}")).expect("a URL");
            prop_assert_eq!(url, format!("http://{host}:{port}/v3"));
        }
    }
}
