//! `clouds.yaml`, as OpenStack clients read it. What is said about one never quotes it: it holds secrets.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The key of a Secret that holds one.
pub(crate) const KEY: &str = "clouds.yaml";
/// The cloud that we write for others.
pub(crate) const OPENSTACK: &str = "openstack";

/// Where a cloud is; not how to log in. It names no region: endpoints that K-ORC makes are in none, and who
/// names one would not find them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cloud {
    /// With its version.
    pub auth_url: String,
    /// Which endpoints of the catalogue are used; clients take the public ones when it is left out.
    pub interface: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("clouds.yaml is not YAML in the form that OpenStack clients read")]
    NotYaml,
    #[error("clouds.yaml has no cloud {name:?}, only {}; correct cloudCredentialsRef.cloudName", known.join(", "))]
    NoCloud { name: String, known: Vec<String> },
    #[error("cloud {0:?} of clouds.yaml has no auth.auth_url")]
    NoAddress(String),
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    clouds: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<Auth>,
    interface: Option<String>,
    /// The same, as Go's clients call it.
    endpoint_type: Option<String>,
}

#[derive(Deserialize)]
struct Auth {
    auth_url: Option<String>,
}

pub(crate) fn find(text: &str, name: &str) -> Result<Cloud, Unreadable> {
    // The parser's message may quote the text.
    let mut file: File = serde_saphyr::from_str(text).map_err(|_| Unreadable::NotYaml)?;
    let Some(entry) = file.clouds.remove(name) else {
        return Err(Unreadable::NoCloud {
            name: name.to_owned(),
            known: file.clouds.into_keys().collect(),
        });
    };
    let url = entry.auth.and_then(|auth| auth.auth_url);
    let url = url.ok_or_else(|| Unreadable::NoAddress(name.to_owned()))?;
    let url = url.trim_end_matches('/');
    Ok(Cloud {
        auth_url: if url.ends_with("/v3") {
            url.to_owned()
        } else {
            format!("{url}/v3")
        },
        interface: entry.interface.or(entry.endpoint_type),
    })
}

/// Text in JSON's quotes is text in YAML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A login with a password, as cloud `admin`.
pub(crate) fn of_admin(cloud: &Cloud, password: &str) -> String {
    let auth = format!(
        "      username: admin\n      password: {}\n      project_name: admin\n      \
         user_domain_name: Default\n      project_domain_name: Default\n",
        quoted(password)
    );
    written("admin", "", cloud, &auth)
}

/// A login with an application credential, as cloud `openstack`.
pub(crate) fn of_credential(cloud: &Cloud, id: &str, secret: &str) -> String {
    let auth = format!(
        "      application_credential_id: {}\n      application_credential_secret: {}\n",
        quoted(id),
        quoted(secret)
    );
    written(
        OPENSTACK,
        "    auth_type: v3applicationcredential\n",
        cloud,
        &auth,
    )
}

/// A user on a project, by their ids.
pub(crate) struct Person<'a> {
    pub user_id: &'a str,
    pub password: &'a str,
    pub project_id: &'a str,
}

/// A cloud of the text with the login of somebody else, as cloud `openstack`. All that says where it
/// is and how it is reached stays.
pub(crate) fn of_person(text: &str, name: &str, person: &Person<'_>) -> Result<String, Unreadable> {
    #[derive(Deserialize)]
    struct Whole {
        clouds: BTreeMap<String, Value>,
    }
    let Cloud { auth_url, .. } = find(text, name)?;
    let mut whole: Whole = serde_saphyr::from_str(text).map_err(|_| Unreadable::NotYaml)?;
    let mut entry = match whole.clouds.remove(name) {
        Some(Value::Object(entry)) => entry,
        _ => Map::new(),
    };
    entry.remove("auth_type");
    let auth = json!({
        "auth_url": auth_url, "user_id": person.user_id, "password": person.password,
        "project_id": person.project_id,
    });
    entry.insert("auth".to_owned(), auth);
    // JSON is YAML.
    Ok(json!({"clouds": {OPENSTACK: entry}}).to_string())
}

fn written(name: &str, type_: &str, cloud: &Cloud, auth: &str) -> String {
    let interface = cloud.interface.as_deref().map(quoted);
    // The older of its two names: Python's, Go's and our own clients know it.
    let interface = interface.map(|interface| format!("    endpoint_type: {interface}\n"));
    format!(
        "clouds:\n  {name}:\n{type_}    auth:\n      auth_url: {}\n{auth}{}    identity_api_version: 3\n",
        quoted(&cloud.auth_url),
        interface.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let cloud = Cloud {
            auth_url: "http://keystone.ns.svc:5000/v3".to_owned(),
            interface: Some("internal".to_owned()),
        };
        assert_eq!(find(&of_admin(&cloud, "p\"w: #"), "admin"), Ok(cloud.clone()));
        let text = of_credential(&cloud, "id", "s'\"");
        assert!(!text.contains("region"), "{text}");
        assert_eq!(find(&text, "openstack"), Ok(cloud));
        let read: Value = serde_saphyr::from_str(&text).expect("YAML");
        let auth = &read["clouds"]["openstack"]["auth"];
        assert_eq!(auth["application_credential_secret"], "s'\"");
    }

    #[test]
    fn somebody_else_logs_in_to_the_same_cloud() {
        let text = "clouds: {other: {}, admin: {auth_type: v3applicationcredential, region_name: north, \
            endpoint_type: internal, verify: true, auth: {auth_url: 'https://k', username: admin, \
            password: secret, application_credential_id: x}}}";
        let person = Person {
            user_id: "u1",
            password: "p\"w: #",
            project_id: "p1",
        };
        let written = of_person(text, "admin", &person).expect("a cloud");
        let read: Value = serde_saphyr::from_str(&written).expect("YAML");
        let auth =
            json!({"auth_url": "https://k/v3", "user_id": "u1", "password": "p\"w: #", "project_id": "p1"});
        let cloud =
            json!({"region_name": "north", "endpoint_type": "internal", "verify": true, "auth": auth});
        assert_eq!(read, json!({"clouds": {"openstack": cloud}}));
        let none = of_person(text, "root", &person).expect_err("no such cloud");
        assert!(none.to_string().contains("no cloud \"root\""), "{none}");
    }

    #[test]
    fn addresses_get_their_version() {
        let find = |url: &str| find(&format!("clouds: {{a: {{auth: {{auth_url: '{url}'}}}}}}"), "a");
        for url in ["https://x", "https://x/", "https://x/v3", "https://x/v3/"] {
            assert_eq!(
                find(url).map(|cloud| cloud.auth_url).as_deref(),
                Ok("https://x/v3")
            );
        }
    }
}
