//! The options that a service knows, as its own `oslo-config-generator` tells them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Error, FILES, file, nearest};

/// All options of one service in one release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalogue {
    pub service: String,
    pub version: String,
    /// Group → option name (with underscores, as in a configuration file) → option.
    pub groups: BTreeMap<String, BTreeMap<String, Opt>>,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opt {
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<serde_json::Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<serde_json::Number>,
    /// The only values that are allowed; empty when any is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Never to be shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
    /// May change while the service runs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mutable: bool,
    /// Will go away in a later release.
    #[serde(default, skip_serializing_if = "is_false")]
    pub removal: bool,
    /// Earlier names that still work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deprecated: Vec<Deprecated>,
}

/// An earlier name of an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deprecated {
    pub group: String,
    pub name: String,
}

/// What a value of an option looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    String,
    Boolean,
    Integer,
    Float,
    Port,
    HostAddress,
    HostDomain,
    HostName,
    Ip,
    Uri,
    List,
    Dict,
    Range,
    /// May be given more than once.
    Multi,
    Other,
}

// serde wants a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}

/// An option that the service knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found<'a> {
    /// Where the option is now: differs from what was asked for when the name is a deprecated one.
    pub group: &'a str,
    pub name: &'a str,
    pub option: &'a Opt,
    pub deprecated: bool,
}

/// Why an option is not known, with what was probably meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("{service} {version} has no group [{group}]{}", hint(nearest.as_deref()))]
    Group {
        service: String,
        version: String,
        group: String,
        nearest: Option<String>,
    },
    #[error("{service} {version} has no option `{name}` in [{group}]{}", hint(nearest.as_deref()))]
    Option {
        service: String,
        version: String,
        group: String,
        name: String,
        nearest: Option<String>,
    },
}

/// Strings, numbers and lists of them: serialising cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

impl Catalogue {
    /// The catalogue of a service in a release that is part of the program.
    pub fn load(release: &str, service: &str) -> Result<Self, Error> {
        let path = format!("{release}/options/{service}.json");
        let text = file(&path).ok_or_else(|| Error::Service {
            release: release.to_owned(),
            service: service.to_owned(),
            known: Self::services(release),
        })?;
        Self::parse(&path, text)
    }

    /// The text of a catalogue: one line for each option, so that two releases compare well.
    pub fn render(&self) -> String {
        let mut text = format!(
            "{{\"service\":{},\"version\":{},\"groups\":{{",
            json(&self.service),
            json(&self.version)
        );
        for (index, (group, options)) in self.groups.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { "},\n" });
            text.push_str(&format!("{}:{{", json(group)));
            for (index, (name, option)) in options.iter().enumerate() {
                text.push_str(if index == 0 { "\n" } else { ",\n" });
                text.push_str(&format!("{}:{}", json(name), json(option)));
            }
        }
        text.push_str(if self.groups.is_empty() { "}}\n" } else { "}}}\n" });
        text
    }

    /// A catalogue from its text; `path` is for the error message.
    pub fn parse(path: &str, text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|error| Error::Data {
            file: format!("releases/{path}"),
            message: error.to_string(),
        })
    }

    /// The services of a release that have a catalogue.
    pub fn services(release: &str) -> Vec<String> {
        let prefix = format!("{release}/options/");
        FILES
            .iter()
            .filter_map(|(path, _)| path.strip_prefix(&prefix)?.strip_suffix(".json"))
            .map(str::to_owned)
            .collect()
    }

    /// Looks an option up by group and name; dashes count as underscores.
    pub fn lookup(&self, group: &str, name: &str) -> Result<Found<'_>, Missing> {
        let name = &name.replace('-', "_");
        if let Some((group, options)) = self.groups.get_key_value(group)
            && let Some((name, option)) = options.get_key_value(name)
        {
            return Ok(Found {
                group,
                name,
                option,
                deprecated: false,
            });
        }
        if let Some(found) = self.deprecated(group, name) {
            return Ok(found);
        }
        let (service, version) = (self.service.clone(), self.version.clone());
        match self.groups.get(group) {
            None => Err(Missing::Group {
                service,
                version,
                nearest: nearest(group, self.groups.keys().map(String::as_str)).map(str::to_owned),
                group: group.to_owned(),
            }),
            Some(options) => Err(Missing::Option {
                service,
                version,
                nearest: nearest(name, options.keys().map(String::as_str)).map(str::to_owned),
                group: group.to_owned(),
                name: name.to_owned(),
            }),
        }
    }

    /// Groups that hold an option of this name: for sections that the user names, such as back ends.
    pub fn groups_of(&self, name: &str) -> impl Iterator<Item = (&str, &Opt)> {
        let name = name.replace('-', "_");
        self.groups
            .iter()
            .filter_map(move |(group, options)| Some((group.as_str(), options.get(&name)?)))
    }

    fn deprecated(&self, group: &str, name: &str) -> Option<Found<'_>> {
        self.groups.iter().find_map(|(new_group, options)| {
            options.iter().find_map(|(new_name, option)| {
                let known = option
                    .deprecated
                    .iter()
                    .any(|old| old.group == group && old.name == name);
                known.then_some(Found {
                    group: new_group,
                    name: new_name,
                    option,
                    deprecated: true,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::parse(
            "test",
            r#"{"service":"nova","version":"32.2.1","groups":{
                "DEFAULT":{"debug":{"type":"boolean"},"my_ip":{"type":"string"}},
                "api_database":{"connection":{"type":"string","secret":true,
                    "deprecated":[{"group":"DEFAULT","name":"sql_connection"}]}}}}"#,
        )
        .unwrap()
    }

    #[test]
    fn every_release_knows_the_options_of_the_versions_that_it_builds() {
        for name in crate::releases() {
            let release = crate::Release::load(&name).unwrap();
            for service in ["keystone", "glance", "placement", "nova", "neutron", "cinder"] {
                let catalogue = Catalogue::load(&name, service).unwrap();
                assert_eq!(
                    Some(&catalogue.version),
                    release.versions.get(service),
                    "{service} of {name}: run `c5c3 image options --release {name} --images-dir images`"
                );
            }
        }
    }

    #[test]
    fn known_deprecated_and_unknown_options() {
        let catalogue = catalogue();
        assert!(!catalogue.lookup("DEFAULT", "my-ip").unwrap().deprecated);
        let old = catalogue.lookup("DEFAULT", "sql_connection").unwrap();
        assert_eq!(
            (old.group, old.name, old.deprecated),
            ("api_database", "connection", true)
        );
        assert!(old.option.secret);
        assert_eq!(
            catalogue.lookup("DEFAULT", "debgu").unwrap_err().to_string(),
            "nova 32.2.1 has no option `debgu` in [DEFAULT]; did you mean `debug`?"
        );
        assert_eq!(
            catalogue.lookup("DEFAULT", "my_ipp").unwrap_err().to_string(),
            "nova 32.2.1 has no option `my_ipp` in [DEFAULT]; did you mean `my_ip`?"
        );
        assert_eq!(
            catalogue
                .lookup("api_databse", "connection")
                .unwrap_err()
                .to_string(),
            "nova 32.2.1 has no group [api_databse]; did you mean `api_database`?"
        );
        assert_eq!(catalogue.groups_of("connection").count(), 1);
    }

    #[test]
    fn a_catalogue_survives_its_text() {
        let text = catalogue().render();
        assert_eq!(Catalogue::parse("test", &text).unwrap(), catalogue());
        assert_eq!(text.lines().filter(|line| line.contains("\"type\"")).count(), 3);
        let empty = Catalogue {
            groups: BTreeMap::new(),
            ..catalogue()
        };
        assert_eq!(Catalogue::parse("test", &empty.render()).unwrap(), empty);
    }

    #[test]
    fn the_catalogues_of_the_program_know_what_services_really_read() {
        let keystone = Catalogue::load("2025.2", "keystone").unwrap();
        assert!(keystone.lookup("database", "connection").unwrap().option.secret);
        assert_eq!(
            keystone.lookup("token", "provider").unwrap().option.kind,
            Kind::String
        );
        assert!(
            keystone
                .lookup("fernet_tokens", "max_active_keys")
                .unwrap()
                .option
                .check("0")
                .is_err()
        );
        assert!(
            !keystone
                .lookup("keystone_authtoken", "auth_url")
                .unwrap()
                .deprecated
        );
        assert!(keystone.lookup("DEFAULT", "no_such_option").is_err());
        for service in ["cinder", "glance", "keystone", "neutron", "nova", "placement"] {
            let catalogue = Catalogue::load("2025.2", service).unwrap();
            assert_eq!(
                catalogue.lookup("DEFAULT", "debug").unwrap().option.kind,
                Kind::Boolean,
                "{service}"
            );
            assert!(
                catalogue
                    .lookup("keystone_authtoken", "password")
                    .unwrap()
                    .option
                    .secret,
                "{service}"
            );
            assert_eq!(Catalogue::parse(service, &catalogue.render()).unwrap(), catalogue);
        }
    }

    #[test]
    fn a_service_without_catalogue_is_an_error() {
        let error = Catalogue::load("2025.2", "horizon").unwrap_err();
        assert!(error.to_string().contains("`horizon`"), "{error}");
    }
}
