//! The configuration of a service: a ConfigMap and Secrets, named by their content.

use std::collections::BTreeMap;

use c5c3_api::common::CaRef;
use c5c3_catalogue::{Catalogue, Release};
use serde_json::{Value, json};

use super::cache::cache_servers;
use super::policy::policy;
use super::secrets::{self, Values};
use super::uwsgi::uwsgi;
use crate::config::{self, Ini};
use crate::descriptor::Format;
use crate::error::Error;
use crate::facts::Facts;
use crate::kinds;
use crate::names::{NAMING, Names};
use crate::subject::Subject;

/// Everything that the pods read. Values of the Secrets appear nowhere else, so there is no Debug.
pub struct Configuration {
    pub config_map: Value,
    /// The databases, if there are any: all that a step needs.
    pub connections: Option<Value>,
    /// What only the processes need, if there is any; or what is missing for it.
    pub credentials: Result<Option<Value>, Error>,
    /// Changes when anything does that the processes read.
    pub hash: String,
    /// Changes when the database is another or is spoken to in another way.
    pub database_hash: String,
    /// Why extraConfig could not be checked.
    pub unchecked: Option<String>,
    /// What must not be shown.
    pub hidden: Vec<String>,
}

impl Configuration {
    pub fn config_map_name(&self) -> &str {
        name_of(&self.config_map)
    }

    pub fn connections_name(&self) -> Option<&str> {
        Some(name_of(self.connections.as_ref()?))
    }

    pub fn credentials_name(&self) -> Option<&str> {
        Some(name_of(self.credentials.as_ref().ok()?.as_ref()?))
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub fn configuration<S: Subject>(subject: &S, facts: &Facts) -> Result<Configuration, Error> {
    let names = Names::of(subject);
    let descriptor = S::DESCRIPTOR;
    subject.check()?;
    let unchecked = check_options(subject)?;
    let ini = options(subject, facts)?;

    let common = subject.common();
    let text = match descriptor.format {
        Format::Oslo => ini.render(),
        Format::Yaml => ini.render_yaml(),
    };
    let mut files = BTreeMap::from([(descriptor.config_file.to_owned(), text)]);
    for process in descriptor.processes {
        if let Some(text) = uwsgi(process, common.logging.as_ref()) {
            files.insert(format!("{}-uwsgi.ini", process.name), text);
        }
    }
    let authority = subject
        .keystone()
        .and_then(|keystone| keystone.ca_secret_ref.as_ref());
    if let Some(authority) = authority {
        files.insert(kinds::CA_FILE.to_owned(), certificates(authority, facts)?);
    }
    if let Some(overrides) = &common.policy_overrides {
        files.insert("policy.yaml".to_owned(), policy(overrides, facts)?);
    }

    let config_hash = config::hash_value(&json!(files));
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": names.metadata(&names.suffixed(&format!("config-{config_hash}"))),
        "data": files,
    });
    let values = secrets::connections(subject, facts)?;
    let unless_empty =
        |what, values: &Values| (!values.is_empty()).then(|| secret(&names, what, values, facts));
    let connections = unless_empty("connections", &values);
    let credentials = secrets::credentials(subject, facts).map(|values| unless_empty("credentials", &values));
    let connected = connections.as_ref().map_or("", name_of);
    let databases = subject.databases();
    let groups: Vec<&str> = databases.iter().map(|(group, _)| group.as_str()).collect();
    let database_hash = config::hash(&[connected, &ini.only(&groups).render()]);
    let others = credentials
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .map_or("", name_of);
    let hash = config::hash(&[&config_hash, connected, others]);
    Ok(Configuration {
        config_map,
        connections,
        credentials,
        hash,
        database_hash,
        unchecked,
        hidden: secrets::hidden(facts),
    })
}

/// Only the certificates of a file: they are public, and a key beside them stays where it is.
fn certificates(authority: &CaRef, facts: &Facts) -> Result<String, Error> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let text = secrets::value(facts, &authority.name, &authority.key)?;
    let all: String = text
        .split(BEGIN)
        .skip(1)
        .filter_map(|part| Some(format!("{BEGIN}{}{END}\n", part.split_once(END)?.0)))
        .collect();
    if all.is_empty() {
        return Err(Error::NoCertificate {
            secret: authority.name.clone(),
            key: authority.key.clone(),
        });
    }
    Ok(all)
}

/// Every option of the service: the release's, the spec's, those of extraConfig over them.
pub fn options<S: Subject>(subject: &S, facts: &Facts) -> Result<Ini, Error> {
    let mut ini = Ini::default();
    for (group, option, value) in S::DESCRIPTOR.defaults {
        ini.set(group, option, *value);
    }
    let servers = cache_servers(subject, facts)?;
    if S::DESCRIPTOR.format == Format::Oslo {
        kinds::shared(&mut ini, &subject.common());
        if subject.messaging().is_some() {
            kinds::messaging(&mut ini);
        }
        if let Some(keystone) = subject.keystone() {
            let list = servers.as_ref().map(|servers| servers.list.as_str());
            kinds::authtoken(&mut ini, S::DESCRIPTOR.name, keystone, list);
        }
    }
    subject.configure(&mut ini, servers.as_ref());
    ini.overlay(&subject.common().extra_config);
    Ok(ini)
}

/// Made once: another key would give other names to all that follows from secrets.
pub fn naming_key(names: &Names, facts: &Facts) -> Value {
    immutable(names, &names.suffixed(NAMING), [("key", facts.naming.as_str())])
}

fn secret(names: &Names, what: &str, values: &Values, facts: &Facts) -> Value {
    let hash = config::hash(&[&facts.naming, &json!(values).to_string()]);
    let name = names.suffixed(&format!("{what}-{hash}"));
    immutable(
        names,
        &name,
        values.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    )
}

/// A Secret whose name changes with its content.
pub fn immutable<'a>(
    names: &Names,
    name: &str,
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Value {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let encoded: BTreeMap<&str, String> = values
        .into_iter()
        .map(|(key, value)| (key, engine.encode(value)))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "immutable": true, "type": "Opaque",
        "metadata": names.metadata(name), "data": encoded,
    })
}

/// extraConfig against the release that the image belongs to. The answer says why it was not checked.
fn check_options<S: Subject>(subject: &S) -> Result<Option<String>, Error> {
    let common = subject.common();
    if common.extra_config.is_empty() {
        return Ok(None);
    }
    let name = S::DESCRIPTOR.name;
    let unchecked = |why: String| {
        let known = c5c3_catalogue::releases();
        let known = known
            .iter()
            .filter_map(|release| Catalogue::load(release, name).ok());
        let known: Vec<Catalogue> = known.collect();
        config::refuse_secrets(&common.extra_config, &known, &subject.free_groups())
            .map_err(Error::InvalidConfig)?;
        Ok(Some(format!("extraConfig was not checked: {why}")))
    };
    let Some(tag) = common.image.tag.as_deref() else {
        return unchecked("the image has a digest and no tag that tells its release".to_owned());
    };
    let Some(release) = Release::with_version(name, tag) else {
        return unchecked(format!("{name} {tag} belongs to no release that is known here"));
    };
    let Ok(catalogue) = Catalogue::load(&release.name, name) else {
        return unchecked(format!(
            "the options of {name} in release {} are not known here",
            release.name
        ));
    };
    config::check(&common.extra_config, &catalogue, &subject.free_groups())
        .map(|()| None)
        .map_err(Error::InvalidConfig)
}
