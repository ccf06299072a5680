//! The configuration of a service: one ConfigMap, one Secret, both named by their content.

use std::collections::BTreeMap;

use c5c3_catalogue::{Catalogue, Release};
use serde_json::{Value, json};

use crate::config::{self, Ini};
use crate::descriptor::Runs;
use crate::error::Error;
use crate::facts::{Facts, SecretData};
use crate::kinds;
use crate::names::Names;
use crate::subject::Subject;

/// Everything that the pods read. Values of `secret` appear nowhere else.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub config_map: Value,
    pub secret: Value,
    /// Changes when anything in either does.
    pub hash: String,
    /// What must not be shown.
    pub hidden: Vec<String>,
}

impl Configuration {
    pub fn config_map_name(&self) -> &str {
        self.config_map["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn secret_name(&self) -> &str {
        self.secret["metadata"]["name"].as_str().unwrap_or_default()
    }
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
    if let Some(policy) = policy(subject, facts)? {
        files.insert("policy.yaml".to_owned(), policy);
    }
    let values = secret_values(subject, facts)?;

    let config_hash = config::hash_value(&json!(files));
    let secret_hash = config::hash_value(&json!(values));
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": names.metadata(&names.suffixed(&format!("config-{config_hash}"))),
        "data": files,
    });
    let encoded: BTreeMap<&String, String> =
        values.iter().map(|(name, value)| (name, encode(value))).collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "immutable": true, "type": "Opaque",
        "metadata": names.metadata(&names.suffixed(&format!("environment-{secret_hash}"))),
        "data": encoded,
    });
    let hash = config::hash(&[&config_hash, &secret_hash]);
    Ok(Configuration {
        config_map,
        secret,
        hash,
        hidden: hidden(facts),
    })
}

fn encode(value: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(value)
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
        ("die-on-term", "true"),
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

/// Rules of the ConfigMap with the inline ones over them, as JSON, which is YAML too.
fn policy<S: Subject>(subject: &S, facts: &Facts) -> Result<Option<String>, Error> {
    let Some(overrides) = &subject.common().policy_overrides else {
        return Ok(None);
    };
    let mut lines = Vec::new();
    if let Some(reference) = &overrides.config_map_ref {
        let Some(text) = &facts.policy else {
            return Err(Error::PolicyMissing {
                name: reference.name.clone(),
                found: facts.policy_found,
            });
        };
        lines.extend(
            text.lines()
                .filter(|line| !names_rule(line, &overrides.rules))
                .map(str::to_owned),
        );
    }
    for (rule, check) in &overrides.rules {
        lines.push(format!("{}: {}", json!(rule), json!(check)));
    }
    Ok(Some(lines.join("\n") + "\n"))
}

fn names_rule(line: &str, rules: &BTreeMap<String, String>) -> bool {
    let Some((name, _)) = line.split_once(": ") else {
        return false;
    };
    rules.contains_key(name.trim().trim_matches(['"', '\'']))
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

/// Environment variables that oslo.config reads, by `OS_<GROUP>__<OPTION>`.
fn secret_values<S: Subject>(subject: &S, facts: &Facts) -> Result<BTreeMap<String, String>, Error> {
    let namespace = subject.meta().namespace.clone().unwrap_or_default();
    let mut values = BTreeMap::new();
    let mut put = |group: &str, option: &str, value: String| {
        values.insert(
            format!("OS_{}__{}", group.to_uppercase(), option.to_uppercase()),
            value,
        );
    };
    for (group, database) in subject.databases() {
        let user = value(facts, &database.secret_ref.name, "username")?;
        let password = value(facts, &database.secret_ref.name, "password")?;
        let host = match (&database.cluster_ref, &database.host) {
            (Some(cluster), _) => {
                let galera = facts
                    .databases
                    .get(&cluster.name)
                    .and_then(|server| server.spec.galera.as_ref());
                let suffix = if galera.is_some_and(|galera| galera.enabled) {
                    "-primary"
                } else {
                    ""
                };
                format!("{}{suffix}.{namespace}.svc:3306", cluster.name)
            }
            (None, Some(host)) => format!("{host}:{}", database.port.unwrap_or(3306)),
            // The schema refuses an object with neither.
            (None, None) => return Err(Error::NoDatabase),
        };
        let url = format!(
            "mysql+pymysql://{}:{}@{host}/{}?charset=utf8",
            percent(&user),
            percent(&password),
            database.database
        );
        put(group, "connection", url);
    }
    if let Some(keystone) = subject.keystone() {
        let secret = &keystone.app_credential_ref.secret_name;
        for option in ["application_credential_id", "application_credential_secret"] {
            put("keystone_authtoken", option, value(facts, secret, option)?);
        }
    }
    for option in &subject.extras().secret_options {
        put(
            option.group,
            option.option,
            value(facts, &option.secret, option.key)?,
        );
    }
    Ok(values)
}

pub(crate) fn value(facts: &Facts, secret: &str, key: &str) -> Result<String, Error> {
    let data: &SecretData = facts
        .secrets
        .get(secret)
        .ok_or_else(|| Error::SecretMissing(secret.to_owned()))?;
    let missing = || Error::KeyMissing {
        secret: secret.to_owned(),
        key: key.to_owned(),
    };
    let bytes = data
        .get(key)
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(missing)?;
    String::from_utf8(bytes.clone())
        .map(|text| text.trim_end_matches('\n').to_owned())
        .map_err(|_| missing())
}

/// Percent-encodes what a URL's user part cannot hold.
fn percent(text: &str) -> String {
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
fn hidden(facts: &Facts) -> Vec<String> {
    let texts = facts
        .secrets
        .values()
        .flat_map(BTreeMap::iter)
        .filter(|(key, _)| key.as_str() != "username");
    let mut all: Vec<String> = texts
        .filter_map(|(_, value)| String::from_utf8(value.clone()).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| text.len() >= 4)
        .flat_map(|text| [percent(&text), text])
        .collect();
    // The longest first: one may be part of another.
    all.sort_by_key(|text| std::cmp::Reverse(text.len()));
    all.dedup();
    all
}
