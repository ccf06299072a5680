//! Values from Secrets, on their way to environment variables.

use std::collections::BTreeMap;

use c5c3_kit::mask::Mask;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::facts::{Account, Facts, value};
use crate::kinds::{self, ceph};
use crate::shape::{Service, Settings, VolumeSource};

const AUTHTOKEN: &str = "keystone_authtoken";

/// Variable → value.
pub(super) type Values = BTreeMap<String, String>;

/// The variable of an option as oslo.config reads it: `OS_<GROUP>__<OPTION>`.
pub(super) fn variable(group: &str, option: &str) -> String {
    format!("OS_{}__{}", group.to_uppercase(), option.to_uppercase())
}

/// Connections of the databases that some settings name.
pub(super) fn connections(service: &Service, settings: &Settings, facts: &Facts) -> Result<Values, Error> {
    let mut values = Values::new();
    for (group, name) in &settings.databases {
        values.insert(variable(group, "connection"), connection(service, name, facts)?);
    }
    Ok(values)
}

fn connection(service: &Service, name: &str, facts: &Facts) -> Result<String, Error> {
    let names = &service.names;
    let namespace = &names.namespace;
    let database = service.database(name).ok_or(Error::NoDatabase)?;
    let user = match &database.cluster_ref {
        Some(_) => Account::of(names, name, database, facts)?.username,
        None => value(facts, &database.secret_ref.name, "username")?,
    };
    let password = value(facts, &database.secret_ref.name, "password")?;
    let host = match (&database.cluster_ref, &database.host) {
        (Some(cluster), _) => {
            let server = facts.databases.get(&cluster.name).map(|server| &server.spec);
            // Of several servers one takes writes: Galera, or replication.
            let several = server.is_some_and(|server| {
                server.galera.as_ref().is_some_and(|galera| galera.enabled)
                    || server.replicas.is_some_and(|replicas| replicas > 1)
            });
            let suffix = if several { "-primary" } else { "" };
            format!("{}{suffix}.{namespace}.svc:3306", cluster.name)
        }
        (None, Some(host)) => format!("{host}:{}", database.port.unwrap_or(3306)),
        // The schema refuses an object with neither.
        (None, None) => return Err(Error::NoDatabase),
    };
    // SQLAlchemy is told which driver to load.
    Ok(format!(
        "mysql+pymysql://{}:{}@{host}/{}?charset=utf8",
        percent(&user),
        percent(&password),
        database.database
    ))
}

/// What the processes of some settings need beside the databases.
pub(super) fn credentials(service: &Service, settings: &Settings, facts: &Facts) -> Result<Values, Error> {
    let mut values = Values::new();
    for login in &settings.logins {
        for option in ["application_credential_id", "application_credential_secret"] {
            values.insert(
                variable(login.group, option),
                value(facts, &login.secret, option)?,
            );
        }
    }
    for (group, name) in &settings.buses {
        if let Some(bus) = service.bus(name) {
            let url = super::messaging::transport_url(&service.names, name, bus, facts)?;
            values.insert(variable(group, "transport_url"), url);
        }
    }
    for option in &settings.secret_options {
        let text = value(facts, &option.secret, option.key)?;
        values.insert(variable(option.group, option.option), text);
    }
    if settings.options.get(AUTHTOKEN, kinds::CACHE_STRATEGY).is_some() {
        values.insert(variable(AUTHTOKEN, "memcache_secret_key"), cache_key(facts));
    }
    let processes = service.processes.iter();
    let processes = processes.filter(|process| process.settings == settings.name);
    for volume in processes.flat_map(|process| &process.volumes) {
        if let VolumeSource::Keyring {
            login, files, also, ..
        } = &volume.source
        {
            for key in *files {
                value(facts, &login.secret, key)?;
            }
            for other in also {
                value(facts, &other.secret, ceph::KEYRING)?;
            }
        }
    }
    Ok(values)
}

/// Files of Secrets that processes in other clusters read: those Secrets are here alone.
pub(super) fn files_elsewhere(
    service: &Service,
    settings: &Settings,
    facts: &Facts,
) -> Result<Values, Error> {
    let processes = service.processes.iter();
    let away = processes.filter(|process| process.settings == settings.name && process.cluster.is_some());
    let mut values = Values::new();
    for volume in away.flat_map(|process| &process.volumes) {
        if let VolumeSource::Keyring { login, files, .. } = &volume.source {
            for key in *files {
                let text = value(facts, &login.secret, key)? + "\n";
                values.insert(file_elsewhere(&volume.name, key), text);
            }
        }
    }
    Ok(values)
}

/// Its key among the files of all volumes.
pub(super) fn file_elsewhere(volume: &str, key: &str) -> String {
    format!("{volume}.{key}")
}

/// The key of the token cache, which all pods of the service share. It follows from the one key that is made
/// for each service and is in a Secret alone.
fn cache_key(facts: &Facts) -> String {
    let digest = Sha256::digest(format!("token cache\n{}", facts.naming));
    hex::encode(digest)
}

/// Percent-encodes what a URL's user part cannot hold.
pub(super) fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// Values that may turn up in a program's output: never to be shown.
pub fn hidden(facts: &Facts) -> Mask {
    let secrets = facts.secrets.values().chain(facts.ovn_secrets.values());
    let texts = secrets
        .flat_map(BTreeMap::iter)
        .filter(|(key, _)| key.as_str() != "username");
    let texts = texts.filter_map(|(_, value)| String::from_utf8(value.clone()).ok());
    // A program may print one line of a key or a keyring alone.
    let parts = |text: String| {
        let whole = Some(text.trim().to_owned()).filter(|text| text.len() >= 4);
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= 8);
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        whole.into_iter().chain(lines)
    };
    Mask::of(texts.flat_map(parts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::SecretData;
    use crate::shape::Subject;
    use crate::testing::{facts, keystone};

    #[test]
    fn every_long_line_of_a_secret_is_masked() {
        let keyring = "[client.glance]\n\tkey = AQBsecretsecret==\n";
        let data = SecretData::from([("keyring".to_owned(), keyring.as_bytes().to_vec())]);
        let facts = Facts {
            secrets: BTreeMap::from([("ceph".to_owned(), data)]),
            ..Facts::default()
        };
        let said = "cannot parse `key = AQBsecretsecret==` in line 2";
        assert_eq!(hidden(&facts).hide(said), "cannot parse `***` in line 2");
    }

    #[test]
    fn of_several_servers_the_one_that_writes_is_asked() {
        for (spec, host) in [
            (json!({}), "mariadb.openstack.svc:3306"),
            (json!({"replicas": 1}), "mariadb.openstack.svc:3306"),
            (json!({"replicas": 2}), "mariadb-primary.openstack.svc:3306"),
            (
                json!({"galera": {"enabled": true}}),
                "mariadb-primary.openstack.svc:3306",
            ),
        ] {
            let mut facts = facts();
            let server = facts.databases.get_mut("mariadb").expect("there");
            server.spec = serde_json::from_value(spec.clone()).expect("a spec");
            let service = keystone().shape();
            let values = connections(&service, &service.settings[0], &facts).expect("connections");
            assert!(
                values.values().any(|url| url.contains(&format!("@{host}/"))),
                "{spec}"
            );
        }
    }
}
