//! The option catalogue of a service: read from its image and kept per release.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use c5c3_catalogue::{Catalogue, Deprecated, Kind, Opt};
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::build::sandbox::{INSIDE, Sandbox};
use crate::build::steps::Variables;
use crate::error::{Context, Error, Result};
use crate::oci::store::{Record, Store};

/// What `oslo-config-generator --format json` writes.
#[derive(Deserialize)]
struct Generated {
    options: BTreeMap<String, Group>,
}

#[derive(Deserialize)]
struct Group {
    opts: Vec<Generator>,
}

#[derive(Deserialize)]
struct Generator {
    dest: String,
    #[serde(rename = "type")]
    kind: Value,
    #[serde(default)]
    min: Value,
    #[serde(default)]
    max: Value,
    #[serde(default)]
    choices: Vec<(Value, Value)>,
    #[serde(default)]
    secret: bool,
    #[serde(default)]
    mutable: Value,
    #[serde(default)]
    multi: Value,
    #[serde(default)]
    deprecated_for_removal: Value,
    #[serde(default)]
    deprecated_opts: Vec<Old>,
}

#[derive(Deserialize)]
struct Old {
    group: String,
    name: String,
}

/// An option that a way to log in reads.
#[derive(Deserialize)]
struct Login {
    dest: String,
    secret: bool,
}

/// Asks the layers of an image (lowest first) that has its Python environment at `environment`.
pub(crate) fn ask(
    store: &Store,
    service: &str,
    version: &str,
    layers: &[Record],
    environment: &str,
) -> Result<Catalogue> {
    let lower: Vec<PathBuf> = layers
        .iter()
        .map(|layer| store.unpacked(layer))
        .collect::<Result<_>>()?;
    let work = store.work(&format!("options-{service}"))?;
    let log = store.log(&format!("options-{service}"));
    File::create(&log).context("creating", &log)?;
    let sandbox = Sandbox {
        layer: service,
        lower: &lower,
        work: &work.path,
        log: &log,
        store: store.root(),
    };
    let (generated, logins) = sandbox.enter(|inside| {
        inside.furnish()?;
        inside.note("options.py", include_str!("options.py"))?;
        let script = format!(
            "{environment}/bin/python {INSIDE}/options.py {service} {INSIDE}/options.json {INSIDE}/logins.json"
        );
        inside.run("oslo-config-generator", &script, &Variables::new())?;
        let read = |name: &str| {
            let path = inside.path(&format!("{INSIDE}/{name}"));
            fs::read_to_string(&path).context("reading", &path)
        };
        Ok((read("options.json")?, read("logins.json")?))
    })?;
    convert(service, version, &generated, &logins)
}

/// From the generator's words to the catalogue's.
fn convert(service: &str, version: &str, generated: &str, logins: &str) -> Result<Catalogue> {
    let bad = |error: serde_json::Error| Error::Request(format!("{service}: oslo-config-generator: {error}"));
    let generated: Generated = serde_json::from_str(generated).map_err(bad)?;
    let logins: Vec<Login> = serde_json::from_str(logins).map_err(bad)?;
    let mut groups: BTreeMap<String, BTreeMap<String, Opt>> = BTreeMap::new();
    for (group, content) in generated.options {
        let options = groups.entry(group).or_default();
        for option in content.opts {
            options.insert(option.dest.clone(), entry(option));
        }
        // A group with a way to log in also holds what that way reads.
        if options.contains_key("auth_type") || options.contains_key("auth_url") {
            for name in ["auth_section", "auth_type"] {
                options
                    .entry(name.to_owned())
                    .or_insert_with(|| plain(Kind::String, false));
            }
            for login in &logins {
                options
                    .entry(login.dest.clone())
                    .or_insert_with(|| plain(Kind::String, login.secret));
            }
        }
    }
    groups.retain(|_, options| !options.is_empty());
    Ok(Catalogue {
        service: service.to_owned(),
        version: version.to_owned(),
        groups,
    })
}

fn plain(kind: Kind, secret: bool) -> Opt {
    Opt {
        kind,
        min: None,
        max: None,
        choices: Vec::new(),
        secret,
        mutable: false,
        removal: false,
        deprecated: Vec::new(),
    }
}

fn entry(option: Generator) -> Opt {
    let number = |value: &Value| -> Option<Number> { value.as_number().cloned() };
    let truthy = |value: &Value| value.as_bool().unwrap_or(false);
    let mut deprecated: Vec<Deprecated> = option
        .deprecated_opts
        .into_iter()
        .map(|old| Deprecated {
            group: old.group,
            name: old.name,
        })
        .collect();
    deprecated.sort();
    deprecated.dedup();
    // A null choice means "not set", which is what leaving the option out says.
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Opt {
        min: number(&option.min),
        max: number(&option.max),
        choices: option
            .choices
            .iter()
            .filter_map(|(value, _)| text(value))
            .collect(),
        mutable: truthy(&option.mutable),
        removal: truthy(&option.deprecated_for_removal),
        deprecated,
        ..plain(
            kind(option.kind.as_str().unwrap_or_default(), truthy(&option.multi)),
            option.secret,
        )
    }
}

fn kind(name: &str, multi: bool) -> Kind {
    if multi {
        return Kind::Multi;
    }
    match name.strip_suffix(" value").unwrap_or(name) {
        "string" => Kind::String,
        "boolean" => Kind::Boolean,
        "integer" => Kind::Integer,
        "floating point" => Kind::Float,
        "port number" | "port" => Kind::Port,
        "host address" => Kind::HostAddress,
        "host domain" => Kind::HostDomain,
        "hostname" => Kind::HostName,
        "ip address" => Kind::Ip,
        "uri" => Kind::Uri,
        "list" => Kind::List,
        "dict" => Kind::Dict,
        "range" => Kind::Range,
        "multi valued" => Kind::Multi,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generators_words_become_the_catalogues() {
        let generated = r#"{"options":{"DEFAULT":{"opts":[
            {"dest":"debug","type":"boolean value","mutable":true,"secret":false,"deprecated_opts":[]},
            {"dest":"level","type":"integer value","min":1,"max":9,"choices":[],"secret":false},
            {"dest":"mode","type":"string value","choices":[["a",null],["b","text"],[null,null]],"secret":false},
            {"dest":"plugin","type":"string value","multi":true,"secret":false}]},
          "keystone_authtoken":{"opts":[{"dest":"auth_type","type":"unknown value","secret":false,
            "deprecated_opts":[{"group":"keystone_authtoken","name":"auth_plugin"}]}]},
          "service_user":{"opts":[{"dest":"auth_url","type":"string value"}]},
          "empty":{"opts":[]}}}"#;
        let logins = r#"[{"dest":"auth_url","secret":false},{"dest":"password","secret":true}]"#;
        let catalogue = convert("keystone", "28.1.0", generated, logins).unwrap();
        let find = |group, name| catalogue.lookup(group, name).unwrap();
        assert!(find("DEFAULT", "debug").option.mutable);
        assert!(find("DEFAULT", "level").option.check("10").is_err());
        assert_eq!(find("DEFAULT", "mode").option.choices, ["a", "b"]);
        assert_eq!(find("DEFAULT", "plugin").option.kind, Kind::Multi);
        assert!(find("keystone_authtoken", "password").option.secret);
        assert!(find("keystone_authtoken", "auth_plugin").deprecated);
        assert_eq!(find("service_user", "auth_type").option.kind, Kind::String);
        assert!(!catalogue.groups.contains_key("empty"));
    }
}
