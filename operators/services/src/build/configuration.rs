//! The configuration of a service: a ConfigMap and Secrets, named by their content.

use std::collections::BTreeMap;

use c5c3_catalogue::{Catalogue, Release};
use serde_json::{Value, json};

use super::policy::policy;
use super::secrets::{self, Values};
use crate::config::{self, Ini};
use crate::descriptor::Runs;
use crate::error::Error;
use crate::facts::Facts;
use crate::kinds;
use crate::names::Names;
use crate::subject::Subject;

/// Everything that the pods read. Values of the Secrets appear nowhere else.
#[derive(Debug)]
pub struct Configuration {
    pub config_map: Value,
    /// The databases: all that a step needs.
    pub connections: Value,
    /// What only the processes need, if there is any; or what is missing for it.
    pub credentials: Result<Option<Value>, Error>,
    /// Changes when anything does that the processes read.
    pub hash: String,
    /// Changes when the database is another or is spoken to in another way.
    pub database_hash: String,
    /// What must not be shown.
    pub hidden: Vec<String>,
}

impl Configuration {
    pub fn config_map_name(&self) -> &str {
        name_of(&self.config_map)
    }

    pub fn connections_name(&self) -> &str {
        name_of(&self.connections)
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
    check_options(subject)?;

    let mut ini = Ini::default();
    for (group, option, value) in descriptor.defaults {
        ini.set(group, option, *value);
    }
    kinds::shared(&mut ini, subject.common());
    if subject.messaging().is_some() {
        kinds::messaging(&mut ini);
    }
    let servers = cache_servers(subject, facts)?;
    if let Some(keystone) = subject.keystone() {
        kinds::authtoken(&mut ini, keystone, servers.as_deref());
    } else if let Some(servers) = &servers {
        ini.set("cache", "memcache_servers", servers);
    }
    subject.configure(&mut ini);
    ini.overlay(&subject.common().extra_config);

    let mut files = BTreeMap::from([(descriptor.config_file.to_owned(), ini.render())]);
    for process in descriptor.processes {
        if let Runs::Wsgi {
            module, port, extra, ..
        } = &process.runs
        {
            files.insert(format!("{}-uwsgi.ini", process.name), uwsgi(module, *port, extra));
        }
    }
    if let Some(overrides) = &subject.common().policy_overrides {
        files.insert("policy.yaml".to_owned(), policy(overrides, facts)?);
    }

    let config_hash = config::hash_value(&json!(files));
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": names.metadata(&names.suffixed(&format!("config-{config_hash}"))),
        "data": files,
    });
    let values = secrets::connections(subject, facts)?;
    let connections = secret(&names, "connections", &values);
    let credentials = secrets::credentials(subject, facts)
        .map(|values| (!values.is_empty()).then(|| secret(&names, "credentials", &values)));
    let groups: Vec<&str> = subject.databases().into_iter().map(|(group, _)| group).collect();
    let database_hash = config::hash(&[name_of(&connections), &ini.only(&groups).render()]);
    let others = credentials
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .map_or("", name_of);
    let hash = config::hash(&[&config_hash, name_of(&connections), others]);
    Ok(Configuration {
        config_map,
        connections,
        credentials,
        hash,
        database_hash,
        hidden: secrets::hidden(facts),
    })
}

fn secret(names: &Names, what: &str, values: &Values) -> Value {
    use base64::Engine;
    let hash = config::hash_value(&json!(values));
    let engine = base64::engine::general_purpose::STANDARD;
    let encoded: BTreeMap<&String, String> = values
        .iter()
        .map(|(name, value)| (name, engine.encode(value)))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "immutable": true, "type": "Opaque",
        "metadata": names.metadata(&names.suffixed(&format!("{what}-{hash}"))),
        "data": encoded,
    })
}

/// extraConfig against the release that the image belongs to; an unknown image cannot be checked.
fn check_options<S: Subject>(subject: &S) -> Result<(), Error> {
    let common = subject.common();
    let Some(tag) = common
        .image
        .tag
        .as_deref()
        .filter(|_| !common.extra_config.is_empty())
    else {
        return Ok(());
    };
    let Some(release) = Release::with_version(S::DESCRIPTOR.name, tag) else {
        return Ok(());
    };
    let Ok(catalogue) = Catalogue::load(&release.name, S::DESCRIPTOR.name) else {
        return Ok(());
    };
    config::check(&common.extra_config, &catalogue, &subject.free_groups()).map_err(Error::InvalidConfig)
}

fn uwsgi(module: &str, port: u16, extra: &[(&str, &str)]) -> String {
    let mut lines = vec![
        "[uwsgi]".to_owned(),
        format!("module = {module}"),
        format!("http-socket = 0.0.0.0:{port}"),
    ];
    let fixed = [
        ("processes", "2"),
        ("threads", "1"),
        ("master", "true"),
        ("enable-threads", "true"),
        ("thunder-lock", "true"),
        // Workers end what they are at before they go, within the pod's grace period.
        ("die-on-term", "true"),
        ("hook-master-start", "unix_signal:15 gracefully_kill_them_all"),
        ("worker-reload-mercy", "45"),
        ("need-app", "true"),
        ("buffer-size", "65535"),
        // Kept-alive connections of a single-threaded worker would block the others.
        ("add-header", "Connection: close"),
    ];
    lines.extend(
        fixed
            .iter()
            .chain(extra)
            .map(|(name, value)| format!("{name} = {value}")),
    );
    lines.join("\n") + "\n"
}

fn cache_servers<S: Subject>(subject: &S, facts: &Facts) -> Result<Option<String>, Error> {
    let Some(cache) = subject.cache() else {
        return Ok(None);
    };
    match &cache.cluster_ref {
        None => Ok(Some(cache.servers.join(","))),
        Some(cluster) => {
            let namespace = subject.meta().namespace.clone().unwrap_or_default();
            facts
                .caches
                .get(&cluster.name)
                .map(|_| Some(format!("{}.{namespace}.svc:11211", cluster.name)))
                .ok_or_else(|| Error::CacheMissing(cluster.name.clone()))
        }
    }
}
