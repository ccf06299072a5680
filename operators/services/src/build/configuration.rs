//! The configuration of a service: a ConfigMap and Secrets, named by their content.

use std::collections::BTreeMap;

use c5c3_api::common::CaRef;
use c5c3_catalogue::{Catalogue, Release};
use c5c3_kit::clusters::ClusterName;
use c5c3_kit::mask::Mask;
use c5c3_kit::{HOME, Wanted};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use serde_json::json;

use super::cache::cache_servers;
use super::ovn::{self, ovn};
use super::policy::policy;
use super::secrets::{self, Values};
use super::uwsgi::{front, uwsgi};
use crate::config::{self, Ini};
use crate::error::Error;
use crate::facts::{Facts, value};
use crate::kinds::{self, ceph};
use crate::names::{NAMING, Names};
use crate::shape::{Fact, Process, Runs, Service, Settings, VolumeSource};

/// Everything that the pods read. Values of the Secrets appear nowhere else, so there is no Debug.
pub struct Configuration {
    /// One for each of the service's settings.
    pub all: Vec<Configured>,
    /// Changes when a database is another or is spoken to in another way.
    pub database_hash: String,
    /// Why extraConfig could not be checked.
    pub unchecked: Option<String>,
    /// What must not be shown.
    pub hidden: Mask,
}

/// What a group of processes reads.
pub struct Configured {
    /// Name of the settings.
    pub name: String,
    pub config_map: ConfigMap,
    /// The databases, if there are any: all that a step needs.
    pub connections: Option<Secret>,
    /// What only the processes need, if there is any; or what is missing for it.
    pub credentials: Result<Option<Secret>, Error>,
    /// Files of Secrets for processes in other clusters, which have no such Secrets.
    pub files: Option<Secret>,
    /// With what the processes log in to OVN.
    pub ovn: Option<Secret>,
    /// Changes when anything does that the processes read.
    pub hash: String,
}

impl Configuration {
    /// A process names settings that its service has; the tests of the shapes see to it.
    pub fn of(&self, settings: &str) -> Option<&Configured> {
        self.all.iter().find(|configured| configured.name == settings)
    }

    pub fn hash_of(&self, settings: &str) -> &str {
        self.of(settings)
            .map_or("", |configured| configured.hash.as_str())
    }

    /// The first thing that is missing for what the processes log in with.
    pub fn lacks(&self) -> Option<&Error> {
        self.all
            .iter()
            .find_map(|configured| configured.credentials.as_ref().err())
    }
}

impl Configured {
    /// What is read there.
    pub fn objects(&self, place: &ClusterName) -> impl Iterator<Item = Wanted> {
        let credentials = self.credentials.as_ref().ok();
        let secrets = [
            self.connections.as_ref(),
            credentials.and_then(Option::as_ref),
            self.files.as_ref().filter(|_| *place != HOME),
            self.ovn.as_ref(),
        ];
        let secrets = secrets.into_iter().flatten().map(Wanted::of);
        std::iter::once(Wanted::of(&self.config_map)).chain(secrets)
    }

    pub fn config_map_name(&self) -> &str {
        name_of(&self.config_map)
    }

    pub fn connections_name(&self) -> Option<&str> {
        Some(name_of(self.connections.as_ref()?))
    }

    pub fn files_name(&self) -> Option<&str> {
        Some(name_of(self.files.as_ref()?))
    }

    pub fn ovn_name(&self) -> Option<&str> {
        Some(name_of(self.ovn.as_ref()?))
    }

    pub fn credentials_name(&self) -> Option<&str> {
        Some(name_of(self.credentials.as_ref().ok()?.as_ref()?))
    }
}

fn name_of(object: &impl Resource) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

pub fn configuration(service: &Service, facts: &Facts) -> Result<Configuration, Error> {
    let unchecked = check_options(service)?;
    let mut all = Vec::with_capacity(service.settings.len());
    for settings in &service.settings {
        all.push(configured(service, settings, facts)?);
    }
    follow(service, &mut all);
    let configuration = Configuration {
        database_hash: String::new(),
        all,
        unchecked,
        hidden: secrets::hidden(facts),
    };
    let database_hash = database_hash(service, &configuration, facts)?;
    Ok(Configuration {
        database_hash,
        ..configuration
    })
}

fn configured(service: &Service, settings: &Settings, facts: &Facts) -> Result<Configured, Error> {
    let names = &service.names;
    let ini = options(service, settings, facts)?;
    let common = &service.common;
    let mut files = BTreeMap::new();
    if !settings.file.is_empty() {
        files.insert(settings.file.to_owned(), ini.render());
    }
    files.extend(settings.files.iter().cloned());
    let processes = service.processes.iter();
    for process in processes.filter(|process| process.settings == settings.name) {
        let directory = format!("/etc/{}", names.service);
        if let Some(text) = uwsgi(process, &directory, common.logging.as_ref()) {
            files.extend(front(process));
            files.insert(format!("{}-uwsgi.ini", process.name), text);
        }
    }
    let keystone = service.keystone.as_ref().filter(|_| !settings.logins.is_empty());
    if let Some(authority) = keystone.and_then(|keystone| keystone.ca_secret_ref.as_ref()) {
        files.insert(kinds::CA_FILE.to_owned(), certificates(authority, facts)?);
    }
    let serves = |process: &&Process| matches!(process.runs, Runs::Wsgi { .. });
    let mut readers = service
        .processes
        .iter()
        .filter(|process| process.settings == settings.name);
    let overrides = common.policy_overrides.as_ref();
    if let Some(overrides) = overrides.filter(|_| readers.any(|process| serves(&process))) {
        files.insert("policy.yaml".to_owned(), policy(overrides, facts)?);
    }

    let prefix = settings.prefix();
    let config_hash = config::hash_value(&json!(files));
    let config_map = ConfigMap {
        immutable: Some(true),
        metadata: names.metadata(&names.suffixed(&format!("{prefix}config-{config_hash}"))),
        data: Some(files),
        ..ConfigMap::default()
    };
    let values = secrets::connections(service, settings, facts)?;
    let unless_empty = |what: &str, values: &Values| {
        (!values.is_empty()).then(|| secret(names, &format!("{prefix}{what}"), values, facts))
    };
    let connections = unless_empty("connections", &values);
    let credentials = secrets::credentials(service, settings, facts);
    let credentials = credentials.map(|values| unless_empty("credentials", &values));
    // What is missing among them is told with the credentials.
    let files = secrets::files_elsewhere(service, settings, facts).unwrap_or_default();
    let files = unless_empty("files", &files);
    let ovn = unless_empty("ovn-tls", &ovn::certificates(service, settings, facts)?);
    let connected = connections.as_ref().map_or("", name_of);
    let told = other_users(service, settings, facts);
    let others = credentials.as_ref().ok().and_then(Option::as_ref);
    let mut read = vec![config_hash.as_str(), connected, others.map_or("", name_of)];
    read.extend(files.as_ref().map(name_of));
    read.extend(ovn.as_ref().map(name_of));
    read.extend((!told.is_empty()).then_some(told.as_str()));
    let hash = config::hash(&read);
    Ok(Configured {
        name: settings.name.clone(),
        config_map,
        connections,
        credentials,
        files,
        ovn,
        hash,
    })
}

/// Users of Ceph that others tell the processes to be: they have to have the keys of these first.
fn other_users(service: &Service, settings: &Settings, facts: &Facts) -> String {
    let processes = service.processes.iter();
    let readers = processes.filter(|process| process.settings == settings.name);
    let also = readers
        .flat_map(|process| &process.volumes)
        .flat_map(|volume| match &volume.source {
            VolumeSource::Keyring { also, .. } => also.as_slice(),
            _ => &[],
        });
    let users: Vec<String> = also.flat_map(|login| ceph::who(Some(facts), login)).collect();
    users.join(" ")
}

/// Processes that find secrets of others in a database restart when those change.
fn follow(service: &Service, all: &mut [Configured]) {
    let secrets: Vec<(String, String)> = all
        .iter()
        .map(|one| {
            let named = [one.connections_name(), one.credentials_name()];
            (one.name.clone(), named.map(Option::unwrap_or_default).join(" "))
        })
        .collect();
    for settings in &service.settings {
        let followed = settings.follows.as_ref();
        let followed = followed.and_then(|name| secrets.iter().find(|(other, _)| other == name));
        let own = all.iter_mut().find(|one| one.name == settings.name);
        if let (Some((_, names)), Some(own)) = (followed, own) {
            own.hash = config::hash(&[&own.hash, names]);
        }
    }
}

fn database_hash(service: &Service, configuration: &Configuration, facts: &Facts) -> Result<String, Error> {
    let settings = service.settings.iter();
    let mut named = settings.filter(|settings| settings.name == service.schema.settings);
    let Some(settings) = named.next() else {
        return Ok(String::new());
    };
    let groups: Vec<&str> = settings
        .databases
        .iter()
        .map(|(group, _)| group.as_str())
        .collect();
    let connected = configuration
        .of(&settings.name)
        .and_then(Configured::connections_name)
        .unwrap_or_default();
    Ok(config::hash(&[
        connected,
        &options(service, settings, facts)?.only(&groups).render(),
    ]))
}

/// Only the certificates of a file: they are public, and a key beside them stays where it is.
fn certificates(authority: &CaRef, facts: &Facts) -> Result<String, Error> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let text = value(facts, &authority.name, &authority.key)?;
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

/// Every option of some settings: the release's, the spec's, what was seen, extraConfig over them.
pub(crate) fn options(service: &Service, settings: &Settings, facts: &Facts) -> Result<Ini, Error> {
    let mut ini = settings.options.clone();
    if !settings.file.is_empty() {
        kinds::shared(&mut ini, &service.common);
        if !settings.buses.is_empty() {
            kinds::messaging(&mut ini);
        }
    }
    for (group, option, fact) in &settings.facts {
        if let Some(value) = known(service, *fact, facts)? {
            ini.set(group, option, value);
        }
    }
    for option in &settings.ceph {
        ini.set(&option.group, option.option, ceph::value(option, facts));
    }
    if let (Some((group, option)), Some(url)) = (address_option(service), &service.common.public_endpoint) {
        ini.set(group, option, without_version(url));
    }
    ini.overlay(&service.common.extra_config);
    Ok(ini)
}

/// Services put the version of the API behind their address themselves.
fn without_version(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    let is_version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    };
    match url.rsplit_once('/') {
        Some((root, last)) if is_version(last) => root,
        _ => url,
    }
}

/// The option by which a service tells its public address in its answers. Keystone has its own way.
pub fn address_option(service: &Service) -> Option<(&'static str, &'static str)> {
    match service.names.service {
        "glance" | "cinder" => Some(("DEFAULT", "public_endpoint")),
        "nova" => Some(("api", "compute_link_prefix")),
        _ => None,
    }
}

fn known(service: &Service, fact: Fact, facts: &Facts) -> Result<Option<String>, Error> {
    match fact {
        Fact::CacheServers => Ok(cache_servers(service, facts)?.map(|servers| servers.list)),
        Fact::CachesAgree => {
            let servers = cache_servers(service, facts)?;
            let differ = servers.is_some_and(|servers| !servers.each_named);
            Ok(differ.then(|| "false".to_owned()))
        }
        Fact::OvnNorthbound => Ok(Some(ovn(service, facts)?.northbound)),
        Fact::OvnSouthbound => Ok(Some(ovn(service, facts)?.southbound)),
        Fact::OvnFile(place, file) => {
            let secured = ovn(service, facts)?.secrets;
            Ok(secured.map(|_| format!("{place}/{file}")))
        }
    }
}

/// Created once: with another key, all names derived from secrets would change.
pub fn naming_key(names: &Names, facts: &Facts) -> Secret {
    immutable(names, &names.suffixed(NAMING), [("key", facts.naming.as_str())])
}

fn secret(names: &Names, what: &str, values: &Values, facts: &Facts) -> Secret {
    let hash = config::hash(&[&facts.naming, &json!(values).to_string()]);
    let name = names.suffixed(&format!("{what}-{hash}"));
    immutable(
        names,
        &name,
        values.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    )
}

/// A Secret whose name changes with its content.
pub(super) fn immutable<'a>(
    names: &Names,
    name: &str,
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Secret {
    let values = values.into_iter();
    let data = values.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        metadata: names.metadata(name),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// extraConfig against the release that the image belongs to. The answer says why it was not checked.
fn check_options(service: &Service) -> Result<Option<String>, Error> {
    let common = &service.common;
    if common.extra_config.is_empty() {
        return Ok(None);
    }
    let name = service.names.service;
    let free: Vec<&str> = service.free_groups.iter().map(String::as_str).collect();
    let unchecked = |why: String| {
        let known = c5c3_catalogue::releases();
        let known = known
            .iter()
            .filter_map(|release| Catalogue::load(release, name).ok());
        let known: Vec<Catalogue> = known.collect();
        config::refuse_secrets(&common.extra_config, &known, &free).map_err(Error::InvalidConfig)?;
        Ok(Some(format!("extraConfig was not checked: {why}")))
    };
    let Some(tag) = common.image.tag.as_deref() else {
        return unchecked("the image has a digest but no tag that names its release".to_owned());
    };
    let Some(release) = Release::with_version(name, tag) else {
        return unchecked(format!("{name} {tag} belongs to no known release"));
    };
    let Ok(catalogue) = Catalogue::load(&release.name, name) else {
        return unchecked(format!(
            "the options of {name} in release {} are unknown",
            release.name
        ));
    };
    config::check(&common.extra_config, &catalogue, &free)
        .map(|()| None)
        .map_err(Error::InvalidConfig)
}

#[cfg(test)]
mod tests {
    use super::without_version;

    #[test]
    fn an_address_is_told_without_its_version() {
        for (url, expected) in [
            ("https://compute.example.org/v2.1", "https://compute.example.org"),
            ("https://volume.example.org/v3/", "https://volume.example.org"),
            ("https://example.org/image", "https://example.org/image"),
            ("https://vault.example.org", "https://vault.example.org"),
        ] {
            assert_eq!(without_version(url), expected);
        }
    }
}
