//! extraConfig against the options that the release knows: a wrong one is refused before rollout.

use c5c3_api::common::ExtraConfig;
use c5c3_catalogue::Catalogue;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("extraConfig.{group}.{option}: {reason}")]
    Unknown {
        group: String,
        option: String,
        reason: String,
    },
    #[error("extraConfig.{group}.{option}: {reason}")]
    Value {
        group: String,
        option: String,
        reason: String,
    },
    #[error(
        "extraConfig.{group}.{option}: must not be set here: it is a secret and comes from a Secret that the spec names"
    )]
    Secret { group: String, option: String },
}

/// The first fault, in the order of groups and options. `free` groups are named by the user
/// (back ends): their options are looked up in any group.
pub fn check(extra: &ExtraConfig, catalogue: &Catalogue, free: &[&str]) -> Result<(), ConfigError> {
    for (group, options) in extra {
        for (option, value) in options {
            let at = || (group.clone(), option.clone());
            let known = match catalogue.lookup(group, option) {
                Ok(found) => found.option,
                Err(missing) => {
                    let elsewhere = free
                        .contains(&group.as_str())
                        .then(|| catalogue.groups_of(option).next())
                        .flatten();
                    let Some((_, known)) = elsewhere else {
                        let (group, option) = at();
                        return Err(ConfigError::Unknown {
                            group,
                            option,
                            reason: missing.to_string(),
                        });
                    };
                    known
                }
            };
            if known.secret {
                let (group, option) = at();
                return Err(ConfigError::Secret { group, option });
            }
            if let Err(reason) = known.check(value) {
                let (group, option) = at();
                return Err(ConfigError::Value {
                    group,
                    option,
                    reason,
                });
            }
        }
    }
    Ok(())
}

/// Secrets are refused whatever release the image has: an option that is one anywhere is one here.
pub fn refuse_secrets(extra: &ExtraConfig, known: &[Catalogue], free: &[&str]) -> Result<(), ConfigError> {
    for (group, options) in extra {
        for option in options.keys() {
            let secret = |catalogue: &Catalogue| {
                catalogue
                    .lookup(group, option)
                    .is_ok_and(|found| found.option.secret)
                    || free.contains(&group.as_str())
                        && catalogue.groups_of(option).any(|(_, known)| known.secret)
            };
            if known.iter().any(secret) {
                return Err(ConfigError::Secret {
                    group: group.clone(),
                    option: option.clone(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn extra(group: &str, option: &str, value: &str) -> ExtraConfig {
        BTreeMap::from([(
            group.to_owned(),
            BTreeMap::from([(option.to_owned(), value.to_owned())]),
        )])
    }

    #[test]
    fn wrong_options_are_named_with_what_was_meant() {
        let catalogue = Catalogue::load("2025.2", "keystone").expect("part of the program");
        let cases = [
            (extra("token", "expiration", "7200"), None),
            (
                extra("tokens", "expiration", "7200"),
                Some("did you mean `token`"),
            ),
            (
                extra("token", "expirations", "7200"),
                Some("did you mean `expiration`"),
            ),
            (
                extra("token", "expiration", "soon"),
                Some("extraConfig.token.expiration"),
            ),
            (
                extra("fernet_tokens", "max_active_keys", "0"),
                Some("extraConfig.fernet_tokens.max_active_keys"),
            ),
            (extra("database", "connection", "mysql://x"), Some("is a secret")),
        ];
        for (extra, expected) in cases {
            let answer = check(&extra, &catalogue, &[])
                .err()
                .map(|error| error.to_string());
            match (expected, answer) {
                (None, None) => {}
                (Some(part), Some(text)) => assert!(text.contains(part), "{text}"),
                (expected, answer) => panic!("{extra:?}: {expected:?}, got {answer:?}"),
            }
        }
    }
}
